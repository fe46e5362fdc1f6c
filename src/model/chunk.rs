//! One chunk of an answer, read leniently: servers differ in what they leave out, add and spell otherwise.

use serde_json::Value;

use super::{Finish, ModelError, Usage};

/// What a chunk tells.
#[derive(Debug, PartialEq)]
pub(super) enum Part {
    /// More of the answer's text.
    Text(String),
    /// The model thinks; so many bytes of it, which are no part of the answer.
    Reasoning(usize),
    /// More of a tool call.
    Call(Fragment),
    /// The model has stopped.
    Finish(Finish),
    /// The tokens so far.
    Usage(Usage),
}

/// A piece of a tool call. Servers leave out any of its fields.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Fragment {
    pub(super) index: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) arguments: String,
}

impl Part {
    /// The bytes of the answer in it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Reasoning(bytes) => *bytes,
            Self::Call(call) => call.arguments.len() + call.name.as_deref().map_or(0, str::len),
            Self::Finish(_) | Self::Usage(_) => 0,
        }
    }
}

/// Reads one chunk of a stream, or a whole answer that was not streamed.
pub(super) fn parts(json: &str) -> Result<Vec<Part>, ModelError> {
    let chunk: Value = serde_json::from_str(json).map_err(|error| ModelError::Malformed(error.to_string()))?;
    if !chunk["error"].is_null() {
        return Err(ModelError::from_stream(&chunk["error"]));
    }
    if chunk["object"] == "error" {
        return Err(ModelError::from_stream(&chunk));
    }
    let choice = &chunk["choices"][0];
    if !choice["error"].is_null() {
        return Err(ModelError::from_stream(&choice["error"]));
    }
    let message = if choice["delta"].is_null() { &choice["message"] } else { &choice["delta"] };
    let mut parts = Vec::new();
    let thought = ["reasoning_content", "reasoning"].iter().filter_map(|key| message[key].as_str()).map(str::len).max();
    if let Some(bytes) = thought.filter(|bytes| *bytes > 0) {
        parts.push(Part::Reasoning(bytes));
    }
    let text = content(&message["content"]);
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        parts.push(Part::Call(fragment(call)));
    }
    // Some servers write "" for "not yet".
    if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
        let length = matches!(reason, "length" | "max_tokens");
        parts.push(Part::Finish(if length { Finish::Length } else { Finish::Stop }));
    }
    let usage = &chunk["usage"];
    if let (Some(prompt), Some(completion)) = (usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64()) {
        parts.push(Part::Usage(Usage { prompt, completion }));
    }
    Ok(parts)
}

/// A string, or a list of text parts.
fn content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

fn fragment(call: &Value) -> Fragment {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let function = &call["function"];
    Fragment {
        index: call["index"].as_u64(),
        id: text(&call["id"]),
        name: text(&function["name"]),
        arguments: match &function["arguments"] {
            Value::String(arguments) => arguments.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_many_servers_are_read() {
        let fragment = |index, id: Option<&str>, name: Option<&str>, arguments: &str| {
            Part::Call(Fragment {
                index,
                id: id.map(str::to_owned),
                name: name.map(str::to_owned),
                arguments: arguments.to_owned(),
            })
        };
        let usage = Part::Usage(Usage { prompt: 3, completion: 4 });
        let cases = [
            (r#"{"choices":[{"delta":{"role":"assistant"},"finish_reason":null}]}"#, vec![]),
            (r#"{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":""}]}"#, vec![]),
            (r#"{"choices":[{"delta":{}}]}"#, vec![]),
            (r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#, vec![usage]),
            (r#"{"choices":[],"usage":null}"#, vec![]),
            (r#"{}"#, vec![]),
            (r#"{"choices":[{"delta":{"content":"a"}}]}"#, vec![Part::Text("a".into())]),
            (
                r#"{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}"#,
                vec![Part::Text("ab".into())],
            ),
            (
                r#"{"choices":[{"delta":{"content":null,"reasoning":"abc","reasoning_content":"abc"}}]}"#,
                vec![Part::Reasoning(3)],
            ),
            (
                r#"{"choices":[{"message":{"content":"a","tool_calls":[{"id":"x","type":"function","function":{"name":"n","arguments":{"b":1}}}]},"finish_reason":"tool_calls"}]}"#,
                vec![
                    Part::Text("a".into()),
                    fragment(None, Some("x"), Some("n"), r#"{"b":1}"#),
                    Part::Finish(Finish::Stop),
                ],
            ),
            (
                r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"","function":{"arguments":"{\"b"}}]}}]}"#,
                vec![fragment(Some(1), None, None, "{\"b")],
            ),
            (
                r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}"#,
                vec![Part::Text("a".into()), Part::Finish(Finish::Length)],
            ),
            (r#"{"choices":[{"delta":{},"finish_reason":"eos"}]}"#, vec![Part::Finish(Finish::Stop)]),
        ];
        for (json, expected) in cases {
            assert_eq!(parts(json), Ok(expected), "{json}");
        }
    }

    #[test]
    fn an_error_in_a_chunk_is_an_error() {
        let server = |text: &str| ModelError::Server { status: 500, retry_after: None, text: text.into() };
        let cases = [
            (r#"{"error":"boom"}"#, server("boom")),
            (
                r#"{"error":{"message":"boom","code":502}}"#,
                ModelError::Server { status: 502, retry_after: None, text: "boom".into() },
            ),
            (r#"{"object":"error","message":"boom"}"#, server("boom")),
            (r#"{"choices":[{"error":{"message":"boom"},"finish_reason":"error"}]}"#, server("boom")),
        ];
        for (json, expected) in cases {
            assert_eq!(parts(json), Err(expected), "{json}");
        }
        assert!(matches!(parts("{\"choices\":["), Err(ModelError::Malformed(_))));
        assert!(matches!(parts("<html>"), Err(ModelError::Malformed(_))));
    }
}
