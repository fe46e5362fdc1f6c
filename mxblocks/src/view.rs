//! An object as its text needs it: each field as Markdown, or nothing where it is missing or not what it should be.
//!
//! A block is written out whether or not it was checked, so nothing here relies on the rules.

use serde_json::{Map, Value};

use crate::markdown;
use crate::rules::{is_geo, is_web};
use crate::time::Moment;

/// An object of a block.
#[derive(Clone, Copy)]
pub(crate) struct View<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> View<'a> {
    /// A string as it is; none if it is blank.
    pub(crate) fn raw(self, name: &str) -> Option<&'a str> {
        self.0.get(name)?.as_str().filter(|text| !markdown::is_blank(text))
    }

    /// A string or a number, on one line.
    pub(crate) fn line(self, name: &str) -> Option<String> {
        scalar(self.0.get(name)?).map(|text| markdown::line(&text))
    }

    /// The same in bold.
    pub(crate) fn bold(self, name: &str) -> Option<String> {
        self.line(name).map(|line| markdown::bold(&line))
    }

    /// A string with its line breaks.
    pub(crate) fn paragraphs(self, name: &str) -> Option<String> {
        self.raw(name).map(markdown::paragraphs)
    }

    /// A time as it was written, on one line.
    pub(crate) fn time(self, name: &str) -> Option<String> {
        match Moment::read(self.0.get(name)?) {
            Some(moment) => Some(moment.to_string()),
            None => self.line(name),
        }
    }

    /// An address that may stand in a link.
    pub(crate) fn address(self, name: &str) -> Option<&'a str> {
        self.raw(name).filter(|address| is_web(address) || is_geo(address))
    }

    /// A link that is shown as its address.
    pub(crate) fn link(self, name: &str) -> Option<String> {
        self.address(name).map(|address| format!("<{address}>"))
    }

    /// The items of a list.
    pub(crate) fn items(self, name: &str) -> &'a [Value] {
        self.0.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Those that are objects.
    pub(crate) fn objects(self, name: &str) -> impl Iterator<Item = View<'a>> {
        self.items(name).iter().filter_map(Value::as_object).map(View)
    }
}

/// A string or a number as text; none if it says nothing.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !markdown::is_blank(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The parts that are there, with something between them.
pub(crate) fn join(between: &str, parts: impl IntoIterator<Item = Option<String>>) -> Option<String> {
    let parts: Vec<_> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join(between))
}
