//! Runs the vectors in `conformance/phone.json` (the form is in `conformance/README.md`).
#![allow(clippy::panic, clippy::unwrap_used)]

use std::{collections::BTreeSet, fmt::Debug, path::Path, time::Duration};

use phone_actions::{
    Action, Announcement, Answer, Card, CardId, Malformed, Outcome, State, Status, check, declares_phone,
    no_answer_text, result_text,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

const CARD: &str = "dev.waybread.phone_action";

/// The texts of the contract, read here again so that nothing is compared with itself.
struct Texts(Value);

impl Texts {
    fn load() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("loop.json");
        Self(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    fn get(&self, name: &str) -> String {
        self.0["phone"]["texts"][name].as_str().unwrap().to_owned()
    }

    fn refusal(&self, refusal: &Value) -> String {
        if let Some(whole) = refusal.as_str() {
            return whole.to_owned();
        }
        let phone = &self.0["phone"];
        let text = self.get(refusal["text"].as_str().unwrap());
        let named = |key: &str| refusal[key].as_str().unwrap_or_default();
        match refusal["text"].as_str().unwrap() {
            "unknown_action" => text.replace("{{actions}}", &joined(&phone["actions"])),
            "missing" => text.replace("{{action}}", named("action")).replace("{{fields}}", named("fields")),
            "bad" => {
                let field = named("field");
                let schema: Value = serde_json::from_str(include_str!("../tools/phone_action.json")).unwrap();
                let values = joined(&schema["schema"]["properties"][field]["enum"]);
                let what = phone["what"][field].as_str().unwrap().replace("{{values}}", &values);
                text.replace("{{field}}", field).replace("{{what}}", &what)
            }
            other => panic!("no text {other}"),
        }
    }
}

fn joined(names: &Value) -> String {
    names.as_array().into_iter().flatten().map(|name| name.as_str().unwrap()).collect::<Vec<_>>().join(", ")
}

fn file() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/phone.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The vectors of a section; each is whole, and says what it shows.
fn vectors<T: DeserializeOwned>(section: &str) -> Vec<(String, T)> {
    let file = file();
    let vectors = file[section].as_array().unwrap();
    assert!(!vectors.is_empty(), "{section} is empty");
    let mut abouts = BTreeSet::new();
    let read = |vector: &Value| {
        let mut vector = vector.clone();
        let Some(Value::String(about)) = vector.as_object_mut().unwrap().remove("about") else {
            panic!("{section}: {vector} says not what it is about")
        };
        assert!(abouts.insert(about.clone()), "{section}: {about}: twice");
        let parsed = serde_json::from_value(vector).unwrap_or_else(|fault| panic!("{section}: {about}: {fault}"));
        (about, parsed)
    };
    vectors.iter().map(read).collect()
}

/// What a content is read as: a whole, nothing, or a fault in a key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    content: Value,
    #[serde(default, rename = "card", alias = "answer", alias = "announcement")]
    read: Value,
    malformed: Option<String>,
}

#[track_caller]
fn reads<T: Debug>(section: &str, read: impl Fn(&Value) -> Result<Option<T>, Malformed>, shown: impl Fn(T) -> Value) {
    for (about, vector) in vectors::<Read>(section) {
        let found = read(&vector.content).map(|read| read.map_or(Value::Null, &shown));
        let found = found.map_err(|fault| match fault {
            Malformed::Field { key, .. } => key.to_owned(),
            Malformed::Action(_) => "action".to_owned(),
        });
        let expected = vector.malformed.map_or(Ok(vector.read), Err);
        assert_eq!(found, expected, "{section}: {about}");
    }
}

/// A card with its action as it is, not as it is written on the wire.
fn shown_card(card: &Card) -> Value {
    let mut shown = card.content()[CARD].clone();
    shown["action"] = card.action.to_value();
    shown
}

#[test]
fn there_are_vectors_of_the_contract_that_the_tables_hold() {
    let (file, texts) = (file(), Texts::load());
    assert_eq!(file["contract"], texts.0["version"]);
    let count: usize = file.as_object().unwrap().values().filter_map(Value::as_array).map(Vec::len).sum();
    assert!(count >= 250, "{count}");
}

#[test]
fn calls_are_checked() {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Vector {
        call: Value,
        action: Option<Value>,
        refusal: Option<Value>,
    }
    let texts = Texts::load();
    for (about, vector) in vectors::<Vector>("check") {
        let found = check(&vector.call).map(|action| action.to_value()).map_err(|refusal| refusal.to_string());
        let expected = match (vector.action, vector.refusal) {
            (Some(action), None) => Ok(action),
            (None, Some(refusal)) => Err(texts.refusal(&refusal)),
            _ => panic!("{about}: either an action or a refusal"),
        };
        assert_eq!(found, expected, "{about}");
    }
}

#[test]
fn cards_are_written() {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Vector {
        card: Wanted,
        key: Value,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        id: CardId,
        #[serde(rename = "for")]
        person: String,
        re: String,
        device: Option<String>,
        call: Value,
        expires_in_ms: u64,
    }
    for (about, Vector { card, key }) in vectors::<Vector>("card") {
        let action: Action = check(&card.call).unwrap();
        let wait = Duration::from_millis(card.expires_in_ms);
        let made = Card::new(card.id, &card.person, &card.re, card.device.as_deref(), action, wait).unwrap();
        let content = made.content();
        assert_eq!(content[CARD], key, "{about}");
        assert_eq!(content["m.mentions"], json!({"user_ids": [card.person]}), "{about}");
    }
}

#[test]
fn cards_are_read() {
    reads("read_card", Card::read, |card| shown_card(&card));
}

#[test]
fn cards_are_closed() {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Vector {
        card: Value,
        state: String,
        key: Value,
    }
    for (about, vector) in vectors::<Vector>("close") {
        let card = Card::read(&json!({ CARD: vector.card })).unwrap().unwrap();
        let outcomes = [Outcome::Done, Outcome::Declined, Outcome::Failed, Outcome::Expired, Outcome::Withdrawn];
        let outcome = outcomes.into_iter().find(|outcome| State::Closed(*outcome).as_str() == vector.state).unwrap();
        let edit = card.outcome_content("$card", outcome, None);
        assert_eq!(edit["m.new_content"][CARD], vector.key, "{about}");
        assert_eq!(edit["m.relates_to"], json!({"rel_type": "m.replace", "event_id": "$card"}), "{about}");
        assert_eq!(edit.get(CARD), None, "{about}");
    }
}

#[test]
fn edits_of_cards_are_accepted_or_not() {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Vector {
        earlier: Value,
        edit: Value,
        accepted: bool,
    }
    for (about, vector) in vectors::<Vector>("update") {
        let [earlier, edit] =
            [vector.earlier, vector.edit].map(|key| Card::read(&json!({ CARD: key })).unwrap().unwrap());
        assert_eq!(edit.is_update_of(&earlier), vector.accepted, "{about}");
    }
}

#[test]
fn answers_are_read() {
    reads("answer", Answer::read, |answer| match answer {
        Answer::Taken { card } => json!({"id": card, "taken": true}),
        Answer::Ended { card, status, message: None } => json!({"id": card, "status": status.as_str()}),
        Answer::Ended { card, status, message: Some(message) } => {
            json!({"id": card, "status": status.as_str(), "message": message})
        }
    });
}

#[test]
fn results_are_told() {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Vector {
        status: Option<String>,
        message: Option<String>,
        result: Value,
    }
    let texts = Texts::load();
    for (about, vector) in vectors::<Vector>("result") {
        let found = match &vector.status {
            Some(status) => result_text(Status::read(status), vector.message.as_deref()),
            None => no_answer_text().to_owned(),
        };
        let mut expected = texts.get(vector.result["text"].as_str().unwrap());
        if let Some(said) = vector.result["says"].as_str() {
            expected = format!("{expected}\n\n{}", texts.get("says").replacen("{{message}}", said, 1));
        }
        assert_eq!(found, expected, "{about}");
    }
}

#[test]
fn announcements_are_read() {
    reads("announcement", Announcement::read, |announced| announced.content()["dev.waybread.phone"].clone());
}

#[test]
fn capabilities_are_read() {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Vector {
        content: Value,
        phone: bool,
    }
    for (about, vector) in vectors::<Vector>("capability") {
        assert_eq!(declares_phone(&vector.content), vector.phone, "{about}");
    }
}
