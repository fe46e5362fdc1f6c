//! `form`: several choices at once.

use serde_json::{Map, Value};

use super::prompts::MAX_LABEL;
use crate::fault::{Fault, Step, cut};
use crate::rules::Rule::{Flag, Id, Line, List, Object, OneOf, Text};
use crate::rules::{LINE, Shape, TEXT, aside, optional, required};
use crate::view::{View, join, scalar};

/// The most fields.
const MAX_FIELDS: usize = 20;

/// The most options of a field.
const MAX_OPTIONS: usize = 30;

pub(super) static SHAPE: Shape = Shape::new(&[
    required("id", Id),
    optional("title", Line(LINE)),
    optional("text", Text(TEXT)),
    required("fields", List(1, MAX_FIELDS, &Object(&FIELD))),
    aside("submit", Line(MAX_LABEL)),
])
.and(ids_differ);

pub(super) static FIELD: Shape = Shape::new(&[
    required("id", Id),
    required("label", Line(LINE)),
    required("type", OneOf(&["choice", "choices", "text", "number", "toggle"])),
    optional("options", List(0, MAX_OPTIONS, &Line(LINE))),
    optional("required", Flag),
    aside("hint", Line(LINE)),
])
.and(a_choice_has_options);

fn ids_differ(form: &Map<String, Value>) -> Result<(), Fault> {
    let ids: Vec<_> = View(form).objects("fields").map(|field| field.raw("id").unwrap_or_default()).collect();
    match ids.iter().enumerate().find(|(index, id)| ids.iter().take(*index).any(|earlier| earlier == *id)) {
        None => Ok(()),
        Some((index, id)) => {
            let fault = Fault::new(format!("expected another id: \"{}\" is that of an earlier field", cut(id)));
            Err(fault.in_field("id").below(Step::Index(index)).in_field("fields"))
        }
    }
}

fn a_choice_has_options(field: &Map<String, Value>) -> Result<(), Fault> {
    let field = View(field);
    match field.raw("type") {
        Some("choice" | "choices") if field.items("options").is_empty() => {
            Err(Fault::new("needs options, since it is a choice"))
        }
        _ => Ok(()),
    }
}

pub(super) fn text(form: View<'_>) -> String {
    let fields = form.objects("fields").map(|field| {
        let options = join(
            " / ",
            field.items("options").iter().map(|option| scalar(option).map(|option| crate::markdown::line(&option))),
        );
        let mark = if field.0.get("required") == Some(&Value::Bool(true)) { "\\*" } else { "" };
        let field = join(": ", [field.line("label").map(|label| label + mark), options])?;
        Some(format!("- {field}"))
    });
    let head = join("\n", [form.bold("title"), form.paragraphs("text")]);
    join("\n", [head].into_iter().chain(fields)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine};

    #[test]
    fn a_form_has_an_id_and_fields_with_ids_of_their_own() {
        let form = |fields| json!({"type": "form", "id": "order", "fields": fields});
        is_fine(&form(json!([{"id": "size", "label": "Size", "type": "choice", "options": ["S", "L"]}])));
        is_fine(&form(json!([{"id": "a", "label": "A", "type": "text"}, {"id": "b", "label": "B", "type": "toggle"}])));
        for (fields, expected) in [
            (json!([]), ".fields form: expected a list of 1 to 20, found 0"),
            (
                json!([{"id": "a", "type": "slider"}]),
                ".fields[0].type form: expected one of choice, choices, text, number, toggle, found \"slider\"",
            ),
            (
                json!([{"id": "a", "type": "text"}]),
                ".fields[0] form: needs label (takes id, label, type, options?, required?, hint?)",
            ),
            (
                json!([{"id": "a", "label": "A", "type": "choices"}]),
                ".fields[0] form: needs options, since it is a choice",
            ),
            (
                json!([{"id": "a", "label": "A", "type": "text"}, {"id": "a", "label": "B", "type": "text"}]),
                ".fields[1].id form: expected another id: \"a\" is that of an earlier field",
            ),
        ] {
            assert_eq!(fault_of(&form(fields)), format!("blocks[0]{expected}"));
        }
        assert_eq!(
            fault_of(&json!({"type": "form"})),
            "blocks[0] form: needs id and fields (takes id, title?, text?, fields, submit?)"
        );
    }
}
