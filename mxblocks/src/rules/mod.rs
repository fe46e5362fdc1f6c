//! Rules as data: what a block's fields may hold.
//!
//! Each type of block has one [`Shape`], a small table in its own file under `blocks/`. [`check`](Shape::check) goes by
//! it, and so do the tables in docs/mxblocks.md, the words that a message's text must have, and the generators of the
//! tests.

mod check;
mod said;
mod strings;

use std::fmt;

use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::view::View;

pub(crate) use check::{describe, is_absent};
pub(crate) use said::{Words, words_of};
pub use strings::is_mxc;
pub(crate) use strings::{is_geo, is_web};

/// A unit, a currency, a state: a word or two.
pub(crate) const SHORT: usize = 64;
/// A title, a name, a caption.
pub(crate) const LINE: usize = 200;
/// A few paragraphs.
pub(crate) const TEXT: usize = 4000;
/// A source file.
pub(crate) const LONG: usize = 16_000;

/// What an object may hold. Fields that are not named are kept and not looked at.
pub(crate) struct Shape {
    pub(crate) fields: &'static [Field],
    /// What a table of fields can't say, looked at when all fields are right by themselves.
    pub(crate) also: fn(&Map<String, Value>) -> Result<(), Fault>,
}

/// One field of an object.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) need: Need,
    pub(crate) rule: Rule,
}

/// Whether a field must be there. `null` counts as not there, and so does a blank string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Required,
    Optional,
    /// Optional, and nothing that a message's text must say as well.
    Aside,
}

/// What the value of a field may be.
pub(crate) enum Rule {
    /// A string without line breaks, of at most so many characters.
    Line(usize),
    /// The same, but meant for programs only.
    Key(usize),
    /// A string of at most so many characters.
    Text(usize),
    /// An integer within ±(2^53-1) or a decimal string.
    Number,
    /// A number, or a line of at most so many characters.
    Cell(usize),
    /// An integer in a range.
    Integer(i64, i64),
    /// `true` or `false`.
    Flag,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// An `http` or `https` address.
    Web,
    /// An `https` address.
    Https,
    /// An `http`, `https` or `geo` address.
    WebOrGeo,
    /// The `mxc` address of an upload.
    Mxc,
    /// A prompt id.
    Id,
    /// A moment.
    Time,
    /// A moment, a local time, or a day.
    When,
    /// An object.
    Object(&'static Shape),
    /// A line, or an object in its place.
    LineOr(usize, &'static Shape),
    /// At least and at most so many of these.
    List(usize, usize, &'static Rule),
    /// Looked at by [`Shape::also`], which knows the other fields. Here are what is expected, and what of the object's
    /// values a person reads.
    Own(&'static str, fn(View<'_>) -> Vec<String>),
}

pub(crate) const fn required(name: &'static str, rule: Rule) -> Field {
    Field { name, need: Need::Required, rule }
}

pub(crate) const fn optional(name: &'static str, rule: Rule) -> Field {
    Field { name, need: Need::Optional, rule }
}

pub(crate) const fn aside(name: &'static str, rule: Rule) -> Field {
    Field { name, need: Need::Aside, rule }
}

impl Shape {
    pub(crate) const fn new(fields: &'static [Field]) -> Self {
        Self { fields, also: |_| Ok(()) }
    }

    pub(crate) const fn and(self, also: fn(&Map<String, Value>) -> Result<(), Fault>) -> Self {
        Self { also, ..self }
    }
}

/// The fields in short, optional ones with a question mark: `label, style?, action`.
impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, field) in self.fields.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let mark = if field.need == Need::Required { "" } else { "?" };
            write!(out, "{comma}{}{mark}", field.name)?;
        }
        Ok(())
    }
}

/// What is expected, to stand after "expected".
impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(max) | Self::Key(max) => write!(out, "one line of at most {max} characters"),
            Self::Text(max) => write!(out, "text of at most {max} characters"),
            Self::Number => write!(out, "a whole number or a decimal string such as \"62.99\""),
            Self::Cell(max) => write!(out, "a number or one line of at most {max} characters"),
            Self::Integer(min, max) => write!(out, "a whole number from {min} to {max}"),
            Self::Flag => write!(out, "true or false"),
            Self::OneOf(names) => write!(out, "one of {}", names.join(", ")),
            Self::Web => write!(out, "an http or https address"),
            Self::Https => write!(out, "an https address"),
            Self::WebOrGeo => write!(out, "an http, https or geo address"),
            Self::Mxc => write!(out, "the mxc:// address of an upload"),
            Self::Id => write!(out, "1 to 64 of A-Z a-z 0-9 _ . : -"),
            Self::Time => {
                write!(out, "a time with its offset, such as \"2026-03-01T18:30:00Z\", or milliseconds since 1970")
            }
            Self::When => write!(out, "a time or a day, such as \"2026-03-01T18:30:00+01:00\" or \"2026-03-01\""),
            Self::Object(shape) => write!(out, "an object with {shape}"),
            Self::LineOr(max, shape) => write!(out, "one line of at most {max} characters, or an object with {shape}"),
            Self::List(min, max, _) => write!(out, "a list of {min} to {max}"),
            Self::Own(expected, _) => out.write_str(expected),
        }
    }
}
