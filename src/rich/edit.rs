//! `rich_edit`: replaces one of the agent's own messages.

use async_trait::async_trait;
use futures_util::FutureExt;
use matrix_link::EventKind;
use mxblocks_tools::RICH_EDIT;
use ruma::{EventId, OwnedEventId, OwnedRoomId, RoomId};
use serde_json::Value;

use super::{Desk, Here, remembered_text};
use crate::{
    model::ToolSpec,
    outbox::{PostError, Text},
    store::Blocks,
    tools::{Origin, Output, Refusal, Run, Tool},
};

pub(super) struct RichEdit {
    desk: Desk,
    here: Here,
    spec: ToolSpec,
}

impl RichEdit {
    pub(super) fn new(desk: Desk, here: Here, spec: ToolSpec) -> Self {
        Self { desk, here, spec }
    }

    /// Hands the edit to the outbox: from then on it is on its way, and its end need not be waited for.
    async fn begin(
        &self,
        arguments: Value,
    ) -> Result<impl Future<Output = Result<String, PostError>> + Send + use<>, Refusal> {
        let Self { desk, here, .. } = self;
        let (call, room) = desk.planned(RICH_EDIT, here, arguments).await?;
        let event = call.edit.as_deref().and_then(|event| OwnedEventId::try_from(event).ok());
        let event = event.ok_or_else(|| Refusal::call("event_id must name a message"))?;
        let own = desk.own_message(&room, &event).await?;
        if desk.0.store.count_edits(&room, &event).await? >= desk.0.settings.max_edits {
            return Err(Refusal::call("this message was edited as often as one may be; send a new one with rich_send"));
        }
        let text = desk.text(&call, &room).await?;
        let desk = desk.clone();
        // In one go, also when the turn is stopped in between: what is written down is what goes out.
        let edited = tokio::spawn(async move { desk.edit(room, event, own.thread, &text).await }).await;
        let edited = edited.map_err(|_| Refusal::call("the edit broke off; try again"))??;
        let known_as = own.known_as;
        Ok(edited.map(move |edited| edited.map(|_| format!("Edited {known_as}."))))
    }
}

/// A message of the agent's own.
struct Own {
    /// How the model knows it.
    known_as: String,
    /// The thread that it stands in.
    thread: Option<OwnedEventId>,
}

impl Desk {
    /// Writes the edit down, before it is visible and in the order of the calls, and puts it on its way.
    async fn edit(
        &self,
        room: OwnedRoomId,
        event: OwnedEventId,
        thread: Option<OwnedEventId>,
        text: &Text,
    ) -> Result<impl Future<Output = Result<OwnedEventId, PostError>> + Send + use<>, Refusal> {
        let parts = &self.0;
        if let Some(rich) = &text.rich {
            let blocks = Blocks { event: event.clone(), thread, payload: rich.payload.clone() };
            parts.store.edit_blocks(&room, &blocks).await?;
        }
        let own = parts.rooms.user_id().to_owned();
        parts.store.rewrite_line(&room, &event, &own, &remembered_text(text)).await?;
        Ok(parts.outbox.edit(room, event, text.content()))
    }

    /// A message of the agent's own that can be edited.
    async fn own_message(&self, room: &RoomId, event: &EventId) -> Result<Own, Refusal> {
        let own = self.0.rooms.user_id();
        let not_own = || Refusal::call("event_id: that message is somebody else's; only your own can be edited");
        if let Some(line) = self.0.store.line(room, event).await? {
            return if line.line.sender == own {
                Ok(Own { known_as: format!("[{}]", line.handle), thread: line.line.thread })
            } else {
                Err(not_own())
            };
        }
        // Not written down, or struck out: the homeserver knows which.
        let fetched = self.0.rooms.event(room, event).await?;
        match fetched.kind {
            EventKind::Message(message) if fetched.sender == own => {
                Ok(Own { known_as: event.to_string(), thread: message.thread })
            }
            EventKind::Message(_) => Err(not_own()),
            _ => Err(Refusal::call("event_id: there is no such message (any more)")),
        }
    }
}

#[async_trait]
impl Tool for RichEdit {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    /// The contract's own check needs the room's handles first: [`Desk::planned`].
    fn check(&self, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn run(&self, arguments: Value, _origin: &Origin) -> Run {
        match self.begin(arguments).await {
            Err(refusal) => Output::refusal(refusal).into(),
            Ok(edited) => {
                let output = edited.map(|edited| match edited {
                    Ok(text) => Output::new(text),
                    Err(error) => Output::refusal(format!("not edited: {error}")),
                });
                Run::Begun(output.boxed())
            }
        }
    }
}
