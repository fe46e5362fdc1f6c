//! `place`: one venue or address.

use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::rules::Rule::{Line, Number, Text, WebOrGeo};
use crate::rules::{LINE, SHORT, Shape, TEXT, aside, optional, required};
use crate::view::{View, join, scalar};

pub(super) static SHAPE: Shape = Shape::new(&[
    required("name", Line(LINE)),
    optional("address", Line(LINE)),
    aside("lat", Number),
    aside("lon", Number),
    optional("phone", Line(SHORT)),
    optional("hours", Line(LINE)),
    optional("text", Text(TEXT)),
    optional("url", WebOrGeo),
])
.and(is_on_earth);

fn is_on_earth(place: &Map<String, Value>) -> Result<(), Fault> {
    let degrees = |name| -> Option<f64> { scalar(place.get(name)?)?.parse().ok() };
    let (lat, lon) = (degrees("lat"), degrees("lon"));
    if lat.is_some() != lon.is_some() {
        return Err(Fault::new("needs lat and lon, or neither"));
    }
    for (name, value, most) in [("lat", lat, 90.0), ("lon", lon, 180.0)] {
        if value.is_some_and(|value| value.abs() > most) {
            return Err(Fault::new(format!("expected degrees from -{most} to {most}")).in_field(name));
        }
    }
    Ok(())
}

pub(super) fn text(place: View<'_>) -> String {
    let title = join(", ", [place.bold("name"), place.line("address")]);
    let reach = join(" · ", [place.line("phone"), place.line("hours")]);
    let point = join(",", [place.line("lat"), place.line("lon")]).map(|point| format!("geo:{point}"));
    join("\n", [title, reach, place.paragraphs("text"), place.link("url").or(point)]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use crate::testing::{fault_of, is_fine, markdown_of};

    #[test]
    fn a_place_has_both_coordinates_or_none() {
        is_fine(&json!({"type": "place", "name": "Harbour"}));
        is_fine(&json!({"type": "place", "name": "Harbour", "lat": 59.91, "lon": "-10.75"}));
        for (fields, expected) in [
            (json!({"lat": 1}), " place: needs lat and lon, or neither"),
            (json!({"lat": 91, "lon": 0}), ".lat place: expected degrees from -90 to 90"),
            (json!({"lat": 0, "lon": "-180.5"}), ".lon place: expected degrees from -180 to 180"),
        ] {
            let mut place = json!({"type": "place", "name": "Harbour"});
            place.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            assert_eq!(fault_of(&place), format!("blocks[0]{expected}"));
        }
    }

    #[test]
    fn a_place_may_link_to_a_map() {
        let place = |url| json!({"type": "place", "name": "Harbour", "url": url});
        is_fine(&place("geo:59.91,10.75"));
        assert_eq!(markdown_of(&place("geo:59.91,10.75")), "**Harbour**\n<geo:59.91,10.75>");
        assert_eq!(
            fault_of(&place("maps:harbour")),
            "blocks[0].url place: expected an http, https or geo address, found \"maps:harbour\""
        );
    }
}
