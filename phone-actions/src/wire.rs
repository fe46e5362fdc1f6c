//! What every content here has in common: its keys, and that no float gets into an event.
//!
//! Events are canonical JSON, which has integers within ±(2^53-1) and no fractions. So coordinates are always decimal
//! strings on the wire, and any other number that an event can't carry becomes one.

use serde_json::{Map, Number, Value};
use thiserror::Error;

use crate::{Refusal, rule::Rule, tables::tables};

/// In a person's message: a list of strings, what the sending device can do.
pub const CAPABILITIES_KEY: &str = "dev.waybread.capabilities";

/// In a message of the phone client: which phone it is, and what it can do.
pub const PHONE_KEY: &str = "dev.waybread.phone";

/// In a message of the agent: a card.
pub const CARD_KEY: &str = "dev.waybread.phone_action";

/// In a message of the phone client: its answer to a card.
pub const ANSWER_KEY: &str = "dev.waybread.phone_answer";

/// The version of all these keys, their `v`.
pub const VERSION: u64 = 1;

/// The largest integer of canonical JSON; the smallest is its negative.
const MAX_SAFE_INT: i64 = (1 << 53) - 1;

/// What is wrong with a content that came from outside, for the log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A key is missing or not what it should be.
    #[error("{key} is not {what}")]
    Field {
        /// The key.
        key: &'static str,
        /// What it should be.
        what: &'static str,
    },
    /// A card's action is none.
    #[error("action: {0}")]
    Action(#[from] Refusal),
}

impl Malformed {
    pub(crate) fn field(key: &'static str, what: &'static str) -> Self {
        Self::Field { key, what }
    }
}

/// The object under a key of a content: `None` if there is no such key. Its version is checked.
pub(crate) fn object<'a>(content: &'a Value, key: &'static str) -> Result<Option<&'a Map<String, Value>>, Malformed> {
    let Some(value) = content.get(key) else { return Ok(None) };
    let object = value.as_object().ok_or_else(|| Malformed::field(key, "an object"))?;
    if object.get("v") != Some(&VERSION.into()) {
        return Err(Malformed::field("v", "1"));
    }
    Ok(Some(object))
}

/// A text of an object that has the right shape.
pub(crate) fn text<'a>(
    object: &'a Map<String, Value>,
    key: &'static str,
    is: impl Fn(&str) -> bool,
    what: &'static str,
) -> Result<&'a str, Malformed> {
    let text = object.get(key).and_then(Value::as_str).filter(|text| is(text));
    text.ok_or_else(|| Malformed::field(key, what))
}

/// The value without a number that an event can't carry, at any depth; `lat` and `lon` are never numbers.
pub(crate) fn canonical(value: &Value) -> Value {
    let entry = |(key, value): (&String, &Value)| {
        let canonical = match value {
            Value::Number(number) if matches!(key.as_str(), "lat" | "lon") => decimal(number).into(),
            value => canonical(value),
        };
        (key.clone(), canonical)
    };
    match value {
        Value::Number(number) => integer(number).map_or_else(|| decimal(number).into(), Value::from),
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(map) => map.iter().map(entry).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

/// Whether there is a float anywhere in a value: `1.0` is one too.
pub(crate) fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(map) => map.values().any(has_float),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// An action from the wire, with the coordinates of its places as numbers.
pub(crate) fn restored(action: &Value) -> Result<Value, Malformed> {
    let mut action = action.clone();
    for (field, value) in action.as_object_mut().into_iter().flatten() {
        match tables().rule(field) {
            Some(Rule::Place) => restore_place(value)?,
            Some(Rule::Places) => value.as_array_mut().into_iter().flatten().try_for_each(restore_place)?,
            _ => {}
        }
    }
    Ok(action)
}

fn restore_place(place: &mut Value) -> Result<(), Malformed> {
    for key in ["lat", "lon"] {
        match place.get_mut(key) {
            Some(Value::Number(_)) => return Err(Malformed::field(key, "a decimal string")),
            Some(value) => {
                if let Some(number) = value.as_str().and_then(number) {
                    *value = number.into();
                }
            }
            None => {}
        }
    }
    Ok(())
}

/// The number as an integer that an event can carry, if it has no fraction.
fn integer(number: &Number) -> Option<i64> {
    let limit = MAX_SAFE_INT as f64;
    let integer = number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() <= limit)?;
        Some(float as i64)
    })?;
    (-MAX_SAFE_INT..=MAX_SAFE_INT).contains(&integer).then_some(integer)
}

/// The number in the fewest decimal digits that read back as the same, without an exponent.
fn decimal(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(0.0) => "0".to_owned(),
        Some(float) => format!("{float}"),
        None => number.to_string(),
    }
}

/// The number that a text writes as `-?\d+(\.\d+)?`.
fn number(text: &str) -> Option<Number> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let is_decimal = match unsigned.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(unsigned),
    };
    let float = || text.parse().ok().and_then(Number::from_f64);
    is_decimal.then(|| text.parse::<i64>().ok().map(Number::from).or_else(float)).flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn coordinates_are_decimal_strings_at_any_depth_and_other_floats_are_gone() {
        let value = json!({
            "lat": 48, "lon": -0.0, "a": [{"lat": 48.85, "b": {"lon": 1e-7}}], "whole": 3.0, "part": 2.5, "n": 7,
            "large": 9_007_199_254_740_992_i64, "huge": 1e20, "u": u64::MAX, "text": "1.5", "none": null,
        });
        let expected = json!({
            "lat": "48", "lon": "0", "a": [{"lat": "48.85", "b": {"lon": "0.0000001"}}], "whole": 3, "part": "2.5",
            "n": 7, "large": "9007199254740992", "huge": "100000000000000000000", "u": "18446744073709551615",
            "text": "1.5", "none": null,
        });
        assert_eq!(canonical(&value), expected);
        assert!(has_float(&value) && !has_float(&expected));
    }

    #[test]
    fn only_the_coordinates_of_places_become_numbers_again() {
        let wire = json!({
            "stop": {"lat": "48.85", "lon": "-2", "name": "1.5"}, "stops": [{"lat": "1e5", "lon": "٣"}],
            "values": {"lat": "48.85"}, "title": {"lat": "1"},
        });
        let expected = json!({
            "stop": {"lat": 48.85, "lon": -2, "name": "1.5"}, "stops": [{"lat": "1e5", "lon": "٣"}],
            "values": {"lat": "48.85"}, "title": {"lat": "1"},
        });
        assert_eq!(restored(&wire).unwrap(), expected);
        assert!(restored(&json!({"stops": [{"name": "a", "lat": 5}]})).is_err());
    }

    #[test]
    fn a_decimal_string_has_digits_on_both_sides_of_its_point() {
        for wrong in ["", "-", "1.", ".5", "+1", "1,5", " 1", "1e3", "NaN", "inf", "--1", "1.2.3"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
        assert_eq!(number("007"), Some(7.into()));
        assert_eq!(number(&"9".repeat(400)), None);
    }
}
