//! `tracker`: where an order, a ride or a parcel is. Sent once, then edited as the state changes, until it is `done`.

use super::progress::{STEP, steps};
use crate::rules::Rule::{Integer, Line, List, Object, OneOf, Text, Web};
use crate::rules::{LINE, SHORT, Shape, TEXT, optional, required};
use crate::view::{View, join};

/// What can be tracked.
pub const TRACKER_KINDS: [&str; 3] = ["order", "ride", "parcel"];

/// The most steps.
const MAX_STEPS: usize = 20;

pub(super) static SHAPE: Shape = Shape::new(&[
    required("kind", OneOf(&TRACKER_KINDS)),
    required("state", Line(SHORT)),
    optional("title", Line(LINE)),
    optional("eta", Line(LINE)),
    optional("percent", Integer(0, 100)),
    optional("steps", List(0, MAX_STEPS, &Object(&STEP))),
    optional("text", Text(TEXT)),
    optional("url", Web),
]);

pub(super) fn text(block: View<'_>) -> String {
    let title = block.bold("title").or_else(|| block.bold("kind"));
    let percent = block.line("percent").map(|percent| format!("{percent} %"));
    let state = join(", ", [block.line("state"), percent]);
    let head = join(" · ", [join(": ", [title, state]), block.time("eta")]);
    let rest = join("\n", [block.paragraphs("text"), block.link("url")]);
    join("\n\n", [join("\n", [head, steps(block)]), rest]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine, markdown_of};

    #[test]
    fn a_tracker_has_a_kind_and_a_state() {
        is_fine(&json!({"type": "tracker", "kind": "parcel", "state": "done"}));
        for (block, expected) in [
            (
                json!({"type": "tracker"}),
                " tracker: needs kind and state (takes kind, state, title?, eta?, percent?, steps?, text?, url?)",
            ),
            (
                json!({"type": "tracker", "kind": "train", "state": "late"}),
                ".kind tracker: expected one of order, ride, parcel, found \"train\"",
            ),
            (
                json!({"type": "tracker", "kind": "ride", "state": 3}),
                ".state tracker: expected one line of at most 64 characters, found 3",
            ),
        ] {
            assert_eq!(fault_of(&block), format!("blocks[0]{expected}"));
        }
    }

    #[test]
    fn a_tracker_without_title_is_called_by_its_kind() {
        let ride = json!({"type": "tracker", "kind": "ride", "state": "on the way", "eta": "2026-03-01T18:30Z"});
        assert_eq!(markdown_of(&ride), "**ride**: on the way · 2026-03-01 18:30 UTC");
    }
}
