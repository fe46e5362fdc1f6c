//! A table of the file, and errors that name the line and the key in it.

use std::{ops::Range, path::Path};

use toml_edit::{Item, TableLike, Value};

use super::SettingsError;

/// Characters of a found value that an error shows.
const MAX_SHOWN: usize = 60;

/// The file that is read.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
}

/// A table of the file.
pub(super) struct Table<'a> {
    source: Source<'a>,
    /// The path of its keys: empty, or with a dot at its end.
    path: String,
    table: &'a dyn TableLike,
}

impl<'a> Source<'a> {
    /// A table in which only some keys are known.
    pub(super) fn table(
        self,
        path: &str,
        table: &'a dyn TableLike,
        known: &[&str],
    ) -> Result<Table<'a>, SettingsError> {
        let table = Table { source: self, path: path.to_owned(), table };
        match table.keys().find(|key| !known.contains(key)) {
            Some(key) => Err(table.problem(key, &format!("unknown key; known here: {}", known.join(", ")))),
            None => Ok(table),
        }
    }
}

impl<'a> Table<'a> {
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.table.iter().map(|(key, _)| key)
    }

    pub(super) fn item(&self, key: &str) -> Option<&'a Item> {
        self.table.get(key)
    }

    /// A table in this one, of which all keys are known.
    pub(super) fn below(&self, key: &str, known: &[&str]) -> Result<Option<Table<'a>>, SettingsError> {
        let Some(table) = self.open_table(key)? else { return Ok(None) };
        self.source.table(&table.path, table.table, known).map(Some)
    }

    /// A table in this one that may have any keys.
    pub(super) fn open_table(&self, key: &str) -> Result<Option<Table<'a>>, SettingsError> {
        let Some(item) = self.item(key) else { return Ok(None) };
        let table = item.as_table_like().ok_or_else(|| self.expected(key, "a table"))?;
        Ok(Some(Table { source: self.source, path: format!("{}{key}.", self.path), table }))
    }

    /// One of the words, as what it stands for; the default where there is no such key.
    pub(super) fn choice<T: Copy + Default>(&self, key: &str, words: &[(&str, T)]) -> Result<T, SettingsError> {
        let Some(item) = self.item(key) else { return Ok(T::default()) };
        let chosen = item.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        chosen.map(|(_, choice)| *choice).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            self.expected(key, &words.join(" or "))
        })
    }

    /// A program and its arguments.
    pub(super) fn command(&self, key: &str) -> Result<Vec<String>, SettingsError> {
        let words = self.item(key).and_then(Item::as_array);
        let words = words.and_then(|words| words.iter().map(|word| Value::as_str(word).map(str::to_owned)).collect());
        let named = |words: &Vec<String>| words.first().is_some_and(|program| !program.is_empty());
        words.filter(named).ok_or_else(|| self.expected(key, "a list of a program and its arguments"))
    }

    pub(super) fn expected(&self, key: &str, expected: &str) -> SettingsError {
        let span = self.item(key).and_then(Item::span);
        let written = span.and_then(|span| self.source.text.get(span)).unwrap_or("a table");
        self.problem(key, &format!("expected {expected}, found {}", shown(written)))
    }

    pub(super) fn problem(&self, key: &str, problem: &str) -> SettingsError {
        let span = self.table.key(key).and_then(|key| key.span()).or_else(|| self.item(key).and_then(Item::span));
        SettingsError::Key {
            file: self.source.file.to_owned(),
            line: line(self.source.text, span),
            key: shown(&format!("{}{key}", self.path)),
            problem: problem.to_owned(),
        }
    }
}

/// The line where a span begins, from 1.
pub(super) fn line(text: &str, span: Option<Range<usize>>) -> usize {
    let before = span.and_then(|span| text.get(..span.start)).unwrap_or_default();
    before.matches('\n').count() + 1
}

pub(super) fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

fn shown(text: &str) -> String {
    let line = one_line(text);
    if line.chars().count() <= MAX_SHOWN {
        return line;
    }
    line.chars().take(MAX_SHOWN - 1).chain(['…']).collect()
}
