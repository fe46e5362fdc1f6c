//! Numbers that a Matrix event can carry.
//!
//! Events of room version 6 and later are canonical JSON, which has no fractions: a homeserver refuses a float
//! with `M_BAD_JSON`. So a number is an integer within ±(2^53-1), or a string that writes a decimal number.

use serde_json::{Map, Number, Value};

use crate::fault::{Fault, Step};

/// The largest integer of canonical JSON, 2^53-1; the smallest is its negative.
pub const MAX_SAFE_INT: i64 = (1 << 53) - 1;

/// How deep lists and objects may nest, counted from the value that is looked at.
pub(crate) const MAX_DEPTH: usize = 32;

/// Whether a string writes a number: `^-?\d+(\.\d+)?([eE][-+]?\d+)?$`, with ASCII digits.
#[must_use]
pub fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let exponent = exponent.map(|exponent| exponent.strip_prefix(['-', '+']).unwrap_or(exponent));
    is_digits(whole) && fraction.is_none_or(is_digits) && exponent.is_none_or(is_digits)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether there is a float anywhere in a value, however it is written: `1.0` is one too.
#[must_use]
pub fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(map) => map.values().any(has_float),
        _ => false,
    }
}

/// Replaces each float in a value: by an integer if it has no fraction, else by its shortest decimal string.
///
/// # Errors
///
/// A number outside ±(2^53-1) that has no fraction, or a nesting that is too deep for an event; the error begins with
/// the path from the value, such as `rows[0].price`. What was replaced before stays replaced.
pub fn canonicalize(value: &mut Value) -> Result<(), String> {
    canonicalize_value(value, 0).map_err(|fault| fault.to_string())
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
        Ok(()) => canonical,
        Err(_) => content,
    }
}

pub(crate) fn canonicalize_map(map: &mut Map<String, Value>, depth: usize) -> Result<(), Fault> {
    for (key, value) in map {
        canonicalize_value(value, depth + 1).map_err(|fault| fault.below(Step::key(key)))?;
    }
    Ok(())
}

pub(crate) fn canonicalize_value(value: &mut Value, depth: usize) -> Result<(), Fault> {
    match value {
        Value::Number(number) => {
            if let Some(canonical) = canonical(number)? {
                *value = canonical;
            }
        }
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => return Err(too_deep()),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                canonicalize_value(item, depth + 1).map_err(|fault| fault.below(Step::Index(index)))?;
            }
        }
        Value::Object(map) => canonicalize_map(map, depth)?,
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
    Ok(())
}

pub(crate) fn too_deep() -> Fault {
    Fault::new(format!("nested too deep, at most {MAX_DEPTH} levels"))
}

/// What to write instead of a number; `None` if it can stay.
pub(crate) fn canonical(number: &Number) -> Result<Option<Value>, Fault> {
    if let Some(integer) = number.as_i64() {
        return if integer.abs_diff(0) <= MAX_SAFE_INT.unsigned_abs() { Ok(None) } else { Err(out_of_range(number)) };
    }
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() != 0.0 => Ok(Some(Value::String(shortest(float)))),
        // Up to here a float holds every integer exactly.
        Some(float) if number.is_f64() && float.abs() <= MAX_SAFE_INT as f64 => Ok(Some(Value::from(float as i64))),
        _ => Err(out_of_range(number)),
    }
}

fn out_of_range(number: &Number) -> Fault {
    Fault::new(format!("{number} is outside ±(2^53-1); write it as a string"))
}

/// The fewest digits that read back as the same float; with an exponent only for what is very small.
fn shortest(float: f64) -> String {
    if float.abs() < 1e-6 { format!("{float:e}") } else { format!("{float}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_decimal_string_is_a_plain_number_with_digits_on_both_sides_of_the_point() {
        for yes in ["0", "-3", "62.99", "007", "1e5", "1E-7", "-2.5e+10", "99999999999999999999"] {
            assert!(is_decimal(yes), "{yes}");
        }
        for no in [
            "", "-", "+1", ".5", "5.", "1.2.3", "1e", "1e+", "e5", "1e5e5", "1,299", " 1", "1 ", "٣", "0x10", "NaN",
            "--1",
        ] {
            assert!(!is_decimal(no), "{no}");
        }
    }

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
    fn a_float_is_found_at_any_depth() {
        assert!(has_float(&json!([{"a": [1, 2.0]}])));
        assert!(!has_float(&json!([{"a": [1, "2.0", null, true]}])));
    }
}
