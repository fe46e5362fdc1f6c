//! Buttons, and what a click on one does.

use serde::de::Error as _;
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Button {
    /// Names the button in the answer to a click: 1 to 64 of `[A-Za-z0-9_.:-]`, once in a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What stands on it: one line of 1 to [`MAX_LABEL`](crate::MAX_LABEL) characters.
    pub label: String,
    /// How it looks. A chip has no style.
    #[serde(skip_serializing_if = "Style::is_default")]
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

    /// Reads a button; none if it is not one. By hand, since a payload's buttons are read twice as fast so as by serde,
    /// which would copy each tagged action first.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let button = value.as_object()?;
        let given = |name: &str| button.get(name).filter(|value| !is_absent(value));
        Some(Self {
            id: match given("id") {
                Some(id) => Some(id.as_str()?.to_owned()),
                None => None,
            },
            label: button.get("label")?.as_str()?.to_owned(),
            style: match given("style") {
                Some(style) => Style::read(style.as_str()?)?,
                None => Style::Default,
            },
            action: Action::read(button.get("action")?)?,
        })
    }
}

impl<'de> Deserialize<'de> for Button {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&Value::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("expected a button"))
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
    fn read(name: &str) -> Option<Self> {
        match name {
            "default" => Some(Self::Default),
            "primary" => Some(Self::Primary),
            "danger" => Some(Self::Danger),
            _ => None,
        }
    }

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

impl Action {
    fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        match value.get("type")?.as_str()? {
            "react" => Some(Self::React { key: text("key")? }),
            "send" => Some(Self::Send { body: text("body")? }),
            _ => None,
        }
    }
}
