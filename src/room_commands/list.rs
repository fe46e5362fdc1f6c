//! A room's list of commands: what stands in it, and what is wrong with it.
//!
//! An entry that is wrong is left out and named ([`EntryError`]); the others work. An entry of the operator's may do more
//! than one of a room's state, which anybody with the power level in that room can write.

use std::{fmt, sync::Arc};

use matrix_link::{AccessEntry, AccessList};
use ruma::{OwnedRoomId, RoomId};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    actions::{self, Action, Reading},
    fields::{Fields, is_name, name, quoted, text},
    inputs::Inputs,
};

/// Entries of one list, at most.
pub(super) const MAX_ENTRIES: usize = 32;
/// Characters of a description.
const MAX_DESCRIPTION: usize = 300;
/// Actions of a chain.
const MAX_CHAIN: usize = 8;
const MAX_ALLOWED: usize = 100;
const MAX_CONDITIONS: usize = 8;
/// The names of a list are quoted so far in an error.
const MAX_STATE_TYPE: usize = 255;

/// Who has written an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The operator, in the configuration.
    Operator,
    /// Somebody in the room, in its state.
    State,
}

/// A command that a room allows its agent to run.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name: `[a-z0-9_-]{1,64}`.
    pub name: String,
    /// What it is for, in the words of whoever has listed it.
    pub description: String,
    /// Who has listed it.
    pub source: Source,
    pub(super) chain: Vec<Arc<dyn Action>>,
    pub(super) inputs: Inputs,
    pub(super) allow: Option<AccessList>,
    pub(super) min_power: Option<i64>,
    pub(super) when: Vec<Condition>,
}

/// What must be so for a command to run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub(super) of: Subject,
    pub(super) is: Presence,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Subject {
    /// A secret of the person or, for an entry of the operator's, of the room.
    Secret(String),
    /// A state event of the room, with these values in it.
    State { event_type: String, key: String, content: Map<String, Value> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Present,
    Absent,
}

/// An entry that was left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{which}: {reason}")]
pub struct EntryError {
    /// Its name, or its place in the list where it has none.
    pub which: String,
    /// What is wrong with it.
    pub reason: String,
}

/// A list as it was read.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// What works, in the order of the list.
    pub entries: Vec<Arc<Entry>>,
    /// What was left out.
    pub errors: Vec<EntryError>,
}

impl List {
    /// Reads the content of a state event: `{"v": 1, "commands": [...]}`.
    pub fn of_state(content: &Value) -> Self {
        let whole = || -> Result<Vec<&Value>, String> {
            let fields = Fields::of(content)?;
            if fields.maybe_whole("v", 1..=1)?.is_none() && content.as_object().is_some_and(Map::is_empty) {
                return Ok(Vec::new());
            }
            let commands = fields.list("commands", 0..=MAX_ENTRIES)?;
            fields.done()?;
            Ok(commands)
        };
        match whole() {
            Ok(commands) => Self::read(commands, Source::State),
            Err(reason) => {
                Self { entries: Vec::new(), errors: vec![EntryError { which: "the list".to_owned(), reason }] }
            }
        }
    }

    fn read(values: Vec<&Value>, source: Source) -> Self {
        let mut list = Self::default();
        for (index, value) in values.into_iter().enumerate() {
            match Entry::read(value, source) {
                Ok(entry) if list.find(&entry.name).is_some() => {
                    list.errors.push(EntryError { which: entry.name, reason: "the name is taken".to_owned() });
                }
                Ok(entry) => list.entries.push(Arc::new(entry)),
                Err(reason) => {
                    let named = value["name"].as_str().filter(|name| is_name(name));
                    let which = named.map_or_else(|| format!("entry {}", index + 1), str::to_owned);
                    list.errors.push(EntryError { which, reason });
                }
            }
        }
        list
    }

    /// The entry of that name.
    pub fn find(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

impl Entry {
    /// Reads one entry.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub(super) fn read(value: &Value, source: Source) -> Result<Self, String> {
        Self::read_fields(&Fields::of(value)?, source)
    }

    fn read_fields(fields: &Fields<'_>, source: Source) -> Result<Self, String> {
        let name = name("name", fields.get("name")?)?;
        let description = fields.text("description", 1..=MAX_DESCRIPTION)?;
        let inputs = match fields.find("inputs") {
            None => Inputs::default(),
            Some(value) => Inputs::read(value).map_err(|reason| format!("inputs: {reason}"))?,
        };
        let mut reading = Reading { source, inputs: &inputs, form_fields: Vec::new(), has_post: false };
        let mut chain = Vec::new();
        for (index, value) in fields.list("actions", 1..=MAX_CHAIN)?.into_iter().enumerate() {
            let action =
                actions::read(value, &mut reading).map_err(|reason| format!("action {}: {reason}", index + 1))?;
            chain.push(action);
        }
        let allow = match fields.find("allow") {
            None => None,
            Some(_) => Some(people(&fields.list("allow", 0..=MAX_ALLOWED)?)?),
        };
        let min_power = fields.maybe_whole("min_power", -1_000_000..=1_000_000)?;
        let when =
            fields.list("when", 0..=MAX_CONDITIONS)?.into_iter().map(Condition::read).collect::<Result<_, _>>()?;
        fields.done()?;
        Ok(Self { name, description, source, chain, inputs, allow, min_power, when })
    }

    /// What it does, in a few words for each action.
    pub fn summary(&self) -> String {
        let actions: Vec<_> = self.chain.iter().map(|action| action.summary()).collect();
        actions.join("; ")
    }

    /// Whether it waits for the person.
    pub(super) fn asks(&self) -> bool {
        self.chain.iter().any(|action| action.asks())
    }
}

impl Condition {
    fn read(value: &Value) -> Result<Self, String> {
        let fields = Fields::of(value).map_err(|reason| format!("when: {reason}"))?;
        let of = match (fields.find("secret"), fields.find("state")) {
            (Some(secret), None) => Subject::Secret(name("when: secret", secret)?),
            (None, Some(event_type)) => Subject::State {
                event_type: text("when: state", event_type, 1..=MAX_STATE_TYPE)?,
                key: fields.maybe_text("key", 0..=MAX_STATE_TYPE)?.unwrap_or_default(),
                content: match fields.find("content") {
                    None => Map::new(),
                    Some(Value::Object(content)) => content.clone(),
                    Some(_) => return Err("when: content must be an object".to_owned()),
                },
            },
            _ => return Err("when: needs either secret or state".to_owned()),
        };
        let is = fields.choice("is", &[("present", Presence::Present), ("absent", Presence::Absent)])?;
        fields.done().map_err(|reason| format!("when: {reason}"))?;
        Ok(Self { of, is })
    }
}

/// What the operator lists: an entry, and the rooms that it is for.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The entry.
    pub entry: Arc<Entry>,
    /// Where.
    pub rooms: Scope,
}

/// For which rooms the operator lists a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// For all.
    All,
    /// For these.
    These(Vec<OwnedRoomId>),
}

impl Listed {
    /// Reads what stands in the configuration.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub fn read(value: &Value) -> Result<Self, String> {
        let fields = Fields::of(value)?;
        let mut rooms = Vec::new();
        let mut all = false;
        for room in fields.list("rooms", 1..=1000)? {
            match room.as_str() {
                Some("*") => all = true,
                Some(id) if RoomId::parse(id).is_ok() => rooms.extend(RoomId::parse(id)),
                _ => return Err("rooms must be full room ids such as \"!room:example.org\", or \"*\"".to_owned()),
            }
        }
        let rooms = if all { Scope::All } else { Scope::These(rooms) };
        Ok(Self { entry: Arc::new(Entry::read_fields(&fields, Source::Operator)?), rooms })
    }

    /// Whether it is for a room.
    pub fn is_for(&self, room: &RoomId) -> bool {
        match &self.rooms {
            Scope::All => true,
            Scope::These(rooms) => rooms.iter().any(|one| one == room),
        }
    }
}

fn people(values: &[&Value]) -> Result<AccessList, String> {
    let entry = |value: &&Value| -> Result<AccessEntry, String> {
        let text = value.as_str().ok_or("allow must name people as texts")?;
        text.parse().map_err(|reason| format!("allow: {}: {reason}", quoted(text)))
    };
    values.iter().map(entry).collect()
}

/// What a state event says, in 16 characters: the same only for the same content.
pub(super) fn hash_of(content: &Value) -> String {
    let mut written = String::new();
    canonical(content, &mut written);
    Sha256::digest(written.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The same text for the same value, in whatever order its keys came.
fn canonical(value: &Value, into: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(key, _)| key.as_str());
            into.push('{');
            for (key, value) in keys {
                into.push_str(&Value::from(key.as_str()).to_string());
                into.push(':');
                canonical(value, into);
                into.push(',');
            }
            into.push('}');
        }
        Value::Array(values) => {
            into.push('[');
            for value in values {
                canonical(value, into);
                into.push(',');
            }
            into.push(']');
        }
        plain => into.push_str(&plain.to_string()),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operator => "by my operator",
            Self::State => "by this room",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn errors(commands: Value) -> String {
        let list = List::of_state(&json!({ "v": 1, "commands": commands }));
        list.errors.iter().map(|error| format!("{error}\n")).collect()
    }

    #[test]
    fn what_is_wrong_is_named_and_the_others_work() {
        let topic = json!({"type": "topic", "text": "x"});
        let good = json!({"name": "good", "description": "Sets the topic.", "actions": [topic]});
        let commands = json!([
            good,
            good,
            {"name": "Bad", "description": "x", "actions": [topic]},
            {"name": "long", "description": "x".repeat(301), "actions": [topic]},
            {"name": "nothing", "description": "x", "actions": []},
            {"name": "much", "description": "x", "actions": vec![topic.clone(); 9]},
            {"name": "odd", "description": "x", "actions": [{"type": "shell", "text": "rm"}]},
            {"name": "hook", "description": "x", "actions": [{"type": "webhook", "url": "https://example.org/"}]},
            {"name": "typo", "descripton": "x", "description": "x", "actions": [topic]},
            {"name": "who", "description": "x", "actions": [topic], "allow": ["alice"]},
            {"name": "power", "description": "x", "actions": [topic], "min_power": "much"},
            {"name": "when", "description": "x", "actions": [topic], "when": [{"secret": "a", "state": "b"}]},
            {"name": "place", "description": "x", "actions": [{"type": "topic", "text": "{{input:what}}"}]},
            {"name": "room-secret", "description": "x", "actions": [
                {"type": "form", "title": "t", "scope": "room", "fields": [{"name": "a", "kind": "secret"}]}]},
            7,
        ]);
        let list = List::of_state(&json!({"v": 1, "commands": commands}));
        assert_eq!(list.entries.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), ["good"]);
        insta::assert_snapshot!(errors(commands));
    }

    #[test]
    fn a_list_that_is_none_is_named_as_a_whole_and_an_empty_one_is_empty() {
        for (content, error) in [
            (json!({}), None),
            (json!({"commands": []}), None),
            (json!({"v": 2, "commands": []}), Some("the list: v must be a whole number from 1 to 1")),
            (json!({"v": 1, "comands": []}), Some("the list: unknown key \"comands\"; known here: commands, v")),
            (json!([]), Some("the list: must be an object, not a list")),
            (json!({"commands": 3}), Some("the list: commands must be a list, not a number")),
        ] {
            let list = List::of_state(&content);
            assert!(list.entries.is_empty());
            assert_eq!(list.errors.first().map(ToString::to_string).as_deref(), error, "{content}");
        }
    }

    #[test]
    fn the_operator_may_list_more_and_says_where() {
        let value = json!({"rooms": ["*"], "name": "deploy", "description": "Deploys.",
            "actions": [{"type": "webhook", "url": "https://ci.example.org/deploy"}]});
        let listed = Listed::read(&value).unwrap();
        assert!(listed.is_for(<&RoomId>::try_from("!any:example.org").unwrap()));
        let nowhere = json!({"name": "deploy", "description": "Deploys.", "actions": [{"type": "topic", "text": "x"}]});
        assert_eq!(Listed::read(&nowhere).unwrap_err(), "rooms must have 1 to 1000 elements");
    }

    #[test]
    fn the_hash_is_of_what_is_said_and_not_of_the_order_of_keys() {
        let one: Value = serde_json::from_str(r#"{"a": 1, "b": [{"c": 2, "d": 3}]}"#).unwrap();
        let same: Value = serde_json::from_str(r#"{"b": [{"d": 3, "c": 2}], "a": 1}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"b": [{"d": 3, "c": 2}], "a": 2}"#).unwrap();
        assert_eq!(hash_of(&one), hash_of(&same));
        assert_ne!(hash_of(&one), hash_of(&other));
        assert_eq!(hash_of(&one).len(), 16);
    }

    /// Any JSON, with the keys of a list in it more often than by chance.
    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z{}:!@*.]{0,12}".prop_map(Value::from),
            prop_oneof![Just("form"), Just("post"), Just("topic"), Just("pin"), Just("secret")].prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, |inner| {
            let key = prop_oneof![
                Just("name"),
                Just("description"),
                Just("actions"),
                Just("commands"),
                Just("type"),
                Just("fields"),
                Just("inputs"),
                Just("properties"),
                Just("when"),
                Just("allow"),
                Just("text"),
                Just("kind"),
                Just("title"),
            ];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(key.prop_map(str::to_owned), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_content_is_read_and_each_entry_is_either_there_or_named(content in anything()) {
            let list = List::of_state(&json!({"commands": [content]}));
            prop_assert_eq!(list.entries.len() + list.errors.len(), 1);
            let _ = List::of_state(&content);
            for error in list.errors {
                prop_assert!(!error.to_string().contains('\n') && error.to_string().len() < 800, "{}", error);
            }
        }

        #[test]
        fn a_valid_entry_is_read_whatever_its_words(name in "[a-z0-9_-]{1,64}", description in "[^\\p{C}]{1,300}",
            topic in "[^\\p{C}{]{1,200}") {
            let entry = json!({"name": name, "description": description, "actions": [{"type": "topic", "text": topic}]});
            let list = List::of_state(&json!({"commands": [entry]}));
            prop_assert!(list.errors.is_empty(), "{:?}", list.errors);
            prop_assert_eq!(&list.entries[0].description, &description);
        }
    }
}
