//! Reads one object of a list, whoever has written it: every key is known, every value has its form and its bound.

use std::{cell::RefCell, collections::BTreeSet, ops::RangeInclusive};

use serde_json::{Map, Value};

/// An object that is being read. What nobody has asked for is refused at the end ([`Fields::done`]).
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Object(map) => Ok(Self { map, asked: RefCell::default() }),
            other => Err(format!("must be an object, not {}", kind(other))),
        }
    }

    /// The value of a key; null counts as none.
    pub(super) fn find(&self, key: &'static str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(key);
        self.map.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn get(&self, key: &'static str) -> Result<&'a Value, String> {
        self.find(key).ok_or_else(|| format!("{key} is missing"))
    }

    /// Text of so many characters, without control characters but line breaks.
    pub(super) fn text(&self, key: &'static str, length: RangeInclusive<usize>) -> Result<String, String> {
        text(key, self.get(key)?, length)
    }

    pub(super) fn maybe_text(
        &self,
        key: &'static str,
        length: RangeInclusive<usize>,
    ) -> Result<Option<String>, String> {
        self.find(key).map(|value| text(key, value, length)).transpose()
    }

    pub(super) fn maybe_whole(&self, key: &'static str, range: RangeInclusive<i64>) -> Result<Option<i64>, String> {
        let Some(value) = self.find(key) else { return Ok(None) };
        let number = value.as_i64().filter(|number| range.contains(number));
        number
            .map(Some)
            .ok_or_else(|| format!("{key} must be a whole number from {} to {}", range.start(), range.end()))
    }

    pub(super) fn flag(&self, key: &'static str) -> Result<bool, String> {
        match self.find(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| format!("{key} must be true or false")),
        }
    }

    /// One of the words; the first where none is named.
    pub(super) fn choice<T: Copy>(&self, key: &'static str, words: &[(&str, T)]) -> Result<T, String> {
        let named = match self.find(key) {
            None => words.first(),
            Some(value) => words.iter().find(|(word, _)| value.as_str() == Some(word)),
        };
        named.map(|(_, choice)| *choice).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            format!("{key} must be {}", words.join(" or "))
        })
    }

    /// The elements of a list of so many; empty where there is no such key and that many are enough.
    pub(super) fn list(&self, key: &'static str, length: RangeInclusive<usize>) -> Result<Vec<&'a Value>, String> {
        let elements: Vec<_> = match self.find(key) {
            None => Vec::new(),
            Some(Value::Array(elements)) => elements.iter().collect(),
            Some(other) => return Err(format!("{key} must be a list, not {}", kind(other))),
        };
        if length.contains(&elements.len()) {
            return Ok(elements);
        }
        Err(format!("{key} must have {} to {} elements", length.start(), length.end()))
    }

    /// Refuses the keys that nobody has asked for.
    pub(super) fn done(&self) -> Result<(), String> {
        let asked = self.asked.borrow();
        match self.map.keys().find(|key| !asked.contains(key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let known: Vec<_> = asked.iter().copied().collect();
                Err(format!("unknown key {}; known here: {}", quoted(key), known.join(", ")))
            }
        }
    }
}

/// Text of so many characters, without control characters but line breaks.
pub(super) fn text(what: &str, value: &Value, length: RangeInclusive<usize>) -> Result<String, String> {
    let text = value.as_str().ok_or_else(|| format!("{what} must be a text, not {}", kind(value)))?;
    if text.contains(|c: char| c.is_control() && c != '\n') {
        return Err(format!("{what} must be without control characters"));
    }
    if !length.contains(&text.chars().count()) {
        return Err(format!("{what} must have {} to {} characters", length.start(), length.end()));
    }
    Ok(text.to_owned())
}

/// Whether a text names a command, an input, a field or a secret.
pub(super) fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-')
}

/// A name, where it is one.
pub(super) fn name(what: &str, value: &Value) -> Result<String, String> {
    value.as_str().filter(|text| is_name(text)).map(str::to_owned).ok_or_else(|| {
        format!("{what} must be 1 to 64 of the characters a-z, 0-9, \"_\" and \"-\", not {}", shown(value))
    })
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// What somebody wrote, short and on one line.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).collect();
    format!("{short:?}")
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| kind(value).to_owned(), quoted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_asks_for_is_refused_with_what_is_known() {
        let value = json!({"title": "x", "tilte": 1});
        let fields = Fields::of(&value).unwrap();
        assert_eq!(fields.text("title", 1..=5).unwrap(), "x");
        assert_eq!(fields.maybe_whole("size", 1..=5).unwrap(), None);
        assert_eq!(fields.done().unwrap_err(), "unknown key \"tilte\"; known here: size, title");
    }

    #[test]
    fn a_name_is_short_and_plain() {
        for good in ["a", "connect-git", "x_1", &"a".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "A", "a b", "é", "a.b", &"a".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
