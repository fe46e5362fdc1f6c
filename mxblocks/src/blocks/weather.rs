//! `weather`: how it is somewhere, and how it will be.

use crate::rules::Rule::{Line, List, Number, Object};
use crate::rules::{LINE, SHORT, Shape, optional, required};
use crate::view::{View, join};

/// The most days or hours of a forecast.
const MAX_FORECAST: usize = 24;

pub(super) static SHAPE: Shape = Shape::new(&[
    required("location", Line(LINE)),
    required("temp", Number),
    optional("unit", Line(SHORT)),
    optional("condition", Line(LINE)),
    optional("high", Number),
    optional("low", Number),
    optional("forecast", List(0, MAX_FORECAST, &Object(&FORECAST))),
]);

pub(super) static FORECAST: Shape = Shape::new(&[
    required("label", Line(SHORT)),
    optional("condition", Line(LINE)),
    optional("temp", Number),
    optional("high", Number),
    optional("low", Number),
]);

pub(super) fn text(block: View<'_>) -> String {
    let unit = match block.line("unit").as_deref() {
        None => "°".to_owned(),
        Some("C" | "°C") => " °C".to_owned(),
        Some("F" | "°F") => " °F".to_owned(),
        Some(unit) => format!(" {unit}"),
    };
    let now = join(": ", [block.bold("location"), sky(block, &unit)]);
    let forecast = block.objects("forecast").map(|later| {
        let later = join(": ", [later.line("label"), sky(later, &unit)])?;
        Some(format!("- {later}"))
    });
    join("\n", [now].into_iter().chain(forecast)).unwrap_or_default()
}

fn sky(at: View<'_>, unit: &str) -> Option<String> {
    let degrees = |name| at.line(name).map(|number| number + unit);
    let range = |name| degrees(name).map(|degrees| format!("{name} {degrees}"));
    join(", ", [degrees("temp"), at.line("condition"), range("high"), range("low")])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine};

    #[test]
    fn weather_is_somewhere_and_has_a_temperature() {
        is_fine(
            &json!({"type": "weather", "location": "Oslo", "temp": -3, "unit": "C", "condition": "Snow", "high": 0, "low": -6}),
        );
        for (block, expected) in [
            (
                json!({"type": "weather"}),
                " weather: needs location and temp (takes location, temp, unit?, condition?, high?, low?, forecast?)",
            ),
            (
                json!({"type": "weather", "location": "Oslo", "temp": "-3 °C"}),
                ".temp weather: expected a whole number or a decimal string such as \"62.99\", found \"-3 °C\"",
            ),
            (
                json!({"type": "weather", "location": "Oslo", "temp": 1, "forecast": [{"high": 2}]}),
                ".forecast[0] weather: needs label (takes label, condition?, temp?, high?, low?)",
            ),
        ] {
            assert_eq!(fault_of(&block), format!("blocks[0]{expected}"));
        }
    }
}
