//! Invites: accepted from allowed people, declined from all others.
//!
//! Live invites and those that were waiting at start go the same way: after each sync, every room that we are invited to
//! is looked at, once at a time.
//!
//! Joins go one after the other, and after a direct room's the next one waits until a sync has brought `m.direct` with it:
//! the SDK writes that list anew at each join, from what it has synced, so two joins at once would lose one of the rooms.
//! Until then the room is direct because its invite has said so: what is said there at once is for the agent too.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use matrix_sdk::Room;
use ruma::{OwnedRoomId, RoomId};
use tokio::time::{sleep, timeout};

use crate::Link;

/// Attempts at answering one invite, and the wait before the second; it doubles. A homeserver often answers an invite from
/// another server only after some seconds. An invite that stays unanswered is taken up again at a later sync.
const ATTEMPTS: u32 = 5;
const RETRY_FIRST: Duration = Duration::from_secs(2);

/// How long a join waits for `m.direct` at most, and how often it looks.
const DIRECT_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The invites that are being answered now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Invites {
    answering: Arc<Mutex<HashSet<OwnedRoomId>>>,
    joining: Arc<tokio::sync::Mutex<()>>,
    /// Direct rooms of which `m.direct` does not tell yet.
    direct: Arc<Mutex<HashSet<OwnedRoomId>>>,
}

impl Invites {
    /// Whether this call is the one that answers.
    fn begin(&self, room: &Room) -> bool {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner).insert(room.room_id().to_owned())
    }

    /// Whether the room was just joined by an invite that said it is direct.
    pub(crate) fn is_direct(&self, room: &RoomId) -> bool {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner).contains(room)
    }

    fn set_direct(&self, room: &Room, direct: bool) {
        let mut rooms = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        if direct {
            rooms.insert(room.room_id().to_owned());
        } else {
            rooms.remove(room.room_id());
        }
    }

    fn end(&self, room: &Room) {
        self.answering.lock().unwrap_or_else(PoisonError::into_inner).remove(room.room_id());
    }
}

impl Link {
    /// Whether an invite is being answered: then this is no moment to close the session.
    pub fn is_answering_invites(&self) -> bool {
        !self.invites.answering.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Answers all invites that stand, each in a task of its own, since a join needs a sync to be seen.
    pub(crate) fn answer_invites(&self) {
        for room in self.client.invited_rooms() {
            if self.invites.begin(&room) {
                let link = self.clone();
                tokio::spawn(async move {
                    link.answer(&room).await;
                    link.invites.end(&room);
                });
            }
        }
    }

    async fn answer(&self, room: &Room) {
        let inviter = match room.invite_details().await {
            Ok(invite) => invite.inviter_id,
            Err(error) => {
                tracing::warn!(room = %room.room_id(), %error, "invite without an inviter");
                return;
            }
        };
        let allowed = self.access.allows(&inviter) || self.host.as_ref() == Some(&inviter);
        let mut wait = RETRY_FIRST;
        for attempt in 1..=ATTEMPTS {
            let answered = if allowed { self.join(room).await } else { room.leave().await };
            match answered {
                Ok(()) => {
                    let answer = if allowed { "accepted" } else { "declined: the inviter is not in access.allow" };
                    tracing::info!(room = %room.room_id(), %inviter, "invite {answer}");
                    return;
                }
                Err(error) => {
                    tracing::warn!(room = %room.room_id(), %inviter, attempt, %error, "invite not answered");
                    sleep(wait).await;
                    wait *= 2;
                }
            }
        }
    }

    /// Joins, and waits until the room is known to be direct where the invite says so.
    async fn join(&self, room: &Room) -> matrix_sdk::Result<()> {
        let _joining = self.invites.joining.lock().await;
        if !room.is_direct().await.unwrap_or_default() {
            return room.join().await;
        }
        self.invites.set_direct(room, true);
        let joined = room.join().await;
        if joined.is_ok() {
            let known = timeout(DIRECT_WITHIN, async {
                while !room.is_direct().await.unwrap_or_default() {
                    sleep(LOOK_EVERY).await;
                }
            });
            if known.await.is_err() {
                tracing::warn!(room = %room.room_id(), "joined, and not known to be direct yet");
            }
        }
        self.invites.set_direct(room, false);
        joined
    }
}
