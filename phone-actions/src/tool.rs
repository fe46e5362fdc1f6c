//! The tool as the model is offered it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::tables::{ActionRow, Entry, tables};

/// The definition of the tool.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// Its name, `phone_action`.
    pub name: String,
    /// What a call is, before the list of actions.
    description: String,
    /// What each action is, in words for the model.
    pub(crate) actions: BTreeMap<String, String>,
    /// The JSON schema of all its arguments.
    schema: Value,
    example: Example,
    /// Where it runs: `server`.
    pub scope: String,
    /// Which sessions have it: `chat`.
    pub sessions: String,
    /// What must have been seen before it is offered: `phone`.
    pub requires: String,
    /// When the person is asked: `always`.
    pub confirm: String,
    /// Its risk class: `interact`.
    pub risk: String,
    /// A call's result where there is no phone to confirm on.
    pub unavailable: String,
}

/// A worked use of the tool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// What a person asks.
    pub ask: String,
    /// The arguments of the call.
    pub arguments: Map<String, Value>,
    /// What the model answers once it is done.
    pub reply: String,
}

/// What a model is offered: the tool, with the actions that the phone at hand can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// What it does, with a line for each action.
    pub description: String,
    /// The JSON schema of the arguments. It guides the model; [`check`](crate::check) alone decides.
    pub schema: Value,
    /// What each action takes and needs, in the contract's order.
    pub cases: Vec<Case>,
    /// A worked use, if its action is on offer.
    pub example: Option<Example>,
}

/// What one action takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name.
    pub action: String,
    /// Its fields, and `summary`.
    pub takes: Vec<String>,
    /// Those that it can't do without. Of some actions one of several will do: they are not named here.
    pub required: Vec<String>,
}

/// The definition of the tool.
#[must_use]
pub fn tool() -> &'static Tool {
    &tables().tool
}

/// The tool with the actions that `offered` accepts by their name, in the contract's order; `None` if there is none.
#[must_use]
pub fn offer(offered: impl Fn(&str) -> bool) -> Option<Offer> {
    let tables = tables();
    let rows: Vec<_> = tables.actions.iter().filter(|row| offered(&row.name)).collect();
    (!rows.is_empty()).then(|| tables.tool.offer(&rows))
}

impl Tool {
    /// The values that the schema allows for a field.
    pub(crate) fn values_of(&self, field: &str) -> Vec<String> {
        let values = self.schema["properties"][field]["enum"].as_array().into_iter().flatten();
        values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
    }

    /// The names of the fields in the schema.
    pub(crate) fn properties(&self) -> impl Iterator<Item = &str> {
        self.schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str())
    }

    fn offer(&self, rows: &[&ActionRow]) -> Offer {
        let mut description = self.description.clone();
        for row in rows {
            let told = self.actions.get(&row.name).map(String::as_str).unwrap_or_default();
            description.push_str(&format!("\n- {}: {told}", row.name));
        }
        let is_read = |field: &str| rows.iter().any(|row| row.fields.iter().any(|read| read == field));
        let mut schema = self.schema.clone();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.retain(|name, _| ["action", "summary"].contains(&name.as_str()) || is_read(name));
        }
        if let Some(values) = schema.pointer_mut("/properties/action/enum") {
            *values = rows.iter().map(|row| row.name.as_str()).collect();
        }
        let shown = self.example.arguments.get("action").and_then(Value::as_str);
        let example = rows.iter().any(|row| Some(row.name.as_str()) == shown).then(|| self.example.clone());
        let cases = rows.iter().copied().map(Case::of).collect();
        Offer { description, schema, cases, example }
    }
}

impl Case {
    fn of(row: &ActionRow) -> Self {
        let alone = |entry: &Entry| match entry.fields() {
            [field] => Some(field.clone()),
            _ => None,
        };
        Self {
            action: row.name.clone(),
            takes: row.fields.iter().cloned().chain(["summary".to_owned()]).collect(),
            required: row.required.iter().filter_map(alone).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn the_definition_says_who_has_it_and_that_the_person_always_decides() {
        let Tool { name, scope, sessions, requires, confirm, risk, .. } = tool();
        let said = [name, scope, sessions, requires, confirm, risk];
        assert_eq!(said, ["phone_action", "server", "chat", "phone", "always", "interact"]);
    }

    #[test]
    fn the_whole_offer_as_the_model_reads_it() {
        let offer = offer(|_| true).unwrap();
        assert_eq!(offer.schema, tables().tool.schema);
        insta::assert_snapshot!(offer.description);
    }

    #[test]
    fn actions_that_the_phone_cannot_do_are_left_out_with_their_fields() {
        let offer = offer(|action| ["torch", "timer"].contains(&action)).unwrap();
        let properties: Vec<_> = offer.schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = ["action", "label", "on", "seconds", "summary"];
        expected.sort_unstable();
        let mut found = properties;
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(offer.schema["properties"]["action"]["enum"], json!(["timer", "torch"]));
        assert_eq!(offer.example, None);
        assert!(offer.description.ends_with("\n- torch: the torch `on` or off"), "{}", offer.description);
        assert_eq!(super::offer(|_| false), None);
    }

    #[test]
    fn the_example_is_a_call_that_passes() {
        let example = offer(|_| true).unwrap().example.unwrap();
        let arguments = Value::Object(example.arguments);
        assert_eq!(crate::check(&arguments).unwrap().to_value(), arguments);
    }
}
