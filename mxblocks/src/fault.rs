//! What is wrong with a payload, and where: the errors of this crate before they become text.

use std::fmt;

/// How much of a name or a value that came from outside an error repeats, in characters.
const MAX_QUOTE: usize = 40;

/// One fault of a payload.
///
/// A check that finds a fault knows nothing of where it stands: each caller on the way out adds its own step. So a
/// payload without faults costs no paths.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Innermost first.
    steps: Vec<Step>,
    /// The type of the block that it is in.
    kind: Option<String>,
    expected: String,
}

/// One step of a path.
#[derive(Debug)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl Step {
    pub(crate) fn key(name: &str) -> Self {
        Self::Key(cut(name))
    }
}

impl Fault {
    pub(crate) fn new(expected: impl Into<String>) -> Self {
        Self { steps: Vec::new(), kind: None, expected: expected.into() }
    }

    /// The same fault, seen from one level further out.
    pub(crate) fn below(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The same fault, in a field of the object at hand.
    pub(crate) fn in_field(self, name: &str) -> Self {
        self.below(Step::key(name))
    }

    /// The same fault, in a block of that type.
    pub(crate) fn of_type(self, kind: &str) -> Self {
        Self { kind: (!kind.is_empty()).then(|| cut(kind)), ..self }
    }

    /// The same fault, in block `index` of a payload.
    pub(crate) fn in_block(self, index: usize) -> Self {
        self.below(Step::Index(index)).in_field("blocks")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.steps.iter().rev().enumerate() {
            match step {
                Step::Key(name) if position == 0 => write!(out, "{name}")?,
                Step::Key(name) => write!(out, ".{name}")?,
                Step::Index(index) => write!(out, "[{index}]")?,
            }
        }
        match &self.kind {
            Some(kind) => write!(out, " {kind}: {}", self.expected),
            None if self.steps.is_empty() => write!(out, "{}", self.expected),
            None => write!(out, ": {}", self.expected),
        }
    }
}

/// A name or a value from outside for use in an error: one line, not too long.
pub(crate) fn cut(text: &str) -> String {
    let line = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().take(MAX_QUOTE).map(line).collect();
    if text.chars().nth(MAX_QUOTE).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_reads_as_path_type_and_what_is_expected() {
        let fault = Fault::new("expected 3 cells").below(Step::Index(0)).in_field("rows").of_type("table").in_block(2);
        assert_eq!(fault.to_string(), "blocks[2].rows[0] table: expected 3 cells");
        assert_eq!(Fault::new("expected 1").in_field("v").to_string(), "v: expected 1");
        assert_eq!(Fault::new("expected an object").to_string(), "expected an object");
    }

    #[test]
    fn what_came_from_outside_is_cut_to_one_short_line() {
        assert_eq!(cut("a\nb"), "a b");
        assert_eq!(cut(&"x".repeat(50)), format!("{}…", "x".repeat(40)));
        assert_eq!(cut(&"x".repeat(40)), "x".repeat(40));
    }
}
