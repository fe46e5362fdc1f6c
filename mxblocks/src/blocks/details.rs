//! `details`: long text that folds away.

use crate::markdown;
use crate::rules::Rule::{Line, Text};
use crate::rules::{LINE, LONG, Shape, required};
use crate::view::{View, join};

pub(super) static SHAPE: Shape = Shape::new(&[required("summary", Line(LINE)), required("text", Text(LONG))]);

/// The one text of a block that may be Markdown. In a quote, whatever it leaves open ends with it.
pub(super) fn text(block: View<'_>) -> String {
    join("\n\n", [block.bold("summary"), block.raw("text").map(markdown::quote)]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine, markdown_of};

    #[test]
    fn details_have_a_summary_and_a_text() {
        is_fine(&json!({"type": "details", "summary": "Log", "text": "a\nb"}));
        let fault = fault_of(&json!({"type": "details", "summary": "Log\n2", "text": " "}));
        assert_eq!(
            fault,
            "blocks[0].summary details: expected one line of at most 200 characters, found several lines"
        );
        let fault = fault_of(&json!({"type": "details", "text": " "}));
        assert_eq!(fault, "blocks[0] details: needs summary and text (takes summary, text)");
        let fault = fault_of(&json!({"type": "details", "summary": "Log", "text": "é".repeat(16_001)}));
        assert_eq!(fault, "blocks[0].text details: expected text of at most 16000 characters, found 16001 characters");
    }

    #[test]
    fn a_fence_left_open_ends_with_the_quote() {
        let text = markdown_of(&json!({"type": "details", "summary": "Log", "text": "```\n<b>"}));
        assert_eq!(text, "**Log**\n\n> ```\n> <b>");
    }
}
