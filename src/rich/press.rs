//! What people do with blocks: a reaction that stands for a button, or a message that a click sent. Pure functions over
//! the blocks as they stand and the event as it came.

use matrix_link::Message;
use mxblocks::{Action, RICH_KEYS, Rich, USED_KEYS};
use serde_json::{Map, Value};

/// Reactions that are set under one message, at most.
const MAX_SEEDS: usize = 12;
/// Values of a form that are told, and characters of each.
const MAX_VALUES: usize = 50;
const MAX_VALUE: usize = 2000;

/// What somebody has done with a message's blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pressed {
    /// The label of the button, or the id of the form.
    pub what: String,
    /// The values of a form, one line each; empty without one.
    pub values: Vec<String>,
}

/// The payload that a message carries, where it carries one that is valid.
pub fn payload_of(message: &Message) -> Option<Value> {
    let payload = RICH_KEYS.iter().find_map(|key| message.content.get(*key))?;
    parsed(payload).map(|_| payload.clone())
}

/// Whether a message says that something was pressed.
pub fn tells_a_press(message: &Message) -> bool {
    USED_KEYS.iter().any(|key| message.content.get(*key).is_some_and(Value::is_object))
}

/// The button that a reaction with this key stands for.
pub fn pressed_by_reaction(payload: &Value, key: &str) -> Option<Pressed> {
    let plain = |key: &str| key.trim_end_matches('\u{fe0f}').to_owned();
    let rich = parsed(payload)?;
    let button = rich.blocks.iter().flat_map(|block| block.actions()).find(|button| match &button.action {
        Action::React { key: own } => plain(own) == plain(key),
        _ => false,
    })?;
    Some(Pressed { what: button.label.clone(), values: Vec::new() })
}

/// What a message says was pressed on this payload: by its prompt id, or by the words that the button sends.
pub fn pressed_by_message(payload: &Value, message: &Message) -> Option<Pressed> {
    let used = USED_KEYS.iter().find_map(|key| message.content.get(*key)?.as_object())?;
    let rich = parsed(payload)?;
    let id = used.get("id").and_then(Value::as_str);
    let button = rich.blocks.iter().flat_map(|block| block.actions()).find(|button| match (id, &button.action) {
        (Some(id), _) => button.id.as_deref() == Some(id),
        (None, Action::Send { body }) => body.trim() == message.body.trim(),
        (None, _) => false,
    });
    if let Some(button) = button {
        return Some(Pressed { what: button.label.clone(), values: Vec::new() });
    }
    let id = id?;
    let is_prompt = rich.blocks.iter().flat_map(|block| block.prompt_ids()).any(|own| own == id);
    is_prompt.then(|| Pressed { what: id.to_owned(), values: values(used) })
}

/// The keys of the reactions that stand for buttons, each once, in their order.
pub(super) fn reaction_keys(rich: &Rich) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for button in rich.blocks.iter().flat_map(|block| block.actions()) {
        if let Action::React { key } = &button.action
            && !keys.contains(key)
        {
            keys.push(key.clone());
        }
    }
    keys.truncate(MAX_SEEDS);
    keys
}

/// Where a payload names a file by a plain address.
pub(super) fn plain_media(payload: &Value) -> Option<String> {
    let blocks = payload["blocks"].as_array()?;
    for (index, block) in blocks.iter().enumerate() {
        match block["type"].as_str() {
            Some("file") if block.get("file").is_none() && block.get("url").is_some() => {
                return Some(format!("blocks[{index}].url"));
            }
            Some("gallery") => {
                let images = block["images"].as_array().into_iter().flatten();
                let plain = |image: &Value| image.get("file").is_none() && image.get("url").is_some();
                if let Some((image, _)) = images.enumerate().find(|(_, image)| plain(image)) {
                    return Some(format!("blocks[{index}].images[{image}].url"));
                }
            }
            _ => {}
        }
    }
    None
}

pub(super) fn parsed(payload: &Value) -> Option<Rich> {
    Rich::parse(&payload.to_string()).ok()
}

fn values(used: &Map<String, Value>) -> Vec<String> {
    let values = used.get("values").and_then(Value::as_object).into_iter().flatten();
    let line = |(name, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{name}: {value}").chars().take(MAX_VALUE).collect()
    };
    values.take(MAX_VALUES).map(line).collect()
}
