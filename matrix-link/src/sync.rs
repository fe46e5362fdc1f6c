//! Our own sync loop: what was received is in the caller's store before more is asked for.
//!
//! The SDK's own loops write their position before the events are handled, and wait a second between rounds. Here the
//! events and the position of one answer are one [`Batch`], which the [`Sink`] keeps whole or not at all; after a crash
//! the same events come again. No work is done inside the SDK's handlers, since a sync waits for them.

use std::{collections::BTreeSet, io, time::Duration};

use async_trait::async_trait;
use matrix_sdk::{
    Error, Room,
    config::SyncSettings,
    deserialized_responses::{TimelineEvent, TimelineEventKind},
    room::MessagesOptions,
    sync::{JoinedRoomUpdate, State, SyncResponse},
};
use ruma::{
    OwnedEventId, OwnedRoomId, OwnedUserId, RoomId,
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
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    Event, Link, ParseError, Protection, SyncState,
    event::parse,
    renewal::Logout,
    watchdog::{RETRY_FIRST, RETRY_MAX, Stuck, Watchdog},
};

/// Attempts at one page of a gap: all rooms wait for it.
const GAP_TRIES: u32 = 8;
/// Events that one request brings when a gap is filled.
const GAP_PAGE: u32 = 100;

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
    /// Waits until it is worth to ask for a round. Called before each.
    async fn until_worth(&self) {}

    /// Keeps the events and the position, all or nothing; an event that it has already is no error.
    ///
    /// # Errors
    /// When nothing was kept: the loop brings the same batch again and asks for no more until it is taken.
    async fn commit(&self, batch: &Batch) -> Result<(), SinkError>;

    /// Which of these events of a room are kept. None when nothing of the room is: then it has no gap, only a past. A sink
    /// without a memory of its own says None.
    ///
    /// # Errors
    /// When it can't be told now.
    async fn kept(&self, room: &RoomId, events: &[OwnedEventId]) -> Result<Option<BTreeSet<OwnedEventId>>, SinkError>;

    /// The oldest events that wait for a key, `limit` at most: all, or those of one session.
    ///
    /// # Errors
    /// When it can't be told now.
    async fn undecrypted(&self, session: Option<&str>, limit: u32) -> Result<Vec<Undecrypted>, SinkError>;

    /// An event that waited for a key has been decrypted: it is to be handled as if it came now, once.
    ///
    /// # Errors
    /// When it was not kept; it waits on.
    async fn decrypted(&self, event: &Event) -> Result<(), SinkError>;
}

/// An event that waits for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecrypted {
    /// The room.
    pub room: OwnedRoomId,
    /// The event.
    pub event: OwnedEventId,
    /// The session whose key opens it.
    pub session: String,
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
    /// A soft logout, and no password to log in again.
    #[error("the homeserver asks for a new login, and there is no password")]
    NoPassword(#[source] Box<Error>),
    /// A new session could not be written down.
    #[error("the new session could not be written down")]
    NotSaved(#[source] io::Error),
    /// The homeserver refuses the device's keys: it has others that the store does not know.
    #[error("the keys of this device are lost and it can't be used again: the homeserver refuses its one-time keys")]
    StoreLost,
    /// The same device has a new session: it is written down, and to be opened.
    #[error("the session was renewed")]
    SessionRenewed,
    /// Round after round made no progress: the session is to be opened anew.
    #[error("sync makes no progress")]
    Stuck,
}

impl SyncError {
    /// Whether the session is to be opened anew, and may then work.
    pub fn begin_anew(&self) -> bool {
        matches!(self, Self::SessionRenewed | Self::Stuck)
    }
}

impl Link {
    /// How the sync loop stands, and when that changes.
    pub fn sync_state(&self) -> watch::Receiver<SyncState> {
        self.sync_state.subscribe()
    }

    /// Receives for ever: each round's batch goes to `sink`, allowed invites are accepted.
    ///
    /// # Errors
    /// When the session is over, or is to be opened anew; everything else is waited out with back-off.
    pub async fn run_sync(&self, sink: &dyn Sink) -> Result<(), SyncError> {
        let mut changes = self.client.subscribe_to_session_changes();
        let mut refused_keys = self.client.subscribe_to_duplicate_key_upload_errors();
        let mut watchdog = Watchdog::new(&self.sync_state, self.round_limit);
        loop {
            sink.until_worth().await;
            // What a dropped round has received comes again: its position is the last that the SDK writes.
            let round = timeout(watchdog.limit(), self.client.sync_once(self.settings(watchdog.long_poll()))).await;
            if refused_keys.try_recv().is_ok() {
                return Err(SyncError::StoreLost);
            }
            match round {
                Ok(Ok(response)) => {
                    watchdog.succeeded();
                    self.keep(sink, &self.batch(sink, &response).await).await;
                    self.answer_invites();
                }
                Ok(Err(error)) => match Logout::found_in(&error, &mut changes) {
                    Some(Logout::Hard) => return Err(SyncError::LoggedOut(Box::new(error))),
                    Some(Logout::Soft) => return Err(self.renew(error).await),
                    None => {
                        let wait = watchdog.failed();
                        tracing::warn!(%error, ?wait, "sync failed");
                        sleep(wait).await;
                    }
                },
                Err(_) => {
                    let wait = watchdog.stuck().map_err(|Stuck| SyncError::Stuck)?;
                    tracing::warn!(?wait, "sync made no progress: begun anew");
                    sleep(wait).await;
                }
            }
        }
    }

    async fn keep(&self, sink: &dyn Sink, batch: &Batch) {
        let mut retry = RETRY_FIRST;
        while let Err(error) = sink.commit(batch).await {
            tracing::error!(error = &error as &dyn std::error::Error, wait = ?retry, "batch not kept");
            sleep(retry).await;
            retry = (retry * 2).min(RETRY_MAX);
        }
    }

    async fn batch(&self, sink: &dyn Sink, response: &SyncResponse) -> Batch {
        let mut batch = Batch { position: response.next_batch.clone(), ..Batch::default() };
        for (room_id, update) in &response.rooms.joined {
            let Some(room) = self.client.get_room(room_id) else { continue };
            if tells_of_members(update) {
                self.names.forget(room_id);
            }
            if let (true, Some(before)) = (update.timeline.limited, &update.timeline.prev_batch) {
                batch.events.extend(self.fill_gap(sink, &room, before).await);
            }
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

    /// The events of a room between the last one that is kept and `before`, in order; at most the newest
    /// `limits.gap_events` of them. A room of which nothing is kept has no gap.
    async fn fill_gap(&self, sink: &dyn Sink, room: &Room, before: &str) -> Vec<Event> {
        let mut newest_first = Vec::new();
        let mut from = Some(before.to_owned());
        let (mut retry, mut tries) = (RETRY_FIRST, 0);
        while let Some(token) = from.take() {
            tries += 1;
            match self.gap_page(sink, room, &token).await {
                Ok(Page { events, before }) => {
                    newest_first.extend(events);
                    if newest_first.len() >= self.limits.gap_events {
                        tracing::warn!(room = %room.room_id(), events = newest_first.len(), "gap is too long: older events are left out");
                        newest_first.truncate(self.limits.gap_events);
                        break;
                    }
                    from = before;
                    (retry, tries) = (RETRY_FIRST, 0);
                }
                // Left or thrown out since: nothing of it is for us any more. A homeserver may say so of a room that its
                // answer still has among the joined ones.
                Err(GapError::Server(error)) if is_forbidden(&error) => {
                    tracing::debug!(room = %room.room_id(), "gap not filled: not in the room any more");
                    break;
                }
                Err(error) if error.is_final() || tries >= GAP_TRIES => {
                    tracing::error!(room = %room.room_id(), error = &error as &dyn std::error::Error, "gap not filled");
                    break;
                }
                Err(error) => {
                    tracing::warn!(room = %room.room_id(), error = &error as &dyn std::error::Error, wait = ?retry, "gap not filled yet");
                    tokio::time::sleep(retry).await;
                    retry = (retry * 2).min(RETRY_MAX);
                    from = Some(token);
                }
            }
        }
        newest_first.reverse();
        newest_first
    }

    /// One page of a gap, newest first, and where the next begins; none when a kept event was met.
    async fn gap_page(&self, sink: &dyn Sink, room: &Room, token: &str) -> Result<Page, GapError> {
        let mut options = MessagesOptions::backward().from(token);
        options.limit = GAP_PAGE.into();
        let page = room.messages(options).await.map_err(|error| GapError::Server(Box::new(error)))?;
        let mut events = Vec::new();
        for event in &page.chunk {
            match self.convert(room, event).await {
                Ok(event) => events.push(event),
                Err(error) => tracing::warn!(room = %room.room_id(), %error, "event dropped"),
            }
        }
        let ids: Vec<_> = events.iter().map(|event| event.id.clone()).collect();
        let Some(kept) = sink.kept(room.room_id(), &ids).await? else {
            return Ok(Page { events: Vec::new(), before: None });
        };
        match events.iter().position(|event| kept.contains(&event.id)) {
            Some(known) => {
                events.truncate(known);
                Ok(Page { events, before: None })
            }
            None => Ok(Page { events, before: page.end }),
        }
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

/// Whether a round of sync says something of a room's members.
fn tells_of_members(update: &JoinedRoomUpdate) -> bool {
    let (State::Before(state) | State::After(state)) = &update.state;
    let is_member = |event_type: Option<String>| event_type.as_deref() == Some("m.room.member");
    state.iter().any(|event| is_member(event.get_field("type").ok().flatten()))
        || update.timeline.events.iter().any(|event| is_member(event.raw().get_field("type").ok().flatten()))
}

/// A page of a gap.
struct Page {
    events: Vec<Event>,
    before: Option<String>,
}

/// Why a page of a gap could not be had.
#[derive(Debug, thiserror::Error)]
enum GapError {
    #[error("the homeserver did not give the events")]
    Server(#[source] Box<Error>),
    #[error(transparent)]
    Sink(#[from] SinkError),
}

fn is_forbidden(error: &Error) -> bool {
    matches!(error.client_api_error_kind(), Some(ErrorKind::Forbidden))
}

impl GapError {
    /// Whether the same request will fail again: the homeserver has understood it and said no.
    fn is_final(&self) -> bool {
        match self {
            Self::Server(error) => error.as_client_api_error().is_some_and(|error| {
                error.status_code.is_client_error() && !matches!(error.status_code.as_u16(), 408 | 429)
            }),
            Self::Sink(_) => false,
        }
    }
}

impl Link {
    fn settings(&self, long_poll: Duration) -> SyncSettings {
        let mut filter = FilterDefinition::default();
        filter.room.state.lazy_load_options = LazyLoadOptions::Enabled { include_redundant_members: false };
        filter.room.timeline.limit = Some(self.limits.timeline_events.into());
        filter.room.timeline.lazy_load_options = LazyLoadOptions::Enabled { include_redundant_members: false };
        filter.presence.limit = Some(uint!(0));
        filter.presence.types = Some(Vec::new());
        SyncSettings::new()
            .timeout(long_poll)
            .filter(Filter::FilterDefinition(filter))
            .set_presence(PresenceState::Online)
    }
}
