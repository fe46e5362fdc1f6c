//! The language model's endpoints, and how they are asked.

use std::{path::PathBuf, time::Duration};

use reqwest::Url;
use secrecy::SecretString;

use super::{
    error::ConfigError,
    reader::{Reader, Table},
};

/// Characters of a model's name.
const MAX_NAME: usize = 200;

/// `[model]`: which model, and how it is asked.
#[derive(Debug, Clone)]
pub struct Model {
    /// The endpoint that is asked first.
    pub endpoint: Endpoint,
    /// The endpoint that is asked when the first one has failed at all attempts.
    pub fallback: Option<Endpoint>,
    /// How the model calls tools.
    pub tool_calls: ToolCalls,
    /// The form of `response_format` for constrained calls.
    pub response_format: ResponseFormat,
    /// What the model can read and write in one request, in tokens.
    pub context_tokens: u32,
    /// The most that it may write in one step, in tokens. Less than `context_tokens`.
    pub reply_tokens: u32,
    /// The sampling temperature, 0 to 2.
    pub temperature: f64,
    /// How long to wait for the connection.
    pub connect_timeout: Duration,
    /// How long to wait for the first word.
    pub first_token_timeout: Duration,
    /// How long to wait for each further word.
    pub idle_timeout: Duration,
    /// A step's answer is cut off at this size.
    pub max_reply_bytes: usize,
    /// Attempts at one step, the first included.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles with each further one.
    pub retry_first: Duration,
    /// The longest wait between two attempts.
    pub retry_max: Duration,
    /// A written conversation that is played instead of asking a model.
    pub script: Option<PathBuf>,
}

/// One OpenAI-compatible endpoint and the model to ask there.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The address up to and with "/v1/": its path ends with "/".
    pub url: Url,
    /// The model's name.
    pub name: String,
    /// The endpoint's key.
    pub key: Option<SecretString>,
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolCalls {
    /// Found out once at start.
    Auto,
    /// By the endpoint's own tool calls.
    Native,
    /// By one JSON object a step, its form forced by `response_format`.
    Constrained,
}

impl ToolCalls {
    const WORDS: [(&str, Self); 3] =
        [("auto", Self::Auto), ("native", Self::Native), ("constrained", Self::Constrained)];
}

/// The form of `response_format` for constrained calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFormat {
    /// Found out once at start.
    Auto,
    /// `{"type": "json_schema"}`.
    JsonSchema,
    /// `{"type": "json_object"}` with a schema in it.
    JsonObject,
}

impl ResponseFormat {
    const WORDS: [(&str, Self); 3] =
        [("auto", Self::Auto), ("json_schema", Self::JsonSchema), ("json_object", Self::JsonObject)];
}

impl Model {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let fallback = Endpoint::find(&mut reader.table("model.fallback"))?;
        let mut model = reader.table("model");
        Ok(Self {
            endpoint: Endpoint::read(&mut model)?,
            fallback,
            tool_calls: model.get("tool_calls")?.choice(&ToolCalls::WORDS)?,
            response_format: model.get("response_format")?.choice(&ResponseFormat::WORDS)?,
            context_tokens: model.get("context_tokens")?.whole(512..=10_000_000)?,
            reply_tokens: model.get("reply_tokens")?.whole(16..=1_000_000)?,
            temperature: model.get("temperature")?.number(0.0..=2.0)?,
            connect_timeout: model.get("connect_seconds")?.seconds(1..=600)?,
            first_token_timeout: model.get("first_token_seconds")?.seconds(1..=3600)?,
            idle_timeout: model.get("idle_seconds")?.seconds(1..=3600)?,
            max_reply_bytes: model.get("max_reply_bytes")?.whole(1024..=16_777_216)?,
            attempts: model.get("attempts")?.whole(1..=20)?,
            retry_first: model.get("retry_first_seconds")?.seconds(1..=600)?,
            retry_max: model.get("retry_max_seconds")?.seconds(1..=3600)?,
            script: model.find("script").map(|found| found.path()).transpose()?,
        })
    }

    /// What must hold between keys.
    pub(super) fn check(&self, reader: &Reader) -> Result<(), ConfigError> {
        if self.reply_tokens >= self.context_tokens {
            let (reply, context) = (self.reply_tokens, self.context_tokens);
            return Err(reader.conflict(
                "model.reply_tokens",
                "model.context_tokens",
                format!("model.reply_tokens ({reply}) must be less than model.context_tokens ({context})"),
            ));
        }
        if self.retry_first > self.retry_max {
            let (first, max) = (self.retry_first.as_secs(), self.retry_max.as_secs());
            return Err(reader.conflict(
                "model.retry_first_seconds",
                "model.retry_max_seconds",
                format!("model.retry_first_seconds ({first}) must not be more than model.retry_max_seconds ({max})"),
            ));
        }
        self.check_fallback(reader)
    }

    /// A fallback is there as a whole or not at all.
    fn check_fallback(&self, reader: &Reader) -> Result<(), ConfigError> {
        let needed = ["model.fallback.url", "model.fallback.name"];
        let set = needed.iter().find_map(|key| reader.place(key));
        let set = set.or_else(|| reader.secret_place("model.fallback.key"));
        match (set, needed.iter().find(|key| reader.place(key).is_none())) {
            (Some(place), Some(missing)) => Err(ConfigError::Conflict { place, rule: format!("needs {missing} too") }),
            _ => Ok(()),
        }
    }
}

impl Endpoint {
    fn read(table: &mut Table<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            url: table.get("url")?.url()?,
            name: table.get("name")?.text(1..=MAX_NAME)?,
            key: table.secret("key")?,
        })
    }

    fn find(table: &mut Table<'_>) -> Result<Option<Self>, ConfigError> {
        let url = table.find("url").map(|found| found.url()).transpose()?;
        let name = table.find("name").map(|found| found.text(1..=MAX_NAME)).transpose()?;
        let key = table.secret("key")?;
        Ok(url.zip(name).map(|(url, name)| Self { url, name, key }))
    }
}
