//! Rich messages: blocks for clients that draw them, and the whole as text for all others.
//!
//! The contract of the two tools is the crate `mxblocks-tools`: its `plan` is their only check. Here is what needs the
//! room:
//!
//! - `send` and `edit` are the tools;
//! - `target` turns what a call names (handles of the perception, rooms) into ids, before `plan` sees them;
//! - `press` reads what people do with blocks: a reaction that stands for a button, a message that a click sent.
//!
//! The agent's own messages are known by their events from the store, so they can be edited after a restart. The same call
//! in the same turn posts once, however often the turn is begun anew.

mod edit;
mod press;
mod send;
mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use matrix_link::Rooms;
use mxblocks_tools::{RICH_EDIT, RICH_SEND, RichCall};
use ruma::{EventId, MilliSecondsSinceUnixEpoch, OwnedEventId, OwnedRoomId, OwnedUserId, RoomId};
use serde_json::Value;

pub use press::{Pressed, payload_of, pressed_by_message, pressed_by_reaction, tells_a_press};
pub use send::Posted;

use crate::{
    config::{self, Switch},
    model::ToolSpec,
    outbox::{Carried, Outbox, Rich, Text, sent_size},
    store::{Blocks, NewLine, Store, StoreError},
    tools::{Refusal, Tool},
};

/// What the contract does not know: that messages have numbers here.
const HANDLES: &str = "Wherever an event id is asked for, the number of a message will do, such as \"[12]\".";

/// How an answer asks something (`render::pieces`).
const ASK: &str = "To let people choose in an answer, write [ask: ✅ yes | ❌ no] at the end of a paragraph, with 2 to 4 \
                   choices, each an emoji and a short label: they become buttons.";

/// What rich messages need of the house. A handle: clones share it.
#[derive(Clone)]
pub struct Desk(Arc<Parts>);

struct Parts {
    outbox: Outbox,
    store: Store,
    rooms: Arc<dyn Rooms>,
    settings: config::Rich,
    /// The largest event as sent, in bytes.
    max_event_bytes: usize,
}

/// Where a turn is, and for whom.
#[derive(Debug, Clone)]
pub struct Here {
    /// The room of the talk.
    pub room: OwnedRoomId,
    /// The root of the thread that it is in.
    pub thread: Option<OwnedEventId>,
    /// The person for whom the turn works.
    pub person: OwnedUserId,
    /// What the turn is about: the same when it is begun anew.
    pub origin: OwnedEventId,
}

impl Desk {
    /// A desk.
    pub fn new(
        outbox: Outbox,
        store: Store,
        rooms: Arc<dyn Rooms>,
        settings: config::Rich,
        max_event_bytes: usize,
    ) -> Self {
        Self(Arc::new(Parts { outbox, store, rooms, settings, max_event_bytes }))
    }

    /// The tools of one turn; none where the operator wants none.
    pub async fn tools(&self, here: &Here) -> Vec<Arc<dyn Tool>> {
        if self.0.settings.tools == Switch::Off {
            return Vec::new();
        }
        let rooms = self.rooms_to_name(here).await;
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for spec in mxblocks_tools::tool_specs(&rooms) {
            let offered = ToolSpec {
                name: spec.name.to_owned(),
                description: format!("{} {HANDLES}", spec.description),
                parameters: spec.schema,
                cases: Vec::new(),
                example: None,
            };
            match spec.name {
                RICH_SEND => tools.push(Arc::new(send::RichSend::new(self.clone(), here.clone(), offered))),
                RICH_EDIT => tools.push(Arc::new(edit::RichEdit::new(self.clone(), here.clone(), offered))),
                other => tracing::error!(tool = other, "a tool that nobody runs"),
            }
        }
        tools
    }

    /// What the model is told of the tools beforehand; nothing where it has none.
    pub fn prompt_line(&self) -> Option<String> {
        (self.0.settings.tools == Switch::On).then(|| format!("{}\n{ASK}", mxblocks_tools::prompt_line()))
    }

    /// The message that a call wants, checked against what an event may hold.
    async fn text(&self, call: &RichCall, room: &RoomId) -> Result<Text, Refusal> {
        let payload = serde_json::to_value(&call.payload).map_err(|error| Refusal::call(error.to_string()))?;
        if self.0.rooms.is_encrypted(room).await
            && let Some(path) = press::plain_media(&payload)
        {
            return Err(Refusal::call(format!(
                "{path}: this room is encrypted: a file in it needs the encrypted form, `file` with url, key, iv, hashes \
                 and v, instead of `url`"
            )));
        }
        let mut markdown = call.fallback.clone();
        let mut html = None;
        if markdown.is_empty()
            && let Some((tex, display)) = call.payload.find_math()
        {
            html = Some(maths_html(tex, display));
            tex.clone_into(&mut markdown);
        }
        if self.0.settings.complete_text == Switch::On {
            for left_out in call.payload.missing_from(&markdown) {
                markdown.push_str("\n\n");
                markdown.push_str(&left_out);
            }
        }
        let seeds = match self.0.settings.seed_reactions {
            Switch::On => press::reaction_keys(&call.payload),
            Switch::Off => Vec::new(),
        };
        let text = Text::rich(markdown, Rich { payload, html, carried: Carried::InEvent, seeds });
        let size = sent_size(&text.content());
        let most = self.0.max_event_bytes;
        if size > most {
            return Err(Refusal::call(format!(
                "the message is too large: {size} bytes as it is sent, {most} at most; use fewer rows or a shorter text"
            )));
        }
        Ok(text)
    }

    /// Writes down a message that was sent, and gives its handle.
    async fn remember(
        &self,
        room: &RoomId,
        thread: Option<OwnedEventId>,
        event: &EventId,
        words: String,
        text: &Text,
    ) -> Result<i64, StoreError> {
        let own = self.0.rooms.user_id();
        let sent_at = MilliSecondsSinceUnixEpoch::now();
        let line = NewLine {
            event_id: event.to_owned(),
            thread: thread.clone(),
            sender: own.to_owned(),
            name: self.0.rooms.display_name(room, own).await,
            text: words,
            reply_to: None,
            sent_at,
        };
        let handle = self.0.store.write_line(room, &line).await?;
        if let Some(rich) = &text.rich {
            let blocks = Blocks { event: event.to_owned(), thread, payload: rich.payload.clone() };
            self.0.store.keep_blocks(room, &blocks, sent_at).await?;
        }
        Ok(handle)
    }
}

fn remembered_text(text: &Text) -> String {
    text.rich.as_ref().map_or_else(|| text.markdown.clone(), |rich| remembered(&rich.payload, &text.markdown))
}

/// What the transcript says of a message with blocks: its text, and what the text leaves out.
pub fn remembered(payload: &Value, text: &str) -> String {
    let mut remembered = text.to_owned();
    for left_out in press::parsed(payload).iter().flat_map(|rich| rich.missing_from(text)) {
        remembered.push_str("\n\n");
        remembered.push_str(&left_out);
    }
    remembered
}

/// A formula for clients that draw TeX (MSC2191), with its source for all others.
fn maths_html(tex: &str, display: bool) -> String {
    let escaped = tex.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let element = if display { "div" } else { "span" };
    format!("<{element} data-mx-maths=\"{escaped}\"><code>{escaped}</code></{element}>")
}
