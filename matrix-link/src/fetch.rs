//! One event as the homeserver shows it now: for whoever must be sure that it still stands.

use std::time::Duration;

use ruma::{EventId, RoomId};
use serde_json::Value;

use crate::{Event, FetchError, Link};

/// An event, and how it stands at the homeserver.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetched {
    /// The event, decrypted. Edits are not in it.
    pub event: Event,
    /// How old it is by the homeserver's own clock.
    pub age: Duration,
    /// Whether somebody has taken it back.
    pub redacted: bool,
}

impl Link {
    /// Fetches one event as it stands now.
    ///
    /// # Errors
    /// When there is no such event that we may see, or the server can't be reached.
    pub async fn fetch(&self, room: &RoomId, id: &EventId) -> Result<Fetched, FetchError> {
        let room = self.room(room).ok_or_else(|| FetchError::NotInRoom(room.to_owned()))?;
        let event = room.event(id, None).await.map_err(|error| FetchError::Server(Box::new(error)))?;
        let unsigned: Value = event.raw().get_field("unsigned").ok().flatten().unwrap_or_default();
        let (age, redacted) = standing(&unsigned);
        Ok(Fetched { event: self.convert(&room, &event).await?, age, redacted })
    }
}

/// What a homeserver says beside an event. An age that is missing or negative counts as none at all: too old for anything.
fn standing(unsigned: &Value) -> (Duration, bool) {
    let age = unsigned["age"].as_u64().map_or(Duration::MAX, Duration::from_millis);
    (age, !unsigned["redacted_because"].is_null() || !unsigned["redacted_by"].is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_says_nothing_of_its_age_is_too_old() {
        assert_eq!(standing(&json!({"age": 1500})), (Duration::from_millis(1500), false));
        for unsigned in [json!(null), json!({}), json!({"age": -5}), json!({"age": "1"})] {
            assert_eq!(standing(&unsigned), (Duration::MAX, false));
        }
        assert_eq!(standing(&json!({"age": 1, "redacted_because": {}})), (Duration::from_millis(1), true));
    }
}
