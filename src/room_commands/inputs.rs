//! What a command takes from the model or the person: a small part of JSON schema, written by whoever lists the command.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use super::fields::{Fields, is_name, kind, quoted, text};
use crate::tools::check_schema;

/// Inputs of one command, at most.
const MAX_INPUTS: usize = 16;
const MAX_CHOICES: usize = 50;
/// The longest text that an input may be.
const MAX_TEXT: i64 = 2000;
const WHOLE: RangeInclusive<i64> = -1_000_000_000_000..=1_000_000_000_000;

/// The inputs that a command declares: an object schema with nothing in it that could cost more than a look.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inputs {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Inputs {
    /// Reads `{"properties": {NAME: {...}}, "required": [...]}`; `"type": "object"` may be said.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        let fields = Fields::of(value)?;
        fields.choice("type", &[("object", ())])?;
        let declared = match fields.get("properties")? {
            Value::Object(map) if (1..=MAX_INPUTS).contains(&map.len()) => map,
            _ => return Err(format!("properties must be an object with 1 to {MAX_INPUTS} inputs")),
        };
        let mut properties = Map::new();
        for (name, value) in declared {
            if !is_name(name) {
                return Err(format!("{} is no name of an input: a-z, 0-9, \"_\" and \"-\"", quoted(name)));
            }
            properties.insert(name.clone(), property(value).map_err(|reason| format!("{name}: {reason}"))?);
        }
        let mut required = Vec::new();
        for value in fields.list("required", 0..=MAX_INPUTS)? {
            match value.as_str().filter(|name| properties.contains_key(*name)) {
                Some(name) => required.push(name.to_owned()),
                None => return Err("required may name inputs only".to_owned()),
            }
        }
        fields.done()?;
        Ok(Self { properties, required })
    }

    /// Whether there is an input of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.properties.contains_key(name)
    }

    /// The whole as a JSON schema.
    pub(super) fn schema(&self) -> Value {
        json!({"type": "object", "properties": self.properties, "required": self.required, "additionalProperties": false})
    }

    /// Checks what was given; what is no object counts as nothing.
    ///
    /// # Errors
    /// What is wrong, for the model.
    pub(super) fn check(&self, given: &Value) -> Result<Map<String, Value>, String> {
        let given = if given.is_null() { json!({}) } else { given.clone() };
        check_schema(&self.schema(), &given)?;
        Ok(given.as_object().cloned().unwrap_or_default())
    }

    /// The inputs in words, one line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |(name, property): (&String, &Value)| {
            let kind = property["type"].as_str().unwrap_or_default();
            let needed = if self.required.contains(name) { "" } else { ", may be left out" };
            let choices: Vec<_> =
                property["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).map(quoted).collect();
            let choices = if choices.is_empty() { String::new() } else { format!(", one of {}", choices.join(", ")) };
            let description = property["description"].as_str().map(|text| format!(": {text}")).unwrap_or_default();
            format!("{name} ({kind}{choices}{needed}){description}")
        };
        self.properties.iter().map(line).collect()
    }

    /// What a person has typed for an input, as what the input is.
    pub(super) fn typed(&self, name: &str, text: &str) -> Value {
        match self.properties.get(name).and_then(|property| property["type"].as_str()) {
            Some("integer") => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
            Some("boolean") => match text {
                "true" | "yes" | "on" => true.into(),
                "false" | "no" | "off" => false.into(),
                other => other.into(),
            },
            _ => text.into(),
        }
    }
}

fn property(value: &Value) -> Result<Value, String> {
    let fields = Fields::of(value)?;
    let kind_of = fields.choice("type", &[("string", "string"), ("integer", "integer"), ("boolean", "boolean")])?;
    let mut schema = json!({ "type": kind_of });
    if let Some(description) = fields.maybe_text("description", 1..=200)? {
        schema["description"] = description.into();
    }
    match kind_of {
        "string" => {
            let most = fields.maybe_whole("maxLength", 1..=MAX_TEXT)?.unwrap_or(MAX_TEXT);
            schema["maxLength"] = most.into();
            if let Some(least) = fields.maybe_whole("minLength", 0..=most)? {
                schema["minLength"] = least.into();
            }
            let choices = fields.list("enum", 0..=MAX_CHOICES)?;
            if !choices.is_empty() {
                let choices: Result<Vec<_>, _> = choices.iter().map(|one| text("enum", one, 1..=100)).collect();
                schema["enum"] = choices?.into();
            }
        }
        "integer" => {
            for key in ["minimum", "maximum"] {
                if let Some(bound) = fields.maybe_whole(key, WHOLE)? {
                    schema[key] = bound.into();
                }
            }
        }
        _ => {}
    }
    fields.done()?;
    Ok(schema)
}

/// An input as text, for a template.
pub(super) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        other => kind(other).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn inputs() -> Inputs {
        Inputs::read(&json!({"properties": {
            "branch": {"type": "string", "description": "which one", "maxLength": 20},
            "stage": {"enum": ["test", "live"]},
            "copies": {"type": "integer", "minimum": 1, "maximum": 9},
        }, "required": ["branch"]}))
        .unwrap()
    }

    #[test]
    fn inputs_are_checked_against_what_was_declared() {
        let inputs = inputs();
        assert!(inputs.check(&json!({"branch": "main", "stage": "test", "copies": 3})).is_ok());
        for (given, reason) in [
            (json!(null), "\"branch\" is a required property"),
            (json!({"branch": 7}), "wrong arguments at /branch"),
            (json!({"branch": "x", "stage": "moon"}), "wrong arguments at /stage"),
            (json!({"branch": "x", "copies": 10}), "wrong arguments at /copies"),
            (json!({"branch": "x", "more": 1}), "Additional properties"),
            (json!([]), "wrong arguments"),
        ] {
            let refusal = inputs.check(&given).unwrap_err();
            assert!(refusal.contains(reason), "{given}: {refusal}");
        }
    }

    #[test]
    fn only_the_small_part_of_json_schema_may_be_declared() {
        for (schema, reason) in [
            (json!({"properties": {}}), "properties must be an object with 1 to 16 inputs"),
            (json!({"properties": {"a": {"$ref": "http://elsewhere"}}}), "a: unknown key \"$ref\""),
            (json!({"properties": {"a": {"pattern": "(a+)+$"}}}), "a: unknown key \"pattern\""),
            (json!({"properties": {"a": {"type": "object"}}}), "a: type must be \"string\""),
            (json!({"properties": {"A": {}}}), "\"A\" is no name of an input"),
            (json!({"properties": {"a": {}}, "required": ["b"]}), "required may name inputs only"),
        ] {
            let refusal = Inputs::read(&schema).unwrap_err();
            assert!(refusal.starts_with(reason), "{schema}: {refusal}");
        }
    }
}
