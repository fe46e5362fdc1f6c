//! Takes in what the homeserver pushes: for whom it is, and by which way it comes to them.
//!
//! An event goes straight into the inbox of each agent in its room where all of this holds; else it rings the agent's
//! bell, and the agent's own sync brings it:
//!
//! - the agent is open and its session knows the room as joined and as not encrypted;
//! - nothing of the room was left to the sync that has not come by it yet. So no event overtakes another, and a room that
//!   becomes encrypted is known to be before anything behind it is judged.
//!
//! The sync brings the straight ones too; the inbox has each once.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use matrix_link::{Event, Protection, parse};
use ruma::{OwnedRoomId, OwnedUserId, RoomId, UserId};
use serde_json::Value;

use super::agents::Agents;
use crate::{
    http::push::{Push, PushError},
    store::{Pushed, StoreError},
};

#[async_trait]
impl Push for Agents {
    async fn transaction(&self, id: String, events: Vec<Value>) -> Result<(), PushError> {
        let rung = self.take(&id, &events).await.map_err(|error| PushError(Box::new(error)))?;
        for user in rung {
            self.wake(&user);
        }
        Ok(())
    }

    async fn user(&self, user: &str) -> Result<bool, PushError> {
        let Some(user) = UserId::parse(user).ok().filter(|user| self.is_agent(user)) else { return Ok(false) };
        self.introduce(&user).await.map_err(|error| PushError(error.into()))?;
        Ok(true)
    }
}

impl Agents {
    /// Keeps a transaction, one after the other, and gives the agents that it is for.
    async fn take(&self, id: &str, events: &[Value]) -> Result<BTreeSet<OwnedUserId>, StoreError> {
        let _taking = self.taking().lock().await;
        if self.store().has_taken(id).await? {
            return Ok(BTreeSet::new());
        }
        let mut sorting = Sorting { agents: self, here: BTreeMap::new(), pushed: Pushed::default() };
        for event in events {
            sorting.sort(event).await?;
        }
        let pushed = sorting.pushed;
        self.store().take(id, &pushed).await?;
        tracing::debug!(txn = id, straight = pushed.events.len(), bells = pushed.bells.len(), "taken in");
        let straight = pushed.events.into_iter().map(|(agent, _)| agent);
        Ok(pushed.bells.into_keys().map(|(agent, _)| agent).chain(straight).collect())
    }
}

/// A transaction while it is sorted.
struct Sorting<'a> {
    agents: &'a Agents,
    /// The agents in the rooms that it is about, as far as it is sorted.
    here: BTreeMap<OwnedRoomId, BTreeSet<OwnedUserId>>,
    pushed: Pushed,
}

impl Sorting<'_> {
    async fn sort(&mut self, raw: &Value) -> Result<(), StoreError> {
        let Some(room) = raw["room_id"].as_str().and_then(|room| RoomId::parse(room).ok()) else {
            tracing::warn!("event of no room dropped");
            return Ok(());
        };
        let member = self.member(raw);
        let mut concerned = self.here(&room).await?.clone();
        concerned.extend(member.clone());
        for agent in concerned {
            match self.straight(raw, &room, &agent).await? {
                Some(event) => self.pushed.events.push((agent, event)),
                None => {
                    let event = raw["event_id"].as_str().unwrap_or_default().to_owned();
                    self.pushed.bells.insert((agent, room.clone()), event);
                }
            }
        }
        if let Some(agent) = member {
            let is_here = matches!(raw["content"]["membership"].as_str(), Some("join" | "invite"));
            let here = self.here(&room).await?;
            if is_here {
                here.insert(agent.clone());
            } else {
                here.remove(&agent);
            }
            self.pushed.members.push((room, agent, is_here));
        }
        Ok(())
    }

    /// The agent whose membership of the room this tells.
    fn member(&self, raw: &Value) -> Option<OwnedUserId> {
        let user = raw["state_key"].as_str().filter(|_| raw["type"] == "m.room.member")?;
        UserId::parse(user).ok().filter(|user| self.agents.is_agent(user))
    }

    async fn here(&mut self, room: &RoomId) -> Result<&mut BTreeSet<OwnedUserId>, StoreError> {
        if !self.here.contains_key(room) {
            let agents = self.agents.store().agents_in(room).await?;
            self.here.insert(room.to_owned(), agents);
        }
        Ok(self.here.entry(room.to_owned()).or_default())
    }

    /// The event, where it need not wait for the agent's own sync.
    async fn straight(&self, raw: &Value, room: &RoomId, agent: &UserId) -> Result<Option<Event>, StoreError> {
        // Members, encryption and all else that a room is: the session must know it too.
        let is_state = raw.get("state_key").is_some() || raw["type"] == "m.room.encrypted";
        let is_rung = self.pushed.bells.contains_key(&(agent.to_owned(), room.to_owned()));
        if is_state || is_rung || self.agents.store().of(agent).is_rung(room).await? {
            return Ok(None);
        }
        match self.agents.live(agent) {
            Some(link) if link.knows_as_plain(room) => {}
            _ => return Ok(None),
        }
        match parse(room, raw, Protection::Clear) {
            Ok(event) => Ok(Some(event)),
            Err(error) => {
                tracing::warn!(%room, %error, "event left to the agent's sync");
                Ok(None)
            }
        }
    }
}
