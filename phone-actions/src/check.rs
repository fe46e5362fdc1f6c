//! Whether a call is one, and what of it the phone receives.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::{
    action::Action,
    rule::Rule,
    tables::{ActionRow, Entry, Tables, tables},
};

/// Why a call is refused. Shown, it is the call's result: a text for the model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// `action` is none of the actions; any value that is not an object has none.
    #[error("{text}")]
    UnknownAction {
        /// The text for the model.
        text: String,
    },
    /// The action lacks fields that it can't do without.
    #[error("{text}")]
    Missing {
        /// The text for the model: it names all of them.
        text: String,
    },
    /// A field is not what it should be.
    #[error("{text}")]
    Bad {
        /// The first such field in check order.
        field: String,
        /// The text for the model.
        text: String,
    },
}

/// Checks a call's arguments and gives what the phone receives of them.
///
/// First the action must be known, then its required fields present, then each present field right, in check order.
/// What the action does not read is dropped, texts are trimmed at every depth (those of `values` excepted), and a field
/// is checked as it is after that: as the phone gets it. So what has passed once passes again, unchanged.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(call: &Value) -> Result<Action, Refusal> {
    check_by(tables(), call)
}

pub(crate) fn check_by(tables: &Tables, call: &Value) -> Result<Action, Refusal> {
    let row = call.get("action").and_then(Value::as_str).and_then(|name| tables.action(name));
    let row = row.ok_or_else(|| unknown(tables))?;
    let present = present_fields(tables, row, call);
    let lacking: Vec<_> = row.required.iter().filter(|entry| !is_met(entry, &present)).collect();
    if !lacking.is_empty() {
        return Err(missing(tables, row, &lacking));
    }
    for check in &tables.checks {
        if present.get(&check.field).is_some_and(|value| !check.rule.accepts(value)) {
            let field = check.field.clone();
            let text = tables.texts.bad.fill(|gap| if gap == "field" { field.clone() } else { check.what.clone() });
            return Err(Refusal::Bad { field, text });
        }
    }
    let summary = call.get("summary").and_then(Value::as_str).map(str::trim).filter(|summary| !summary.is_empty());
    Ok(Action::new(&row.name, summary.unwrap_or(&row.name), present))
}

/// The fields that the action reads and the call has, trimmed.
fn present_fields(tables: &Tables, row: &ActionRow, call: &Value) -> Map<String, Value> {
    let field = |field: &String| {
        let value = call.get(field).filter(|value| is_present(value))?;
        let untouched = tables.rule(field) == Some(&Rule::Texts);
        Some((field.clone(), if untouched { value.clone() } else { trimmed(value) }))
    };
    row.fields.iter().filter_map(field).collect()
}

/// Whether a value says anything: `false` and 0 do.
fn is_present(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

fn is_met(entry: &Entry, present: &Map<String, Value>) -> bool {
    entry.fields().iter().any(|field| present.contains_key(field))
}

/// The value with each text in it trimmed; keys stay as they are.
fn trimmed(value: &Value) -> Value {
    match value {
        Value::String(text) => text.trim().into(),
        Value::Array(items) => items.iter().map(trimmed).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), trimmed(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn unknown(tables: &Tables) -> Refusal {
    let names: Vec<_> = tables.actions.iter().map(|action| action.name.as_str()).collect();
    Refusal::UnknownAction { text: tables.texts.unknown_action.fill(|_| names.join(", ")) }
}

fn missing(tables: &Tables, row: &ActionRow, lacking: &[&Entry]) -> Refusal {
    let fields: Vec<_> = lacking.iter().map(|entry| entry.fields().join(" or ")).collect();
    let gap = |gap: &str| if gap == "action" { row.name.clone() } else { fields.join(" and ") };
    Refusal::Missing { text: tables.texts.missing.fill(gap) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn all_that_is_missing_is_named_in_one_text() {
        let text = |call| check(&call).unwrap_err().to_string();
        assert_eq!(text(json!({"action": "add_stop"})), "add_stop needs stop and destination.");
        assert_eq!(text(json!({"action": "email_draft", "cc": ["a"]})), "email_draft needs to or subject or body.");
        assert_eq!(text(json!({"action": "torch"})), "torch needs on.");
    }

    #[test]
    fn what_passes_is_trimmed_and_has_only_the_fields_of_its_action() {
        let call = json!({
            "action": "automation_intent", "summary": " Lights ", "name": " Evening\n", "app": "", "time": "07:30",
            "values": {" level ": " 5 "}, "extra": 1,
        });
        let expected = json!({
            "action": "automation_intent", "summary": "Lights", "name": "Evening", "values": {" level ": " 5 "},
        });
        assert_eq!(check(&call).unwrap().to_value(), expected);
    }

    #[test]
    fn a_summary_that_says_nothing_is_the_name_of_the_action() {
        for summary in [json!(null), json!(" "), json!(5), json!(["a"])] {
            let action = check(&json!({"action": "stop_navigation", "summary": summary})).unwrap();
            assert_eq!(action.to_value(), json!({"action": "stop_navigation", "summary": "stop_navigation"}));
        }
    }

    #[test]
    fn what_is_no_object_has_no_action() {
        for call in [json!(null), json!([]), json!("alarm"), json!({}), json!({"action": 5})] {
            assert!(matches!(check(&call), Err(Refusal::UnknownAction { .. })), "{call}");
        }
    }
}
