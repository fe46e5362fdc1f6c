//! Whether a message's text says what a block shows.
//!
//! The rule: take the words of the block's values (letters and digits, in lower case), leaving out what is only drawn
//! or only meant for programs: states, ids, uploads, flags, and fields marked as aside. The text says the block if it
//! has at least four fifths of these words. Where a few are missing, a number was rounded or another word stands for
//! the same; where a table is only announced, nearly all are.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};

use super::{Need, Rule, Shape};
use crate::time::Moment;
use crate::view::{View, scalar};

/// Of how many words how many must stand in a text.
const SHARE: (usize, usize) = (4, 5);

/// The words of a text.
pub(crate) struct Words {
    /// The whole text, for words of scripts that put no spaces between them.
    lowercase: String,
    words: HashSet<String>,
}

impl Words {
    pub(crate) fn of(text: &str) -> Self {
        let lowercase = text.to_lowercase();
        let mut words: HashSet<_> = split(&lowercase).map(normal).collect();
        words.extend(grouped_numbers(&lowercase));
        Self { lowercase, words }
    }

    /// Whether enough of a block's words stand in the text.
    pub(crate) fn say(&self, of_block: &BTreeSet<String>) -> bool {
        let said = of_block.iter().filter(|word| self.has(word)).count();
        let (needed, of) = SHARE;
        said * of >= of_block.len() * needed
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(word) || (!word.is_ascii() && self.lowercase.contains(word))
    }
}

/// The words of a string of a block.
pub(crate) fn words_of(text: &str) -> BTreeSet<String> {
    split(&text.to_lowercase()).map(normal).collect()
}

impl Shape {
    /// Adds the words that a text must have to say an object of this shape.
    pub(crate) fn words(&self, object: &Map<String, Value>, words: &mut BTreeSet<String>) {
        for field in self.fields.iter().filter(|field| field.need != Need::Aside) {
            match (&field.rule, object.get(field.name)) {
                (Rule::Own(_, read), Some(_)) => {
                    words.extend(read(View(object)).iter().flat_map(|text| words_of(text)))
                }
                (rule, Some(value)) => rule.words(value, words),
                (_, None) => {}
            }
        }
    }
}

impl Rule {
    fn words(&self, value: &Value, words: &mut BTreeSet<String>) {
        match (self, value) {
            (Self::Object(shape) | Self::LineOr(_, shape), Value::Object(object)) => shape.words(object, words),
            (Self::List(_, _, rule), Value::Array(items)) => items.iter().for_each(|item| rule.words(item, words)),
            (Self::OneOf(_) | Self::Flag | Self::Id | Self::Key(_) | Self::Mxc, _) => {}
            (Self::Object(_) | Self::List(..) | Self::Own(..), _) => {}
            (Self::Time | Self::When, value) if let Some(moment) = Moment::read(value) => {
                words.extend(words_of(&moment.mark()));
            }
            _ => words.extend(scalar(value).iter().flat_map(|text| words_of(text))),
        }
    }
}

fn split(lowercase: &str) -> impl Iterator<Item = &str> {
    lowercase.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// A number without leading zeros: `09:05` is `9:05`.
fn normal(word: &str) -> String {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    let short = if is_number { word.trim_start_matches('0') } else { word };
    if short.is_empty() { "0".to_owned() } else { short.to_owned() }
}

/// Numbers that are written in groups of three, `1,299` or `1 299 000`, without what stands between the groups.
fn grouped_numbers(text: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    let mut number = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (between, from_digit) = rest.split_at(start);
        let end = from_digit.find(|c: char| !c.is_ascii_digit()).unwrap_or(from_digit.len());
        let (group, after) = from_digit.split_at(end);
        let is_separator = matches!(between, "," | "." | "'" | "’" | " " | "\u{a0}" | "\u{202f}");
        if is_separator && group.len() == 3 && !number.is_empty() {
            number.push_str(group);
            numbers.push(number.clone());
        } else {
            number = group.to_owned();
        }
        rest = after;
    }
    numbers
}
