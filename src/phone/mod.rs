//! The person's phone: the tool `phone_action`, its card, and the answer.
//!
//! The contract (what may be asked, in which words) is the crate `phone-actions`. Here is what needs rooms and people:
//!
//! - `tool` posts the card and waits for its verdict;
//! - `answer` reads what people and phones say to a card;
//! - [`Phones::sent_from_phone`]: whether a message was sent from a phone that can act.
//!
//! There are two ways to be a phone. A phone client has announced itself: the card names its device, only that device's
//! answer counts as done, and everybody's ❌ as declined. Or the person has said `!phone here`: then they do it by hand
//! and say so, by a reaction or in words. Nothing that an agent says makes a phone act: the person confirms there.

mod answer;
#[cfg(test)]
mod tests;
mod tool;

use std::{sync::Arc, time::Duration};

use matrix_link::{Event, EventKind, Message, Rooms};
use phone_actions::{Announcement, Card, Outcome, PHONE_KEY, Status, declares_phone};
use ruma::{OwnedEventId, RoomId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    asks::Asks,
    clock::Clock,
    config::{self, Switch},
    outbox::Outbox,
    rich::Here,
    store::{Ask, AskKind, Store, StoreError},
    tools::Tool,
};

/// How long a card stays open, at least, after a start.
const BACKLOG: Duration = Duration::from_secs(15);

/// What phones need of the house. A handle: clones share it.
#[derive(Clone)]
pub struct Phones(Arc<Parts>);

struct Parts {
    asks: Asks,
    store: Store,
    outbox: Outbox,
    rooms: Arc<dyn Rooms>,
    clock: Arc<dyn Clock>,
    settings: config::Phone,
}

/// What came of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// The phone, or the person, said so.
    Ended { status: String, message: Option<String> },
    /// Nobody answered in time.
    Expired,
    /// It was taken back.
    Withdrawn,
}

impl Verdict {
    fn ended(status: Status, message: Option<String>) -> Self {
        Self::Ended { status: status.as_str().to_owned(), message }
    }

    fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// What a store has kept; what can't be read counts as no answer.
    fn read(value: &Value) -> Self {
        serde_json::from_value(value.clone()).unwrap_or(Self::Expired)
    }

    fn outcome(&self) -> (Outcome, Option<&str>) {
        match self {
            Self::Ended { status, message } => (Status::read(status).into(), message.as_deref()),
            Self::Expired => (Outcome::Expired, None),
            Self::Withdrawn => (Outcome::Withdrawn, None),
        }
    }
}

/// What is known of a person's phone, for `!phone`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The actions that a phone client has announced.
    pub announced: Option<Vec<String>>,
    /// Whether this message counts as sent from the phone.
    pub here: bool,
}

impl Phones {
    /// The phones of the people that an agent talks to.
    pub fn new(
        store: Store,
        outbox: Outbox,
        rooms: Arc<dyn Rooms>,
        clock: Arc<dyn Clock>,
        settings: config::Phone,
    ) -> Self {
        let asks = Asks::new(store.clone(), clock.clone());
        Self(Arc::new(Parts { asks, store, outbox, rooms, clock, settings }))
    }

    /// The tool for one turn; none where no message was ever sent from a phone, or the operator wants none.
    pub async fn tool(&self, here: &Here) -> Option<Arc<dyn Tool>> {
        if self.0.settings.tool == Switch::Off {
            return None;
        }
        match self.0.store.is_phone_chat(&here.room, here.thread.as_deref()).await {
            Ok(true) => tool::PhoneAction::new(self.clone(), here.clone()).await.map(|tool| Arc::new(tool) as _),
            Ok(false) => None,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "whether there is a phone can't be read");
                None
            }
        }
    }

    /// Goes on with the cards that an earlier run has left open.
    ///
    /// An answer that came meanwhile is in the backlog, so none of them ends before that was read.
    pub async fn resume(&self) {
        let open = match self.0.store.open_asks(AskKind::Card).await {
            Ok(open) => open,
            Err(error) => return tracing::error!(error = &error as &dyn std::error::Error, "open cards can't be read"),
        };
        for ask in open {
            if let Err(error) = self.0.asks.prolong(&ask, BACKLOG).await {
                tracing::error!(error = &error as &dyn std::error::Error, "a card can't be kept open");
            }
            self.keep(ask);
        }
    }

    /// Brings a posted card to its end in the room, whoever waits for it.
    fn keep(&self, ask: Ask) {
        let (Some(event), Ok(Some(card))) = (ask.event.clone(), Card::read(&ask.question)) else { return };
        let phones = self.clone();
        tokio::spawn(async move {
            let verdict = Verdict::read(&phones.0.asks.verdict(&ask.id, &Verdict::Expired.to_value()).await);
            let (outcome, message) = verdict.outcome();
            tracing::info!(room = %ask.room, outcome = ?outcome, "card closed");
            let content = card.closed_content(outcome, message);
            let words = content["body"].as_str().unwrap_or_default().to_owned();
            let own = phones.0.rooms.user_id().to_owned();
            if let Err(error) = phones.0.store.rewrite_line(&ask.room, &event, &own, &words).await {
                tracing::error!(error = &error as &dyn std::error::Error, "a card's end is not written down");
            }
            if let Err(error) = phones.0.outbox.edit(ask.room, event, content).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "a card's end is not shown");
            }
        });
    }

    /// Whether a message was sent from a phone that can act: it says so, its device is announced, or the person has said
    /// `!phone here`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sent_from_phone(&self, event: &Event, message: &Message) -> Result<bool, StoreError> {
        if declares_phone(&message.content) {
            return Ok(true);
        }
        if let (Some(device), Some(phone)) = (event.device(), self.announcement(&event.sender).await?)
            && phone.is_on_phone(device.as_str())
        {
            return Ok(true);
        }
        self.0.store.is_phone_here(&event.sender, place(event)).await
    }

    /// Takes a phone client's announcement. Says whether it was one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn announced(&self, event: &Event) -> Result<bool, StoreError> {
        let EventKind::Message(message) = &event.kind else { return Ok(false) };
        match Announcement::read(&message.content) {
            Ok(None) => return Ok(false),
            // A device speaks for itself alone.
            Ok(Some(phone)) if event.device().is_some_and(|device| device.as_str() == phone.device) => {
                let kept = json!({ PHONE_KEY: message.content[PHONE_KEY] });
                self.0.store.set_phone(&event.sender, &kept).await?;
                tracing::info!(person = %event.sender, device = phone.device, "phone announced");
            }
            Ok(Some(_)) => tracing::warn!(person = %event.sender, "a phone announced by another device: passed over"),
            Err(error) => {
                tracing::warn!(person = %event.sender, error = &error as &dyn std::error::Error, "announcement passed over");
            }
        }
        Ok(true)
    }

    /// The person writes from the phone here: on this device, or in this room where nothing is encrypted.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn here(&self, event: &Event, thread: Option<&OwnedEventId>) -> Result<(), StoreError> {
        self.0.store.set_phone_here(&event.sender, place(event)).await?;
        self.chat(&event.room, thread).await
    }

    /// Forgets a person's phone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn off(&self, person: &UserId) -> Result<(), StoreError> {
        self.0.store.forget_phone(person).await
    }

    /// A message was sent from a phone in this conversation: the tool stays on offer there.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn chat(&self, room: &RoomId, thread: Option<&OwnedEventId>) -> Result<(), StoreError> {
        self.0.store.set_phone_chat(room, thread.map(|thread| &**thread)).await
    }

    /// What is known of the phone of a message's sender.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn known(&self, event: &Event, message: &Message) -> Result<Known, StoreError> {
        let announced = self.announcement(&event.sender).await?;
        Ok(Known {
            announced: announced.map(|phone| phone.actions.iter().map(|name| (*name).to_owned()).collect()),
            here: self.sent_from_phone(event, message).await?,
        })
    }

    async fn announcement(&self, person: &UserId) -> Result<Option<Announcement>, StoreError> {
        let kept = self.0.store.phone(person).await?;
        Ok(kept.and_then(|kept| Announcement::read(&kept).ok().flatten()))
    }
}

/// What a person's word "here" stands for.
fn place(event: &Event) -> &str {
    event.device().map_or(event.room.as_str(), |device| device.as_str())
}
