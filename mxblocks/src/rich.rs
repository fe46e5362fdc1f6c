//! A whole payload.

use std::io;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::block::Block;
use crate::fault::Fault;
use crate::number::{canonicalize_map, canonicalize_value};

/// The version of the payload, its `v`.
pub const RICH_VERSION: u32 = 1;

/// The most blocks of one payload; the fewest is one.
pub const MAX_BLOCKS: usize = 8;

/// The largest payload, in bytes of compact JSON. An event may have 64 KiB, encrypted and with its text.
pub const MAX_PAYLOAD: usize = 32 * 1024;

/// A payload: the blocks that a message shows where a client can draw them.
///
/// Written as `{"v":1,"blocks":[...]}`. Reading sorts what is there and keeps what is not known; only
/// [`validate`](Self::validate) says whether it may be sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rich {
    /// The payload's version: [`RICH_VERSION`].
    pub v: u32,
    /// The blocks, in the order in which they are shown.
    pub blocks: Vec<Block>,
}

impl Rich {
    /// Reads, mends and checks a payload.
    ///
    /// # Errors
    ///
    /// For whoever wrote the payload, most often a model: where in it something is wrong, the block's type and what is
    /// expected there, such as `blocks[2].rows[0] table: expected 3 cells, one for each column`.
    pub fn parse(json: &str) -> Result<Self, String> {
        let value = serde_json::from_str(json).map_err(|error| format!("the payload is no JSON: {error}"))?;
        let mut rich = Self::read(value).map_err(|fault| fault.to_string())?;
        rich.canonicalize()?;
        rich.validate()?;
        Ok(rich)
    }

    /// Replaces each float of the blocks, as [`canonicalize`](crate::canonicalize) does.
    ///
    /// # Errors
    ///
    /// A number that no event can carry, by its path: `blocks[0].price ticker: ...`.
    pub fn canonicalize(&mut self) -> Result<(), String> {
        for (index, block) in self.blocks.iter_mut().enumerate() {
            let canonical = match block {
                Block::Buttons(_) | Block::Chips(_) => Ok(()),
                Block::Display(map) => canonicalize_map(map, 0),
                Block::Unknown(value) => canonicalize_value(value, 0),
            };
            canonical.map_err(|fault| fault.in_block(index, block.kind()).to_string())?;
        }
        Ok(())
    }

    /// Checks that the payload may be sent: each block by the rules of its type, the numbers, the ids and the size.
    ///
    /// # Errors
    ///
    /// As by [`parse`](Self::parse): the first fault, by its path.
    pub fn validate(&self) -> Result<(), String> {
        self.check().map_err(|fault| fault.to_string())
    }

    fn read(value: Value) -> Result<Self, Fault> {
        let Value::Object(mut payload) = value else { return Err(Fault::new("expected an object with v and blocks")) };
        let v = match payload.get("v") {
            None | Some(Value::Null) => RICH_VERSION,
            Some(v) => v.as_u64().and_then(|v| u32::try_from(v).ok()).ok_or_else(wrong_version)?,
        };
        let blocks = match payload.remove("blocks") {
            Some(Value::Array(blocks)) => blocks,
            Some(_) => return Err(Fault::new("expected a list of blocks").in_field("blocks")),
            None => return Err(Fault::new("needs blocks, a list of 1 to 8 objects")),
        };
        let read = |(index, block): (usize, Value)| {
            let kind = block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
            Block::read(block).map_err(|fault| fault.in_block(index, &kind))
        };
        Ok(Self { v, blocks: blocks.into_iter().enumerate().map(read).collect::<Result<_, _>>()? })
    }

    fn check(&self) -> Result<(), Fault> {
        if self.v != RICH_VERSION {
            return Err(wrong_version());
        }
        if !(1..=MAX_BLOCKS).contains(&self.blocks.len()) {
            let found = self.blocks.len();
            return Err(Fault::new(format!("expected 1 to {MAX_BLOCKS} blocks, found {found}")).in_field("blocks"));
        }
        for (index, block) in self.blocks.iter().enumerate() {
            block.check().map_err(|fault| fault.in_block(index, block.kind()))?;
        }
        let size = serialized_len(self);
        if size > MAX_PAYLOAD {
            return Err(Fault::new(format!("the payload is too large: {size} bytes, at most {MAX_PAYLOAD}")));
        }
        Ok(())
    }
}

fn wrong_version() -> Fault {
    Fault::new(format!("expected {RICH_VERSION}")).in_field("v")
}

/// How many bytes of compact JSON a value takes, without writing them anywhere.
fn serialized_len(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

impl<'de> Deserialize<'de> for Rich {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
