//! `buttons` and `chips`: quick decisions and quick replies; and the button itself, which cards have too.

use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::rules::Rule::{Id, Key, Line, List, Object, OneOf, Text};
use crate::rules::{Shape, aside, optional, required};
use crate::view::{View, join};

/// The longest label of a button, in characters.
pub const MAX_LABEL: usize = 64;

/// The most buttons or chips of one block.
pub const MAX_PROMPTS: usize = 12;

pub(crate) static BUTTONS: Shape = Shape::new(&[required("buttons", List(1, MAX_PROMPTS, &Object(&BUTTON)))]);

pub(crate) static CHIPS: Shape = Shape::new(&[required("chips", List(1, MAX_PROMPTS, &Object(&BUTTON)))]);

pub(crate) static BUTTON: Shape = Shape::new(&[
    optional("id", Id),
    required("label", Line(MAX_LABEL)),
    optional("style", OneOf(&["default", "primary", "danger"])),
    required("action", Object(&ACTION)),
]);

pub(crate) static ACTION: Shape =
    Shape::new(&[required("type", OneOf(&["react", "send"])), optional("key", Key(64)), aside("body", Text(2000))])
        .and(has_its_argument);

fn has_its_argument(action: &Map<String, Value>) -> Result<(), Fault> {
    let (kind, argument) = match action.get("type").and_then(Value::as_str) {
        Some("react") => ("react", "key"),
        _ => ("send", "body"),
    };
    match View(action).raw(argument) {
        Some(_) => Ok(()),
        None => Err(Fault::new(format!("needs {argument}, since its type is {kind}"))),
    }
}

pub(crate) fn text(block: View<'_>) -> String {
    let name = if block.0.contains_key("chips") { "chips" } else { "buttons" };
    labels(block, name).unwrap_or_default()
}

/// The labels of a list of buttons. Where a click reacts, the reaction stands before the label: any client can react.
pub(crate) fn labels(of: View<'_>, name: &str) -> Option<String> {
    join(
        " · ",
        of.objects(name).map(|button| {
            let label = button.line("label")?;
            let key = button.0.get("action").and_then(Value::as_object).and_then(|action| View(action).line("key"));
            Some(match key {
                Some(key) if !label.contains(&key) => format!("{key} {label}"),
                _ => label,
            })
        }),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine, markdown_of};

    #[test]
    fn each_button_needs_a_label_and_an_action_with_its_argument() {
        let buttons = |button| json!({"type": "buttons", "buttons": [button]});
        let react = json!({"type": "react", "key": "✅"});
        is_fine(&buttons(json!({"label": "Go", "action": react})));
        is_fine(&buttons(
            json!({"id": "go.1", "label": "Go", "style": "danger", "action": {"type": "send", "body": "x"}}),
        ));
        for (button, expected) in [
            (json!({"label": " "}), " buttons: needs label and action (takes id?, label, style?, action)"),
            (json!({"label": "Go", "action": {}}), ".action buttons: needs type (takes type, key?, body?)"),
            (
                json!({"label": "Go", "action": {"type": "react"}}),
                ".action buttons: needs key, since its type is react",
            ),
            (
                json!({"label": "Go", "action": {"type": "send", "key": "x"}}),
                ".action buttons: needs body, since its type is send",
            ),
            (
                json!({"label": "Go", "action": {"type": "open"}}),
                ".action.type buttons: expected one of react, send, found \"open\"",
            ),
            (
                json!({"label": "Go", "action": "✅"}),
                ".action buttons: expected an object with type, key?, body?, found \"✅\"",
            ),
            (
                json!({"label": "x".repeat(65), "action": react}),
                ".label buttons: expected one line of at most 64 characters, found 65 characters",
            ),
            (
                json!({"label": "Go", "style": "big", "action": react}),
                ".style buttons: expected one of default, primary, danger, found \"big\"",
            ),
            (
                json!({"label": "Go", "id": "a b", "action": react}),
                ".id buttons: expected 1 to 64 of A-Z a-z 0-9 _ . : -, found \"a b\"",
            ),
        ] {
            assert_eq!(fault_of(&buttons(button)), format!("blocks[0].buttons[0]{expected}"));
        }
    }

    #[test]
    fn there_are_one_to_twelve_of_them() {
        let chips = |count| {
            let chip = json!({"label": "Go", "action": {"type": "send", "body": "x"}});
            json!({"type": "chips", "chips": vec![chip; count]})
        };
        is_fine(&chips(12));
        assert_eq!(fault_of(&chips(13)), "blocks[0].chips chips: expected a list of 1 to 12, found 13");
        assert_eq!(fault_of(&chips(0)), "blocks[0].chips chips: expected a list of 1 to 12, found 0");
        assert_eq!(fault_of(&json!({"type": "chips"})), "blocks[0] chips: needs chips (takes chips)");
    }

    #[test]
    fn a_label_that_has_its_reaction_does_not_get_it_twice() {
        let button = |label: &str| json!({"label": label, "action": {"type": "react", "key": "✅"}});
        let block = json!({"type": "buttons", "buttons": [button("Go"), button("✅ Yes")]});
        assert_eq!(markdown_of(&block), "✅ Go · ✅ Yes");
    }
}
