//! The wire format of rich blocks in Matrix messages: types, limits, validation, plain text.
//!
//! A payload, [`Rich`], rides under one extra key in the content of an ordinary `m.room.message`. Clients that know the
//! key draw the blocks; all others show the message's text, which therefore says everything too.
//!
//! ```
//! let rich = mxblocks::Rich::parse(r#"{"v":1,"blocks":[{"type":"ticker","symbol":"ABC","price":62.99}]}"#)?;
//! assert_eq!(rich.markdown(), "**ABC**: 62.99");
//! let wrong = mxblocks::Rich::parse(r#"{"v":1,"blocks":[{"type":"ticker","price":1}]}"#);
//! assert!(wrong.is_err_and(|error| error.starts_with("blocks[0] ticker: needs symbol")));
//! # Ok::<(), String>(())
//! ```
//!
//! - **In:** [`Rich::parse`] reads what a model or a program wrote, replaces floats, which Matrix refuses, and checks each
//!   block. Its errors name the place and what is expected there, so that a model can mend its call.
//! - **Out:** a [`Rich`] serialises to the payload; [`WriteKey`] has the key to put it under, [`ContentKeys`] finds it
//!   again. [`Rich::markdown`] and [`Rich::missing_from`] make the text.
//!
//! The rules of each type are data, in one file each; docs/mxblocks.md has the same as tables. No JSON makes any of this
//! panic, and the time it takes grows about linearly with the payload.

mod block;
mod blocks;
mod canonical;
mod fault;
mod keys;
mod markdown;
mod number;
mod prompts;
mod rich;
mod rules;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod time;
mod view;

pub use block::{BLOCK_VERSION, Block};
pub use blocks::{
    DISPLAY_TYPES, MAX_CAPTION, MAX_FILE_NAME, MAX_GALLERY, MAX_LABEL, MAX_MATH_LINE, MAX_PREVIEW_BYTES,
    MAX_PREVIEW_LINES, MAX_PROMPTS, MAX_STREAM_ID, MIN_GALLERY, Math, StreamState, TRACKER_KINDS,
};
pub use canonical::{canonical_content, canonicalize};
pub use keys::{ALBUM_KEYS, ContentKeys, RICH_KEY, RICH_KEY_NEW, RICH_KEYS, USED_KEYS, WriteKey};
pub use number::{MAX_SAFE_INT, has_float, is_decimal};
pub use prompts::{Action, Button, Prompts, Style};
pub use rich::{MAX_BLOCKS, MAX_PAYLOAD, RICH_VERSION, Rich};
pub use rules::is_mxc;
