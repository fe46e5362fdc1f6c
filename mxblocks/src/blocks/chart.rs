//! `chart`: numbers over time, or by something else.

use serde_json::{Map, Value};

use crate::fault::{Fault, Step};
use crate::markdown;
use crate::rules::Rule::{Cell, Line, List, Number, Object, OneOf};
use crate::rules::{LINE, SHORT, Shape, optional, required};
use crate::view::{View, join, scalar};

/// The most points of a series.
const MAX_POINTS: usize = 500;

/// The most series.
const MAX_SERIES: usize = 12;

pub(super) static SHAPE: Shape = Shape::new(&[
    optional("title", Line(LINE)),
    optional("kind", OneOf(&["line", "bar", "area", "pie"])),
    optional("unit", Line(SHORT)),
    optional("labels", List(0, MAX_POINTS, &Cell(LINE))),
    required("series", List(1, MAX_SERIES, &Object(&SERIES))),
])
.and(a_value_for_each_label);

pub(super) static SERIES: Shape =
    Shape::new(&[optional("name", Line(LINE)), required("values", List(1, MAX_POINTS, &Number))]);

fn a_value_for_each_label(chart: &Map<String, Value>) -> Result<(), Fault> {
    let chart = View(chart);
    let labels = chart.items("labels").len();
    for (index, series) in chart.objects("series").enumerate() {
        let values = series.items("values").len();
        if labels > 0 && values != labels {
            let fault = Fault::new(format!("expected {labels} values, one for each label, found {values}"));
            return Err(fault.in_field("values").below(Step::Index(index)).in_field("series"));
        }
    }
    Ok(())
}

pub(super) fn text(chart: View<'_>) -> String {
    let labels = chart.items("labels");
    let unit = chart.line("unit").map(|unit| format!("({unit})"));
    let title = join(" ", [chart.bold("title"), unit]);
    let series = chart.objects("series").map(|series| {
        let values = series.items("values").iter().enumerate().map(|(index, value)| {
            let label = labels.get(index).and_then(scalar).map(|label| format!("{}:", markdown::line(&label)));
            join(" ", [label, scalar(value).map(|value| markdown::line(&value))])
        });
        let values = join(", ", values)?;
        Some(match series.bold("name") {
            Some(name) => format!("- {name}: {values}"),
            None => format!("- {values}"),
        })
    });
    join("\n", [title].into_iter().chain(series)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine};

    #[test]
    fn each_series_has_a_number_for_each_label() {
        is_fine(&json!({"type": "chart", "series": [{"values": [1, "2.5", 3.5]}, {"values": [1]}]}));
        is_fine(&json!({"type": "chart", "labels": [2025, "2026"], "series": [{"name": "a", "values": [1, 2]}]}));
        for (chart, expected) in [
            (json!({"type": "chart"}), " chart: needs series (takes title?, kind?, unit?, labels?, series)"),
            (
                json!({"type": "chart", "labels": ["a"], "series": [{"values": [1]}, {"values": [1, 2]}]}),
                ".series[1].values chart: expected 1 values, one for each label, found 2",
            ),
            (
                json!({"type": "chart", "series": [{"values": [1, "much"]}]}),
                ".series[0].values[1] chart: expected a whole number or a decimal string such as \"62.99\", found \"much\"",
            ),
            (
                json!({"type": "chart", "kind": "radar", "series": [{"values": [1]}]}),
                ".kind chart: expected one of line, bar, area, pie, found \"radar\"",
            ),
            (
                json!({"type": "chart", "series": [1, 2]}),
                ".series[0] chart: expected an object with name?, values, found 1",
            ),
        ] {
            assert_eq!(fault_of(&chart), format!("blocks[0]{expected}"));
        }
    }
}
