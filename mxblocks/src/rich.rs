//! A whole payload.

use std::collections::BTreeSet;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::block::Block;
use crate::blocks::{Math, StreamState, read_math};
use crate::fault::{Fault, cut};
use crate::prompts::{Button, Prompts};
use crate::rules::Words;

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
    /// A payload of one formula, on lines of its own or within a line.
    #[must_use]
    pub fn math(tex: &str, display: bool) -> Self {
        Self::display(json!({"type": "math", "tex": tex, "display": display}))
    }

    /// A payload that marks a message as an answer that is still being written, or now done.
    ///
    /// `url` is where a client can follow it meanwhile.
    #[must_use]
    pub fn stream(id: &str, url: Option<&str>, state: StreamState) -> Self {
        let mut block = json!({"type": "stream", "id": id, "state": state});
        if let Some(url) = url {
            block["url"] = Value::from(url);
        }
        Self::display(block)
    }

    /// A payload of one row of buttons.
    #[must_use]
    pub fn buttons(items: Vec<Button>) -> Self {
        Self::of(Block::Buttons(Prompts { items }))
    }

    fn display(block: Value) -> Self {
        Self::of(match block {
            Value::Object(map) => Block::Display(map),
            other => Block::Unknown(other),
        })
    }

    fn of(block: Block) -> Self {
        Self { v: RICH_VERSION, blocks: vec![block] }
    }

    /// Reads, mends and checks a payload.
    ///
    /// # Errors
    ///
    /// For whoever wrote the payload, most often a model: where in it something is wrong, the block's type and what is
    /// expected there, such as `blocks[2].rows[0] table: expected 3 cells, one for each column`.
    pub fn parse(json: &str) -> Result<Self, String> {
        let value = serde_json::from_str(json).map_err(|error| format!("the payload is no JSON: {error}"))?;
        Self::admit(value).map_err(|fault| fault.to_string())
    }

    /// Replaces each float of the blocks, as [`canonicalize`](crate::canonicalize) does.
    ///
    /// # Errors
    ///
    /// A number that no event can carry, by its path: `blocks[0].price ticker: ...`.
    pub fn canonicalize(&mut self) -> Result<(), String> {
        for (index, block) in self.blocks.iter_mut().enumerate() {
            block.canonicalize().map_err(|fault| fault.of_type(block.kind()).in_block(index).to_string())?;
        }
        Ok(())
    }

    /// Checks that the payload may be sent: each block by the rules of its type, the numbers, the ids and the size.
    ///
    /// # Errors
    ///
    /// The first fault, as by [`parse`](Self::parse).
    pub fn validate(&self) -> Result<(), String> {
        self.check().map_err(|fault| fault.to_string())
    }

    /// The formula of a payload that holds nothing else. Such a message can be sent as an image of it.
    #[must_use]
    pub fn math_only(&self) -> Option<Math> {
        let [Block::Display(map)] = self.blocks.as_slice() else { return None };
        let (tex, display) = self.find_math()?;
        let caption = map.get("caption").and_then(Value::as_str).map(str::to_owned);
        Some(Math { tex: tex.to_owned(), display, caption })
    }

    /// The source of the first formula, and whether it stands on lines of its own.
    #[must_use]
    pub fn find_math(&self) -> Option<(&str, bool)> {
        self.blocks.iter().find_map(|block| match block {
            Block::Display(map) if block.kind() == "math" => read_math(map),
            _ => None,
        })
    }

    /// The whole payload as Markdown, for whoever can't see it drawn.
    #[must_use]
    pub fn markdown(&self) -> String {
        let texts: Vec<_> = self.blocks.iter().map(Block::markdown).filter(|text| !text.is_empty()).collect();
        texts.join("\n\n")
    }

    /// The blocks, as Markdown, that a message's text does not say, so that they can be added to it.
    ///
    /// A text says a block if it has at least four fifths of the words of the block's values, in any order and case.
    /// States, ids, addresses of uploads and what is only drawn, as a ticker's line, don't count.
    #[must_use]
    pub fn missing_from(&self, text: &str) -> Vec<String> {
        let said = Words::of(text);
        let missing = self.blocks.iter().filter(|block| !said.say(&block.words())).map(Block::markdown);
        missing.filter(|text| !text.is_empty()).collect()
    }

    fn read(value: Value) -> Result<Self, Fault> {
        let (v, blocks) = open(value)?;
        let read = |(index, block)| Block::read(block).map_err(|fault| fault.in_block(index));
        Ok(Self { v, blocks: blocks.into_iter().enumerate().map(read).collect::<Result<_, _>>()? })
    }

    /// Reads, mends and checks, one block after the other.
    fn admit(value: Value) -> Result<Self, Fault> {
        let (v, values) = open(value)?;
        check_head(v, values.len())?;
        let mut blocks = Vec::with_capacity(values.len());
        let mut size = 0;
        for (index, value) in values.into_iter().enumerate() {
            let (block, bytes) = Block::admit(value).map_err(|fault| fault.in_block(index))?;
            size += bytes;
            blocks.push(block);
        }
        check_whole(&blocks, size)?;
        Ok(Self { v, blocks })
    }

    fn check(&self) -> Result<(), Fault> {
        check_head(self.v, self.blocks.len())?;
        let mut size = 0;
        for (index, block) in self.blocks.iter().enumerate() {
            size += block.check().map_err(|fault| fault.of_type(block.kind()).in_block(index))?;
        }
        check_whole(&self.blocks, size)
    }
}

/// A payload's version and its blocks as they came.
fn open(value: Value) -> Result<(u32, Vec<Value>), Fault> {
    let Value::Object(mut payload) = value else { return Err(Fault::new("expected an object with v and blocks")) };
    let v = match payload.get("v") {
        None | Some(Value::Null) => RICH_VERSION,
        Some(v) => v.as_u64().and_then(|v| u32::try_from(v).ok()).ok_or_else(wrong_version)?,
    };
    match payload.remove("blocks") {
        Some(Value::Array(blocks)) => Ok((v, blocks)),
        Some(_) => Err(Fault::new("expected a list of blocks").in_field("blocks")),
        None => Err(Fault::new("needs blocks, a list of 1 to 8 objects")),
    }
}

fn check_head(v: u32, blocks: usize) -> Result<(), Fault> {
    if v != RICH_VERSION {
        return Err(wrong_version());
    }
    if !(1..=MAX_BLOCKS).contains(&blocks) {
        return Err(Fault::new(format!("expected 1 to {MAX_BLOCKS} blocks, found {blocks}")).in_field("blocks"));
    }
    Ok(())
}

/// What the blocks, which are right by themselves, may not be together; `size` is the sum of theirs.
fn check_whole(blocks: &[Block], size: usize) -> Result<(), Fault> {
    let mut ids = BTreeSet::new();
    for (index, block) in blocks.iter().enumerate() {
        are_new(&mut ids, block).map_err(|fault| fault.of_type(block.kind()).in_block(index))?;
    }
    let size = size + r#"{"v":1,"blocks":[]}"#.len() + blocks.len() - 1;
    if size > MAX_PAYLOAD {
        return Err(Fault::new(format!("the payload is too large: {size} bytes, at most {MAX_PAYLOAD}")));
    }
    Ok(())
}

/// An id names one thing of the message, or an answer could not say which.
fn are_new<'a>(ids: &mut BTreeSet<&'a str>, block: &'a Block) -> Result<(), Fault> {
    match block.prompt_ids().into_iter().find(|id| !ids.insert(id)) {
        None => Ok(()),
        Some(id) => Err(Fault::new(format!("expected another id: \"{}\" is used twice in the message", cut(id)))),
    }
}

fn wrong_version() -> Fault {
    Fault::new(format!("expected {RICH_VERSION}")).in_field("v")
}

impl<'de> Deserialize<'de> for Rich {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
