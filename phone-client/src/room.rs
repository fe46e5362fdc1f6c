//! The encrypted direct room with the agent: found, or made.

use std::time::Duration;

use anyhow::{Context, bail};
use matrix_link::{EventKind, Link, Membership, NewRoom, Rooms as _};
use ruma::{OwnedRoomId, UserId};
use tokio::time::{Instant, timeout_at};

use crate::sink::Received;

/// How long the agent may take to accept an invite.
const JOIN_WITHIN: Duration = Duration::from_secs(60);

/// The room to talk in; waits until the agent has joined it.
pub(crate) async fn with_agent(link: &Link, agent: &UserId, received: &mut Received) -> anyhow::Result<OwnedRoomId> {
    // Rooms of earlier runs are known from the store; those made elsewhere after the first sync.
    received.recv().await.context("the sync has ended")?;
    let room = match link.direct_room_with(agent) {
        Some(room) => {
            link.invite(&room, agent).await.context("the agent could not be invited again")?;
            room
        }
        None => link.create_room(NewRoom::Direct(agent.to_owned())).await.context("no room could be made")?,
    };
    let deadline = Instant::now() + JOIN_WITHIN;
    while !link.has_joined(&room, agent).await {
        loop {
            let batch = match timeout_at(deadline, received.recv()).await {
                Ok(batch) => batch.context("the sync has ended")?,
                Err(_) => {
                    bail!("{agent} has not accepted the invite: is it running, and may you talk to it (access.allow)?")
                }
            };
            let joined = EventKind::Membership { user: agent.to_owned(), change: Membership::Joined };
            if batch.events.iter().any(|event| event.room == room && event.kind == joined) {
                return Ok(room);
            }
            if batch.events.iter().any(|event| event.room == room) {
                break;
            }
        }
    }
    Ok(room)
}
