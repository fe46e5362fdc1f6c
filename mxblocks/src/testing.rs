//! What the tests of single blocks share.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::rich::Rich;

/// Reads a payload of one block.
pub(crate) fn parse(block: &Value) -> Result<Rich, String> {
    Rich::parse(&json!({"v": 1, "blocks": [block]}).to_string())
}

/// Asserts that a block may be sent.
#[track_caller]
pub(crate) fn is_fine(block: &Value) {
    assert_eq!(parse(block).err(), None, "{block}");
}

/// Why a block may not be sent.
#[track_caller]
pub(crate) fn fault_of(block: &Value) -> String {
    parse(block).unwrap_err()
}

/// A block as text, whether or not it may be sent.
pub(crate) fn markdown_of(block: &Value) -> String {
    serde_json::from_value::<crate::Block>(block.clone()).unwrap().markdown()
}
