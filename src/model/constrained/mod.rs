//! One JSON object a step: a tool call or the reply, for small models and for servers without tool calls of their own.
//!
//! A step is `{"do":"<tool>", …}` with the tool's arguments beside `do`, or `{"do":"reply","text":"…"}`. The name
//! `reply` is not for tools. Four rules:
//!
//! - `response_format` forces the form where the server can ([`Forced`]); the [`Decoder`] does not rely on it;
//! - the model reads its earlier steps in the form that it writes, one call a message, each followed by its result;
//! - no two messages in a row are of one role, which some models' templates refuse;
//! - the system prompt is the same from call to call as long as the tools are, so that a server's prefix cache holds.

mod decode;
mod object;
mod union;

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

pub(super) use self::decode::{Decoder, Last};
pub(super) use self::union::Forced;
use self::union::is_nested;
use super::{Message, Request, ToolCall, ToolSpec};

/// The property that names the action.
const DO: &str = "do";
/// The action that answers.
const REPLY: &str = "reply";
/// The property of [`REPLY`].
const TEXT: &str = "text";
/// The property with the arguments of a tool that can't have them beside [`DO`].
const ARGS: &str = "args";

/// The conversation as `messages`, the actions explained in the system prompt.
pub(super) fn messages(request: &Request) -> Vec<Value> {
    let mut written = Written::default();
    let mut results: HashMap<&str, &str> = HashMap::new();
    for message in &request.messages {
        if let Message::ToolResult { id, text, .. } = message {
            results.insert(id, text);
        }
    }
    let mut messages = request.messages.iter().peekable();
    let mut system = Vec::new();
    while let Some(Message::System(text)) = messages.peek() {
        system.push(text.clone());
        messages.next();
    }
    if !request.tools.is_empty() {
        system.push(actions(&request.tools));
    }
    if !system.is_empty() {
        written.add("system", &system.join("\n\n"));
    }
    for message in messages {
        match message {
            Message::System(text) => written.add("system", text),
            Message::User(text) => written.add("user", text),
            Message::Assistant { text, calls } if calls.is_empty() => {
                if request.tools.is_empty() {
                    written.add("assistant", text);
                } else {
                    written.add("assistant", &reply(text));
                }
            }
            Message::Assistant { text, calls } => {
                if !text.is_empty() {
                    written.add("assistant", text);
                }
                for call in calls {
                    written.add("assistant", &action(call, &request.tools));
                    if let Some(text) = results.remove(call.id.as_str()) {
                        written.add("user", &result(&call.name, text));
                    }
                }
            }
            Message::ToolResult { id, name, .. } => {
                if let Some(text) = results.remove(id.as_str()) {
                    written.add("user", &result(name, text));
                }
            }
        }
    }
    written.messages()
}

/// Messages in which the roles take turns.
#[derive(Default)]
struct Written(Vec<(&'static str, String)>);

impl Written {
    fn add(&mut self, role: &'static str, content: &str) {
        match self.0.last_mut() {
            Some((last, text)) if *last == role => {
                text.push_str("\n\n");
                text.push_str(content);
            }
            _ => self.0.push((role, content.to_owned())),
        }
    }

    fn messages(self) -> Vec<Value> {
        self.0.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
    }
}

/// A step that answers, as the model writes it.
fn reply(text: &str) -> String {
    format!(r#"{{"{DO}":"{REPLY}","{TEXT}":{}}}"#, Value::from(text))
}

/// A step that calls a tool, as the model writes it; broken arguments as it wrote them.
fn action(call: &ToolCall, tools: &[ToolSpec]) -> String {
    let nested = tools.iter().any(|tool| tool.name == call.name && is_nested(tool));
    match serde_json::from_str::<Map<String, Value>>(&call.arguments) {
        Ok(arguments) => step(&call.name, &arguments, nested),
        Err(_) => call.arguments.clone(),
    }
}

/// `{"do":name, …}`, written by hand to have `do` first.
fn step(name: &str, arguments: &Map<String, Value>, nested: bool) -> String {
    let mut json = format!(r#"{{"{DO}":{}"#, Value::from(name));
    if nested {
        json.push_str(&format!(r#","{ARGS}":{}"#, Value::Object(arguments.clone())));
    } else {
        for (key, value) in arguments {
            json.push_str(&format!(",{}:{value}", Value::from(key.as_str())));
        }
    }
    json.push('}');
    json
}

fn result(name: &str, text: &str) -> String {
    format!("Result of {name}: {text}")
}

/// What the model is told about its actions.
fn actions(tools: &[ToolSpec]) -> String {
    let mut text = String::from("Each of your steps is one JSON object that names an action. The actions:\n");
    for tool in tools {
        // Writing to a String can't fail.
        let _ = writeln!(text, "- {}: {}", usage(tool), tool.description.trim());
    }
    let _ = writeln!(text, "- {}: Answers. Use it for everything that needs no other action.", reply("your answer"));
    text.push_str("After an action you are shown its result; then take the next step.\n\nExamples:\n");
    // Measured with a small model: with the call first it calls a tool when it should more often, and with a plain
    // question at the end it calls none when it should not.
    if let Some((tool, example)) = tools.iter().find_map(|tool| Some((tool, tool.example.as_ref()?))) {
        let call = step(&tool.name, &example.arguments, is_nested(tool));
        let _ = writeln!(
            text,
            "User: {}\nYou: {call}\nUser: {}\nYou: {}",
            example.ask,
            result(&tool.name, &example.result),
            reply(&example.reply),
        );
    }
    for (ask, answer) in [
        ("Hello!", "Hello! What can I do for you?"),
        ("What is the capital of France?", "The capital of France is Paris."),
    ] {
        let _ = writeln!(text, "User: {ask}\nYou: {}", reply(answer));
    }
    text.truncate(text.trim_end().len());
    text
}

/// A tool's form in short: its properties with their types, optional ones with a question mark.
fn usage(tool: &ToolSpec) -> String {
    let schema = &tool.parameters;
    if is_nested(tool) {
        return format!(r#"{{"{DO}":"{}","{ARGS}":{schema}}}"#, tool.name);
    }
    let mut text = format!(r#"{{"{DO}":"{}""#, tool.name);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let mark = if is_required(schema, name) { "" } else { "?" };
        let _ = write!(text, r#","{name}"{mark}:{}"#, kind(property));
        if let Some(description) = property["description"].as_str() {
            let _ = write!(text, " ({description})");
        }
    }
    text.push('}');
    text
}

/// What a property takes: its values where they are listed, else its type.
fn kind(property: &Value) -> String {
    match (property["enum"].as_array(), property["type"].as_str()) {
        (Some(values), _) => values.iter().map(Value::to_string).collect::<Vec<_>>().join("|"),
        (None, kind) => kind.unwrap_or("value").to_owned(),
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|all| all.iter().any(|required| required == name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::testing;
    use super::*;

    fn as_text(messages: &[Value]) -> String {
        let lines = messages.iter().map(|message| {
            format!("--- {}\n{}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap())
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_conversation_is_written_as_actions_and_their_results() {
        insta::assert_snapshot!(as_text(&messages(&testing::conversation())));
    }

    #[test]
    fn without_tools_the_conversation_is_plain() {
        let request = Request { tools: vec![], ..testing::conversation() };
        let request = Request { messages: request.messages[..4].to_vec(), ..request };
        insta::assert_snapshot!(as_text(&messages(&request)));
    }

    #[test]
    fn a_property_is_shown_with_what_it_takes() {
        let tool = ToolSpec {
            name: "light".into(),
            description: "Switches a light.".into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "color": {"enum": ["red", "blue"], "description": "its color"},
                    "level": {"type": "integer"},
                    "other": {}
                },
                "required": ["color"]
            }),
            cases: Vec::new(),
            example: None,
        };
        assert_eq!(usage(&tool), r#"{"do":"light","color":"red"|"blue" (its color),"level"?:integer,"other"?:value}"#);
    }

    #[test]
    fn nested_arguments_are_shown_nested() {
        let tool = ToolSpec {
            name: "run".into(),
            description: "Runs.".into(),
            parameters: json!({"type": "object", "properties": {"do": {"enum": ["it"]}}, "required": ["do"]}),
            cases: Vec::new(),
            example: None,
        };
        insta::assert_snapshot!(actions(&[tool]));
    }

    #[test]
    fn a_growing_conversation_keeps_its_beginning() {
        let request = testing::conversation();
        let all = as_text(&messages(&request));
        for count in [1, 2, 3, 4, 7] {
            let shorter = Request { messages: request.messages[..count].to_vec(), tools: request.tools.clone() };
            assert!(all.starts_with(&as_text(&messages(&shorter))), "{count}");
        }
    }

    #[test]
    fn a_result_without_its_call_is_still_shown() {
        let request = Request {
            messages: vec![Message::ToolResult { id: "x".into(), name: "now".into(), text: "12:00".into() }],
            tools: vec![],
        };
        assert_eq!(messages(&request), [json!({"role": "user", "content": "Result of now: 12:00"})]);
    }
}
