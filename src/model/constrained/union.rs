//! The schema of one step: a union with one branch per tool and one for the reply.
//!
//! Written by hand into the serializer because the order counts: a server that forces the form has the model write the
//! properties in the schema's order, and the model must choose its action before it writes the arguments.

use serde::ser::{Serialize, SerializeMap as _, SerializeStruct as _, Serializer};
use serde_json::{Map, Value, json};

use super::{ARGS, DO, REPLY, TEXT};
use crate::model::{Case, ResponseFormat, ToolSpec};

/// References inside a tool's schema are followed so deep; what lies below is left open.
const MAX_DEPTH: usize = 8;
/// What a tool's schema may say at its top for its arguments to stand beside `do`.
const FLAT_KEYS: [&str; 9] =
    ["type", "properties", "required", "additionalProperties", "title", "description", "examples", "$schema", "$defs"];

/// `response_format` of a request.
#[derive(Debug)]
pub(in crate::model) struct Forced<'a> {
    format: Spelling,
    union: Union<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Spelling {
    JsonSchema,
    JsonObject,
}

impl<'a> Forced<'a> {
    /// What makes a server force a step with these tools; nothing where the form is free.
    pub(in crate::model) fn new(format: ResponseFormat, tools: &'a [ToolSpec]) -> Option<Self> {
        let format = match format {
            ResponseFormat::JsonSchema => Spelling::JsonSchema,
            ResponseFormat::JsonObject => Spelling::JsonObject,
            ResponseFormat::Free => return None,
        };
        Some(Self { format, union: Union::new(tools) })
    }

    /// The schema alone.
    pub(in crate::model) fn schema(&self) -> &Union<'a> {
        &self.union
    }
}

impl Serialize for Forced<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("ResponseFormat", 2)?;
        match self.format {
            Spelling::JsonObject => {
                map.serialize_field("type", "json_object")?;
                map.serialize_field("schema", &self.union)?;
            }
            Spelling::JsonSchema => {
                map.serialize_field("type", "json_schema")?;
                map.serialize_field("json_schema", &Named { name: "step", strict: true, schema: &self.union })?;
            }
        }
        map.end()
    }
}

#[derive(serde::Serialize)]
struct Named<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a Union<'a>,
}

/// The union of all actions.
#[derive(Debug)]
pub(in crate::model) struct Union<'a>(Vec<Branch<'a>>);

/// One action: its name and, after it, the properties that it takes.
#[derive(Debug)]
struct Branch<'a> {
    name: &'a str,
    properties: Map<String, Value>,
    required: Vec<&'a str>,
}

impl<'a> Union<'a> {
    fn new(tools: &'a [ToolSpec]) -> Self {
        let reply = Branch {
            name: REPLY,
            properties: Map::from_iter([(TEXT.to_owned(), json!({"type": "string"}))]),
            required: vec![TEXT],
        };
        Self(tools.iter().flat_map(Branch::of).chain([reply]).collect())
    }
}

impl<'a> Branch<'a> {
    /// The branches of a tool: one, or one for each case.
    fn of(tool: &'a ToolSpec) -> Vec<Self> {
        if tool.cases.is_empty() || is_nested(tool) {
            return vec![Self::new(tool)];
        }
        tool.cases.iter().map(|case| Self::case(tool, case)).collect()
    }

    fn case(tool: &'a ToolSpec, case: &'a Case) -> Self {
        let Self { name, mut properties, .. } = Self::new(tool);
        properties.retain(|property, _| case.takes.contains(property));
        properties.insert(case.key.clone(), json!({"const": case.value}));
        let required = [&case.key].into_iter().chain(&case.required).map(String::as_str).collect();
        Self { name, properties, required }
    }

    fn new(tool: &'a ToolSpec) -> Self {
        let schema = inline(&tool.parameters, &tool.parameters, MAX_DEPTH);
        if is_nested(tool) {
            return Self {
                name: &tool.name,
                properties: Map::from_iter([(ARGS.to_owned(), schema)]),
                required: vec![ARGS],
            };
        }
        Self {
            name: &tool.name,
            properties: schema["properties"].as_object().cloned().unwrap_or_default(),
            required: tool.parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
        }
    }
}

/// Whether a tool's arguments stand under `args`: because one of them is called `do` itself, or because its schema says
/// more than which properties there are.
pub(super) fn is_nested(tool: &ToolSpec) -> bool {
    let schema = &tool.parameters;
    let Some(keys) = schema.as_object() else { return true };
    let flat = schema["type"] == "object"
        && keys.keys().all(|key| FLAT_KEYS.contains(&key.as_str()))
        && matches!(schema["additionalProperties"], Value::Null | Value::Bool(false))
        && schema["properties"].get(DO).is_none();
    !flat
}

/// The schema with each reference into its own `$defs` replaced by what it names: inside a union it would point
/// nowhere.
fn inline(schema: &Value, root: &Value, depth: usize) -> Value {
    match schema {
        Value::Object(map) => {
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
                return match target.filter(|_| depth > 0) {
                    Some(target) => inline(target, root, depth - 1),
                    None => json!({}),
                };
            }
            let kept = map.iter().filter(|(key, _)| *key != "$defs" && *key != "$schema");
            Value::Object(kept.map(|(key, value)| (key.clone(), inline(value, root, depth))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(|value| inline(value, root, depth)).collect()),
        other => other.clone(),
    }
}

impl Serialize for Union<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("oneOf", &self.0)?;
        map.end()
    }
}

impl Serialize for Branch<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let required: Vec<&str> = [DO].into_iter().chain(self.required.iter().copied()).collect();
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("type", "object")?;
        map.serialize_entry("properties", &Properties(self))?;
        map.serialize_entry("required", &required)?;
        map.serialize_entry("additionalProperties", &false)?;
        map.end()
    }
}

/// The properties of a branch, `do` first.
struct Properties<'a>(&'a Branch<'a>);

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(DO, &json!({"const": self.0.name}))?;
        for (name, schema) in &self.0.properties {
            map.serialize_entry(name, schema)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::super::testing;
    use super::*;

    fn tool(parameters: Value) -> ToolSpec {
        ToolSpec { name: "tool".into(), description: String::new(), parameters, cases: Vec::new(), example: None }
    }

    fn schema(tools: &[ToolSpec]) -> String {
        serde_json::to_string_pretty(&Union::new(tools)).unwrap()
    }

    #[test]
    fn flat_arguments_stand_beside_do_which_comes_first() {
        insta::assert_snapshot!(schema(&testing::tools()));
    }

    #[test]
    fn each_case_is_a_branch_with_what_it_takes_and_needs() {
        let mut tool = tool(json!({
            "type": "object",
            "properties": {"action": {"enum": ["alarm", "torch"]}, "on": {"type": "boolean"}, "time": {}, "label": {}},
            "required": ["action"]
        }));
        let case = |value: &str, takes: &[&str], required: &[&str]| Case {
            key: "action".into(),
            value: value.into(),
            takes: takes.iter().map(|name| (*name).to_owned()).collect(),
            required: required.iter().map(|name| (*name).to_owned()).collect(),
        };
        tool.cases = vec![case("alarm", &["time", "label"], &["time"]), case("torch", &["on"], &["on"])];
        insta::assert_snapshot!(schema(&[tool]));
    }

    #[test]
    fn the_schema_is_spelled_in_both_ways() {
        let spell = |format| serde_json::to_string(&Forced::new(format, &[]).unwrap()).unwrap();
        insta::assert_snapshot!([spell(ResponseFormat::JsonSchema), spell(ResponseFormat::JsonObject)].join("\n"));
        assert!(Forced::new(ResponseFormat::Free, &[]).is_none());
    }

    #[test]
    fn arguments_are_nested_where_they_cannot_stand_beside_do() {
        let nested = [
            json!({"type": "object", "properties": {"do": {"type": "string"}}}),
            json!({"type": "string"}),
            json!({"type": "object", "anyOf": [{"required": ["a"]}]}),
            json!({"type": "object", "additionalProperties": true}),
            json!(true),
        ];
        for parameters in nested {
            assert!(is_nested(&tool(parameters.clone())), "{parameters}");
        }
        let flat = [
            json!({"type": "object"}),
            json!({"type": "object", "title": "T", "properties": {"a": {}}, "additionalProperties": false}),
        ];
        for parameters in flat {
            assert!(!is_nested(&tool(parameters.clone())), "{parameters}");
        }
        insta::assert_snapshot!(schema(&[tool(json!({"type": "string"}))]));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let tree = json!({
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/tree"}, "lost": {"$ref": "other.json"}},
            "$defs": {"tree": {"properties": {"left": {"$ref": "#/$defs/tree"}}}}
        });
        let schema = schema(&[tool(tree)]);
        assert_eq!(schema.matches("left").count(), MAX_DEPTH);
        assert!(!schema.contains("$ref"));
    }
}
