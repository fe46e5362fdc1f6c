//! Numbers that a Matrix event can carry.
//!
//! Events of room version 6 and later are canonical JSON, which has no fractions: a homeserver refuses a float
//! with `M_BAD_JSON`. So a number is an integer within ±(2^53-1), or a string that writes a decimal number.

use serde_json::{Number, Value};

use crate::fault::Fault;

/// The largest integer of canonical JSON, 2^53-1; the smallest is its negative.
pub const MAX_SAFE_INT: i64 = (1 << 53) - 1;

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
    fn a_float_is_found_at_any_depth() {
        assert!(has_float(&json!([{"a": [1, 2.0]}])));
        assert!(!has_float(&json!([{"a": [1, "2.0", null, true]}])));
    }
}
