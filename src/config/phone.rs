//! The person's phone.

use std::time::Duration;

use super::{
    error::ConfigError,
    reader::Reader,
    rich::{SWITCH, Switch},
};

/// `[phone]`: what the agent may propose to people's phones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phone {
    /// Whether the model is offered `phone_action` where somebody writes from a phone.
    pub tool: Switch,
    /// How long a card waits for its answer.
    pub wait: Duration,
    /// Cards to one person in a minute, at most.
    pub per_minute: u32,
    /// Replies in words that say: it is done.
    pub done_words: Vec<String>,
    /// Replies in words that say: no.
    pub declined_words: Vec<String>,
    /// Replies in words that say: it did not work.
    pub failed_words: Vec<String>,
}

impl Phone {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut phone = reader.table("phone");
        Ok(Self {
            tool: phone.get("tool")?.choice(&SWITCH)?,
            wait: phone.get("wait_seconds")?.seconds(15..=3600)?,
            per_minute: phone.get("per_minute")?.whole(1..=1000)?,
            done_words: phone.get("done_words")?.words()?,
            declined_words: phone.get("declined_words")?.words()?,
            failed_words: phone.get("failed_words")?.words()?,
        })
    }
}
