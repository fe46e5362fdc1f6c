//! The agent's messages with blocks, and what people press on them: a reaction, or a message that a click has sent,
//! becomes words for the model.

use matrix_link::{Event, Message};
use ruma::OwnedEventId;

use super::{Arrival, Hub, Key, Prompt, Receipt};
use crate::{
    outbox::Earlier,
    rich::{self, Pressed},
    store::{Blocks, Line, NewLine, StoreError},
    tools::Origin,
};

/// Messages with blocks on which a press is looked for: the newest of the room.
const MAX_PRESSABLE: u32 = 20;

impl Hub {
    /// A message of the agent's own comes back: one with blocks is known from then on, whatever became of the run that
    /// has sent it. Parts of an answer are remembered as a whole, by the turn.
    pub(super) async fn own_message(&self, event: &Event, message: &Message) -> Result<(), StoreError> {
        let encrypted = self.shared.rooms.is_encrypted(&event.room).await;
        let Some(payload) = rich::payload_of(message) else { return Ok(()) };
        if !event.counts(encrypted, self.shared.trust()) {
            return Ok(());
        }
        if !self.shared.store.is_part_of_an_answer(&event.id).await? {
            let mut line = self.line(event, message).await;
            line.text = rich::remembered(&payload, &line.text);
            self.shared.store.write_line(&event.room, &line).await?;
        }
        let blocks = Blocks { event: event.id.clone(), thread: message.thread.clone(), payload };
        self.shared.store.keep_blocks(&event.room, &blocks, event.sent_at).await
    }

    /// A reaction that stands for a button of the agent's message is for the agent.
    pub(super) async fn press(
        &mut self,
        event: &Event,
        target: &OwnedEventId,
        key: &str,
        arrival: Arrival,
        receipt: &Receipt,
    ) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let Some(Blocks { thread, payload, .. }) = shared.store.blocks(&event.room, target).await? else {
            return Ok(());
        };
        let Some(pressed) = rich::pressed_by_reaction(&payload, key) else { return Ok(()) };
        let expired = self.is_over(event, arrival);
        if expired && shared.outbox.earlier(&event.id).await? == Earlier::Nothing {
            return Ok(());
        }
        let text = told(&pressed, shared.store.line(&event.room, target).await?.as_ref());
        let line = NewLine {
            event_id: event.id.clone(),
            thread: thread.clone(),
            sender: event.sender.clone(),
            name: shared.rooms.display_name(&event.room, &event.sender).await,
            text: text.clone(),
            reply_to: Some(target.clone()),
            sent_at: event.sent_at,
        };
        let prompt = Prompt {
            handle: shared.store.write_line(&event.room, &line).await?,
            event: event.id.clone(),
            about: Some(target.clone()),
            person: event.sender.clone(),
            text,
            direct: shared.rooms.is_direct(&event.room).await,
            expired,
            // A reaction is never encrypted and has no device: what needs one must not be offered.
            origin: Origin::Person { event: event.id.clone(), device: None, capabilities: Vec::new() },
        };
        let speaker = self.speaker(event, false);
        self.prompt(Key { room: event.room.clone(), thread }, prompt, speaker, receipt);
        Ok(())
    }

    /// What a message says was pressed on one of the agent's newest messages with blocks, in words for the model.
    pub(super) async fn pressed(&self, event: &Event, message: &Message) -> Result<Option<String>, StoreError> {
        if !self.may_talk(event) || !rich::tells_a_press(message) {
            return Ok(None);
        }
        for blocks in self.shared.store.newest_blocks(&event.room, MAX_PRESSABLE).await? {
            if let Some(pressed) = rich::pressed_by_message(&blocks.payload, message) {
                let about = self.shared.store.line(&event.room, &blocks.event).await?;
                return Ok(Some(told(&pressed, about.as_ref())));
            }
        }
        Ok(None)
    }
}

/// A press on a button or a form's answer, for the model.
fn told(pressed: &Pressed, about: Option<&Line>) -> String {
    let values: String = pressed.values.iter().map(|value| format!("\n{value}")).collect();
    let handle = about.map(|line| format!(" [{}]", line.handle)).unwrap_or_default();
    format!("(pressed {:?} on your message{handle}){values}", pressed.what)
}
