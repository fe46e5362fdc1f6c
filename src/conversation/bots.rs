//! Two bots that answer each other never end. So turns in a row that bots cause in one room are counted.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use ruma::{OwnedRoomId, OwnedUserId, RoomId, UserId};

/// Rooms that are remembered; beyond it all counts begin anew, which costs a few turns and no person anything.
const MAX_ROOMS: usize = 4096;

/// Counts, per agent and room, the turns that bots have caused since a person last spoke. A handle for all agents of a
/// process: an agent that is closed in between goes on counting.
#[derive(Debug, Clone, Default)]
pub struct BotTurns(Arc<Mutex<HashMap<(OwnedUserId, OwnedRoomId), u32>>>);

impl BotTurns {
    /// A person spoke.
    pub(super) fn person(&self, agent: &UserId, room: &RoomId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&(agent.to_owned(), room.to_owned()));
    }

    /// A bot would cause a turn: whether it may.
    pub(super) fn bot(&self, agent: &UserId, room: &RoomId, max: u32) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_ROOMS {
            counts.clear();
        }
        let turns = counts.entry((agent.to_owned(), room.to_owned())).or_default();
        *turns = turns.saturating_add(1);
        *turns <= max
    }
}

#[cfg(test)]
mod tests {
    use ruma::{room_id, user_id};

    use super::*;

    #[test]
    fn bots_get_three_turns_until_a_person_speaks() {
        let (agent, room, other) = (user_id!("@a:x"), room_id!("!r:x"), room_id!("!other:x"));
        let turns = BotTurns::default();
        assert_eq!([(); 4].map(|()| turns.bot(agent, room, 3)), [true, true, true, false]);
        assert!(turns.bot(agent, other, 3) && turns.bot(user_id!("@b:x"), room, 3));
        turns.clone().person(agent, room);
        assert!(turns.bot(agent, room, 3));
    }
}
