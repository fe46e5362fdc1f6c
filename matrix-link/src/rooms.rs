//! What is known of a room and its people.

use std::time::Duration;

use async_trait::async_trait;
use matrix_sdk::{EncryptionState, Error, Room, RoomState, config::RequestConfig};
use ruma::{
    EventId, OwnedEventId, OwnedRoomId, OwnedUserId, RoomId, UserId,
    api::client::{
        room::create_room::v3::{Request as CreateRoom, RoomPreset},
        typing::create_typing_event::v3::{Request as SetTyping, Typing, TypingInfo},
    },
    events::{
        InitialStateEvent, MessageLikeEventType,
        room::{encryption::RoomEncryptionEventContent, member::MembershipState},
    },
};

use serde_json::Value;

use crate::{Act, ActError, Event, Link, Power, StateEvent};

/// How long the homeserver shows that somebody types, unless told again.
const TYPING_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the request may take.
const TYPING_WITHIN: Duration = Duration::from_secs(5);

/// Looks things up in rooms, and shows that we are at work there.
#[async_trait]
pub trait Rooms: Send + Sync {
    /// The account's own user id.
    fn user_id(&self) -> &UserId;

    /// Whether the room is a direct one: by `m.direct`, which also holds what `is_direct` of an invite said. Never by
    /// the number of people in it.
    async fn is_direct(&self, room: &RoomId) -> bool;

    /// Whether the room is encrypted, or is not known not to be: then it is treated as if it were.
    async fn is_encrypted(&self, room: &RoomId) -> bool;

    /// The name of `user` in the room, with the user id behind it where two people there have the same one.
    async fn display_name(&self, room: &RoomId, user: &UserId) -> String;

    /// The room's own name; None where it has none.
    async fn name(&self, room: &RoomId) -> Option<String>;

    /// Whether `user` is in the room and may write messages there.
    async fn may_speak(&self, room: &RoomId, user: &UserId) -> bool;

    /// The master key of an account's identity, for people to compare; see [`Link::identity_key`].
    async fn identity_key(&self, user: &UserId) -> Option<String>;

    /// Fetches one event, decrypted.
    ///
    /// # Errors
    /// When there is no such event that we may see, or the server can't be reached.
    async fn event(&self, room: &RoomId, id: &EventId) -> Result<Event, FetchError>;

    /// A state event of the room as the last sync has it; None where there is none.
    async fn state_event(&self, room: &RoomId, event_type: &str, key: &str) -> Option<StateEvent>;

    /// Sets a state event.
    ///
    /// # Errors
    /// When the server does not let us, or can't be reached.
    async fn set_state(
        &self,
        room: &RoomId,
        event_type: &str,
        key: &str,
        content: Value,
    ) -> Result<OwnedEventId, ActError>;

    /// Asks somebody into the room; whoever is there or asked already is left alone.
    ///
    /// # Errors
    /// When the server does not let us, or can't be reached.
    async fn invite(&self, room: &RoomId, user: &UserId) -> Result<(), ActError>;

    /// How much `user` may do in the room; None for somebody who is not in it.
    async fn power(&self, room: &RoomId, user: &UserId) -> Option<Power>;

    /// Whether `user` is in the room and may do this there.
    async fn may(&self, room: &RoomId, user: &UserId, act: Act<'_>) -> bool;

    /// An encrypted direct room with `user` and nobody else: `here` if it is one, else another, which is made where there is
    /// none.
    ///
    /// # Errors
    /// When there is none and the server does not make one.
    async fn private_room(&self, user: &UserId, here: &RoomId) -> Result<OwnedRoomId, FetchError>;

    /// Shows or clears that we are typing. A failure is not worth a word: it ends by itself after 30 s.
    async fn set_typing(&self, room: &RoomId, typing: bool);
}

/// Why an event could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// We are not in that room.
    #[error("not in the room {0}")]
    NotInRoom(OwnedRoomId),
    /// The server does not give it.
    #[error("the event can't be fetched")]
    Server(#[source] Box<Error>),
    /// It is no event that we can read.
    #[error(transparent)]
    Malformed(#[from] crate::ParseError),
}

/// A room to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewRoom {
    /// An encrypted direct room with one person.
    Direct(OwnedUserId),
    /// An encrypted room with several.
    Group {
        /// Its name.
        name: String,
        /// Who is invited.
        invite: Vec<OwnedUserId>,
    },
}

impl Link {
    /// Makes a room and invites people.
    ///
    /// # Errors
    /// When the server refuses or can't be reached.
    pub async fn create_room(&self, new: NewRoom) -> Result<OwnedRoomId, FetchError> {
        let mut request = CreateRoom::new();
        request.initial_state = vec![
            InitialStateEvent::with_empty_state_key(RoomEncryptionEventContent::with_recommended_defaults())
                .to_raw_any(),
        ];
        match new {
            NewRoom::Direct(user) => {
                request.invite = vec![user];
                request.is_direct = true;
                request.preset = Some(RoomPreset::TrustedPrivateChat);
            }
            NewRoom::Group { name, invite } => {
                request.invite = invite;
                request.name = Some(name);
                request.preset = Some(RoomPreset::PrivateChat);
            }
        }
        let room = self.client.create_room(request).await.map_err(|error| FetchError::Server(Box::new(error)))?;
        Ok(room.room_id().to_owned())
    }

    /// The direct room with `user` that we are in, where there is one.
    pub fn direct_room_with(&self, user: &UserId) -> Option<OwnedRoomId> {
        let joined = self.client.get_dm_rooms(user).find(|room| room.state() == RoomState::Joined)?;
        Some(joined.room_id().to_owned())
    }

    /// Whether we are in the room and it is known not to be encrypted, as of the last sync. Nothing is asked for it.
    pub fn knows_as_plain(&self, room: &RoomId) -> bool {
        self.room(room).is_some_and(|room| {
            room.state() == RoomState::Joined && matches!(room.encryption_state(), EncryptionState::NotEncrypted)
        })
    }

    /// Whether `user` is in the room now, asked from the server where it is not known.
    pub async fn has_joined(&self, room: &RoomId, user: &UserId) -> bool {
        let Some(room) = self.client.get_room(room) else { return false };
        matches!(room.get_member(user).await, Ok(Some(member)) if *member.membership() == MembershipState::Join)
    }

    pub(crate) fn room(&self, room: &RoomId) -> Option<Room> {
        self.client.get_room(room)
    }
}

#[async_trait]
impl Rooms for Link {
    fn user_id(&self) -> &UserId {
        &self.user
    }

    async fn is_direct(&self, room: &RoomId) -> bool {
        if self.invites.is_direct(room) {
            return true;
        }
        match self.room(room) {
            Some(room) => room.is_direct().await.unwrap_or_default(),
            None => false,
        }
    }

    async fn is_encrypted(&self, room: &RoomId) -> bool {
        match self.room(room) {
            Some(room) => room
                .latest_encryption_state()
                .await
                .map_or(true, |state| !matches!(state, EncryptionState::NotEncrypted)),
            None => true,
        }
    }

    async fn display_name(&self, room: &RoomId, user: &UserId) -> String {
        if let Some(name) = self.names.get(room, user) {
            return name;
        }
        let member = match self.room(room) {
            Some(room) => room.get_member_no_sync(user).await.ok().flatten(),
            None => None,
        };
        let name = match member {
            Some(member) if member.name_ambiguous() => format!("{} ({user})", member.name()),
            Some(member) => member.name().to_owned(),
            None => return user.localpart().to_owned(),
        };
        self.names.remember(room, user, &name);
        name
    }

    async fn name(&self, room: &RoomId) -> Option<String> {
        self.room(room)?.name()
    }

    async fn may_speak(&self, room: &RoomId, user: &UserId) -> bool {
        let Some(room) = self.room(room).filter(|room| room.state() == RoomState::Joined) else { return false };
        matches!(room.get_member(user).await, Ok(Some(member)) if *member.membership() == MembershipState::Join
            && member.can_send_message(MessageLikeEventType::RoomMessage))
    }

    async fn identity_key(&self, user: &UserId) -> Option<String> {
        Link::identity_key(self, user).await
    }

    async fn event(&self, room: &RoomId, id: &EventId) -> Result<Event, FetchError> {
        let room = self.room(room).ok_or_else(|| FetchError::NotInRoom(room.to_owned()))?;
        let event = room.event(id, None).await.map_err(|error| FetchError::Server(Box::new(error)))?;
        Ok(self.convert(&room, &event).await?)
    }

    async fn state_event(&self, room: &RoomId, event_type: &str, key: &str) -> Option<StateEvent> {
        self.read_state(room, event_type, key).await
    }

    async fn set_state(
        &self,
        room: &RoomId,
        event_type: &str,
        key: &str,
        content: Value,
    ) -> Result<OwnedEventId, ActError> {
        self.write_state(room, event_type, key, content).await
    }

    async fn invite(&self, room: &RoomId, user: &UserId) -> Result<(), ActError> {
        self.ask_in(room, user).await
    }

    async fn power(&self, room: &RoomId, user: &UserId) -> Option<Power> {
        self.power_of(room, user).await
    }

    async fn may(&self, room: &RoomId, user: &UserId, act: Act<'_>) -> bool {
        self.is_allowed(room, user, act).await
    }

    async fn private_room(&self, user: &UserId, here: &RoomId) -> Result<OwnedRoomId, FetchError> {
        self.room_alone_with(user, here).await
    }

    async fn set_typing(&self, room: &RoomId, typing: bool) {
        let typing = if typing { Typing::Yes(TypingInfo::new(TYPING_TIMEOUT)) } else { Typing::No };
        let request = SetTyping::new(self.user.clone(), room.to_owned(), typing);
        // Worth nothing later: no second try, and nobody waits long for it.
        let once = RequestConfig::new().disable_retry().timeout(TYPING_WITHIN);
        if let Err(error) = self.client.send(request).with_request_config(once).await {
            tracing::debug!(%room, %error, "typing not shown");
        }
    }
}
