//! `!commands`, `!run`: what this room allows the agent to run, and the person's own way to run it.

use matrix_link::Event;

use super::{Key, Shared};
use crate::{rich::Here, store::StoreError};

const UNREADABLE: &str = "I can't read my notes right now. Please tell my operator.";

pub(super) async fn list(shared: &Shared, key: &Key, event: &Event) -> String {
    match shared.commands.overview(&here(key, event), event).await {
        Ok(answer) => answer,
        Err(error) => told(&error, "!commands"),
    }
}

pub(super) async fn run(words: Option<&str>, shared: &Shared, key: &Key, event: &Event) -> Option<String> {
    match shared.commands.run(here(key, event), words).await {
        Ok(answer) => answer,
        Err(error) => Some(told(&error, "!run")),
    }
}

fn told(error: &StoreError, command: &str) -> String {
    tracing::error!(error = error as &dyn std::error::Error, command, "command failed");
    UNREADABLE.to_owned()
}

fn here(key: &Key, event: &Event) -> Here {
    Here { room: key.room.clone(), thread: key.thread.clone(), person: event.sender.clone(), origin: event.id.clone() }
}
