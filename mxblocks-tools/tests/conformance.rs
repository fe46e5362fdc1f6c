//! Runs the vectors in `conformance/rich.json` (the form is in `conformance/README.md`).

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeSet, fs, path::Path};

use mxblocks::DISPLAY_TYPES;
use mxblocks_tools::{RichCall, plan};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    about: String,
    tool: String,
    arguments: Value,
    /// What comes out of a good call, where it isn't what went in.
    call: Option<Map<String, Value>>,
    /// What the error of a bad call says.
    error: Option<Vec<String>>,
}

impl Vector {
    /// What is wrong with the outcome of this call, if anything.
    fn fault(&self) -> Option<String> {
        let fault = match (plan(&self.tool, &self.arguments), &self.call, &self.error) {
            (Ok(call), Some(changes), None) => {
                let (outcome, expected) = (whole(call), self.expected(changes));
                (outcome != expected).then(|| format!("came out as {outcome}, not as {expected}"))
            }
            (Err(error), None, Some(texts)) => {
                let missing: Vec<_> = texts.iter().filter(|text| !error.contains(text.as_str())).collect();
                (texts.is_empty() || !missing.is_empty()).then(|| format!("{missing:?} not in {error:?}"))
            }
            (Ok(call), None, Some(_)) => Some(format!("accepted as {}", whole(call))),
            (Err(error), Some(_), None) => Some(format!("refused: {error}")),
            _ => Some("the vector must have either a call or an error".into()),
        };
        fault.map(|fault| format!("{}: {}", self.about, short(&fault)))
    }

    fn expected(&self, changes: &Map<String, Value>) -> Value {
        let mut call = Map::from_iter(KEYS.map(|key| (key.to_owned(), Value::Null)));
        for key in ["payload", "fallback"] {
            call.insert(key.into(), self.arguments[key].clone());
        }
        call.extend(changes.clone());
        call.into()
    }

    /// The type of the only block of the payload.
    fn block_type(&self) -> Option<&str> {
        match self.arguments["payload"]["blocks"].as_array()?.as_slice() {
            [block] => block["type"].as_str(),
            _ => None,
        }
    }
}

const KEYS: [&str; 6] = ["payload", "fallback", "reply_to", "thread", "edit", "room"];

fn whole(call: RichCall) -> Value {
    let RichCall { payload, fallback, reply_to, thread, edit, room } = call;
    json!({"payload": payload, "fallback": fallback, "reply_to": reply_to, "thread": thread, "edit": edit, "room": room})
}

/// Enough of a text to see what went wrong.
fn short(text: &str) -> String {
    const SHOWN: usize = 1000;
    text.chars().take(SHOWN).collect()
}

/// `{"$repeat": x, "times": n}` and `{"$join": [...]}` written out, the inner ones first.
fn expand(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: Map<_, _> = map.into_iter().map(|(key, value)| (key, expand(value))).collect();
            match (map.get("$repeat"), map.get("$join")) {
                (Some(part), None) => {
                    let times = usize::try_from(map["times"].as_u64().unwrap()).unwrap();
                    joined(&vec![part.clone(); times])
                }
                (None, Some(parts)) => joined(parts.as_array().unwrap()),
                _ => map.into(),
            }
        }
        Value::Array(list) => list.into_iter().map(expand).collect(),
        other => other,
    }
}

fn joined(parts: &[Value]) -> Value {
    if parts.iter().all(Value::is_string) {
        parts.iter().filter_map(Value::as_str).collect::<String>().into()
    } else {
        parts.iter().flat_map(|part| part.as_array().unwrap()).cloned().collect()
    }
}

fn vectors() -> Vec<Vector> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/rich.json");
    let value: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    serde_json::from_value(expand(value)).unwrap()
}

#[test]
fn every_vector_comes_out_as_it_says() {
    let faults: Vec<String> = vectors().iter().filter_map(Vector::fault).collect();
    assert!(faults.is_empty(), "{} vectors failed:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_vector_shows_something_else_and_every_block_type_is_accepted_and_refused() {
    let vectors = vectors();
    let abouts: BTreeSet<_> = vectors.iter().map(|vector| &vector.about).collect();
    assert_eq!(abouts.len(), vectors.len());

    let types = |is: fn(&Vector) -> bool| -> BTreeSet<_> {
        vectors.iter().filter(|vector| is(vector)).filter_map(Vector::block_type).collect()
    };
    let (accepted, refused) = (types(|vector| vector.call.is_some()), types(|vector| vector.error.is_some()));
    for block in ["buttons", "chips"].iter().chain(DISPLAY_TYPES.iter()) {
        assert!(accepted.contains(block), "no {block} is accepted");
        assert!(refused.contains(block), "no {block} is refused");
    }
}
