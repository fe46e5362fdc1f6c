//! The wire format of rich blocks in Matrix messages: types, limits, validation, plain text.

mod block;
mod blocks;
mod fault;
mod number;
mod prompts;
mod rich;

pub use block::{BLOCK_VERSION, Block};
pub use blocks::DISPLAY_TYPES;
pub use number::{MAX_SAFE_INT, canonical_content, canonicalize, has_float, is_decimal};
pub use prompts::{Action, Button, Prompts, Style};
pub use rich::{MAX_BLOCKS, MAX_PAYLOAD, RICH_VERSION, Rich};

/// The longest label of a button, in characters.
pub const MAX_LABEL: usize = 64;
