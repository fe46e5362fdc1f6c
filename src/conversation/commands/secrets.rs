//! `!secrets`, `!forget`: what the agent keeps for a person or a room, by name.

use matrix_link::{Act, Event};

use super::{Key, Shared};
use crate::{
    room_commands::STATE_TYPE,
    store::{SecretName, SecretOwner, StoreError},
};

const USAGE: &str = "`!forget NAME` deletes a secret; `!secrets` lists them.";

pub(super) async fn list(shared: &Shared, key: &Key, event: &Event) -> String {
    said(listed(shared, key, event).await, "!secrets")
}

pub(super) async fn forget(name: Option<&str>, shared: &Shared, key: &Key, event: &Event) -> String {
    let Some(name) = name else { return USAGE.to_owned() };
    said(forgotten(name, shared, key, event).await, "!forget")
}

fn said(answer: Result<String, StoreError>, command: &str) -> String {
    answer.unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, command, "command failed");
        "I can't read my notes right now. Please tell my operator.".to_owned()
    })
}

/// The names: the room's where others read along, the person's own too where they are alone with the agent.
async fn listed(shared: &Shared, key: &Key, event: &Event) -> Result<String, StoreError> {
    let mut parts = Vec::new();
    let of_room = shared.store.secrets_of(&SecretOwner::Room(key.room.clone())).await?;
    if !of_room.is_empty() {
        parts.push(format!("Secrets of this room:\n\n{}", lines(shared, key, &of_room).await));
    }
    let own = shared.store.secrets_of(&SecretOwner::Person(event.sender.clone())).await?;
    if shared.rooms.is_direct(&key.room).await {
        if !own.is_empty() {
            parts.push(format!("Secrets of yours:\n\n{}", lines(shared, key, &own).await));
        }
    } else if !own.is_empty() {
        parts.push("Yours I list in a direct room.".to_owned());
    }
    if parts.is_empty() {
        return Ok("I keep no secrets here.".to_owned());
    }
    parts.push(USAGE.to_owned());
    Ok(parts.join("\n\n"))
}

async fn lines(shared: &Shared, key: &Key, secrets: &[SecretName]) -> String {
    let mut lines = Vec::new();
    for secret in secrets {
        let by = shared.rooms.display_name(&key.room, &secret.set_by).await;
        let day = secret.set_at.to_zoned_datetime(shared.settings.agent.time_zone.clone()).date();
        lines.push(format!("- `{}`, given by {by} on {day}", secret.name));
    }
    lines.join("\n")
}

/// Deletes what the person means by a name: in a group the room's before their own, in a direct room their own before what
/// they have given to rooms elsewhere.
async fn forgotten(name: &str, shared: &Shared, key: &Key, event: &Event) -> Result<String, StoreError> {
    let name = name.trim_matches('`');
    let store = &shared.store;
    let (room, own) = (SecretOwner::Room(key.room.clone()), SecretOwner::Person(event.sender.clone()));
    let of_room = store.secrets_of(&room).await?.into_iter().find(|secret| secret.name == name);
    let mut denied = false;
    if let Some(secret) = of_room {
        let may = secret.set_by == event.sender
            || shared.rooms.may(&key.room, &event.sender, Act::SetState(STATE_TYPE)).await;
        if may {
            store.forget_secret(&room, name).await?;
            return Ok(format!("`{name}` of this room is deleted."));
        }
        denied = true;
    }
    if store.forget_secret(&own, name).await? {
        return Ok(format!("Your `{name}` is deleted."));
    }
    if shared.rooms.is_direct(&key.room).await {
        let given = store.room_secrets_set_by(&event.sender, name).await?;
        if !given.is_empty() {
            for secret in &given {
                store.forget_secret(&secret.owner, name).await?;
            }
            return Ok(match given.len() {
                1 => format!("`{name}`, which you gave to a room, is deleted."),
                rooms => format!("`{name}`, which you gave to {rooms} rooms, is deleted in all of them."),
            });
        }
    }
    Ok(if denied {
        format!(
            "`{name}` was given by somebody else: only they, or somebody who may change this room's list of commands, \
                 can delete it."
        )
    } else {
        format!("I keep no `{}` here. `!secrets` lists what I keep.", name.chars().take(64).collect::<String>())
    })
}
