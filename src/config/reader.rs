//! Finds values: in the environment, else in the operator's file, else in the default. Remembers every key that
//! was asked for, so that whatever else is written can be refused.
//!
//! While one `[[agent]]` is read ([`Reader::agent`]), what its own table says comes before all of them.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    ops::Range,
    path::{Path, PathBuf},
};

use secrecy::SecretString;
use toml_edit::{ArrayOfTables, Document, Item, TableLike, Value};

use super::{
    error::{ConfigError, Place, one_line, shown},
    secret,
    value::{Found, Raw},
};

/// The defaults, and the documentation of every key.
pub(super) const DEFAULT: &str = include_str!("../../config.toml");

/// The largest configuration file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a variable's name begins with, to be read here.
pub(super) const PREFIX: &str = "WAYBREAD_";

/// The tables that an `[[agent]]` may have as its own.
const OWN_TABLES: [&str; 7] = ["access", "model", "turn", "draft", "rich", "later", "phone"];

/// A TOML text with the folder that its relative paths count from.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) document: Document<String>,
}

impl Source {
    fn parse(name: &Path, text: String) -> Result<Self, ConfigError> {
        let folder = name.parent().map(Path::to_owned).unwrap_or_default();
        let name = one_line(&name.display().to_string());
        match Document::parse(text.clone()) {
            Ok(document) => Ok(Self { name, folder, document }),
            // The parser's error keeps the whole text, so only its message goes on.
            Err(error) => {
                let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or(&text);
                Err(ConfigError::Syntax {
                    file: name,
                    line: before.matches('\n').count() + 1,
                    column: before.chars().rev().take_while(|c| *c != '\n').count() + 1,
                    message: one_line(error.message()),
                })
            }
        }
    }

    /// The line where a span begins, from 1.
    pub(super) fn line(&self, span: Option<Range<usize>>) -> usize {
        let before = span.and_then(|span| self.document.raw().get(..span.start)).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    pub(super) fn agents(&self) -> Option<&ArrayOfTables> {
        self.document.get("agent")?.as_array_of_tables()
    }

    /// The text of a span.
    pub(super) fn written(&self, span: Option<Range<usize>>) -> &str {
        span.and_then(|span| self.document.raw().get(span)).unwrap_or("a table")
    }

    fn get(&self, path: &str) -> Option<&Item> {
        get(self.document.as_table(), path)
    }
}

/// The layers of a configuration, and the keys asked for so far.
pub(super) struct Reader {
    pub(super) environment: BTreeMap<String, String>,
    pub(super) file: Option<Source>,
    default: Source,
    /// The keys' paths, in the order of asking.
    pub(super) keys: Vec<String>,
    /// The paths of secrets: the environment knows them, the file does not.
    pub(super) secrets: Vec<String>,
    /// The keys of an `[[agent]]`, as they stand below it.
    pub(super) agent_keys: Vec<String>,
    /// Which `[[agent]]` is read, from 0.
    agent: Option<usize>,
    /// The paths of lists of tables: only the file has them.
    pub(super) lists: Vec<String>,
}

impl Reader {
    /// Reads the file; without a path `config.toml` in the working folder, if there is one.
    pub(super) fn open(
        path: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let name = path.unwrap_or(Path::new("config.toml"));
        let mut text = String::new();
        let read = File::open(name).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
        let unreadable = |reason| ConfigError::Unreadable { file: one_line(&name.display().to_string()), reason };
        match read {
            Ok(bytes) if bytes as u64 > MAX_FILE_BYTES => Err(unreadable(io::ErrorKind::FileTooLarge.into())),
            Ok(_) => Self::new(name, Some(text), environment),
            Err(error) if path.is_none() && error.kind() == io::ErrorKind::NotFound => {
                Self::new(name, None, environment)
            }
            Err(error) => Err(unreadable(error)),
        }
    }

    /// The layers from the file's name and text.
    pub(super) fn new(
        name: &Path,
        text: Option<String>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            environment: environment.filter(|(variable, _)| variable.starts_with(PREFIX)).collect(),
            file: text.map(|text| Source::parse(name, text)).transpose()?,
            // A path that the operator left out counts from the operator's folder all the same.
            default: Source::parse(name, DEFAULT.to_owned())?,
            keys: Vec::new(),
            secrets: Vec::new(),
            agent_keys: Vec::new(),
            agent: None,
            lists: Vec::new(),
        })
    }

    /// The `[[agent]]` tables of the operator's file.
    pub(super) fn agents(&self) -> usize {
        self.file.as_ref().and_then(Source::agents).map_or(0, ArrayOfTables::len)
    }

    /// Reads with what one `[[agent]]` says before all else.
    pub(super) fn agent<T>(
        &mut self,
        index: usize,
        read: impl FnOnce(&mut Self) -> Result<T, ConfigError>,
    ) -> Result<T, ConfigError> {
        self.agent = Some(index);
        let read = read(self);
        self.agent = None;
        read
    }

    /// A table to read from, such as `model.fallback`; the keys outside of all tables are in "".
    pub(super) fn table<'r>(&'r mut self, path: &'r str) -> Table<'r> {
        Table { reader: self, path }
    }

    /// The tables of a list such as `[[room.command]]` in the operator's file, each as JSON and where it stands.
    pub(super) fn tables(&mut self, path: &str) -> Result<Vec<(Place, serde_json::Value)>, ConfigError> {
        self.lists.push(path.to_owned());
        let Some((file, item)) = self.file.as_ref().and_then(|file| Some((file, file.get(path)?))) else {
            return Ok(Vec::new());
        };
        let place = |index: usize, span| Place::File {
            file: file.name.clone(),
            line: file.line(span),
            key: format!("{path}[{index}]"),
        };
        match item {
            Item::ArrayOfTables(tables) => Ok(tables
                .iter()
                .enumerate()
                .map(|(index, table)| (place(index, table.span()), json_of_table(table)))
                .collect()),
            Item::Value(Value::Array(values)) => Ok(values
                .iter()
                .enumerate()
                .map(|(index, value)| (place(index, value.span()), json_of(value)))
                .collect()),
            other => Err(ConfigError::Value {
                place: Place::File { file: file.name.clone(), line: file.line(other.span()), key: path.to_owned() },
                expected: format!("a list of tables, each with [[{path}]] before it"),
                found: shown(file.written(other.span())),
            }),
        }
    }

    /// Where the key's value comes from, if it has one.
    pub(super) fn place(&self, path: &str) -> Option<Place> {
        self.find(path).map(|found| found.place)
    }

    /// Where a secret comes from, if it is named anywhere.
    pub(super) fn secret_place(&self, path: &str) -> Option<Place> {
        match self.secret_variable(path) {
            Some(_) => Some(Place::Environment { variable: variable(path) }),
            None => self.place(&format!("{path}_file")),
        }
    }

    /// The error that two keys don't go together, at the one that the operator has set.
    pub(super) fn conflict(&self, path: &str, other: &str, rule: String) -> ConfigError {
        let is_set = |place: &Place| !matches!(place, Place::Default { .. });
        let place = self.place(path).filter(is_set).or_else(|| self.place(other));
        ConfigError::Conflict { place: place.unwrap_or(Place::Default { key: path.to_owned() }), rule }
    }

    fn find(&self, path: &str) -> Option<Found<'_>> {
        if let Some(found) = self.find_in_agent(path) {
            return Some(found);
        }
        let variable = variable(path);
        if let Some(text) = self.environment.get(&variable) {
            return Some(Found { place: Place::Environment { variable }, raw: Raw::Environment(text) });
        }
        if let Some((file, item)) = self.file.as_ref().and_then(|file| Some((file, file.get(path)?))) {
            let place = Place::File { file: file.name.clone(), line: file.line(item.span()), key: path.to_owned() };
            return Some(Found { place, raw: Raw::Item(item, file) });
        }
        let item = self.default.get(path)?;
        Some(Found { place: Place::Default { key: path.to_owned() }, raw: Raw::Item(item, &self.default) })
    }

    /// What the `[[agent]]` that is read says itself.
    fn find_in_agent(&self, path: &str) -> Option<Found<'_>> {
        let (index, file) = (self.agent?, self.file.as_ref()?);
        let below = below_agent(path)?;
        let item = get(file.agents()?.get(index)?, below)?;
        let key = format!("agent[{index}].{below}");
        let place = Place::File { file: file.name.clone(), line: file.line(item.span()), key };
        Some(Found { place, raw: Raw::Item(item, file) })
    }

    /// Each key is remembered once, however many agents are asked for it.
    fn asked_for(&mut self, path: &str) {
        let remember = |keys: &mut Vec<String>, path: &str| {
            if !keys.iter().any(|key| key == path) {
                keys.push(path.to_owned());
            }
        };
        remember(&mut self.keys, path);
        if self.agent.is_some()
            && let Some(below) = below_agent(path)
        {
            remember(&mut self.agent_keys, below);
        }
    }

    /// The secret in the environment. An empty variable counts as not set: that is how one is left open in the
    /// description of a container.
    fn secret_variable(&self, path: &str) -> Option<&str> {
        self.environment.get(&variable(path)).map(String::as_str).filter(|text| !text.trim().is_empty())
    }
}

/// One table of a [`Reader`].
pub(super) struct Table<'r> {
    reader: &'r mut Reader,
    path: &'r str,
}

impl Table<'_> {
    fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The value of a key that has a default.
    pub(super) fn get(&mut self, key: &str) -> Result<Found<'_>, ConfigError> {
        let path = self.key(key);
        self.find(key)
            .ok_or(ConfigError::Conflict { place: Place::Default { key: path }, rule: "has no value".to_owned() })
    }

    /// The value of a key that has no default.
    pub(super) fn find(&mut self, key: &str) -> Option<Found<'_>> {
        let path = self.key(key);
        self.reader.asked_for(&path);
        self.reader.find(&path)
    }

    /// The file that the key `{name}_file` names, which [`Table::secret`] reads.
    pub(super) fn secret_file(&mut self, name: &str) -> Result<PathBuf, ConfigError> {
        self.get(&format!("{name}_file"))?.path()
    }

    /// The secret itself from the variable with this name, else what is in the file that the key `{name}_file`
    /// names.
    pub(super) fn secret(&mut self, name: &str) -> Result<Option<SecretString>, ConfigError> {
        let path = self.key(name);
        let file_path = format!("{path}_file");
        self.reader.asked_for(&file_path);
        self.reader.secrets.push(path.clone());
        if self.reader.find_in_agent(&file_path).is_none()
            && let Some(text) = self.reader.secret_variable(&path)
        {
            let place = Place::Environment { variable: variable(&path) };
            return secret::from_bytes(text.as_bytes().to_vec())
                .map_err(|problem| ConfigError::Secret { place, problem });
        }
        let Some(found) = self.reader.find(&file_path) else { return Ok(None) };
        let place = found.place.clone();
        secret::from_file(&found.path()?).map_err(|problem| ConfigError::Secret { place, problem })
    }
}

fn get<'t>(table: &'t dyn TableLike, path: &str) -> Option<&'t Item> {
    match path.split_once('.') {
        None => table.get(path),
        Some((key, below)) => get(table.get(key)?.as_table_like()?, below),
    }
}

/// A key as it stands below an `[[agent]]`: `agent.system_prompt` is `system_prompt` there, `model.url` keeps its name. None
/// for what all agents share.
fn below_agent(path: &str) -> Option<&str> {
    path.strip_prefix("agent.")
        .or_else(|| path.split_once('.').filter(|(table, _)| OWN_TABLES.contains(table)).map(|_| path))
}

fn json_of_table(table: &dyn TableLike) -> serde_json::Value {
    table
        .iter()
        .map(|(key, item)| {
            let value = match item {
                Item::None => serde_json::Value::Null,
                Item::Value(value) => json_of(value),
                Item::Table(table) => json_of_table(table),
                Item::ArrayOfTables(tables) => tables.iter().map(|table| json_of_table(table)).collect(),
            };
            (key.to_owned(), value)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn json_of(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.value().as_str().into(),
        Value::Integer(number) => (*number.value()).into(),
        Value::Float(number) => (*number.value()).into(),
        Value::Boolean(flag) => (*flag.value()).into(),
        Value::Datetime(time) => time.value().to_string().into(),
        Value::Array(values) => values.iter().map(json_of).collect(),
        Value::InlineTable(table) => json_of_table(table),
    }
}

/// `model.url` as `WAYBREAD_MODEL_URL`.
pub(super) fn variable(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "_").to_ascii_uppercase())
}
