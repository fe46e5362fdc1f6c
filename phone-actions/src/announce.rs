//! What a person's devices declare: that a message comes from a phone, and what that phone can do.

use serde_json::{Value, json};

use crate::{
    Malformed,
    id::is_device_id,
    tables::tables,
    wire::{CAPABILITIES_KEY, PHONE_KEY, VERSION, object, text},
};

/// The most devices that a phone may be linked with.
pub const MAX_CHAT_DEVICES: usize = 16;

/// How many capabilities of a message are looked at.
const MAX_CAPABILITIES: usize = 16;

/// The capability that a message declares if it is sent from a phone that can act: `phone_actions`.
#[must_use]
pub fn capability() -> &'static str {
    &tables().capability
}

/// Declares in a message's content that it is sent from a phone that can act. What it declares already stays.
pub fn declare_phone(content: &mut serde_json::Map<String, Value>) {
    let declared = content.entry(CAPABILITIES_KEY).or_insert_with(|| json!([]));
    match declared.as_array_mut() {
        Some(names) if names.iter().any(|name| name == capability()) => {}
        Some(names) => names.push(capability().into()),
        None => *declared = json!([capability()]),
    }
}

/// Whether a message declares that it was sent from a phone that can act.
#[must_use]
pub fn declares_phone(content: &Value) -> bool {
    let declared = content.get(CAPABILITIES_KEY).and_then(Value::as_array).into_iter().flatten();
    declared.take(MAX_CAPABILITIES).any(|name| name == capability())
}

/// What a phone client tells an agent of itself, after pairing and whenever it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Announcement {
    /// The phone client's own device.
    pub device: String,
    /// The person's other devices on the same phone: what they send is sent from the phone too.
    pub chat_devices: Vec<String>,
    /// The actions that it can do, in the contract's order.
    pub actions: Vec<&'static str>,
}

impl Announcement {
    /// Announces `device`, linked with `chat_devices`, for the actions that `can` accepts by their name.
    ///
    /// # Errors
    /// An id is none, or there are more than [`MAX_CHAT_DEVICES`].
    pub fn new(device: &str, chat_devices: &[&str], can: impl Fn(&str) -> bool) -> Result<Self, Malformed> {
        let names: Vec<_> = known_actions(can);
        let key = json!({"v": VERSION, "device": device, "chat_devices": chat_devices, "actions": names});
        match Self::read(&json!({PHONE_KEY: key}))? {
            Some(announcement) => Ok(announcement),
            None => Err(Malformed::field(PHONE_KEY, "there")),
        }
    }

    /// Reads the announcement in the content of a message; `None` if there is none. Actions that are not known are left
    /// out: a newer phone may have more.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(content: &Value) -> Result<Option<Self>, Malformed> {
        let Some(key) = object(content, PHONE_KEY)? else { return Ok(None) };
        let list = |name: &'static str, what: &'static str| {
            let items = key.get(name).and_then(Value::as_array);
            let texts = items.and_then(|items| items.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
            texts.ok_or_else(|| Malformed::field(name, what))
        };
        let chat_devices = list("chat_devices", "a list of device ids")?;
        if chat_devices.len() > MAX_CHAT_DEVICES || !chat_devices.iter().all(|device| is_device_id(device)) {
            return Err(Malformed::field("chat_devices", "a list of at most 16 device ids"));
        }
        let actions = list("actions", "a list of texts")?;
        Ok(Some(Self {
            device: text(key, "device", is_device_id, "a device id")?.to_owned(),
            chat_devices: chat_devices.into_iter().map(str::to_owned).collect(),
            actions: known_actions(|name| actions.contains(&name)),
        }))
    }

    /// Whether what this device sends is sent from the phone.
    #[must_use]
    pub fn is_on_phone(&self, device: &str) -> bool {
        self.device == device || self.chat_devices.iter().any(|linked| linked == device)
    }

    /// The content of the message that announces it: an `m.notice`, which starts no turn.
    #[must_use]
    pub fn content(&self) -> Value {
        json!({
            "msgtype": "m.notice",
            "body": tables().messages.announced.fill(|_| self.actions.join(", ")),
            "m.mentions": {},
            PHONE_KEY: {
                "v": VERSION,
                "device": self.device,
                "chat_devices": self.chat_devices,
                "actions": self.actions,
            },
        })
    }
}

/// The actions that `wanted` accepts by their name.
fn known_actions(wanted: impl Fn(&str) -> bool) -> Vec<&'static str> {
    tables().actions.iter().map(|action| action.name.as_str()).filter(|name| wanted(name)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_capability_is_declared_once_and_beside_others() {
        let mut content = json!({"body": "hi"});
        assert!(!declares_phone(&content));
        for _ in 0..2 {
            declare_phone(content.as_object_mut().unwrap());
            assert_eq!(content, json!({"body": "hi", "dev.waybread.capabilities": ["phone_actions"]}));
        }
        assert!(declares_phone(&content));
        let mut other = json!({"dev.waybread.capabilities": ["more"]});
        declare_phone(other.as_object_mut().unwrap());
        assert_eq!(other, json!({"dev.waybread.capabilities": ["more", "phone_actions"]}));
    }

    #[test]
    fn what_declares_nothing_is_not_sent_from_a_phone() {
        for declared in
            [json!(null), json!("phone_actions"), json!({"phone_actions": true}), json!(["phone"]), json!([1])]
        {
            assert!(!declares_phone(&json!({ "dev.waybread.capabilities": declared })), "{declared}");
        }
        let mut many = vec![json!("x"); MAX_CAPABILITIES];
        many.push(capability().into());
        assert!(!declares_phone(&json!({ "dev.waybread.capabilities": many })));
    }

    #[test]
    fn an_announcement_is_read_as_it_was_written() {
        let announced =
            Announcement::new("PHONE", &["ELEMENT"], |action| ["torch", "alarm"].contains(&action)).unwrap();
        let expected = json!({
            "msgtype": "m.notice",
            "body": "📱 From here you can ask my phone for: alarm, torch. It does nothing before I confirm.",
            "m.mentions": {},
            "dev.waybread.phone": {
                "v": 1, "device": "PHONE", "chat_devices": ["ELEMENT"], "actions": ["alarm", "torch"],
            },
        });
        assert_eq!(announced.content(), expected);
        assert_eq!(Announcement::read(&expected), Ok(Some(announced.clone())));
        assert!(announced.is_on_phone("PHONE") && announced.is_on_phone("ELEMENT") && !announced.is_on_phone("WEB"));
    }

    #[test]
    fn an_announcement_with_broken_ids_is_not_made() {
        assert!(Announcement::new("", &[], |_| true).is_err());
        assert!(Announcement::new("A", &["a b"], |_| true).is_err());
        assert!(Announcement::new("A", &["B"; MAX_CHAT_DEVICES + 1], |_| true).is_err());
        assert!(Announcement::new("A", &["B"; MAX_CHAT_DEVICES], |_| false).is_ok());
    }
}
