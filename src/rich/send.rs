//! `rich_send`: posts a message with blocks.

use async_trait::async_trait;
use mxblocks_tools::{RICH_SEND, RichCall};
use ruma::{EventId, OwnedEventId, RoomId};
use serde_json::{Value, json};

use super::{Desk, Here, remembered_text};
use crate::{
    model::ToolSpec,
    outbox::{Place, Text, TextKind},
    store::{Call, Cause},
    tools::{Origin, Output, Refusal, Run, Tool},
};

pub(super) struct RichSend {
    desk: Desk,
    here: Here,
    spec: ToolSpec,
}

impl RichSend {
    pub(super) fn new(desk: Desk, here: Here, spec: ToolSpec) -> Self {
        Self { desk, here, spec }
    }

    async fn send(&self, arguments: Value) -> Result<String, Refusal> {
        let Self { desk, here, .. } = self;
        let written = arguments.to_string();
        let (call, room) = desk.planned(RICH_SEND, here, arguments).await?;
        let text = desk.text(&call, &room).await?;
        let place = place(desk, here, &room, &call).await?;
        let cause = Call { origin: here.origin.clone(), arguments: format!("{RICH_SEND} {written}") };
        let words = remembered_text(&text);
        // What an earlier run has left unsettled may be this very message.
        desk.0.outbox.taken_up(&room).await;
        if let Some(event) = desk.0.store.sent_by(&cause).await? {
            let handle = desk.remember(&room, place.thread, &event, words, &text).await?;
            desk.0.outbox.seed(&room, &event, &text);
            return Ok(format!("It stands there already, as [{handle}] ({event}): the same call sends nothing twice."));
        }
        let sent = desk.0.outbox.send(room.clone(), place.clone(), text.content(), Some(Cause::Call(cause))).await?;
        let handle = desk.remember(&room, place.thread, &sent, words, &text).await?;
        desk.0.outbox.seed(&room, &sent, &text);
        Ok(if room == here.room {
            format!("Sent as [{handle}] ({sent}).")
        } else {
            format!("Sent there as [{handle}] ({sent}); name the room with it.")
        })
    }
}

/// A message that was posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// Its event.
    pub event: OwnedEventId,
    /// Its number in the room.
    pub handle: i64,
}

impl Desk {
    /// Posts a text, with blocks where there are some, into the room or thread of the talk, once for the same call.
    ///
    /// # Errors
    /// When the blocks are not valid, or it can't be posted.
    pub async fn post(
        &self,
        here: &Here,
        markdown: String,
        payload: Option<Value>,
        call: Call,
    ) -> Result<Posted, Refusal> {
        let text = match payload {
            None => Text { kind: TextKind::Answer, ..Text::notice(markdown) },
            Some(payload) => {
                let arguments = json!({ "payload": payload, "fallback": markdown });
                let planned = mxblocks_tools::plan(RICH_SEND, &arguments).map_err(Refusal::Call)?;
                self.text(&planned, &here.room).await?
            }
        };
        self.0.outbox.taken_up(&here.room).await;
        let event = match self.0.store.sent_by(&call).await? {
            Some(event) => event,
            None => {
                let place = Place { thread: here.thread.clone(), reply_to: None };
                self.0.outbox.send(here.room.clone(), place, text.content(), Some(Cause::Call(call))).await?
            }
        };
        let words = remembered_text(&text);
        let handle = self.remember(&here.room, here.thread.clone(), &event, words, &text).await?;
        self.0.outbox.seed(&here.room, &event, &text);
        Ok(Posted { event, handle })
    }
}

#[async_trait]
impl Tool for RichSend {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    /// The contract's own check needs the room's handles first: [`Desk::planned`].
    fn check(&self, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn run(&self, arguments: Value, _origin: &Origin) -> Run {
        self.send(arguments).await.map_or_else(Output::refusal, Output::new).into()
    }
}

/// Where the message stands: in the thread that is named, else in that of the message it replies to, else in the talk's.
async fn place(desk: &Desk, here: &Here, room: &RoomId, call: &RichCall) -> Result<Place, Refusal> {
    let reply_to = call.reply_to.as_deref().map(EventId::parse).transpose();
    let thread = call.thread.as_deref().map(EventId::parse).transpose();
    let (Ok(reply_to), Ok(thread)) = (reply_to, thread) else {
        return Err(Refusal::call("reply_to and thread must name messages"));
    };
    let thread = match (thread, &reply_to) {
        (Some(named), _) => Some(thread_of(desk, room, &named).await?.unwrap_or(named)),
        (None, Some(target)) => thread_of(desk, room, target).await?,
        (None, None) if *room == here.room => here.thread.clone(),
        (None, None) => None,
    };
    Ok(Place { thread, reply_to })
}

/// The thread that a message stands in.
async fn thread_of(desk: &Desk, room: &RoomId, event: &EventId) -> Result<Option<OwnedEventId>, Refusal> {
    Ok(desk.0.store.line(room, event).await?.and_then(|line| line.line.thread))
}
