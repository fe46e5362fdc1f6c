//! A command at work: its actions in their order, up to the first that fails.
//!
//! How far it has come is in the store, so that a turn that is begun anew goes on behind what was done. What can't be
//! repeated is never done twice: after a crash in the middle of it the chain ends there, and says so.

use std::collections::BTreeMap;

use matrix_link::Rooms;
use ruma::OwnedEventId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Commands, actions::Web, list::Entry};
use crate::{
    rich::{Desk, Here},
    store::{Call, Store, StoreError},
    tools::Refusal,
};

/// What the actions of a chain leave for those behind them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    /// The message that was posted last.
    pub(super) posted: Option<OwnedEventId>,
    /// The plain fields of the forms.
    pub(super) form: BTreeMap<String, String>,
}

/// How far a chain has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// The run's own id.
    pub(super) run: String,
    /// What each action that is done has said.
    pub(super) effects: Vec<String>,
    pub(super) made: Made,
    /// Whether the next action was begun.
    pub(super) begun: bool,
    /// What a person runs without the model is taken up again by it.
    pub(super) by_hand: Option<ByHand>,
}

/// A run that no turn stands behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ByHand {
    pub(super) room: ruma::OwnedRoomId,
    pub(super) thread: Option<OwnedEventId>,
    pub(super) person: ruma::OwnedUserId,
    pub(super) origin: OwnedEventId,
    pub(super) command: String,
    pub(super) inputs: Map<String, Value>,
}

/// One action of a chain, about to be done.
pub(super) struct Step<'a> {
    pub(super) commands: &'a Commands,
    pub(super) entry: &'a Entry,
    pub(super) here: &'a Here,
    pub(super) inputs: &'a Map<String, Value>,
    run: &'a str,
    number: usize,
}

impl Step<'_> {
    pub(super) fn rooms(&self) -> &dyn Rooms {
        self.commands.parts().rooms.as_ref()
    }

    pub(super) fn store(&self) -> &Store {
        &self.commands.parts().store
    }

    pub(super) fn desk(&self) -> &Desk {
        &self.commands.parts().desk
    }

    pub(super) fn web(&self) -> &Web {
        &self.commands.parts().web
    }

    /// What the action's message is sent for: the same when the chain is taken up again, another in another run.
    pub(super) fn call(&self, what: &str) -> Call {
        let arguments = format!("room_command {} {} {what}", self.run, self.number);
        Call { origin: self.here.origin.clone(), arguments }
    }

    pub(super) async fn set_state(&self, event_type: &str, key: &str, content: Value) -> Result<(), Refusal> {
        Ok(self.rooms().set_state(&self.here.room, event_type, key, content).await.map(|_| ())?)
    }
}

/// How a chain has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) command: String,
    /// What was done, in order, each with its kind.
    pub(super) effects: Vec<String>,
    /// Which action failed, from 1, what it was to do, and why it did not.
    pub(super) failure: Option<(usize, String, String)>,
    /// How many actions there are.
    pub(super) actions: usize,
}

impl Ended {
    /// In words, for the model and for people.
    pub(super) fn text(&self) -> String {
        let Self { command, effects, failure, actions } = self;
        let list: Vec<_> = effects.iter().enumerate().map(|(index, one)| format!("{}. {one}", index + 1)).collect();
        match failure {
            None => format!("{command} is done:\n{}", list.join("\n")),
            Some((number, what, reason)) => {
                let before = match list.is_empty() {
                    true => "Nothing was done before it.".to_owned(),
                    false => format!("Done before it:\n{}", list.join("\n")),
                };
                format!("{command} stopped at action {number} of {actions} ({what}): {reason}.\n{before}")
            }
        }
    }
}

/// Runs a chain from where it stands. `call` names the run in the store.
pub(super) async fn run(
    commands: &Commands,
    entry: &Entry,
    here: &Here,
    inputs: &Map<String, Value>,
    call: &Call,
    mut progress: Progress,
) -> Result<Ended, StoreError> {
    let store = &commands.parts().store;
    let mut failure = None;
    for (index, action) in entry.chain.iter().enumerate().skip(progress.effects.len()) {
        let step = Step { commands, entry, here, inputs, run: &progress.run, number: index };
        let lost = progress.begun && !action.can_repeat();
        let done = if lost {
            Err(Refusal::call(
                "I was restarted in the middle of it; whether it was done is not known, so it is not repeated",
            ))
        } else {
            progress.begun = true;
            store.keep_command_run(call, &value_of(&progress)?, commands.parts().clock.now()).await?;
            let mut made = progress.made.clone();
            let step = Step { run: &progress.run, ..step };
            let done = action.run(&step, &mut made).await;
            progress.made = made;
            done
        };
        progress.begun = false;
        match done {
            Ok(effect) => {
                tracing::info!(command = entry.name, action = index + 1, "action done");
                progress.effects.push(store.guard().redact(&effect).into_owned());
                store.keep_command_run(call, &value_of(&progress)?, commands.parts().clock.now()).await?;
            }
            Err(reason) => {
                tracing::info!(command = entry.name, action = index + 1, "action failed: the chain ends");
                let reason = store.guard().redact(&reason.to_string()).into_owned();
                failure = Some((index + 1, action.summary(), reason));
                break;
            }
        }
    }
    if failure.is_some() || progress.by_hand.is_some() {
        // A further attempt begins at the first action again.
        store.forget_command_run(call).await?;
    }
    Ok(Ended { command: entry.name.clone(), effects: progress.effects, failure, actions: entry.chain.len() })
}

fn value_of(progress: &Progress) -> Result<Value, StoreError> {
    Ok(serde_json::to_value(progress)?)
}
