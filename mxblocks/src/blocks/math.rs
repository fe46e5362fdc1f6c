//! `math`: a formula in TeX.

use serde_json::{Map, Value};

use crate::markdown;
use crate::rules::Rule::{Flag, Line, Text};
use crate::rules::{Shape, TEXT, optional, required};
use crate::view::{View, join};

/// The longest caption of a formula, in characters.
pub const MAX_MATH_LINE: usize = 200;

pub(super) static SHAPE: Shape =
    Shape::new(&[required("tex", Text(TEXT)), optional("display", Flag), optional("caption", Line(MAX_MATH_LINE))]);

/// A formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Math {
    /// Its source, without dollars around it.
    pub tex: String,
    /// Whether it stands on lines of its own, which is so unless the block says otherwise; else within a line.
    pub display: bool,
    /// One line that stands with it.
    pub caption: Option<String>,
}

/// The source of a `math` block, and whether it stands on lines of its own.
pub(crate) fn read(block: &Map<String, Value>) -> Option<(&str, bool)> {
    let tex = View(block).raw("tex")?;
    Some((tex, block.get("display").and_then(Value::as_bool).unwrap_or(true)))
}

pub(super) fn text(block: View<'_>) -> String {
    let tex = read(block.0).map(|(tex, display)| markdown::tex(tex, display));
    join("\n\n", [block.line("caption"), tex]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine};

    #[test]
    fn a_formula_needs_its_source_only() {
        is_fine(&json!({"type": "math", "tex": "x^2"}));
        is_fine(&json!({"type": "math", "tex": "x^2", "display": false, "caption": "A square"}));
        for (block, expected) in [
            (json!({"type": "math", "tex": ""}), " math: needs tex (takes tex, display?, caption?)"),
            (
                json!({"type": "math", "tex": "x", "display": "no"}),
                ".display math: expected true or false, found \"no\"",
            ),
            (
                json!({"type": "math", "tex": "x", "caption": "a\nb"}),
                ".caption math: expected one line of at most 200 characters, found several lines",
            ),
        ] {
            assert_eq!(fault_of(&block), format!("blocks[0]{expected}"));
        }
    }
}
