//! What the operator decides: one checked, typed [`Config`] from a file and the environment.
//!
//! The annotated `config.toml` at the root of this repository is compiled in. It is the one place of the defaults,
//! and it documents every key. A value comes from the environment, else from the operator's file, else from there.
//!
//! - Nothing is silent: a key or a `WAYBREAD_` variable that nobody reads is refused, with the nearest known name.
//! - Every error is one line: the file, line and key or the variable, what is expected, what was found.
//! - A secret never stands in the file, only in the environment or in a file of its own that is closed to others.
//!   No error and no `Debug` output shows one.
//!
//! A new key is a line in `config.toml`, a field here and a line in its table's `read`; the reader learns from the
//! latter that the key is known.

mod appservice;
mod error;
mod limits;
mod matrix;
mod model;
mod phone;
mod reader;
mod rich;
mod room;
mod secret;
mod unknown;
mod value;

#[cfg(test)]
mod tests;

use std::path::Path;

use jiff::tz::TimeZone;

use self::reader::Reader;
pub use self::{
    appservice::{Appservice, Avatar, Colleague, Mode, Persona, Token},
    error::{ConfigError, Place},
    limits::{Draft, Http, Inbox, Outbox, Store, Turn},
    matrix::{Access, Matrix},
    model::{Endpoint, Model, ResponseFormat, ToolCalls},
    phone::Phone,
    rich::{Later, Rich, Switch},
    room::{Forms, Room, Secrets},
};

/// All that the operator decides, checked. Each field is the table of its name.
#[derive(Debug, Clone)]
pub struct Config {
    /// How the homeserver knows the agent.
    pub mode: Mode,
    /// The appservice, where it is one.
    pub appservice: Appservice,
    /// The agents of the appservice, the main one first; none where there is one with an account of its own.
    pub agents: Vec<Persona>,
    /// The others whom the main agent of an appservice lists and invites; none for all others.
    pub colleagues: Vec<Colleague>,
    /// The account; of an appservice, the technical one that its agents have their server and their store from.
    pub matrix: Matrix,
    /// Whose words count.
    pub access: Access,
    /// Who the agent is.
    pub agent: Agent,
    /// Which model, and how it is asked.
    pub model: Model,
    /// The bounds of one turn, and of turns at once.
    pub turn: Turn,
    /// An answer while it is being written.
    pub draft: Draft,
    /// What is sent.
    pub outbox: Outbox,
    /// What is received.
    pub inbox: Inbox,
    /// Messages with blocks.
    pub rich: Rich,
    /// Turns that the agent sets itself.
    pub later: Later,
    /// The person's phone.
    pub phone: Phone,
    /// Room commands.
    pub room: Room,
    /// One-time forms.
    pub forms: Forms,
    /// Secrets that people give.
    pub secrets: Secrets,
    /// How long things are kept.
    pub store: Store,
    /// What is told over HTTP.
    pub http: Http,
    /// What is logged.
    pub log: Log,
}

impl Config {
    /// Reads the configuration from a file and the variables that begin with `WAYBREAD_`; others are passed over.
    ///
    /// Without a path it is `config.toml` in the working folder, and the built-in default where there is none.
    pub fn load(path: Option<&Path>, env: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        Self::read(&mut Reader::open(path, env)?)
    }

    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut config = Self::read_one(reader)?;
        config.agents = appservice::agents(reader, &config)?;
        // A misspelt key first: it may be why the others don't go together.
        reader.refuse_unknown()?;
        config.model.check(reader)?;
        appservice::check(reader, &config)?;
        Ok(config)
    }

    /// All tables, as they are for one agent.
    fn read_one(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            mode: Mode::read(reader)?,
            appservice: Appservice::read(reader)?,
            agents: Vec::new(),
            colleagues: Vec::new(),
            matrix: Matrix::read(reader)?,
            access: Access::read(reader)?,
            agent: Agent::read(reader)?,
            model: Model::read(reader)?,
            turn: Turn::read(reader)?,
            draft: Draft::read(reader)?,
            outbox: Outbox::read(reader)?,
            inbox: Inbox::read(reader)?,
            rich: Rich::read(reader)?,
            later: Later::read(reader)?,
            phone: Phone::read(reader)?,
            room: Room::read(reader)?,
            forms: Forms::read(reader)?,
            secrets: Secrets::read(reader)?,
            store: Store::read(reader)?,
            http: Http::read(reader)?,
            log: Log::read(reader)?,
        })
    }
}

/// This process's variables, for [`Config::load`]. Unlike [`std::env::vars`] it survives one that is not UTF-8.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
}

/// `[agent]`: who the agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// What the model is told first; `{name}` stands for the agent's display name.
    pub system_prompt: String,
    /// The zone of dates and times where nobody names another.
    pub time_zone: TimeZone,
}

impl Agent {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut agent = reader.table("agent");
        Ok(Self {
            system_prompt: agent.get("system_prompt")?.text(0..=20_000)?,
            time_zone: agent.get("time_zone")?.time_zone()?,
        })
    }
}

/// `[log]`: what is logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// A filter that `tracing_subscriber::EnvFilter` reads.
    pub filter: String,
    /// How a line is written.
    pub format: LogFormat,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Log {
    fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut log = reader.table("log");
        Ok(Self {
            filter: log.get("filter")?.log_filter()?,
            format: log.get("format")?.choice(&[("text", LogFormat::Text), ("json", LogFormat::Json)])?,
        })
    }
}
