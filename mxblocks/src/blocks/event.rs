//! `countdown` and `event`: a deadline, and something that takes place.

use crate::rules::Rule::{Line, Text, Time, Web, When};
use crate::rules::{LINE, Shape, TEXT, optional, required};
use crate::view::{View, join};

pub(super) static COUNTDOWN: Shape =
    Shape::new(&[required("title", Line(LINE)), required("at", Time), optional("text", Text(TEXT))]);

pub(super) static EVENT: Shape = Shape::new(&[
    required("title", Line(LINE)),
    required("start", When),
    optional("end", When),
    optional("location", Line(LINE)),
    optional("text", Text(TEXT)),
    optional("url", Web),
]);

pub(super) fn countdown_text(block: View<'_>) -> String {
    let title = join(": ", [block.bold("title"), block.time("at")]);
    join("\n", [title, block.paragraphs("text")]).unwrap_or_default()
}

pub(super) fn text(block: View<'_>) -> String {
    let time = join(" – ", [block.time("start"), block.time("end")]);
    join("\n", [block.bold("title"), time, block.line("location"), block.paragraphs("text"), block.link("url")])
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine};

    #[test]
    fn a_countdown_ends_at_a_moment() {
        is_fine(&json!({"type": "countdown", "title": "Release", "at": "2026-03-01T18:30:00Z"}));
        is_fine(&json!({"type": "countdown", "title": "Release", "at": 1_772_389_800_000_i64}));
        assert_eq!(
            fault_of(&json!({"type": "countdown", "at": "2026-03-01"})),
            "blocks[0].at countdown: expected a time with its offset, such as \"2026-03-01T18:30:00Z\", or milliseconds \
             since 1970, found \"2026-03-01\""
        );
        assert_eq!(
            fault_of(&json!({"type": "countdown"})),
            "blocks[0] countdown: needs title and at (takes title, at, text?)"
        );
    }

    #[test]
    fn an_event_may_be_in_local_time_or_take_a_day() {
        for start in [json!("2026-03-01"), json!("2026-03-01T18:30"), json!("2026-03-01T18:30:00+01:00"), json!(0)] {
            is_fine(&json!({"type": "event", "title": "Fair", "start": start}));
        }
        let fault = fault_of(&json!({"type": "event", "title": "Fair", "start": "next week"}));
        assert!(fault.starts_with("blocks[0].start event: expected a time or a day, such as "), "{fault}");
    }
}
