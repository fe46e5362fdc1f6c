//! Buttons, and what a click on one does.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::rules::is_absent;

/// The items of a `buttons` or a `chips` block, in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    /// The buttons or chips.
    pub items: Vec<Button>,
}

/// Something to click: a button, a chip, or an action of a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// Names the button in the answer to a click: 1 to 64 of `[A-Za-z0-9_.:-]`, once in a message.
    #[serde(default, deserialize_with = "unless_absent", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What stands on it: one line of 1 to [`MAX_LABEL`](crate::MAX_LABEL) characters.
    pub label: String,
    /// How it looks. A chip has no style.
    #[serde(default, deserialize_with = "unless_absent", skip_serializing_if = "Style::is_default")]
    pub style: Style,
    /// What a click does.
    pub action: Action,
}

impl Button {
    /// A button that reacts to its message with `key`.
    #[must_use]
    pub fn react(label: impl Into<String>, style: Style, key: impl Into<String>) -> Self {
        Self { id: None, label: label.into(), style, action: Action::React { key: key.into() } }
    }

    /// A button that makes the person who clicks it say `body`.
    #[must_use]
    pub fn send(label: impl Into<String>, style: Style, body: impl Into<String>) -> Self {
        Self { id: None, label: label.into(), style, action: Action::Send { body: body.into() } }
    }

    /// The same button with an id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

/// Reads a field for which `null` and a blank string are the same as none.
fn unless_absent<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(deserializer: D) -> Result<T, D::Error> {
    match Value::deserialize(deserializer)? {
        value if is_absent(&value) => Ok(T::default()),
        value => serde_json::from_value(value).map_err(D::Error::custom),
    }
}

/// How a button looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// Like any other; not written.
    #[default]
    Default,
    /// What most people will want.
    Primary,
    /// Something that destroys or costs.
    Danger,
}

impl Style {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::Default
    }
}

/// What a click does, in the name of the person who clicks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Action {
    /// An `m.reaction` with this key on the message.
    React {
        /// The reaction: most often an emoji.
        key: String,
    },
    /// A message with this text, marked by the key of [`WriteKey::used`](crate::WriteKey::used).
    Send {
        /// The message's text.
        body: String,
    },
}
