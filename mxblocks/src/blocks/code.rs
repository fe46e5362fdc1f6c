//! `code` and `diff`: source text, and a change to it.

use crate::markdown;
use crate::rules::Rule::{Line, Text};
use crate::rules::{LONG, SHORT, Shape, aside, optional, required};
use crate::view::{View, join};

/// The longest name of a file, in characters.
pub const MAX_FILE_NAME: usize = 255;

pub(super) static CODE: Shape = Shape::new(&[
    required("code", Text(LONG)),
    aside("language", Line(SHORT)),
    optional("filename", Line(MAX_FILE_NAME)),
]);

pub(super) static DIFF: Shape = Shape::new(&[required("diff", Text(LONG)), optional("filename", Line(MAX_FILE_NAME))]);

pub(super) fn text(block: View<'_>) -> String {
    fenced(block, block.raw("language").filter(|language| is_word(language)).unwrap_or_default(), "code")
}

pub(super) fn diff_text(block: View<'_>) -> String {
    fenced(block, "diff", "diff")
}

fn fenced(block: View<'_>, language: &str, name: &str) -> String {
    let fence = block.raw(name).map(|text| markdown::fence(language, text));
    join("\n\n", [block.bold("filename"), fence]).unwrap_or_default()
}

/// Anything but a plain word behind a fence could end it.
fn is_word(language: &str) -> bool {
    language.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-+#".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine, markdown_of};

    #[test]
    fn code_and_diff_need_their_text() {
        is_fine(&json!({"type": "code", "code": "x"}));
        is_fine(&json!({"type": "diff", "diff": "+x"}));
        assert_eq!(fault_of(&json!({"type": "code"})), "blocks[0] code: needs code (takes code, language?, filename?)");
        assert_eq!(fault_of(&json!({"type": "diff"})), "blocks[0] diff: needs diff (takes diff, filename?)");
        assert_eq!(
            fault_of(&json!({"type": "code", "code": "x", "filename": "a".repeat(256)})),
            "blocks[0].filename code: expected one line of at most 255 characters, found 256 characters"
        );
    }

    #[test]
    fn a_language_that_is_no_word_is_left_out() {
        let code = json!({"type": "code", "code": "x", "language": "a ```"});
        assert_eq!(markdown_of(&code), "```\nx\n```");
    }
}
