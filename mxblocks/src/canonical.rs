//! What an event can carry: values without floats, not nested too deep, and how large they are as compact JSON.
//!
//! One walk over a block answers all three, since every payload goes this way. [`canonicalize_value`] also mends what can
//! be mended, for what comes from a model; [`measure`] only looks, for what was built here.

use serde_json::{Map, Number, Value};

use crate::fault::{Fault, Step};
use crate::number::{canonical, has_float};

/// How deep lists and objects may nest, counted from the value that is looked at.
const MAX_DEPTH: usize = 32;

/// Replaces each float in a value: by an integer if it has no fraction, else by its shortest decimal string.
///
/// # Errors
///
/// A number outside ±(2^53-1) that has no fraction, or a nesting that is too deep for an event; the error begins with
/// the path from the value, such as `rows[0].price`. What was replaced before stays replaced.
pub fn canonicalize(value: &mut Value) -> Result<(), String> {
    canonicalize_value(value, 0).map(drop).map_err(|fault| fault.to_string())
}

/// The content of an event without floats, as by [`canonicalize`].
///
/// The content comes back unchanged where it has no float, and where one can't be replaced: then the homeserver's
/// answer tells.
#[must_use]
pub fn canonical_content(content: Value) -> Value {
    if !has_float(&content) {
        return content;
    }
    let mut canonical = content.clone();
    match canonicalize_value(&mut canonical, 0) {
        Ok(_) => canonical,
        Err(_) => content,
    }
}

/// Replaces the floats of an object. Its size in bytes.
pub(crate) fn canonicalize_map(map: &mut Map<String, Value>, depth: usize) -> Result<usize, Fault> {
    let mut size = around(map.len());
    for (key, value) in map {
        size += string(key) + 1 + canonicalize_value(value, depth + 1).map_err(|fault| fault.below(Step::key(key)))?;
    }
    Ok(size)
}

/// Replaces the floats of any value. Its size in bytes.
pub(crate) fn canonicalize_value(value: &mut Value, depth: usize) -> Result<usize, Fault> {
    match value {
        Value::Number(number) => {
            if let Some(canonical) = canonical(number)? {
                *value = canonical;
            }
            leaf(value)
        }
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => Err(too_deep()),
        Value::Array(items) => {
            let mut size = around(items.len());
            for (index, item) in items.iter_mut().enumerate() {
                size += canonicalize_value(item, depth + 1).map_err(|fault| fault.below(Step::Index(index)))?;
            }
            Ok(size)
        }
        Value::Object(map) => canonicalize_map(map, depth),
        Value::Null | Value::Bool(_) | Value::String(_) => leaf(value),
    }
}

/// The size of an object in bytes.
///
/// # Errors
/// What [`canonicalize_map`] would have mended or refused.
pub(crate) fn measure_map(map: &Map<String, Value>, depth: usize) -> Result<usize, Fault> {
    let mut size = around(map.len());
    for (key, value) in map {
        size += string(key) + 1 + measure(value, depth + 1).map_err(|fault| fault.below(Step::key(key)))?;
    }
    Ok(size)
}

/// The size of any value in bytes.
pub(crate) fn measure(value: &Value, depth: usize) -> Result<usize, Fault> {
    match value {
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => Err(too_deep()),
        Value::Array(items) => {
            let mut size = around(items.len());
            for (index, item) in items.iter().enumerate() {
                size += measure(item, depth + 1).map_err(|fault| fault.below(Step::Index(index)))?;
            }
            Ok(size)
        }
        Value::Object(map) => measure_map(map, depth),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => leaf(value),
    }
}

/// The brackets and commas of a list or an object.
fn around(items: usize) -> usize {
    2 + items.saturating_sub(1)
}

/// A value without parts.
fn leaf(value: &Value) -> Result<usize, Fault> {
    match value {
        Value::Bool(false) => Ok(5),
        Value::String(text) => Ok(string(text)),
        Value::Number(number) => match canonical(number)? {
            None => Ok(digits(number)),
            Some(_) => Err(Fault::new(format!("{number} is a float, which Matrix refuses; write it as a string"))),
        },
        _ => Ok(4),
    }
}

fn too_deep() -> Fault {
    Fault::new(format!("nested too deep, at most {MAX_DEPTH} levels"))
}

/// A string with its quotes and escapes.
fn string(text: &str) -> usize {
    let is_escaped = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    // Most have a backslash and one letter. The others are rare and have five: \u0001.
    let is_long = |byte: u8| byte < b' ' && !b"\n\r\t\x08\x0c".contains(&byte);
    match text.bytes().filter(|byte| is_escaped(*byte)).count() {
        0 => text.len() + 2,
        escaped => text.len() + 2 + escaped + 4 * text.bytes().filter(|byte| is_long(*byte)).count(),
    }
}

/// An integer with its sign.
fn digits(number: &Number) -> usize {
    let integer = number.as_i64().unwrap_or_default();
    usize::from(integer < 0) + integer.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_float_becomes_an_integer_or_its_shortest_decimal_string() {
        let mut value = json!([62.99, 3.0, -0.0, 0.1, 1e-7, -2.5e-9, 9007199254740991.0, 1e15, 0.53396, {"a": [1.5]}]);
        canonicalize(&mut value).unwrap();
        let expected = json!([
            "62.99",
            3,
            0,
            "0.1",
            "1e-7",
            "-2.5e-9",
            9_007_199_254_740_991_i64,
            1_000_000_000_000_000_i64,
            "0.53396",
            {"a": ["1.5"]}
        ]);
        assert_eq!(value, expected);
    }

    #[test]
    fn a_number_outside_the_range_is_an_error_with_its_path() {
        for (number, shown) in [
            (json!(9_007_199_254_740_992_i64), "9007199254740992"),
            (json!(i64::MIN), "-9223372036854775808"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!(1e300), "1e+300"),
        ] {
            let mut value = json!({"rows": [{"price": number}]});
            let error = canonicalize(&mut value).unwrap_err();
            assert_eq!(error, format!("rows[0].price: {shown} is outside ±(2^53-1); write it as a string"));
        }
    }

    #[test]
    fn what_nests_too_deep_is_an_error() {
        let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(canonicalize(&mut deep(MAX_DEPTH)), Ok(()));
        let error = canonicalize(&mut deep(MAX_DEPTH + 1)).unwrap_err();
        assert!(error.ends_with(": nested too deep, at most 32 levels"), "{error}");
    }

    #[test]
    fn content_that_cannot_be_mended_comes_back_unchanged() {
        let (fine, mended) = (json!({"body": "a", "n": 5}), json!({"n": 1.5}));
        assert_eq!(canonical_content(fine.clone()), fine);
        assert_eq!(canonical_content(mended), json!({"n": "1.5"}));
        let hopeless = json!({"n": 1.5, "z": 1e300});
        assert_eq!(canonical_content(hopeless.clone()), hopeless);
    }

    #[test]
    fn the_size_is_that_of_the_compact_json() {
        for value in [
            json!(null),
            json!([true, false, []]),
            json!([0, 9, 10, -1, -10, 9_007_199_254_740_991_i64, -9_007_199_254_740_991_i64]),
            json!({"a\n": {}, "b": {"c": "é🚀", "d": "\"\\/\t\u{8}\u{c}\u{1}\u{1f}\u{7f}"}}),
        ] {
            assert_eq!(measure(&value, 0).unwrap(), value.to_string().len(), "{value}");
        }
    }

    #[test]
    fn what_no_event_can_carry_has_no_size() {
        let deep = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert!(measure(&deep(MAX_DEPTH), 0).is_ok());
        assert!(measure(&deep(MAX_DEPTH + 1), 0).is_err());
        let error = measure(&json!({"a": [1, 2.5]}), 0).unwrap_err().to_string();
        assert_eq!(error, "a[1]: 2.5 is a float, which Matrix refuses; write it as a string");
    }
}
