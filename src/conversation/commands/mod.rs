//! Lines that begin with `!`: for the agent's code, not for its model. One file per command.
//!
//! `!stop` is no command of this kind: it goes to the conversation's task, which may be busy.

mod agents;
mod help;
mod later;
mod model;
mod phone;
mod room;
mod secrets;

use std::sync::Arc;

use matrix_link::{Event, Message};

use super::{Key, Shared};

/// A line that is a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command<'a> {
    /// `!help`.
    Help,
    /// `!stop`.
    Stop,
    /// `!model`, `!model NAME`.
    Model(Option<&'a str>),
    /// `!later`, `!later delete NUMBER`.
    Later(Option<&'a str>),
    /// `!phone`, `!phone here`, `!phone off`.
    Phone(Option<&'a str>),
    /// `!agents`.
    Agents,
    /// `!invite NAME`.
    Invite(Option<&'a str>),
    /// `!commands`.
    Commands,
    /// `!run NAME`.
    Run(Option<&'a str>),
    /// `!secrets`.
    Secrets,
    /// `!forget NAME`.
    Forget(Option<&'a str>),
    /// Something else with `!` before it.
    Unknown(&'a str),
}

impl<'a> Command<'a> {
    /// The command in a line; None when it is ordinary text ("!" alone, "!!", "! no").
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let (name, rest) = line.strip_prefix('!')?.split_once(char::is_whitespace).unwrap_or((&line[1..], ""));
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return None;
        }
        Some(match name.to_ascii_lowercase().as_str() {
            "help" => Self::Help,
            "stop" => Self::Stop,
            "model" => Self::Model(some(rest)),
            "later" => Self::Later(some(rest)),
            "phone" => Self::Phone(some(rest)),
            "agents" => Self::Agents,
            "invite" => Self::Invite(some(rest)),
            "commands" => Self::Commands,
            "run" => Self::Run(some(rest)),
            "secrets" => Self::Secrets,
            "forget" => Self::Forget(some(rest)),
            _ => Self::Unknown(name),
        })
    }
}

fn some(rest: &str) -> Option<&str> {
    Some(rest.trim()).filter(|rest| !rest.is_empty())
}

/// Carries out a command and says how it went; None for what is not done here.
pub(super) async fn answer(
    command: Command<'_>,
    shared: &Arc<Shared>,
    key: &Key,
    event: &Event,
    message: &Message,
) -> Option<String> {
    match command {
        Command::Stop => None,
        Command::Help => Some(help::answer(shared, key, event).await),
        Command::Model(name) => Some(model::answer(name, shared, key).await),
        Command::Later(words) => Some(later::answer(words, shared, key).await),
        Command::Phone(words) => Some(phone::answer(words, shared, key, event, message).await),
        Command::Agents if agents::knows_others(shared) => Some(agents::list(shared, key, event).await),
        Command::Invite(name) if agents::knows_others(shared) => Some(agents::invite(name, shared, key, event).await),
        Command::Agents => Some(unknown("agents")),
        Command::Invite(_) => Some(unknown("invite")),
        Command::Commands => Some(room::list(shared, key, event).await),
        Command::Run(words) => room::run(words, shared, key, event).await,
        Command::Secrets => Some(secrets::list(shared, key, event).await),
        Command::Forget(name) => Some(secrets::forget(name, shared, key, event).await),
        Command::Unknown(name) => Some(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    format!("I don't know `!{name}`. `!help` says what I know.")
}

pub(super) use model::chosen;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_word_behind_an_exclamation_mark() {
        let cases = [
            ("!help", Some(Command::Help)),
            (" !HELP me ", Some(Command::Help)),
            ("!stop", Some(Command::Stop)),
            ("!model", Some(Command::Model(None))),
            ("!model  small one ", Some(Command::Model(Some("small one")))),
            ("!later", Some(Command::Later(None))),
            ("!later delete 3", Some(Command::Later(Some("delete 3")))),
            ("!phone here", Some(Command::Phone(Some("here")))),
            ("!agents", Some(Command::Agents)),
            ("!invite Cook", Some(Command::Invite(Some("Cook")))),
            ("!commands", Some(Command::Commands)),
            ("!run deploy branch=main", Some(Command::Run(Some("deploy branch=main")))),
            ("!secrets", Some(Command::Secrets)),
            ("!forget token", Some(Command::Forget(Some("token")))),
            ("!frobnicate now", Some(Command::Unknown("frobnicate"))),
            ("!", None),
            ("!!", None),
            ("! no", None),
            ("!é", None),
            ("help", None),
        ];
        for (line, command) in cases {
            assert_eq!(Command::parse(line), command, "{line}");
        }
    }
}
