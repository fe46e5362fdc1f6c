//! The size of a value as compact JSON, found without writing it.
//!
//! One walk over a block answers whether an event can carry it: its bytes, its numbers, its depth.

use serde_json::{Map, Number, Value};

use crate::fault::{Fault, Step};
use crate::number::{MAX_DEPTH, canonical, too_deep};

/// The size of an object in bytes.
///
/// # Errors
/// What [`canonicalize_map`](crate::number::canonicalize_map) would have mended or refused.
pub(crate) fn measure_map(map: &Map<String, Value>, depth: usize) -> Result<usize, Fault> {
    let mut size = 2 + map.len().saturating_sub(1);
    for (key, value) in map {
        size += string(key) + 1 + measure(value, depth + 1).map_err(|fault| fault.below(Step::key(key)))?;
    }
    Ok(size)
}

/// The size of any value in bytes.
pub(crate) fn measure(value: &Value, depth: usize) -> Result<usize, Fault> {
    match value {
        Value::Null | Value::Bool(true) => Ok(4),
        Value::Bool(false) => Ok(5),
        Value::Number(number) => match canonical(number)? {
            None => Ok(digits(number)),
            Some(_) => Err(Fault::new(format!("{number} is a float, which Matrix refuses; write it as a string"))),
        },
        Value::String(text) => Ok(string(text)),
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => Err(too_deep()),
        Value::Array(items) => {
            let mut size = 2 + items.len().saturating_sub(1);
            for (index, item) in items.iter().enumerate() {
                size += measure(item, depth + 1).map_err(|fault| fault.below(Step::Index(index)))?;
            }
            Ok(size)
        }
        Value::Object(map) => measure_map(map, depth),
    }
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
