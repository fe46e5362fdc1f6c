//! `stream`: an answer that is still being written. The message's own text is what there is so far.

use serde::{Deserialize, Serialize};

use crate::rules::Rule::{Https, Key, OneOf};
use crate::rules::{Shape, aside, required};
use crate::view::View;

/// The longest id of a stream, in characters.
pub const MAX_STREAM_ID: usize = 64;

pub(super) static SHAPE: Shape =
    Shape::new(&[required("id", Key(MAX_STREAM_ID)), aside("url", Https), required("state", OneOf(&["live", "done"]))]);

/// How far a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamState {
    /// More is to come; a client may follow the stream's `url`.
    Live,
    /// The message's text is the whole. Stands in the last edit.
    Done,
    /// A state that is not known here. It is read, but does not pass validation.
    #[serde(other)]
    Unknown,
}

/// Nothing: the message's text is the stream's.
pub(super) fn text(_: View<'_>) -> String {
    String::new()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine};

    #[test]
    fn a_stream_is_live_or_done() {
        is_fine(&json!({"type": "stream", "id": "a1", "url": "https://example.org/stream/a1", "state": "live"}));
        is_fine(&json!({"type": "stream", "id": "a1", "state": "done"}));
        for (block, expected) in [
            (json!({"type": "stream"}), " stream: needs id and state (takes id, url?, state)"),
            (
                json!({"type": "stream", "id": "a1", "state": "paused"}),
                ".state stream: expected one of live, done, found \"paused\"",
            ),
            (
                json!({"type": "stream", "id": "a1", "state": "live", "url": "http://example.org/a1"}),
                ".url stream: expected an https address, found \"http://example.org/a1\"",
            ),
            (
                json!({"type": "stream", "id": "x".repeat(65), "state": "live"}),
                ".id stream: expected one line of at most 64 characters, found 65 characters",
            ),
        ] {
            assert_eq!(fault_of(&block), format!("blocks[0]{expected}"));
        }
    }
}
