//! Runs the vectors in `conformance/turns` (the form is in `conformance/README.md`).

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use ruma::OwnedEventId;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    model::Script,
    testing::{House, Incoming},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    #[serde(rename = "about")]
    _about: String,
    script: Value,
    events: Vec<Happening>,
    room: BTreeMap<String, Vec<String>>,
    shown: Vec<Vec<String>>,
    #[serde(default)]
    not_shown: Vec<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Happening {
    from: String,
    #[serde(rename = "in")]
    room: String,
    say: Option<String>,
    edit: Option<String>,
    of: Option<String>,
    react: Option<String>,
    to: Option<String>,
    redact: Option<String>,
    id: Option<String>,
    #[serde(default)]
    mention: bool,
    #[serde(default)]
    notice: bool,
    reply_to: Option<String>,
    thread: Option<String>,
    after_ms: Option<u64>,
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn room_id(name: &str) -> String {
    format!("!{name}:example.org")
}

#[tokio::test(start_paused = true)]
async fn every_vector_leads_to_what_it_says() {
    let files = files("turns");
    assert!(files.len() >= 8);
    for file in files {
        let vector: Vector = serde_json::from_str(&fs::read_to_string(&file).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        run(&vector, &file.file_name().unwrap().to_string_lossy()).await;
    }
}

#[test]
fn every_script_can_be_played() {
    for file in files("scripts") {
        let script: Result<Script, _> = fs::read_to_string(&file).unwrap().parse();
        assert!(script.is_ok(), "{}: {script:?}", file.display());
    }
}

async fn run(vector: &Vector, name: &str) {
    let house = House::with_tools(vector.script.clone()).await;
    let mut ids: HashMap<&str, OwnedEventId> = HashMap::new();
    for happening in &vector.events {
        match happening.after_ms {
            Some(ms) => house.pass(Duration::from_millis(ms)).await,
            None => house.quiet().await,
        }
        let id = house.receive(incoming(happening, &ids, &house)).await;
        if let Some(name) = &happening.id {
            ids.insert(name, id);
        }
    }
    house.quiet().await;
    for (room, expected) in &vector.room {
        assert_eq!(&house.room(&room_id(room)), expected, "{name}: {room}");
    }
    assert_eq!(house.requests(), vector.shown.len(), "{name}: requests");
    for (number, texts) in vector.shown.iter().enumerate() {
        let shown = house.shown(number);
        for text in texts {
            assert!(shown.contains(text), "{name}: {text:?} is not shown in request {number}: {shown}");
        }
        for text in vector.not_shown.get(number).into_iter().flatten() {
            assert!(!shown.contains(text), "{name}: {text:?} is shown in request {number}: {shown}");
        }
    }
}

fn incoming(happening: &Happening, ids: &HashMap<&str, OwnedEventId>, house: &House) -> Incoming {
    let room = room_id(&happening.room);
    let from = match happening.from.as_str() {
        full if full.starts_with('@') => full.to_owned(),
        name => format!("@{name}:example.org"),
    };
    let id = |name: &str| match name.strip_prefix("answer ") {
        Some(number) => house.server.message(&room, number.parse::<usize>().unwrap() - 1),
        None => ids[name].clone(),
    };
    let mut incoming = match happening {
        Happening { say: Some(text), .. } => Incoming::message(&from, &room, text),
        Happening { edit: Some(text), of: Some(target), .. } => Incoming::edit(&from, &room, &id(target), text),
        Happening { react: Some(key), to: Some(target), .. } => Incoming::reaction(&from, &room, &id(target), key),
        Happening { redact: Some(target), .. } => Incoming::redaction(&from, &room, &id(target)),
        _ => panic!("an event without say, edit, react or redact"),
    };
    if happening.mention {
        incoming = incoming.mention();
    }
    if happening.notice {
        incoming = incoming.notice();
    }
    if let Some(target) = &happening.reply_to {
        incoming = incoming.reply_to(&id(target));
    }
    if let Some(root) = &happening.thread {
        incoming = incoming.thread(&id(root));
    }
    incoming
}
