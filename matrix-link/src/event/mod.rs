//! What happens in a room, in our own types.
//!
//! An [`Event`] is made once, from the raw event as the SDK decrypted it, and is plain data from then on: it can be
//! stored, replayed and asserted on without a client. Keys that the types below don't know stay in
//! [`Message::content`], so that a contract on top of Matrix reads its own keys from there.

mod parse;

pub use parse::{ParseError, parse};

use ruma::{MilliSecondsSinceUnixEpoch, OwnedDeviceId, OwnedEventId, OwnedRoomId, OwnedUserId, UserId};
use serde::{Deserialize, Serialize};

use crate::Trust;

/// One event of a room's timeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The room that it happened in.
    pub room: OwnedRoomId,
    /// Its id: unique for ever.
    pub id: OwnedEventId,
    /// Who sent it, as the homeserver says.
    pub sender: OwnedUserId,
    /// When the sender's server took it. Nobody vouches for it: good for an age, not for an order.
    pub sent_at: MilliSecondsSinceUnixEpoch,
    /// How it came.
    pub protection: Protection,
    /// What it is.
    pub kind: EventKind,
}

impl Event {
    /// Whether the event may start a turn, answer, stop or announce anything (docs/wire.md, "What counts").
    ///
    /// `room_encrypted` is the room's state when it arrived. In a plain room there is nothing to hold against an
    /// event. In an encrypted one a message must have been encrypted, by a device that `trust` accepts; reactions,
    /// redactions and state are never encrypted by anybody and pass.
    pub fn counts(&self, room_encrypted: bool, trust: Trust) -> bool {
        match &self.kind {
            EventKind::Reaction { .. }
            | EventKind::Redaction { .. }
            | EventKind::Membership { .. }
            | EventKind::Other { .. } => true,
            EventKind::Undecryptable { .. } => false,
            EventKind::Message(_) | EventKind::Edit { .. } => match &self.protection {
                Protection::Clear => !room_encrypted,
                Protection::Encrypted { standing, .. } => standing.meets(trust),
            },
        }
    }

    /// The device that sent it, where it was encrypted.
    pub fn device(&self) -> Option<&OwnedDeviceId> {
        match &self.protection {
            Protection::Clear => None,
            Protection::Encrypted { device, .. } => device.as_ref(),
        }
    }

    /// The message in it, whether new or as an edit.
    pub fn message(&self) -> Option<&Message> {
        match &self.kind {
            EventKind::Message(message) | EventKind::Edit { message, .. } => Some(message),
            _ => None,
        }
    }
}

/// How an event came to us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protection {
    /// As it stands: the homeserver could read and write it.
    Clear,
    /// End-to-end encrypted, and decrypted by us.
    Encrypted {
        /// The device whose session encrypted it.
        device: Option<OwnedDeviceId>,
        /// What is known of that device.
        standing: Standing,
    },
}

/// What is known of the device that encrypted an event, at the time it was decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Standing {
    /// It is not the sender's own, or we can't tell whose: counts for nothing.
    NotTheirs,
    /// The sender's, and not signed by the sender.
    Unsigned,
    /// Signed by the sender's cross-signing identity.
    CrossSigned,
    /// Signed, and we have verified that identity.
    Verified,
}

impl Standing {
    /// Whether words of such a device count under `trust`.
    pub fn meets(self, trust: Trust) -> bool {
        self >= match trust {
            Trust::Any => Self::Unsigned,
            Trust::CrossSigned => Self::CrossSigned,
            Trust::Verified => Self::Verified,
        }
    }
}

/// What an event is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum EventKind {
    /// A new message.
    Message(Message),
    /// A message that replaces an earlier one of the same sender (`m.replace`).
    Edit {
        /// The first event of the message: never an edit.
        target: OwnedEventId,
        /// The message as it is now.
        message: Message,
    },
    /// Somebody took an event back.
    Redaction {
        /// The event that is gone.
        target: OwnedEventId,
    },
    /// An annotation (`m.reaction`).
    Reaction {
        /// The event reacted to.
        target: OwnedEventId,
        /// Most often one emoji.
        key: String,
    },
    /// Somebody's membership of the room changed.
    Membership {
        /// Whose.
        user: OwnedUserId,
        /// To what.
        change: Membership,
    },
    /// Encrypted, and we have no key for it (yet).
    Undecryptable {
        /// The session that encrypted it: its key opens it.
        session: Option<String>,
    },
    /// Anything else.
    Other {
        /// Its type.
        event_type: String,
    },
}

/// A membership, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Membership {
    /// In the room.
    Joined,
    /// Asked in.
    Invited,
    /// Out: left, kicked or banned.
    Left,
}

/// The content of an `m.room.message`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The `msgtype`.
    pub kind: MessageKind,
    /// Its plain text, without the quote that older clients put before a reply.
    pub body: String,
    /// Its HTML (`org.matrix.custom.html`), where it has one.
    pub html: Option<String>,
    /// Whom it mentions. None where the client doesn't say (`m.mentions` absent): only then may text be searched.
    pub mentions: Option<Vec<OwnedUserId>>,
    /// The message that it really replies to: a thread's fall-back is none.
    pub reply_to: Option<OwnedEventId>,
    /// The root of the thread that it stands in.
    pub thread: Option<OwnedEventId>,
    /// Its whole content (of an edit: `m.new_content`), for keys of contracts on top of Matrix.
    pub content: serde_json::Value,
}

impl Message {
    /// Whether it names `user` in `m.mentions`; None where the client doesn't say.
    pub fn mentions_user(&self, user: &UserId) -> Option<bool> {
        self.mentions.as_ref().map(|users| users.iter().any(|one| one == user))
    }
}

/// The kinds of message that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessageKind {
    /// `m.text`.
    Text,
    /// `m.emote`.
    Emote,
    /// `m.notice`: a bot's or a service's; it never triggers anything.
    Notice,
    /// A file, an image, audio or video.
    Media,
    /// Anything else.
    Other,
}

#[cfg(test)]
mod tests {
    use super::{Standing, Trust};

    #[test]
    fn each_trust_accepts_its_standing_and_what_is_above() {
        let accepted = |trust| {
            [Standing::NotTheirs, Standing::Unsigned, Standing::CrossSigned, Standing::Verified]
                .into_iter()
                .filter(|standing: &Standing| standing.meets(trust))
                .count()
        };
        assert_eq!([accepted(Trust::Any), accepted(Trust::CrossSigned), accepted(Trust::Verified)], [3, 2, 1]);
    }
}
