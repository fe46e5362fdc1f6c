//! What a model is shown, as text that reads well in a snapshot.

use crate::model::{Message, Request};

/// A request as text. The fence's tag is random: here it is TAG.
pub(crate) fn shown(request: &Request) -> String {
    let mut text: Vec<String> = request.messages.iter().map(written).collect();
    let tools: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    text.push(format!("tools: {}", tools.join(", ")));
    let text = text.join("\n\n");
    match text.split_once("<<data ").and_then(|(_, rest)| rest.split_once(">>")) {
        Some((tag, _)) => text.replace(tag, "TAG"),
        None => text,
    }
}

fn written(message: &Message) -> String {
    match message {
        Message::System(text) => format!("system: {text}"),
        Message::User(text) => format!("user: {text}"),
        Message::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| format!("\n  {} calls {} {}", call.id, call.name, call.arguments));
            std::iter::once(format!("assistant: {text}")).chain(calls).collect()
        }
        Message::ToolResult { id, name, text } => format!("{name}, {id}: {text}"),
    }
}
