//! Whether a command may run now, for this person: what the model or the person is told where it may not.

use matrix_link::{Act, Power, Rooms};
use serde_json::Value;

use super::{
    actions::Need,
    list::{Condition, Entry, List, Presence, Source, Subject},
};
use crate::{
    rich::Here,
    store::{SecretOwner, Store, StoreError},
};

/// Why a command does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("this room has no list of commands any more: nothing can be run here")]
    NoList,
    #[error("there is no command {name:?} here; the commands are: {known}")]
    Unknown { name: String, known: String },
    #[error("{command:?} takes other inputs: {reason}")]
    Inputs { command: String, reason: String },
    #[error(
        "nobody attends this turn, and a room command needs the person who asks for it: say in words what you would run, \
         and let somebody ask you for it"
    )]
    Unattended,
    #[error("{command:?} is not for {person}: whoever has listed it allows certain people only")]
    NotAllowed { command: String, person: String },
    #[error("{command:?} needs the power level {least} in this room, and {person} has {has}")]
    Power { command: String, least: i64, person: String, has: String },
    #[error("{command:?} {what}, which {person} may not do in this room")]
    Right { command: String, what: String, person: String },
    #[error("{command:?} can't run now: {reason}")]
    Condition { command: String, reason: String },
}

impl Refused {
    pub(super) fn unknown(name: &str, list: &List) -> Self {
        if list.entries.is_empty() {
            return Self::NoList;
        }
        let known: Vec<_> = list.entries.iter().map(|entry| &*entry.name).collect();
        Self::Unknown { name: name.chars().take(64).collect(), known: known.join(", ") }
    }
}

/// Checks a command for a person: who it is for, what they may do in the room, what must be so.
pub(super) async fn check(
    entry: &Entry,
    here: &Here,
    rooms: &dyn Rooms,
    store: &Store,
) -> Result<Result<(), Refused>, StoreError> {
    let command = || entry.name.clone();
    let person = rooms.display_name(&here.room, &here.person).await;
    if entry.allow.as_ref().is_some_and(|allow| !allow.allows(&here.person)) {
        return Ok(Err(Refused::NotAllowed { command: command(), person }));
    }
    let power = rooms.power(&here.room, &here.person).await;
    if let Some(least) = entry.min_power
        && power.is_none_or(|power| power < Power::Level(least))
    {
        let has = match power {
            Some(Power::Level(level)) => level.to_string(),
            Some(Power::Infinite) | None => "none".to_owned(),
        };
        return Ok(Err(Refused::Power { command: command(), least, person, has }));
    }
    for action in &entry.chain {
        let act = match action.needs() {
            Need::Nothing => continue,
            Need::SetState(event_type) => Act::SetState(event_type),
            Need::Invite => Act::Invite,
        };
        if !rooms.may(&here.room, &here.person, act).await {
            return Ok(Err(Refused::Right { command: command(), what: action.summary(), person }));
        }
    }
    for condition in &entry.when {
        if let Some(reason) = unmet(condition, entry.source, here, rooms, store).await? {
            return Ok(Err(Refused::Condition { command: command(), reason }));
        }
    }
    Ok(Ok(()))
}

/// Why a condition does not hold.
async fn unmet(
    condition: &Condition,
    source: Source,
    here: &Here,
    rooms: &dyn Rooms,
    store: &Store,
) -> Result<Option<String>, StoreError> {
    let (what, there) = match &condition.of {
        Subject::Secret(name) => {
            let own = store.has_secret(&SecretOwner::Person(here.person.clone()), name).await?;
            let there = own
                || (source == Source::Operator
                    && store.has_secret(&SecretOwner::Room(here.room.clone()), name).await?);
            (format!("the secret {name:?}"), there)
        }
        Subject::State { event_type, key, content } => {
            let event = rooms.state_event(&here.room, event_type, key).await;
            // What was taken back is an empty object.
            let there = event.is_some_and(|event| {
                event.content.as_object().is_some_and(|now| !now.is_empty())
                    && content.iter().all(|(key, value)| event.content[key] == *value)
            });
            let with =
                if content.is_empty() { String::new() } else { format!(" with {}", Value::from(content.clone())) };
            (format!("the room's state {event_type:?}{with}"), there)
        }
    };
    Ok(match (condition.is, there) {
        (Presence::Present, true) | (Presence::Absent, false) => None,
        (Presence::Present, false) => Some(format!("{what} is not there")),
        (Presence::Absent, true) => Some(format!("{what} is there already")),
    })
}
