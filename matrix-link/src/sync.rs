//! Our own sync loop: what was received is in the caller's store before more is asked for.
//!
//! The SDK's own loops write their position before the events are handled, and wait a second between rounds. Here the
//! events and the position of one answer are one [`Batch`], which the [`Sink`] keeps whole or not at all; after a crash
//! the same events come again. No work is done inside the SDK's handlers, since a sync waits for them.

use std::time::Duration;

use async_trait::async_trait;
use matrix_sdk::{
    Error, Room,
    config::SyncSettings,
    deserialized_responses::{TimelineEvent, TimelineEventKind},
    sync::SyncResponse,
};
use ruma::{
    OwnedRoomId, OwnedUserId,
    api::{
        client::{
            filter::{FilterDefinition, LazyLoadOptions},
            sync::sync_events::v3::Filter,
        },
        error::ErrorKind,
    },
    events::AnySyncEphemeralRoomEvent,
    presence::PresenceState,
    uint,
};

use crate::{Event, Link, ParseError, Protection, event::parse};

/// How long the homeserver holds a sync open when nothing happens.
const LONG_POLL: Duration = Duration::from_secs(30);
/// The wait after a failed round doubles from the first to the second.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Timeline events of one room in one round, at most.
const TIMELINE_LIMIT: u32 = 100;

/// What one round of sync brought.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// The position behind all of it.
    pub position: String,
    /// The timeline events of all rooms, each room's in order.
    pub events: Vec<Event>,
    /// Who types. Worth nothing after a restart, so no part of what is kept.
    pub typing: Vec<Typing>,
}

/// Who types in a room now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typing {
    /// The room.
    pub room: OwnedRoomId,
    /// All who type there.
    pub users: Vec<OwnedUserId>,
}

/// Where batches go.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Keeps the events and the position, all or nothing; an event that it has already is no error.
    ///
    /// # Errors
    /// When nothing was kept: the loop brings the same batch again and asks for no more until it is taken.
    async fn commit(&self, batch: &Batch) -> Result<(), SinkError>;
}

/// A batch could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("what was received could not be kept")]
pub struct SinkError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Why the loop has ended.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The session is over: logged out elsewhere, or the account is closed.
    #[error("the homeserver has ended this session")]
    LoggedOut(#[source] Box<Error>),
}

impl Link {
    /// Receives for ever: each round's batch goes to `sink`, allowed invites are accepted.
    ///
    /// # Errors
    /// Only when the session is over; everything else is waited out with back-off.
    pub async fn run_sync(&self, sink: &dyn Sink) -> Result<(), SyncError> {
        let mut retry = RETRY_FIRST;
        loop {
            match self.client.sync_once(settings()).await {
                Ok(response) => {
                    retry = RETRY_FIRST;
                    self.keep(sink, &self.batch(&response).await).await;
                    self.answer_invites();
                }
                Err(error) if matches!(error.client_api_error_kind(), Some(ErrorKind::UnknownToken(_))) => {
                    return Err(SyncError::LoggedOut(Box::new(error)));
                }
                Err(error) => {
                    tracing::warn!(%error, wait = ?retry, "sync failed");
                    tokio::time::sleep(retry).await;
                    retry = (retry * 2).min(RETRY_MAX);
                }
            }
        }
    }

    async fn keep(&self, sink: &dyn Sink, batch: &Batch) {
        let mut retry = RETRY_FIRST;
        while let Err(error) = sink.commit(batch).await {
            tracing::error!(error = &error as &dyn std::error::Error, wait = ?retry, "batch not kept");
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(RETRY_MAX);
        }
    }

    async fn batch(&self, response: &SyncResponse) -> Batch {
        let mut batch = Batch { position: response.next_batch.clone(), ..Batch::default() };
        for (room_id, update) in &response.rooms.joined {
            let Some(room) = self.client.get_room(room_id) else { continue };
            for event in &update.timeline.events {
                match self.convert(&room, event).await {
                    Ok(event) => batch.events.push(event),
                    Err(error) => tracing::warn!(%room_id, %error, "event dropped"),
                }
            }
            for event in &update.ephemeral {
                if let Ok(AnySyncEphemeralRoomEvent::Typing(event)) = event.deserialize() {
                    batch.typing.push(Typing { room: room_id.clone(), users: event.content.user_ids });
                }
            }
        }
        batch
    }

    /// The SDK's event as ours.
    pub(crate) async fn convert(&self, room: &Room, event: &TimelineEvent) -> Result<Event, ParseError> {
        let protection = match &event.kind {
            TimelineEventKind::Decrypted(decrypted) => Protection::Encrypted {
                device: decrypted.encryption_info.sender_device.clone(),
                standing: self.standing(room, &decrypted.encryption_info).await,
            },
            TimelineEventKind::UnableToDecrypt { .. } | TimelineEventKind::PlainText { .. } => Protection::Clear,
        };
        let raw = serde_json::from_str(event.raw().json().get()).unwrap_or_default();
        parse(room.room_id(), &raw, protection)
    }
}

fn settings() -> SyncSettings {
    let mut filter = FilterDefinition::default();
    filter.room.state.lazy_load_options = LazyLoadOptions::Enabled { include_redundant_members: false };
    filter.room.timeline.limit = Some(TIMELINE_LIMIT.into());
    filter.room.timeline.lazy_load_options = LazyLoadOptions::Enabled { include_redundant_members: false };
    filter.presence.limit = Some(uint!(0));
    filter.presence.types = Some(Vec::new());
    SyncSettings::new().timeout(LONG_POLL).filter(Filter::FilterDefinition(filter)).set_presence(PresenceState::Online)
}
