//! Invites: accepted from allowed people, declined from all others.
//!
//! Live invites and those that were waiting at start go the same way: after each sync, every room that we are invited to
//! is looked at, once at a time.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use matrix_sdk::Room;
use ruma::OwnedRoomId;

use crate::Link;

/// Attempts at answering one invite, and the wait before the second; it doubles. A homeserver often answers an invite from
/// another server only after some seconds. An invite that stays unanswered is taken up again at a later sync.
const ATTEMPTS: u32 = 5;
const RETRY_FIRST: Duration = Duration::from_secs(2);

/// The invites that are being answered now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Invites(Arc<Mutex<HashSet<OwnedRoomId>>>);

impl Invites {
    /// Whether this call is the one that answers.
    fn begin(&self, room: &Room) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(room.room_id().to_owned())
    }

    fn end(&self, room: &Room) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(room.room_id());
    }
}

impl Link {
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
        let allowed = self.access.allows(&inviter);
        let mut wait = RETRY_FIRST;
        for attempt in 1..=ATTEMPTS {
            let answered = if allowed { room.join().await } else { room.leave().await };
            match answered {
                Ok(()) => {
                    let answer = if allowed { "accepted" } else { "declined: the inviter is not in access.allow" };
                    tracing::info!(room = %room.room_id(), %inviter, "invite {answer}");
                    return;
                }
                Err(error) => {
                    tracing::warn!(room = %room.room_id(), %inviter, attempt, %error, "invite not answered");
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                }
            }
        }
    }
}
