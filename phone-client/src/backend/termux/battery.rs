//! What `termux-battery-status` tells.

use serde_json::Value;

use super::super::Health;

/// Battery and heat from its JSON: `percentage`, `status`, `plugged` and `temperature` in °C. What makes no sense is
/// not known: Android's "unknown" is a number far out of range.
pub(super) fn health(text: &str) -> Health {
    let status: Value = serde_json::from_str(text).unwrap_or_default();
    let word = |key| status.get(key).and_then(Value::as_str).unwrap_or_default();
    let charging = match (word("status"), word("plugged")) {
        ("CHARGING" | "FULL", _) => Some(true),
        // Plugged in, and yet it gets less: a weak charger does not keep it alive.
        ("DISCHARGING" | "NOT_CHARGING", _) | (_, "UNPLUGGED") => Some(false),
        (_, "PLUGGED_AC" | "PLUGGED_USB" | "PLUGGED_WIRELESS" | "PLUGGED_DOCK") => Some(true),
        _ => None,
    };
    let percentage = status.get("percentage").and_then(Value::as_f64).filter(|percent| (0.0..=100.0).contains(percent));
    let temperature = status.get("temperature").and_then(Value::as_f64).filter(|degrees| degrees.abs() <= 150.0);
    Health {
        battery: percentage.map(|percent| percent as u8),
        charging,
        temperature: temperature.map(|degrees| degrees as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn battery_and_heat_are_read_as_far_as_they_make_sense() {
        let known = |battery, charging, temperature| Health {
            battery: Some(battery),
            charging: Some(charging),
            temperature: Some(temperature),
        };
        for (text, expected) in [
            (
                r#"{"percentage":3,"status":"DISCHARGING","plugged":"UNPLUGGED","temperature":31.5}"#,
                known(3, false, 31.5),
            ),
            (r#"{"percentage":100,"status":"FULL","plugged":"PLUGGED_AC","temperature":-4}"#, known(100, true, -4.0)),
            (
                r#"{"percentage":2,"status":"DISCHARGING","plugged":"PLUGGED_USB","temperature":40}"#,
                known(2, false, 40.0),
            ),
            (
                r#"{"percentage":50.0,"status":"UNKNOWN","plugged":"PLUGGED_WIRELESS","temperature":1}"#,
                known(50, true, 1.0),
            ),
            (r#"{"percentage":-1,"plugged":"PLUGGED_-1","temperature":-214748364.8}"#, Health::default()),
            (r#"{"percentage":"7","status":7}"#, Health::default()),
            ("", Health::default()),
            ("The Termux:API plugin is not installed", Health::default()),
        ] {
            assert_eq!(health(text), expected, "{text}");
        }
    }
}
