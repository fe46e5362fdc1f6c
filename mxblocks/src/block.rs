//! One block of a payload.

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::blocks;
use crate::fault::Fault;
use crate::number::check_canonical_map;
use crate::prompts::{Button, Prompts};

/// The newest version of a block that is known here. A block without `v` has this one.
pub const BLOCK_VERSION: u64 = 1;

/// One block: something that a client draws under a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A row of buttons, for a decision.
    Buttons(Prompts),
    /// A row of small quick replies.
    Chips(Prompts),
    /// Any other known type: the block's object, `type` included. Fields that are not known stay in it.
    Display(Map<String, Value>),
    /// An unknown type, a newer version, or no block at all. Kept as it came, so that the payload around it loads.
    Unknown(Value),
}

impl Block {
    /// The block's `type`; empty where it has none.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Buttons(_) => blocks::BUTTONS,
            Self::Chips(_) => blocks::CHIPS,
            Self::Display(map) => map.get("type").and_then(Value::as_str).unwrap_or_default(),
            Self::Unknown(value) => value.get("type").and_then(Value::as_str).unwrap_or_default(),
        }
    }

    /// Sorts a block into its variant. Only buttons and chips are looked into, since only they have a type of their own.
    pub(crate) fn read(value: Value) -> Result<Self, Fault> {
        let Value::Object(map) = value else { return Ok(Self::Unknown(value)) };
        let newer = map.get("v").and_then(Value::as_u64).is_some_and(|v| v > BLOCK_VERSION);
        match map.get("type").and_then(Value::as_str) {
            _ if newer => Ok(Self::Unknown(Value::Object(map))),
            Some(blocks::BUTTONS) => prompts(&map, blocks::BUTTONS).map(Self::Buttons),
            Some(blocks::CHIPS) => prompts(&map, blocks::CHIPS).map(Self::Chips),
            Some(kind) if blocks::DISPLAY_TYPES.contains(&kind) => Ok(Self::Display(map)),
            _ => Ok(Self::Unknown(Value::Object(map))),
        }
    }

    /// Checks the block by the rules of its type.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        match self {
            Self::Buttons(_) | Self::Chips(_) => Ok(()),
            Self::Display(map) => check_canonical_map(map, 0),
            Self::Unknown(_) => Err(Fault::new("unknown type")),
        }
    }
}

/// The items of a `buttons` or `chips` block, which stand under the type's own name.
fn prompts(map: &Map<String, Value>, kind: &str) -> Result<Prompts, Fault> {
    let items = map.get(kind).ok_or_else(|| Fault::new(format!("needs {kind}")))?;
    let items = Vec::<Button>::deserialize(items).map_err(|error| Fault::new(error.to_string()))?;
    Ok(Prompts { items })
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
