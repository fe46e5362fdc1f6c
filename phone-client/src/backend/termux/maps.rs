//! Routes and places.
//!
//! Android has no intent of its own to start a route: `geo:` only shows a place, in whatever map app there is. So a route
//! without stops is asked for by `google.navigation:`, which several map apps understand, and shown by `geo:` where none
//! does. With stops, and by public transport, it is Google's route address, which a browser opens where there is no app.

use phone_actions::Action;
use serde_json::Value;

use super::{
    intent::Intent,
    plan::{Plan, Try, text, words},
    uri::component,
};

/// The most stops that the route address takes.
const MAX_STOPS: usize = 9;

pub(super) fn navigate(action: &Action) -> Plan {
    let stops = action.get("stops").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    route(action, &stops.iter().collect::<Vec<_>>())
}

/// No map app adds a stop to a running route: it is planned anew, from where the person is.
pub(super) fn add_stop(action: &Action) -> Plan {
    route(action, &[action.get("stop").ok_or("there is no stop")?])
}

fn route(action: &Action, stops: &[&Value]) -> Plan {
    let destination = action.get("destination").and_then(Spot::of).ok_or("there is no destination")?;
    let stops: Vec<_> =
        stops.iter().map(|stop| Spot::of(stop).ok_or("a stop is no place")).collect::<Result<_, _>>()?;
    if stops.len() > MAX_STOPS {
        return Err(format!("a route takes at most {MAX_STOPS} stops"));
    }
    let (letter, travel) = match text(action, "mode") {
        "walk" => ("w", "walking"),
        "bicycle" => ("b", "bicycling"),
        "transit" if !stops.is_empty() => return Err("public transport is planned without stops only".to_owned()),
        "transit" => return Ok(vec![view(&address(&destination, &[], "transit"))]),
        _ => ("d", "driving"),
    };
    if !stops.is_empty() {
        return Ok(vec![view(&address(&destination, &stops, travel))]);
    }
    let shown = "the map app only shows the place; the person starts the route there";
    Ok(vec![
        view(&format!("google.navigation:q={}&mode={letter}", destination.encoded())),
        view(&format!("geo:{}?q={}", destination.center(), destination.encoded())).with_note(shown),
    ])
}

/// The route address. It has no origin, which is then where the person is, and only so can the route start at once.
fn address(destination: &Spot, stops: &[Spot], travel: &str) -> String {
    let stops: Vec<_> = stops.iter().map(Spot::encoded).collect();
    let through = if stops.is_empty() { String::new() } else { format!("&waypoints={}", stops.join("%7C")) };
    let destination = destination.encoded();
    format!(
        "https://www.google.com/maps/dir/?api=1&destination={destination}{through}&travelmode={travel}&dir_action=navigate"
    )
}

/// The map app's own search around the person.
pub(super) fn search_nearby(action: &Action) -> Plan {
    if text(action, "near") == "route" {
        return Err("map apps let nobody else search along their route; the person searches there".to_owned());
    }
    let query = words(action, "query").ok_or("there is nothing to look for")?;
    Ok(vec![view(&format!("geo:0,0?q={}", component(&query)))])
}

fn view(uri: &str) -> Try {
    Intent::start("android.intent.action.VIEW").data(uri).argv().into()
}

/// Where something is.
enum Spot {
    /// Latitude and longitude.
    At(f64, f64),
    /// What the map app is to look for: an address, or a name such as "Home".
    Sought(String),
}

impl Spot {
    /// Coordinates in range count before a query, and that before a name.
    fn of(place: &Value) -> Option<Self> {
        let number = |key, limit: f64| place.get(key)?.as_f64().filter(|number| number.abs() <= limit);
        if let (Some(lat), Some(lon)) = (number("lat", 90.0), number("lon", 180.0)) {
            return Some(Self::At(lat, lon));
        }
        let text = |key| place.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
        text("query").or_else(|| text("name")).map(|text| Self::Sought(text.to_owned()))
    }

    fn encoded(&self) -> String {
        match self {
            Self::At(lat, lon) => format!("{lat},{lon}"),
            Self::Sought(text) => component(text),
        }
    }

    /// Where a map is to be centred; 0,0 leaves it to the map app.
    fn center(&self) -> String {
        match self {
            Self::At(lat, lon) => format!("{lat},{lon}"),
            Self::Sought(_) => "0,0".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::plan::tests::shown;

    #[test]
    fn routes() {
        let home = json!({"name": "Home"});
        let at = json!({"lat": 48.85, "lon": -0.000_000_1, "query": "x"});
        let mut calls = vec![json!({"action": "navigate", "destination": home})];
        for mode in ["drive", "walk", "bicycle", "transit"] {
            calls.push(json!({"action": "navigate", "destination": at, "mode": mode}));
            calls.push(json!({"action": "navigate", "destination": home, "stops": [at, {"query": "Rue d'Été & 1|2"}],
                "mode": mode}));
            calls.push(json!({"action": "add_stop", "destination": home, "stop": at, "mode": mode}));
        }
        calls.push(json!({"action": "navigate", "destination": {"query": "A", "name": "B"}, "replace_route": true}));
        calls.push(json!({"action": "navigate", "destination": {"lat": 91, "lon": 0, "name": "-n&mode=w"}}));
        calls.push(json!({"action": "navigate", "destination": home, "stops": vec![&home; 10]}));
        insta::assert_snapshot!(shown(&calls));
    }

    #[test]
    fn places() {
        insta::assert_snapshot!(shown(&[
            json!({"action": "search_nearby", "query": "pharmacy & open now"}),
            json!({"action": "search_nearby", "query": "fuel", "near": "me"}),
            json!({"action": "search_nearby", "query": "fuel", "near": "route"}),
        ]));
    }
}
