//! rich_send and rich_edit: two tools for an agent that posts rich Matrix messages.
//!
//! A rich message is an ordinary message with a payload of blocks beside its text (see [`mxblocks`]). This crate is what
//! an agent needs around them whatever its tool protocol: how the tools are offered ([`tool_specs`]), what its prompt
//! says about them ([`prompt_line`], [`BLOCK_GUIDE`]), and the one check of a call ([`plan`]). Posting is the caller's.
//!
//! [`plan`] keeps one promise: whatever a model writes, it is either a [`RichCall`] whose payload a homeserver accepts
//! (no float in it, no integer past ±(2^53-1), each block within its limits), or an error that tells the model what
//! to change.
//!
//! ```
//! let arguments = serde_json::from_str(mxblocks_tools::WEATHER_EXAMPLE).unwrap();
//! let call = mxblocks_tools::plan(mxblocks_tools::RICH_SEND, &arguments).unwrap();
//! assert_eq!(call.payload.blocks.len(), 1);
//! assert!(call.reply_to.is_none());
//!
//! let refusal = mxblocks_tools::plan("rich_edit", &arguments).unwrap_err();
//! assert!(refusal.starts_with("event_id is required"));
//! ```

mod guide;
mod plan;
mod specs;

use mxblocks::Rich;

pub use guide::{BLOCK_GUIDE, WEATHER_EXAMPLE, prompt_line};
pub use plan::plan;
pub use specs::{ToolSpec, tool_specs};

/// The tool that posts a rich message.
pub const RICH_SEND: &str = "rich_send";
/// The tool that replaces a rich message of one's own.
pub const RICH_EDIT: &str = "rich_edit";
/// The longest `fallback`, in characters.
pub const MAX_FALLBACK: usize = 20_000;
/// The longest `room`, in bytes.
pub const MAX_ROOM: usize = 300;
/// The longest event id, in bytes.
const MAX_EVENT_ID: usize = 255;

/// A call that [`plan`] has checked.
#[derive(Debug, Clone, PartialEq)]
pub struct RichCall {
    /// The blocks, valid and canonical: 1 to 8 of them, no float at any depth.
    pub payload: Rich,
    /// The message's text as Markdown, trimmed. Empty only where the payload has a math block: then its TeX is the text.
    pub fallback: String,
    /// The event that the message replies to; rich_send only.
    pub reply_to: Option<String>,
    /// The root event of the thread that the message goes into; rich_send only.
    pub thread: Option<String>,
    /// The event that is replaced; always there in rich_edit, never in rich_send.
    pub edit: Option<String>,
    /// The room, in the words of the caller, trimmed; none for the room of the talk.
    pub room: Option<String>,
}

/// Whether a string has the form of an event id: `$` and at least one character more, no whitespace, at most 255 bytes.
///
/// ```
/// assert!(mxblocks_tools::valid_event_id("$abc"));
/// assert!(!mxblocks_tools::valid_event_id("[31]"));
/// ```
#[must_use]
pub fn valid_event_id(id: &str) -> bool {
    let rest = id.strip_prefix('$').unwrap_or_default();
    !rest.is_empty() && !rest.contains(char::is_whitespace) && id.len() <= MAX_EVENT_ID
}

/// Whether a tool of this name is one of the two.
///
/// ```
/// assert!(mxblocks_tools::is_rich_tool("rich_edit"));
/// assert!(!mxblocks_tools::is_rich_tool("send"));
/// ```
#[must_use]
pub fn is_rich_tool(name: &str) -> bool {
    RichTool::named(name).is_some()
}

/// One of the two tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RichTool {
    Send,
    Edit,
}

impl RichTool {
    const ALL: [Self; 2] = [Self::Send, Self::Edit];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Send => RICH_SEND,
            Self::Edit => RICH_EDIT,
        }
    }

    /// All arguments that it takes.
    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Send => &["payload", "fallback", "reply_to", "thread", "room"],
            Self::Edit => &["event_id", "payload", "fallback", "room"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_is_a_dollar_sign_and_something_without_space_within_255_bytes() {
        let longest = format!("${}", "x".repeat(254));
        for id in ["$a", "$abc:example.org", "$Zm9v-_", "$é", "$$", &longest] {
            assert!(valid_event_id(id), "{id}");
        }
        let too_long = format!("{longest}x");
        let too_many_bytes = format!("${}", "é".repeat(128));
        for id in ["", "$", "a", "[31]", "$a b", " $a", "$a\n", "$a\u{a0}b", "$\u{2003}", &too_long, &too_many_bytes] {
            assert!(!valid_event_id(id), "{id:?}");
        }
    }

    #[test]
    fn the_two_tools_are_known_by_their_exact_names() {
        assert!(is_rich_tool(RICH_SEND) && is_rich_tool(RICH_EDIT));
        for name in ["", "rich", "Rich_send", "rich_send ", "rich_sends", "send"] {
            assert!(!is_rich_tool(name), "{name:?}");
        }
    }
}
