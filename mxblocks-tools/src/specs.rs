//! How the two tools are offered to a model.

use mxblocks::{DISPLAY_TYPES, MAX_BLOCKS, RICH_VERSION};
use serde_json::{Value, json};

use crate::{BLOCK_GUIDE, RichTool};

/// A tool on offer.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// `rich_send` or `rich_edit`.
    pub name: &'static str,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// The JSON schema of its arguments: an object that takes no further properties.
    pub schema: Value,
}

/// rich_send and rich_edit, in this order. `rooms` tells the model what `room` may name, in a few words or as a list: it
/// stands in that argument's description as it is. Empty where there is nothing to tell.
///
/// The schema is what a model should write. [`plan`](crate::plan) also takes what it might write instead, such as the
/// payload as a string of JSON, and looks deeper into the blocks than the schema does.
#[must_use]
pub fn tool_specs(rooms: &str) -> Vec<ToolSpec> {
    RichTool::ALL
        .into_iter()
        .map(|tool| ToolSpec { name: tool.name(), description: description(tool), schema: schema(tool, rooms) })
        .collect()
}

fn description(tool: RichTool) -> String {
    match tool {
        RichTool::Send => format!(
            "Posts a message with rich blocks: tables, cards, charts, buttons and more, drawn by the clients that know \
             them. Everybody else reads the fallback. Returns the event id of the new message.\n{BLOCK_GUIDE}"
        ),
        RichTool::Edit => "Replaces the blocks and the text of a message that you posted with rich_send, such as a \
                           tracker or a progress whose state has changed. Give the whole new payload and fallback. It \
                           works on your own messages only, at most once every 2.5 s for each."
            .into(),
    }
}

fn schema(tool: RichTool, rooms: &str) -> Value {
    match tool {
        RichTool::Send => json!({
            "type": "object",
            "properties": {
                "payload": payload(),
                "fallback": fallback(),
                "reply_to": text("Event id of the message to reply to; leave it out for no reply."),
                "thread": text("Event id of a thread's first message, to post in that thread; leave it out otherwise."),
                "room": room("Where to post; leave it out to post here.", rooms),
            },
            "required": ["payload", "fallback"],
            "additionalProperties": false,
        }),
        RichTool::Edit => json!({
            "type": "object",
            "properties": {
                "event_id": text("Event id of your own message that is to be replaced, as rich_send returned it."),
                "payload": payload(),
                "fallback": fallback(),
                "room": room("Where the message stands; leave it out if it stands here.", rooms),
            },
            "required": ["event_id", "payload", "fallback"],
            "additionalProperties": false,
        }),
    }
}

/// The form of the payload down to the block's type: a server that forces the schema has the model choose a type that
/// exists. A block's own fields are left to the guide and to the check, since a union of all blocks is more than a small
/// model can use.
fn payload() -> Value {
    let types: Vec<&str> = ["buttons", "chips"].into_iter().chain(DISPLAY_TYPES).collect();
    json!({
        "type": "object",
        "description": "The blocks, shown one below the other.",
        "properties": {
            "v": {"type": "integer", "const": RICH_VERSION},
            "blocks": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_BLOCKS,
                "items": {
                    "type": "object",
                    "properties": {"type": {"type": "string", "enum": types}},
                    "required": ["type"],
                    "additionalProperties": true,
                },
            },
        },
        "required": ["v", "blocks"],
        "additionalProperties": false,
    })
}

fn fallback() -> Value {
    text(
        "Everything that the blocks say, once more as Markdown. Clients that don't draw blocks show only this, so leave \
         nothing out.",
    )
}

fn room(description: &str, rooms: &str) -> Value {
    match rooms.trim() {
        "" => text(description),
        rooms => text(&format!("{description} It may name: {rooms}")),
    }
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_are_offered_with_what_a_room_may_be() {
        let specs = tool_specs("\"dm\" (the person), or a room's id");
        let shown = specs.iter().map(|spec| format!("{}\n{}\n{:#}", spec.name, spec.description, spec.schema));
        insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n\n"));
    }

    #[test]
    fn the_schemas_have_exactly_the_arguments_that_the_check_knows() {
        for (tool, spec) in RichTool::ALL.into_iter().zip(tool_specs("")) {
            let mut known = tool.arguments().to_vec();
            known.sort_unstable();
            let properties = spec.schema["properties"].as_object().into_iter().flat_map(|map| map.keys());
            assert_eq!(properties.map(String::as_str).collect::<Vec<_>>(), known, "{}", spec.name);
            assert_eq!((spec.name, &spec.schema["additionalProperties"]), (tool.name(), &Value::Bool(false)));
        }
    }
}
