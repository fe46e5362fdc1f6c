//! `progress`: work in several steps.

use crate::rules::Rule::{Integer, Line, List, Object, OneOf};
use crate::rules::{LINE, Shape, optional, required};
use crate::view::{View, join};

/// The most steps.
const MAX_STEPS: usize = 50;

pub(super) static SHAPE: Shape = Shape::new(&[
    optional("title", Line(LINE)),
    optional("percent", Integer(0, 100)),
    required("steps", List(1, MAX_STEPS, &Object(&STEP))),
]);

pub(super) static STEP: Shape = Shape::new(&[
    required("label", Line(LINE)),
    optional("state", OneOf(&["todo", "active", "done", "failed", "skipped"])),
    optional("text", Line(LINE)),
]);

pub(super) fn text(block: View<'_>) -> String {
    let percent = block.line("percent").map(|percent| format!("{percent} %"));
    let head = join(" · ", [block.bold("title"), percent]);
    join("\n", [head, steps(block)]).unwrap_or_default()
}

/// The steps of a list `steps`, each with a sign for its state.
pub(super) fn steps(of: View<'_>) -> Option<String> {
    join(
        "\n",
        of.objects("steps").map(|step| {
            let sign = match step.raw("state") {
                Some("active") => "▶",
                Some("done") => "✓",
                Some("failed") => "✗",
                Some("skipped") => "–",
                _ => "○",
            };
            let step = join(": ", [step.line("label"), step.line("text")])?;
            Some(format!("- {sign} {step}"))
        }),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine};

    #[test]
    fn a_step_has_a_label_and_one_of_five_states() {
        is_fine(&json!({"type": "progress", "steps": [{"label": "Build"}], "percent": 100}));
        for (block, expected) in [
            (json!({"type": "progress", "percent": 10}), " progress: needs steps (takes title?, percent?, steps)"),
            (
                json!({"type": "progress", "steps": ["Build"]}),
                ".steps[0] progress: expected an object with label, state?, text?, found \"Build\"",
            ),
            (
                json!({"type": "progress", "steps": [{"label": "Build", "state": "ok"}]}),
                ".steps[0].state progress: expected one of todo, active, done, failed, skipped, found \"ok\"",
            ),
            (
                json!({"type": "progress", "steps": [{"label": "Build"}], "percent": 101}),
                ".percent progress: expected a whole number from 0 to 100, found 101",
            ),
        ] {
            assert_eq!(fault_of(&block), format!("blocks[0]{expected}"));
        }
    }
}
