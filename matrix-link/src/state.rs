//! A room's state, and what people may do with it: the SDK's own computation, creators of newer rooms included.

use std::time::Duration;

use matrix_sdk::{
    EncryptionState, Error, Room, RoomMemberships, RoomState, deserialized_responses::RawAnySyncOrStrippedState,
    room::RoomMember,
};
use ruma::{
    OwnedEventId, OwnedRoomId, OwnedUserId, RoomId, UserId,
    events::{
        StateEventType,
        room::{member::MembershipState, power_levels::UserPowerLevel},
    },
};
use serde_json::Value;
use tokio::time::timeout;

use crate::{FetchError, Link, NewRoom};

/// How long the look-up of somebody's membership may take: whoever asks is held up by it.
const LOOKUP_WITHIN: Duration = Duration::from_secs(5);

/// A state event as the last sync has it.
#[derive(Debug, Clone, PartialEq)]
pub struct StateEvent {
    /// Who has set it.
    pub sender: OwnedUserId,
    /// What it says.
    pub content: Value,
}

/// How much somebody may do in a room; more is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Power {
    /// A power level.
    Level(i64),
    /// A creator's, from room version 12 on.
    Infinite,
}

/// What somebody may be allowed to do in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act<'a> {
    /// Set state of this type.
    SetState(&'a str),
    /// Ask others in.
    Invite,
}

/// Why something was not done in a room.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// We are not in that room.
    #[error("I am not in the room")]
    NotInRoom(OwnedRoomId),
    /// The server says no: most often it lacks the power.
    #[error("the homeserver does not let me")]
    Refused(#[source] Box<Error>),
    /// No answer, or a failure of the server's own.
    #[error("the homeserver did not take it")]
    Unavailable(#[source] Box<Error>),
}

impl From<Error> for ActError {
    fn from(error: Error) -> Self {
        let refused = error.as_client_api_error().is_some_and(|error| (400..429).contains(&error.status_code.as_u16()));
        if refused { Self::Refused(Box::new(error)) } else { Self::Unavailable(Box::new(error)) }
    }
}

impl Link {
    pub(crate) async fn read_state(&self, room: &RoomId, event_type: &str, key: &str) -> Option<StateEvent> {
        let raw = self.room(room)?.get_state_event(StateEventType::from(event_type), key).await.ok()??;
        let RawAnySyncOrStrippedState::Sync(raw) = raw else { return None };
        let sender = raw.get_field::<OwnedUserId>("sender").ok()??;
        let content = raw.get_field::<Value>("content").ok()??;
        Some(StateEvent { sender, content })
    }

    pub(crate) async fn write_state(
        &self,
        room: &RoomId,
        event_type: &str,
        key: &str,
        content: Value,
    ) -> Result<OwnedEventId, ActError> {
        let room = self.joined(room)?;
        Ok(room.send_state_event_raw(event_type, key, content).await?.event_id)
    }

    pub(crate) async fn ask_in(&self, room: &RoomId, user: &UserId) -> Result<(), ActError> {
        let room = self.joined(room)?;
        match room.get_member(user).await? {
            Some(member) if matches!(member.membership(), MembershipState::Join | MembershipState::Invite) => Ok(()),
            _ => Ok(room.invite_user_by_id(user).await?),
        }
    }

    pub(crate) async fn power_of(&self, room: &RoomId, user: &UserId) -> Option<Power> {
        let member = member(&self.room(room)?, user).await?;
        (*member.membership() == MembershipState::Join).then(|| match member.power_level() {
            UserPowerLevel::Int(level) => Power::Level(level.into()),
            _ => Power::Infinite,
        })
    }

    pub(crate) async fn is_allowed(&self, room: &RoomId, user: &UserId, act: Act<'_>) -> bool {
        let Some(room) = self.room(room).filter(|room| room.state() == RoomState::Joined) else { return false };
        let Some(member) = member(&room, user).await else { return false };
        *member.membership() == MembershipState::Join
            && match act {
                Act::SetState(event_type) => member.can_send_state(event_type.into()),
                Act::Invite => member.can_invite(),
            }
    }

    /// An encrypted direct room in which nobody is or is asked in but `user` and we: `here` if it is one, else one of our direct
    /// rooms, else a new one.
    pub(crate) async fn room_alone_with(&self, user: &UserId, here: &RoomId) -> Result<OwnedRoomId, FetchError> {
        let known = self.room(here).into_iter().chain(self.client.get_dm_rooms(user));
        for room in known {
            // Others may be asked into a room that is not meant to be for two.
            if room.is_direct().await.unwrap_or_default() && self.is_alone_with(&room, user).await {
                return Ok(room.room_id().to_owned());
            }
        }
        self.create_room(NewRoom::Direct(user.to_owned())).await
    }

    async fn is_alone_with(&self, room: &Room, user: &UserId) -> bool {
        if room.state() != RoomState::Joined
            || !matches!(room.latest_encryption_state().await, Ok(EncryptionState::Encrypted))
        {
            return false;
        }
        let Ok(members) = room.members(RoomMemberships::ACTIVE).await else { return false };
        members.iter().any(|member| member.user_id() == user)
            && members.iter().all(|member| member.user_id() == user || member.user_id() == self.user)
    }

    fn joined(&self, room: &RoomId) -> Result<Room, ActError> {
        let found = self.room(room).filter(|room| room.state() == RoomState::Joined);
        found.ok_or_else(|| ActError::NotInRoom(room.to_owned()))
    }
}

/// Somebody's membership, asked from the server where it is not known.
async fn member(room: &Room, user: &UserId) -> Option<RoomMember> {
    timeout(LOOKUP_WITHIN, room.get_member(user)).await.ok()?.ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_creator_of_a_newer_room_may_more_than_any_level_allows() {
        assert!(Power::Infinite > Power::Level(i64::MAX) && Power::Level(50) >= Power::Level(50));
    }
}
