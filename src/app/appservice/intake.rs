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
use serde_json::{Value, value::RawValue};

use super::agents::{Agents, For};
use crate::{
    http::push::{Push, PushError},
    store::{Pushed, StoreError},
};

/// The largest event that is looked at, in bytes: 65,536 as the specification has it, and what a homeserver adds to it.
const MAX_EVENT: usize = 1 << 20;

#[async_trait]
impl Push for Agents {
    async fn transaction(&self, id: String, events: Vec<Box<RawValue>>) -> Result<(), PushError> {
        let concerned = self.take(&id, &events).await.map_err(|error| PushError(Box::new(error)))?;
        for (user, what) in concerned {
            self.wake(&user, what);
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
    async fn take(&self, id: &str, events: &[Box<RawValue>]) -> Result<BTreeMap<OwnedUserId, For>, StoreError> {
        let _taking = self.taking().lock().await;
        if self.store().has_taken(id).await? {
            return Ok(BTreeMap::new());
        }
        let mut sorting =
            Sorting { agents: self, rooms: BTreeMap::new(), rung: BTreeMap::new(), pushed: Pushed::default() };
        for event in events {
            // One at a time, and none that is too large: as values they take much more than as text.
            let raw = Some(event.get()).filter(|text| text.len() <= MAX_EVENT);
            match raw.and_then(|text| serde_json::from_str(text).ok()) {
                Some(raw) => sorting.sort(&raw).await?,
                None => tracing::warn!(txn = id, bytes = event.get().len(), "not an event, or too large: dropped"),
            }
        }
        let pushed = sorting.pushed;
        self.store().take(id, &pushed).await?;
        tracing::debug!(txn = id, straight = pushed.events.len(), bells = pushed.bells.len(), "taken in");
        let mut concerned: BTreeMap<_, _> = pushed.events.into_iter().map(|(agent, _)| (agent, For::Inbox)).collect();
        concerned.extend(pushed.bells.into_keys().map(|(agent, _)| (agent, For::Sync)));
        Ok(concerned)
    }
}

/// A transaction while it is sorted.
struct Sorting<'a> {
    agents: &'a Agents,
    /// The agents in the rooms that it is about, as far as it is sorted.
    rooms: BTreeMap<OwnedRoomId, BTreeSet<OwnedUserId>>,
    /// Whose sync was to bring something of a room before this transaction.
    rung: BTreeMap<(OwnedUserId, OwnedRoomId), bool>,
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
            match self.way(raw, &room, &agent).await? {
                Way::Straight(event) => self.pushed.events.push((agent, *event)),
                Way::Sync => {
                    let event = raw["event_id"].as_str().unwrap_or_default().to_owned();
                    self.pushed.bells.insert((agent, room.clone()), event);
                }
                Way::None => {}
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
        if !self.rooms.contains_key(room) {
            let agents = self.agents.store().agents_in(room).await?;
            self.rooms.insert(room.to_owned(), agents);
        }
        Ok(self.rooms.entry(room.to_owned()).or_default())
    }

    async fn way(&mut self, raw: &Value, room: &RoomId, agent: &UserId) -> Result<Way, StoreError> {
        let is_state = raw.get("state_key").is_some();
        let is_encrypted = raw["type"] == "m.room.encrypted";
        // Members, encryption and all else that a room is: the session must know it too.
        if !is_state && !is_encrypted && !self.is_rung(room, agent).await? {
            let plain = self.agents.live(agent).filter(|link| link.knows_as_plain(room));
            match plain.map(|_| parse(room, raw, Protection::Clear)) {
                Some(Ok(event)) => return Ok(Way::Straight(Box::new(event))),
                Some(Err(error)) => tracing::warn!(%room, %error, "event left to the agent's sync"),
                None => {}
            }
        }
        // What it has said itself is no reason to open it.
        let is_own = raw["sender"] == agent.as_str() && !is_state;
        Ok(if is_own { Way::None } else { Way::Sync })
    }

    async fn is_rung(&mut self, room: &RoomId, agent: &UserId) -> Result<bool, StoreError> {
        let key = (agent.to_owned(), room.to_owned());
        if self.pushed.bells.contains_key(&key) {
            return Ok(true);
        }
        if let Some(rung) = self.rung.get(&key) {
            return Ok(*rung);
        }
        let rung = self.agents.store().of(agent).is_rung(room).await?;
        self.rung.insert(key, rung);
        Ok(rung)
    }
}

/// How an event comes to an agent.
enum Way {
    /// From here.
    Straight(Box<Event>),
    /// By the agent's own sync.
    Sync,
    /// With what its sync brings next.
    None,
}
