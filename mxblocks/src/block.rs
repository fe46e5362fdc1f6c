//! One block of a payload.

use std::collections::BTreeSet;

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::blocks::{self, DISPLAY_TYPES, StreamState};
use crate::canonical::{canonicalize_map, canonicalize_value, measure, measure_map};
use crate::fault::Fault;
use crate::markdown;
use crate::prompts::{Button, Prompts};
use crate::rules::{is_absent, words_of};
use crate::view::View;

/// The newest version of a block that is known here. A block without `v` has this one.
pub const BLOCK_VERSION: u32 = 1;

/// One block: something that a client draws with a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A row of buttons, for a decision.
    Buttons(Prompts),
    /// A row of small quick replies.
    Chips(Prompts),
    /// Any other known type: the block's object, `type` included. Fields that are not known stay in it.
    Display(Map<String, Value>),
    /// An unknown type, a newer version, or no block at all. Kept as it came, so that the payload around it loads.
    /// It may be sent only if it has a `fallback`: the text that stands for it.
    Unknown(Value),
}

impl Block {
    /// The block's `type`; empty where it has none.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Buttons(_) => "buttons",
            Self::Chips(_) => "chips",
            Self::Display(map) => map.get("type").and_then(Value::as_str).unwrap_or_default(),
            Self::Unknown(value) => value.get("type").and_then(Value::as_str).unwrap_or_default(),
        }
    }

    /// What can be clicked: the buttons, the chips, or the actions of a card or of several, in order.
    #[must_use]
    pub fn actions(&self) -> Vec<Button> {
        let of_card =
            |card: View<'_>| -> Vec<Button> { card.items("actions").iter().filter_map(Button::read).collect() };
        match (self, self.kind()) {
            (Self::Buttons(prompts) | Self::Chips(prompts), _) => prompts.items.clone(),
            (Self::Display(map), "card") => of_card(View(map)),
            (Self::Display(map), "cards") => View(map).objects("cards").flat_map(of_card).collect(),
            _ => Vec::new(),
        }
    }

    /// The ids by which an answer names what was clicked or filled in: of buttons, of cards' actions, of a form.
    #[must_use]
    pub fn prompt_ids(&self) -> Vec<&str> {
        match (self, self.kind()) {
            (Self::Buttons(prompts) | Self::Chips(prompts), _) => {
                prompts.items.iter().filter_map(|button| button.id.as_deref()).collect()
            }
            (Self::Display(map), "card") => action_ids(View(map)).collect(),
            (Self::Display(map), "cards") => View(map).objects("cards").flat_map(action_ids).collect(),
            (Self::Display(map), "form") => View(map).raw("id").into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// How far a `stream` block is; `None` for any other.
    #[must_use]
    pub fn stream_state(&self) -> Option<StreamState> {
        match self {
            Self::Display(map) if self.kind() == "stream" => Some(
                map.get("state").and_then(|state| StreamState::deserialize(state).ok()).unwrap_or(StreamState::Unknown),
            ),
            _ => None,
        }
    }

    /// The block as Markdown, for whoever can't see it drawn: all that it says, as text from outside that is shown
    /// as it is. Empty for a block that says nothing by itself, as a stream.
    ///
    /// A block that is not valid gives what can be read of it.
    #[must_use]
    pub fn markdown(&self) -> String {
        match self {
            Self::Buttons(_) | Self::Chips(_) => self.text_of(&self.prompt_object()),
            Self::Display(map) => self.text_of(map),
            Self::Unknown(value) => fallback(value).map(markdown::paragraphs).unwrap_or_default(),
        }
    }

    fn text_of(&self, map: &Map<String, Value>) -> String {
        blocks::find(self.kind()).map(|kind| (kind.text)(View(map))).unwrap_or_default()
    }

    /// The words that a message's text must have to say what the block says.
    pub(crate) fn words(&self) -> BTreeSet<String> {
        let mut words = BTreeSet::new();
        match self {
            Self::Buttons(prompts) | Self::Chips(prompts) => {
                prompts.items.iter().for_each(|button| words.extend(words_of(&button.label)));
            }
            Self::Display(map) => {
                if let Some(kind) = blocks::find(self.kind()) {
                    kind.shape.words(map, &mut words);
                }
            }
            Self::Unknown(value) => words.extend(fallback(value).iter().flat_map(|text| words_of(text))),
        }
        words
    }

    /// Sorts a block into its variant. Only buttons and chips are looked into, since only they have a type of their own.
    pub(crate) fn read(value: Value) -> Result<Self, Fault> {
        let Value::Object(map) = value else { return Ok(Self::Unknown(value)) };
        match sort(&map) {
            Sort::Buttons => prompts(&map, "buttons").map(Self::Buttons),
            Sort::Chips => prompts(&map, "chips").map(Self::Chips),
            Sort::Display => Ok(Self::Display(map)),
            Sort::Unknown => Ok(Self::Unknown(Value::Object(map))),
        }
    }

    /// Mends, checks and reads a block: what [`read`](Self::read), [`canonicalize`](Self::canonicalize) and
    /// [`check`](Self::check) do, in one walk. With its size in bytes.
    pub(crate) fn admit(mut value: Value) -> Result<(Self, usize), Fault> {
        let size = canonicalize_value(&mut value, 0).and_then(|size| check_read(&value).map(|()| size));
        let size = size.map_err(|fault| fault.of_type(kind_of(&value)))?;
        Ok((Self::read(value)?, size))
    }

    pub(crate) fn canonicalize(&mut self) -> Result<(), Fault> {
        match self {
            Self::Buttons(_) | Self::Chips(_) => Ok(()),
            Self::Display(map) => canonicalize_map(map, 0).map(drop),
            Self::Unknown(value) => canonicalize_value(value, 0).map(drop),
        }
    }

    /// Checks the block by the rules of its type, and that an event can carry it. Its size in bytes.
    pub(crate) fn check(&self) -> Result<usize, Fault> {
        let measured = |map: &_| {
            let size = measure_map(map, 0)?;
            check_object(self.kind(), map).map(|()| size)
        };
        match self {
            Self::Buttons(_) | Self::Chips(_) => measured(&self.prompt_object()),
            Self::Display(map) => measured(map),
            Self::Unknown(value) => {
                let size = measure(value, 0)?;
                check_unknown(value).map(|()| size)
            }
        }
    }

    /// Buttons or chips as the object that they are in a payload, to go by the same rules as all others.
    fn prompt_object(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    }
}

/// Which variant an object is.
enum Sort {
    Buttons,
    Chips,
    Display,
    Unknown,
}

fn sort(map: &Map<String, Value>) -> Sort {
    let newer = map.get("v").and_then(Value::as_u64).is_some_and(|v| v > u64::from(BLOCK_VERSION));
    match map.get("type").and_then(Value::as_str) {
        _ if newer => Sort::Unknown,
        Some("buttons") => Sort::Buttons,
        Some("chips") => Sort::Chips,
        Some(kind) if DISPLAY_TYPES.contains(&kind) => Sort::Display,
        _ => Sort::Unknown,
    }
}

fn kind_of(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Checks a block as it came.
fn check_read(value: &Value) -> Result<(), Fault> {
    match value {
        Value::Object(map) if !matches!(sort(map), Sort::Unknown) => check_object(kind_of(value), map),
        _ => check_unknown(value),
    }
}

fn check_object(kind: &str, map: &Map<String, Value>) -> Result<(), Fault> {
    match (blocks::find(kind), map.get("v")) {
        (None, _) => Err(unknown_type()),
        (Some(_), Some(v)) if !is_absent(v) && v.as_u64() != Some(u64::from(BLOCK_VERSION)) => {
            Err(Fault::new(format!("expected {BLOCK_VERSION}")).in_field("v"))
        }
        (Some(kind), _) => kind.shape.check(map),
    }
}

fn check_unknown(value: &Value) -> Result<(), Fault> {
    if fallback(value).is_some() { Ok(()) } else { Err(unknown(value)) }
}

/// The items of a `buttons` or `chips` block, which stand under the type's own name.
fn prompts(map: &Map<String, Value>, name: &str) -> Result<Prompts, Fault> {
    let items = map.get(name).and_then(Value::as_array);
    match items.and_then(|items| items.iter().map(Button::read).collect()) {
        Some(items) => Ok(Prompts { items }),
        // The rules say what is wrong.
        None => {
            let by_rules = blocks::find(name).and_then(|kind| kind.shape.check(map).err());
            Err(by_rules.unwrap_or_else(|| Fault::new("expected buttons")).of_type(name))
        }
    }
}

fn action_ids(card: View<'_>) -> impl Iterator<Item = &str> {
    card.objects("actions").filter_map(|action| action.raw("id"))
}

fn fallback(value: &Value) -> Option<&str> {
    View(value.as_object()?).raw("fallback")
}

/// Why an unknown block without a fallback can't be sent.
fn unknown(value: &Value) -> Fault {
    let Value::Object(map) = value else { return Fault::new("expected an object with a type") };
    match map.get("type").and_then(Value::as_str) {
        None => Fault::new(format!("needs type, one of {}", types())),
        Some(kind) if blocks::find(kind).is_some() => {
            Fault::new(format!("expected {BLOCK_VERSION}, the newest known version, or a fallback")).in_field("v")
        }
        Some(_) => unknown_type(),
    }
}

fn unknown_type() -> Fault {
    Fault::new(format!("unknown type, expected one of {}", types()))
}

fn types() -> String {
    blocks::CATALOGUE.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Buttons(prompts) | Self::Chips(prompts) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("type", self.kind())?;
                map.serialize_entry(self.kind(), &prompts.items)?;
                map.end()
            }
            Self::Display(map) => map.serialize(serializer),
            Self::Unknown(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
