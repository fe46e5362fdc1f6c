//! From a card in a room to its answer.
//!
//! A card is only shown if it is a paired agent's, encrypted by a device of the pinned identity, for this person and this
//! device, and an answer to what the person has just written from this phone (`accept`). One card at a time is carried
//! (`carry`): the person is asked, and after a yes everything is looked at once more before `taken` is sent and it is done.
//! What was begun is on disk first (`journal`), so that a phone that dies in between says so at its next start.
//!
//! What happens in the room meanwhile (the agent closes the card, somebody redacts it) comes from the sync by
//! [`Desk::see`].

mod accept;
mod carry;
mod journal;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use matrix_link::{Event, EventKind, FetchError, Fetched, Link, Outgoing, SendError, Sender};
use phone_actions::Card;
use ruma::{EventId, OwnedDeviceId, OwnedEventId, OwnedUserId, RoomId, UserId};
use tokio::sync::{Notify, mpsc, watch};

use crate::{backend::Backend, pairing::Pairings, settings::HeatGuard};

use journal::Journal;

/// Cards that wait for the one that is shown; more are answered as failed.
const MAX_WAITING: usize = 8;

/// What a phone needs of Matrix.
#[async_trait]
pub(crate) trait Matrix: Send + Sync {
    /// An event as the homeserver shows it now.
    async fn fetch(&self, room: &RoomId, id: &EventId) -> Result<Fetched, FetchError>;
    /// The master key of an account's identity; none if it can't be asked for.
    async fn identity_key(&self, user: &UserId) -> Option<String>;
    /// One attempt at sending.
    async fn send(&self, outgoing: &Outgoing) -> Result<OwnedEventId, SendError>;
}

#[async_trait]
impl Matrix for Link {
    async fn fetch(&self, room: &RoomId, id: &EventId) -> Result<Fetched, FetchError> {
        Link::fetch(self, room, id).await
    }

    async fn identity_key(&self, user: &UserId) -> Option<String> {
        Link::identity_key(self, user).await
    }

    async fn send(&self, outgoing: &Outgoing) -> Result<OwnedEventId, SendError> {
        Sender::send(self, outgoing).await
    }
}

/// The phone and its owner.
pub(crate) struct Phone {
    /// Its connection.
    pub(crate) matrix: Arc<dyn Matrix>,
    /// The owner.
    pub(crate) user: OwnedUserId,
    /// Its own device.
    pub(crate) device: OwnedDeviceId,
    /// Whose cards it takes.
    pub(crate) pairings: Mutex<Pairings>,
    /// What asks and acts.
    pub(crate) backend: Arc<dyn Backend>,
    /// From which heat on it does nothing.
    pub(crate) guard: HeatGuard,
}

impl Phone {
    /// The pairings, for a moment: never across a request.
    pub(crate) fn pairings(&self) -> MutexGuard<'_, Pairings> {
        self.pairings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a card stands in the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Open,
    /// The agent has closed it, or it was redacted.
    Gone,
}

/// A card in its room.
struct Posted {
    event: Event,
    thread: Option<OwnedEventId>,
    card: Card,
    standing: watch::Receiver<Standing>,
}

/// Where cards come in. A handle: clones share it.
#[derive(Clone)]
pub(crate) struct Desk(Arc<Parts>);

struct Parts {
    phone: Arc<Phone>,
    journal: Journal,
    waiting: mpsc::Sender<Posted>,
    /// The cards that are shown or wait, by their events.
    open: Mutex<HashMap<OwnedEventId, (Card, watch::Sender<Standing>)>>,
    stop: Notify,
}

/// The cards that wait, for [`Desk::run`].
pub(crate) struct Waiting(mpsc::Receiver<Posted>);

impl Desk {
    /// A desk whose journal is in `state_dir`.
    pub(crate) fn new(phone: Arc<Phone>, state_dir: &std::path::Path) -> (Self, Waiting) {
        let (waiting, taken) = mpsc::channel(MAX_WAITING);
        let parts =
            Parts { phone, journal: Journal::new(state_dir), waiting, open: Mutex::default(), stop: Notify::new() };
        (Self(Arc::new(parts)), Waiting(taken))
    }

    /// Looks at what has happened in a room. Says whether it is a card for this phone.
    pub(crate) async fn see(&self, event: &Event) -> bool {
        match &event.kind {
            EventKind::Message(message) => match accept::card_in(event, message, &self.0.phone) {
                Ok(None) => false,
                Ok(Some(card)) => {
                    self.take(event, message.thread.clone(), card).await;
                    true
                }
                Err(reason) => {
                    tracing::warn!(event = %event.id, sender = %event.sender, %reason, "card passed over");
                    false
                }
            },
            EventKind::Edit { target, message } => {
                let mut open = self.open();
                if let Some((card, standing)) = open.get(target)
                    && accept::closes(event, message, card, &self.0.phone)
                {
                    standing.send_replace(Standing::Gone);
                    open.remove(target);
                }
                false
            }
            // Whoever may redact it, the homeserver has let them.
            EventKind::Redaction { target } => {
                if let Some((_, standing)) = self.open().remove(target) {
                    standing.send_replace(Standing::Gone);
                }
                false
            }
            _ => false,
        }
    }

    async fn take(&self, event: &Event, thread: Option<OwnedEventId>, card: Card) {
        let (changes, standing) = watch::channel(Standing::Open);
        if self.open().insert(event.id.clone(), (card.clone(), changes)).is_some() {
            return;
        }
        let posted = Posted { event: event.clone(), thread, card, standing };
        if let Err(mpsc::error::TrySendError::Full(posted)) = self.0.waiting.try_send(posted) {
            self.open().remove(&posted.event.id);
            self.refuse_one_more(&posted).await;
        }
    }

    /// Whether a card is shown or waits.
    pub(crate) fn is_busy(&self) -> bool {
        !self.open().is_empty()
    }

    /// Declines what is open and ends [`Self::run`].
    pub(crate) fn stop(&self) {
        self.0.stop.notify_one();
    }

    fn open(&self) -> MutexGuard<'_, HashMap<OwnedEventId, (Card, watch::Sender<Standing>)>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
