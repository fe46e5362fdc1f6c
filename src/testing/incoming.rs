//! Events as a homeserver brings them, written in few words.

use std::time::Duration;

use jiff::Timestamp;
use matrix_link::{Event, Protection, Standing, parse};
use ruma::{EventId, RoomId, UserId, owned_device_id};
use serde_json::{Value, json};

use super::{BOT, PLAIN};

/// An event to come in: from a signed device, encrypted where the room is, unless said otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    room: String,
    sender: String,
    event_type: &'static str,
    content: Value,
    protection: Protection,
    age: Duration,
}

impl Incoming {
    pub fn message(sender: &str, room: &str, body: &str) -> Self {
        let content = json!({"msgtype": "m.text", "body": body, "m.mentions": {}});
        Self::new(sender, room, "m.room.message", content)
    }

    pub fn edit(sender: &str, room: &str, target: &EventId, body: &str) -> Self {
        let new = json!({"msgtype": "m.text", "body": body, "m.mentions": {}});
        let mut content = new.clone();
        content["m.new_content"] = new;
        content["m.relates_to"] = json!({"rel_type": "m.replace", "event_id": target});
        Self::new(sender, room, "m.room.message", content)
    }

    pub fn reaction(sender: &str, room: &str, target: &EventId, key: &str) -> Self {
        let content = json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": target, "key": key}});
        Self::new(sender, room, "m.reaction", content)
    }

    pub fn redaction(sender: &str, room: &str, target: &EventId) -> Self {
        Self::new(sender, room, "m.room.redaction", json!({ "redacts": target }))
    }

    /// Some state of the room was set: what it says, the server has.
    pub fn state(sender: &str, room: &str, event_type: &'static str) -> Self {
        Self::new(sender, room, event_type, json!({}))
    }

    fn new(sender: &str, room: &str, event_type: &'static str, content: Value) -> Self {
        let signed =
            Protection::Encrypted { device: Some(owned_device_id!("DEVICE")), standing: Standing::CrossSigned };
        let protection = if room == PLAIN { Protection::Clear } else { signed };
        let (room, sender) = (room.to_owned(), sender.to_owned());
        Self { room, sender, event_type, content, protection, age: Duration::ZERO }
    }

    /// It mentions the agent.
    pub fn mention(mut self) -> Self {
        self.content["m.mentions"] = json!({"user_ids": [BOT]});
        self
    }

    pub fn notice(mut self) -> Self {
        self.content["msgtype"] = "m.notice".into();
        self
    }

    pub fn reply_to(mut self, target: &EventId) -> Self {
        self.content["m.relates_to"] = json!({"m.in_reply_to": {"event_id": target}});
        self
    }

    /// It stands in a thread; the reply is the thread's fall-back.
    pub fn thread(mut self, root: &EventId) -> Self {
        self.content["m.relates_to"] = json!({"rel_type": "m.thread", "event_id": root,
            "is_falling_back": true, "m.in_reply_to": {"event_id": root}});
        self
    }

    /// It has this key in its content.
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.content[key] = value;
        self
    }

    /// It came unencrypted.
    pub fn clear(mut self) -> Self {
        self.protection = Protection::Clear;
        self
    }

    /// It came from this signed device.
    pub fn device(mut self, device: &str) -> Self {
        self.protection = Protection::Encrypted { device: Some(device.into()), standing: Standing::CrossSigned };
        self
    }

    /// It came from such a device.
    pub fn standing(mut self, standing: Standing) -> Self {
        self.protection = Protection::Encrypted { device: Some(owned_device_id!("DEVICE")), standing };
        self
    }

    /// It was sent so long ago.
    pub fn age(mut self, age: Duration) -> Self {
        self.age = age;
        self
    }

    /// The event; its id is made of its sender's name and its number.
    pub(super) fn event(self, number: usize, now: Timestamp) -> Event {
        let sender = UserId::parse(&self.sender).unwrap();
        let raw = json!({
            "type": self.event_type,
            "event_id": format!("${}{number}", sender.localpart()),
            "sender": sender,
            "origin_server_ts": (now - self.age).as_millisecond(),
            "content": self.content,
        });
        parse(&RoomId::parse(&self.room).unwrap(), &raw, self.protection).unwrap()
    }
}
