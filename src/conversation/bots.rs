//! Two bots that answer each other never end. So turns in a row that bots cause in one room are counted.

use std::collections::HashMap;

use ruma::{OwnedRoomId, RoomId};

/// Rooms that are remembered; beyond it all counts begin anew, which costs a few turns and no person anything.
const MAX_ROOMS: usize = 4096;

/// Counts, per room, the turns that bots have caused since a person last spoke.
#[derive(Debug, Default)]
pub(super) struct BotTurns(HashMap<OwnedRoomId, u32>);

impl BotTurns {
    /// A person spoke.
    pub(super) fn person(&mut self, room: &RoomId) {
        self.0.remove(room);
    }

    /// A bot would cause a turn: whether it may.
    pub(super) fn bot(&mut self, room: &RoomId, max: u32) -> bool {
        if self.0.len() >= MAX_ROOMS {
            self.0.clear();
        }
        let turns = self.0.entry(room.to_owned()).or_default();
        *turns = turns.saturating_add(1);
        *turns <= max
    }
}

#[cfg(test)]
mod tests {
    use ruma::room_id;

    use super::*;

    #[test]
    fn bots_get_three_turns_until_a_person_speaks() {
        let (room, other) = (room_id!("!r:x"), room_id!("!other:x"));
        let mut turns = BotTurns::default();
        assert_eq!([(); 4].map(|()| turns.bot(room, 3)), [true, true, true, false]);
        assert!(turns.bot(other, 3));
        turns.person(room);
        assert!(turns.bot(room, 3));
    }
}
