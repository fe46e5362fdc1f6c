//! Who speaks with whom: rooms and threads on one side, turns on the other.
//!
//! A conversation is one room's main timeline or one of its threads (`Key`). The [`Hub`] takes every event once, in
//! order: it keeps the transcript true (messages, edits, redactions), asks the `gate` whether a message is for the agent, and
//! hands it to the conversation's `task`, which runs one turn at a time and is told of everything that bears on it. What the
//! model sees of it all is made by `perception`. Lines that begin with `!` are `commands`. `later` begins the turns that the
//! agent has set itself, `press` reads what people do with its messages with blocks.
//!
//! The hub never waits for a turn: a stop reaches a task whatever its model is doing.

mod bots;
mod commands;
mod gate;
mod hub;
mod later;
mod perception;
mod press;
mod receipt;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use matrix_link::{Rooms, Trust};
use ruma::{OwnedEventId, OwnedRoomId, OwnedUserId};
use tokio::sync::{Notify, Semaphore};

pub use bots::BotTurns;
pub use hub::{Arrival, Hub};
pub use receipt::Receipt;

use crate::{
    clock::Clock,
    config,
    model::Model,
    outbox::{Outbox, Place, Text},
    phone::Phones,
    rich::Desk,
    room_commands::Commands,
    store::Store,
    tools::Toolbox,
    turn::{Origin, Typing},
};

/// What all conversations of an agent share.
pub struct Shared {
    /// What is decided by the operator.
    pub settings: Settings,
    /// Looks into rooms.
    pub rooms: Arc<dyn Rooms>,
    /// Shows where the agent is at work.
    pub typing: Typing,
    /// The way out.
    pub outbox: Outbox,
    /// What is remembered.
    pub store: Store,
    /// The models to choose from, the usual one first.
    pub models: Vec<NamedModel>,
    /// What the model can do in all conversations.
    pub tools: Toolbox,
    /// Messages with blocks.
    pub rich: Desk,
    /// People's phones.
    pub phones: Phones,
    /// What rooms allow the agent to run.
    pub commands: Commands,
    /// Told when a turn was set for later.
    pub set_later: Notify,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// The turns that bots have caused.
    pub bots: BotTurns,
    /// A place for each turn that may run at once.
    pub places: Arc<Semaphore>,
}

/// The operator's decisions that bear on conversations.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who may talk to the agent.
    pub access: config::Access,
    /// Who the agent is.
    pub agent: config::Agent,
    /// Other agents that it lists and invites.
    pub colleagues: Vec<config::Colleague>,
    /// What the model can take.
    pub model: config::Model,
    /// The bounds of a turn.
    pub turn: config::Turn,
    /// An answer while it is being written.
    pub draft: config::Draft,
    /// The size of an event.
    pub outbox: config::Outbox,
    /// What is too old to be answered.
    pub inbox: config::Inbox,
    /// Turns that the agent sets itself.
    pub later: config::Later,
    /// Messages with blocks.
    pub rich: config::Rich,
}

/// A model that people can choose by name.
#[derive(Clone)]
pub struct NamedModel {
    /// Its name.
    pub name: String,
    /// The model.
    pub model: Arc<dyn Model>,
}

/// Which conversation: contexts of different keys never mix.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    room: OwnedRoomId,
    /// The root of the thread; none for the main timeline.
    thread: Option<OwnedEventId>,
}

/// What the agent is to answer: a message, a press on a button, or its own note for later.
#[derive(Debug, Clone, PartialEq)]
struct Prompt {
    /// The newest line that it is about; for a message its own number in the room.
    handle: i64,
    /// Its event, or a name of its own where it has none: the same when it is taken up again.
    event: OwnedEventId,
    /// The message that the answer replies to.
    about: Option<OwnedEventId>,
    /// Who wrote it, or for whom the agent works.
    person: OwnedUserId,
    /// Its text.
    text: String,
    /// Whether the room is a direct one.
    direct: bool,
    /// Whether it is too old for a new turn: then only what an earlier run has begun is brought to an end.
    expired: bool,
    /// Where a turn on it comes from.
    origin: Origin,
}

/// What a conversation is told.
#[derive(Debug, Clone, PartialEq)]
enum Input {
    /// A message for the agent.
    Prompt(Prompt),
    /// A message that is not for the agent, except that its words stop the sender's own turn.
    StopWord(OwnedUserId),
    /// A person wants the turn to end (`!stop`), whoever's it is.
    Stop {
        /// Whether it is said to this agent: then a word answers it where no turn runs.
        addressed: bool,
    },
    /// A person set 🛑 on this event.
    StopSign(OwnedEventId),
    /// A message has a new text.
    Edited(OwnedEventId),
    /// A message was taken back.
    Redacted(OwnedEventId),
}

impl Shared {
    fn trust(&self) -> Trust {
        self.settings.access.trust
    }

    /// Says a service's word in a conversation, and does not wait until it is there. That it could not be said is only
    /// worth a log line.
    fn notice(&self, key: &Key, text: &str) {
        let place = Place { thread: key.thread.clone(), reply_to: None };
        let delivery = self.outbox.post(key.room.clone(), place).finish(&Text::notice(text));
        let room = key.room.clone();
        tokio::spawn(async move {
            if let Err(error) = delivery.await {
                tracing::warn!(%room, error = &error as &dyn std::error::Error, "notice not delivered");
            }
        });
    }
}
