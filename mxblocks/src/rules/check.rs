//! Checks values by their rules.

use serde_json::{Map, Value};

use super::strings::{is_geo, is_https, is_mxc, is_prompt_id, is_web};
use super::{Field, Need, Rule, Shape};
use crate::fault::{Fault, Step, cut};
use crate::markdown::is_blank;
use crate::number::{MAX_SAFE_INT, is_decimal};
use crate::time::{is_time, is_when};

/// The longest number that is written as a string, in bytes.
const MAX_DECIMAL: usize = 64;

impl Shape {
    /// Checks an object. The fault's path begins at the object.
    pub(crate) fn check(&self, object: &Map<String, Value>) -> Result<(), Fault> {
        if self.fits(object) { (self.also)(object) } else { self.first_fault(object) }
    }

    /// Whether the fields are right by themselves: in one pass over the object, since nearly all are.
    fn fits(&self, object: &Map<String, Value>) -> bool {
        let mut missing = self.fields.iter().filter(|field| field.need == Need::Required).count();
        for (name, value) in object {
            let Some(field) = self.fields.iter().find(|field| field.name == name) else { continue };
            if is_absent(value) {
                continue;
            }
            if field.rule.check(value).is_err() {
                return false;
            }
            missing -= usize::from(field.need == Need::Required);
        }
        missing == 0
    }

    /// The fault of an object that does not fit: the first in the order of the table.
    fn first_fault(&self, object: &Map<String, Value>) -> Result<(), Fault> {
        let mut absent = Vec::new();
        for Field { name, need, rule } in self.fields {
            match object.get(*name).filter(|value| !is_absent(value)) {
                Some(value) => rule.check(value).map_err(|fault| fault.in_field(name))?,
                None if *need == Need::Required => absent.push(*name),
                None => {}
            }
        }
        if absent.is_empty() { Ok(()) } else { Err(self.needs(&absent)) }
    }

    /// All fields that are missed at once, and what there is besides, so that one more attempt is enough.
    fn needs(&self, absent: &[&str]) -> Fault {
        let absent = match absent {
            [but_last @ .., last] if !but_last.is_empty() => format!("{} and {last}", but_last.join(", ")),
            _ => absent.concat(),
        };
        Fault::new(format!("needs {absent} (takes {self})"))
    }
}

impl Rule {
    /// Checks a value that is there.
    pub(crate) fn check(&self, value: &Value) -> Result<(), Fault> {
        match (self, value) {
            (Self::Object(shape) | Self::LineOr(_, shape), Value::Object(object)) => shape.check(object),
            (Self::List(min, max, rule), Value::Array(items)) => {
                if !(*min..=*max).contains(&items.len()) {
                    return Err(Fault::new(format!("expected {self}, found {}", items.len())));
                }
                items
                    .iter()
                    .enumerate()
                    .try_for_each(|(index, item)| rule.check(item).map_err(|fault| fault.below(Step::Index(index))))
            }
            (Self::Own(..), _) => Ok(()),
            _ if self.allows(value) => Ok(()),
            _ => Err(Fault::new(format!("expected {self}, found {}", self.found(value)))),
        }
    }

    /// Whether a value that has no parts is right.
    fn allows(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Line(max) | Self::Key(max) | Self::LineOr(max, _) | Self::Cell(max), Value::String(text)) => {
                fits(text, *max) && !text.contains(['\n', '\r'])
            }
            (Self::Text(max), Value::String(text)) => fits(text, *max),
            (Self::Number | Self::Cell(_), Value::Number(number)) => {
                number.as_i64().is_some_and(|integer| integer.unsigned_abs() <= MAX_SAFE_INT.unsigned_abs())
            }
            (Self::Number, Value::String(text)) => text.len() <= MAX_DECIMAL && is_decimal(text),
            (Self::Integer(min, max), Value::Number(number)) => {
                number.as_i64().is_some_and(|integer| (*min..=*max).contains(&integer))
            }
            (Self::Flag, Value::Bool(_)) => true,
            (Self::OneOf(names), Value::String(text)) => names.contains(&text.as_str()),
            (Self::Web, Value::String(text)) => is_web(text),
            (Self::Https, Value::String(text)) => is_https(text),
            (Self::WebOrGeo, Value::String(text)) => is_web(text) || is_geo(text),
            (Self::Mxc, Value::String(text)) => is_mxc(text),
            (Self::Id, Value::String(text)) => is_prompt_id(text),
            (Self::Time, value) => is_time(value),
            (Self::When, value) => is_when(value),
            _ => false,
        }
    }

    /// What is there instead: of a string that is too long, its length.
    fn found(&self, value: &Value) -> String {
        let (Self::Line(max) | Self::Key(max) | Self::LineOr(max, _) | Self::Cell(max) | Self::Text(max)) = self else {
            return describe(value);
        };
        match value {
            Value::String(text) if !fits(text, *max) => format!("{} characters", text.chars().count()),
            Value::String(_) => "several lines".to_owned(),
            _ => describe(value),
        }
    }
}

/// A value in a word or two, for an error.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("\"{}\"", cut(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Whether a value says nothing.
pub(crate) fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => is_blank(text),
        _ => false,
    }
}

/// Whether a string has at most `max` characters. Most are settled by their bytes.
fn fits(text: &str, max: usize) -> bool {
    text.len() <= max || text.chars().nth(max).is_none()
}
