//! Where a turn comes from, and so what its tools may take for granted.

use ruma::{OwnedDeviceId, OwnedEventId};

/// Why there is a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A person spoke.
    Person {
        /// The newest message of that person that the turn has taken in.
        event: OwnedEventId,
        /// The device that sent it, in an encrypted room.
        device: Option<OwnedDeviceId>,
        /// What that device says it can do (`dev.waybread.capabilities`).
        capabilities: Vec<String>,
    },
    /// Nobody attends: what needs a person must not be offered.
    Unattended {
        /// What began it.
        why: String,
    },
}
