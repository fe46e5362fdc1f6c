//! `table`: rows to compare.

use serde_json::{Map, Value};

use crate::fault::{Fault, Step, cut};
use crate::markdown;
use crate::rules::Rule::{Key, Line, LineOr, List, OneOf, Own};
use crate::rules::{LINE, Rule, Shape, describe, optional, required};
use crate::view::{View, join, scalar};

/// The most columns.
const MAX_COLUMNS: usize = 20;

/// The most rows.
const MAX_ROWS: usize = 200;

/// The longest cell, in characters.
const MAX_CELL: usize = 1000;

pub(super) static SHAPE: Shape = Shape::new(&[
    optional("caption", Line(LINE)),
    required("columns", List(1, MAX_COLUMNS, &LineOr(LINE, &COLUMN))),
    required("rows", Own("1 to 200 rows, each a list of cells or an object with the columns' keys", all_cells)),
])
.and(rows_fit);

pub(super) static COLUMN: Shape = Shape::new(&[
    required("key", Key(LINE)),
    required("label", Line(LINE)),
    optional("align", OneOf(&["left", "center", "right"])),
]);

/// The key of a column that is only a string is that string.
fn key(column: &Value) -> &str {
    match column {
        Value::Object(column) => column.get("key").and_then(Value::as_str).unwrap_or_default(),
        column => column.as_str().unwrap_or_default(),
    }
}

fn rows_fit(table: &Map<String, Value>) -> Result<(), Fault> {
    let table = View(table);
    let Some(rows) = table.0.get("rows").and_then(Value::as_array) else {
        return Err(Fault::new("expected a list of rows").in_field("rows"));
    };
    if !(1..=MAX_ROWS).contains(&rows.len()) {
        return Err(Fault::new(format!("expected 1 to {MAX_ROWS} rows, found {}", rows.len())).in_field("rows"));
    }
    let columns = table.items("columns");
    for (index, row) in rows.iter().enumerate() {
        row_fits(columns, row).map_err(|fault| fault.below(Step::Index(index)).in_field("rows"))?;
    }
    Ok(())
}

fn row_fits(columns: &[Value], row: &Value) -> Result<(), Fault> {
    match row {
        Value::Array(cells) if cells.len() == columns.len() => cells
            .iter()
            .enumerate()
            .try_for_each(|(index, cell)| is_cell(cell).map_err(|fault| fault.below(Step::Index(index)))),
        Value::Array(_) => {
            let cells = if columns.len() == 1 { "cell" } else { "cells" };
            Err(Fault::new(format!("expected {} {cells}, one for each column", columns.len())))
        }
        Value::Object(cells) => {
            let keys: Vec<_> = columns.iter().map(key).collect();
            if !keys.iter().any(|key| cells.contains_key(*key)) {
                return Err(Fault::new(format!("expected the columns' keys: {}", cut(&keys.join(", ")))));
            }
            let known = keys.iter().filter_map(|key| Some((key, cells.get(*key)?)));
            known.into_iter().try_for_each(|(key, cell)| is_cell(cell).map_err(|fault| fault.in_field(key)))
        }
        _ => Err(Fault::new(format!(
            "expected a list of cells, or an object with the columns' keys, found {}",
            describe(row)
        ))),
    }
}

/// A cell is a string, a number, or nothing.
fn is_cell(cell: &Value) -> Result<(), Fault> {
    match cell {
        Value::Null => Ok(()),
        Value::String(_) => Rule::Text(MAX_CELL).check(cell),
        Value::Number(_) => Rule::Number.check(cell),
        _ => Err(Fault::new(format!("expected a string or a number, found {}", describe(cell)))),
    }
}

pub(super) fn text(table: View<'_>) -> String {
    let columns = table.items("columns");
    let head = columns.iter().map(|column| match column {
        Value::Object(column) => View(column).0.get("label").and_then(scalar),
        column => scalar(column),
    });
    let rule = columns.iter().map(|column| match column.get("align").and_then(Value::as_str) {
        Some("right") => "---:",
        Some("center") => ":---:",
        _ => "---",
    });
    let rule = format!("| {} |", rule.collect::<Vec<_>>().join(" | "));
    let rows = table.items("rows").iter().map(|row| line(cells(columns, row)));
    let lines = [line(head), rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n");
    join("\n\n", [table.bold("caption"), Some(lines)]).unwrap_or_default()
}

/// The cells of a row, one for each column.
fn cells<'a>(columns: &'a [Value], row: &'a Value) -> impl Iterator<Item = Option<String>> + 'a {
    let at = move |(index, column)| match row {
        Value::Array(cells) => cells.get(index),
        row => row.get(key(column)),
    };
    columns.iter().enumerate().map(move |column| at(column).and_then(scalar))
}

fn all_cells(table: View<'_>) -> Vec<String> {
    let columns = table.items("columns");
    table.items("rows").iter().flat_map(|row| cells(columns, row)).flatten().collect()
}

fn line(cells: impl Iterator<Item = Option<String>>) -> String {
    let cells: Vec<_> = cells.map(|cell| markdown::cell(&cell.unwrap_or_default())).collect();
    format!("| {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine, markdown_of};

    #[test]
    fn rows_are_lists_in_the_order_of_columns_or_objects_by_their_keys() {
        is_fine(&json!({"type": "table", "columns": ["a"], "rows": [["1"]]}));
        is_fine(
            &json!({"type": "table", "columns": ["a", {"key": "b", "label": "B"}], "rows": [["x", 1], {"b": "1.5"}, [null, ""]]}),
        );
    }

    #[test]
    fn a_row_that_does_not_fit_the_columns_is_named() {
        let table =
            |row| json!({"type": "table", "columns": ["a", "b", {"key": "c", "label": "C"}], "rows": [[1, 2, 3], row]});
        for (row, expected) in [
            (json!([1, 2]), " table: expected 3 cells, one for each column"),
            (json!([1, 2, [3]]), "[2] table: expected a string or a number, found a list"),
            (json!([1, true, 3]), "[1] table: expected a string or a number, found true"),
            (json!({"C": 1}), " table: expected the columns' keys: a, b, c"),
            (json!({"c": {}}), ".c table: expected a string or a number, found an object"),
            (json!("1"), " table: expected a list of cells, or an object with the columns' keys, found \"1\""),
        ] {
            assert_eq!(fault_of(&table(row)), format!("blocks[0].rows[1]{expected}"));
        }
    }

    #[test]
    fn columns_and_rows_are_needed() {
        assert_eq!(
            fault_of(&json!({"type": "table", "columns": null})),
            "blocks[0] table: needs columns and rows (takes caption?, columns, rows)"
        );
        assert_eq!(
            fault_of(&json!({"type": "table", "columns": [{"key": "a"}], "rows": [[1]]})),
            "blocks[0].columns[0] table: needs label (takes key, label, align?)"
        );
        assert_eq!(
            fault_of(&json!({"type": "table", "columns": ["a"], "rows": []})),
            "blocks[0].rows table: expected 1 to 200 rows, found 0"
        );
    }

    #[test]
    fn a_cell_cannot_leave_its_row() {
        let table = json!({"type": "table", "columns": ["a|b"], "rows": [["x\n| y |"], [null]]});
        assert_eq!(markdown_of(&table), "| a\\|b |\n| --- |\n| x \\| y \\| |\n|  |");
    }
}
