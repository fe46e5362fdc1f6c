//! Names of people in rooms, remembered: the SDK reads a dozen rows for each, and a message asks for several.
//!
//! Whatever a sync tells of a room's members makes the room's names void, since one person's name bears on the other's:
//! two people with the same name are told apart.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ruma::{OwnedRoomId, OwnedUserId, RoomId, UserId};

/// Rooms whose names are remembered; beyond it all are forgotten.
const MAX_ROOMS: usize = 1024;
/// People of one room whose names are remembered.
const MAX_PEOPLE: usize = 256;

/// The names. A handle: clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(Arc<Mutex<HashMap<OwnedRoomId, HashMap<OwnedUserId, String>>>>);

impl Names {
    pub(crate) fn get(&self, room: &RoomId, user: &UserId) -> Option<String> {
        self.names().get(room)?.get(user).cloned()
    }

    pub(crate) fn remember(&self, room: &RoomId, user: &UserId, name: &str) {
        let mut names = self.names();
        if names.len() >= MAX_ROOMS && !names.contains_key(room) {
            names.clear();
        }
        let people = names.entry(room.to_owned()).or_default();
        if people.len() >= MAX_PEOPLE {
            people.clear();
        }
        people.insert(user.to_owned(), name.to_owned());
    }

    /// Somebody's membership or name has changed in this room.
    pub(crate) fn forget(&self, room: &RoomId) {
        self.names().remove(room);
    }

    fn names(&self) -> MutexGuard<'_, HashMap<OwnedRoomId, HashMap<OwnedUserId, String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ruma::{room_id, user_id};

    use super::*;

    #[test]
    fn names_are_remembered_until_their_room_changes() {
        let (names, alice) = (Names::default(), user_id!("@alice:example.org"));
        let (one, two) = (room_id!("!one:example.org"), room_id!("!two:example.org"));
        names.remember(one, alice, "Alice");
        names.remember(two, alice, "Alice (2)");
        names.forget(one);
        assert_eq!((names.get(one, alice), names.get(two, alice)), (None, Some("Alice (2)".to_owned())));
    }

    #[test]
    fn no_more_are_remembered_than_allowed() {
        let (names, alice) = (Names::default(), user_id!("@alice:example.org"));
        for number in 0..2 * MAX_ROOMS {
            let room = RoomId::parse(format!("!r{number}:example.org"));
            names.remember(&room.unwrap_or_else(|_| room_id!("!r:example.org").to_owned()), alice, "Alice");
        }
        assert!(names.names().len() <= MAX_ROOMS);
    }
}
