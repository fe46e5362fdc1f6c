//! What a homeserver has pushed to an appservice.
//!
//! A transaction is taken in as a whole or not at all, and once. It says nothing of who is concerned, so who is in which room is kept here.
//! What an agent's own sync is to bring rings a bell, which stays until that sync has come.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use matrix_link::Event;
use ruma::{OwnedRoomId, OwnedUserId, RoomId};

use super::{Store, StoreError, inbox::now, outbox::invalid};

/// How long an agent listens for the key of an event that it can't read.
const KEY_WITHIN_MS: i64 = 15 * 60 * 1000;

/// Those that have something to do: all, or one of them.
const AT_WORK: &str = "SELECT agent FROM (
    SELECT agent FROM bell
    UNION ALL SELECT agent FROM inbox WHERE handled_at IS NULL AND event IS NOT NULL
    UNION ALL SELECT agent FROM inbox WHERE session IS NOT NULL AND received_at > ?1
    UNION ALL SELECT agent FROM outbox WHERE settled_at IS NULL AND content IS NOT NULL
    UNION ALL SELECT agent FROM answer
    UNION ALL SELECT agent FROM ask WHERE verdict IS NULL AND kind <> 'list'
    UNION ALL SELECT agent FROM later
) WHERE ?2 IS NULL OR agent = ?2";

/// A transaction as it is to be kept.
#[derive(Debug, Default)]
pub struct Pushed {
    /// Agents that were invited into a room or joined it (true), and that are gone from it.
    pub members: Vec<(OwnedRoomId, OwnedUserId, bool)>,
    /// Agents whose own sync is to bring something of a room, and the newest event of it.
    pub bells: BTreeMap<(OwnedUserId, OwnedRoomId), String>,
    /// What is for an agent as it stands.
    pub events: Vec<(OwnedUserId, Event)>,
}

impl Store {
    /// Whether a transaction has been taken in.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn has_taken(&self, txn: &str) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM pushed WHERE txn = ?)")
            .bind(txn)
            .fetch_one(&self.pool)
            .await?)
    }

    /// Takes in a transaction; events that are here already excepted.
    ///
    /// # Errors
    /// When the store fails; then nothing of it is kept.
    pub async fn take(&self, txn: &str, pushed: &Pushed) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("INSERT OR IGNORE INTO pushed (txn, taken_at) VALUES (?, ?)")
            .bind(txn)
            .bind(now())
            .execute(&mut *transaction)
            .await?;
        for (room, agent, here) in &pushed.members {
            let query = if *here {
                "INSERT OR IGNORE INTO member (room, agent) VALUES (?, ?)"
            } else {
                "DELETE FROM member WHERE room = ? AND agent = ?"
            };
            sqlx::query(query).bind(room.as_str()).bind(agent.as_str()).execute(&mut *transaction).await?;
        }
        for ((agent, room), event) in &pushed.bells {
            // With a new number: what was rung for before is brought by another sync than this.
            sqlx::query("INSERT OR REPLACE INTO bell (agent, room, event_id) VALUES (?, ?, ?)")
                .bind(agent.as_str())
                .bind(room.as_str())
                .bind(event)
                .execute(&mut *transaction)
                .await?;
        }
        for (agent, event) in &pushed.events {
            self.of(agent).insert(&mut transaction, event, false).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// The agents that are in a room, or invited.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn agents_in(&self, room: &RoomId) -> Result<BTreeSet<OwnedUserId>, StoreError> {
        let agents: Vec<String> = sqlx::query_scalar("SELECT agent FROM member WHERE room = ?")
            .bind(room.as_str())
            .fetch_all(&self.pool)
            .await?;
        agents.into_iter().map(|agent| OwnedUserId::try_from(agent).map_err(invalid)).collect()
    }

    /// Whether the agent's own sync is to bring something of a room that it has not brought yet.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_rung(&self, room: &RoomId) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM bell WHERE agent = ? AND room = ?)")
            .bind(self.agent())
            .bind(room.as_str())
            .fetch_one(&self.pool)
            .await?)
    }

    /// The agent's newest bell; 0 where there is none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn newest_bell(&self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("SELECT COALESCE(MAX(seq), 0) FROM bell WHERE agent = ?")
            .bind(self.agent())
            .fetch_one(&self.pool)
            .await?)
    }

    /// The agent's sync has brought these events, in a round that began behind the bell `until`: what it was rung for by then
    /// is here, and so is a room whose newest event is.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn bells_answered(&self, until: i64, brought: &[Event]) -> Result<(), StoreError> {
        let bells: Vec<(i64, String)> = sqlx::query_as("SELECT seq, event_id FROM bell WHERE agent = ?")
            .bind(self.agent())
            .fetch_all(&self.pool)
            .await?;
        if bells.is_empty() {
            return Ok(());
        }
        let brought: HashSet<_> = brought.iter().map(|event| event.id.as_str()).collect();
        for (seq, event) in bells {
            // One that has rung again meanwhile has another number.
            if seq <= until || brought.contains(&*event) {
                sqlx::query("DELETE FROM bell WHERE seq = ?").bind(seq).execute(&self.pool).await?;
            }
        }
        Ok(())
    }

    /// The agents that have something to do: to receive, to answer, to send, to wait for.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn at_work(&self) -> Result<BTreeSet<OwnedUserId>, StoreError> {
        let agents: Vec<String> =
            sqlx::query_scalar(AT_WORK).bind(now() - KEY_WITHIN_MS).bind(None::<&str>).fetch_all(&self.pool).await?;
        agents.into_iter().map(|agent| OwnedUserId::try_from(agent).map_err(invalid)).collect()
    }

    /// Whether the agent has something to do.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_at_work(&self) -> Result<bool, StoreError> {
        let found: Option<String> = sqlx::query_scalar(AT_WORK)
            .bind(now() - KEY_WITHIN_MS)
            .bind(self.agent())
            .fetch_optional(&self.pool)
            .await?;
        Ok(found.is_some())
    }

    /// Where the agent's picture with this digest was uploaded to.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn picture(&self, digest: &str) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT mxc FROM picture WHERE agent = ? AND digest = ?")
            .bind(self.agent())
            .bind(digest)
            .fetch_optional(&self.pool)
            .await?)
    }

    /// Keeps where the agent's picture was uploaded to, instead of an earlier one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_picture(&self, digest: &str, mxc: &str) -> Result<(), StoreError> {
        sqlx::query("INSERT OR REPLACE INTO picture (agent, digest, mxc) VALUES (?, ?, ?)")
            .bind(self.agent())
            .bind(digest)
            .bind(mxc)
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use matrix_link::{Batch, Protection, parse};
    use ruma::{owned_room_id, owned_user_id, user_id};
    use serde_json::json;

    use super::*;

    fn event(id: &str) -> Event {
        let raw = json!({"type": "m.room.message", "event_id": id, "sender": "@alice:example.org",
            "origin_server_ts": 1, "content": {"msgtype": "m.text", "body": id}});
        parse(&owned_room_id!("!r:example.org"), &raw, Protection::Clear).unwrap()
    }

    #[tokio::test]
    async fn what_is_pushed_and_synced_is_there_once_for_each_agent() {
        let store = Store::in_memory(user_id!("@appservice:example.org")).await.unwrap();
        let (cook, guide) = (owned_user_id!("@cook:example.org"), owned_user_id!("@guide:example.org"));
        let events = vec![(cook.clone(), event("$a")), (guide.clone(), event("$a")), (cook.clone(), event("$a"))];
        store.take("1", &Pushed { events, ..Pushed::default() }).await.unwrap();
        assert!(store.has_taken("1").await.unwrap() && !store.has_taken("2").await.unwrap());
        let batch = Batch { position: "p".into(), events: vec![event("$a"), event("$b")], ..Batch::default() };
        store.of(&cook).receive(&batch).await.unwrap();
        for (agent, expected) in [(&cook, vec!["$a", "$b"]), (&guide, vec!["$a"])] {
            let waiting = store.of(agent).waiting(0, 10).await.unwrap();
            assert_eq!(waiting.iter().map(|one| one.event.id.as_str()).collect::<Vec<_>>(), expected);
        }
        assert_eq!(store.count_waiting().await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_bell_stays_until_its_event_is_here_or_a_sync_that_began_behind_it() {
        let store = Store::in_memory(user_id!("@appservice:example.org")).await.unwrap();
        let (cook, room) = (owned_user_id!("@cook:example.org"), owned_room_id!("!r:example.org"));
        let ring = async |txn: &str, event: &str| {
            let bells = BTreeMap::from([((cook.clone(), room.clone()), event.to_owned())]);
            store.take(txn, &Pushed { bells, ..Pushed::default() }).await.unwrap();
        };
        let of_cook = store.of(&cook);
        ring("1", "$a").await;
        let began = of_cook.newest_bell().await.unwrap();
        ring("2", "$b").await;
        of_cook.bells_answered(began, &[event("$a")]).await.unwrap();
        assert!(of_cook.is_rung(&room).await.unwrap(), "it was rung again");
        assert_eq!(store.at_work().await.unwrap(), BTreeSet::from([cook.clone()]));
        store.of(user_id!("@guide:example.org")).bells_answered(i64::MAX, &[event("$b")]).await.unwrap();
        assert!(of_cook.is_rung(&room).await.unwrap(), "another agent's sync brings nothing of this one's");
        assert!(of_cook.is_at_work().await.unwrap());
        of_cook.bells_answered(0, &[event("$b")]).await.unwrap();
        assert!(!of_cook.is_rung(&room).await.unwrap() && !of_cook.is_at_work().await.unwrap());
        ring("3", "$never in a timeline").await;
        of_cook.bells_answered(of_cook.newest_bell().await.unwrap(), &[]).await.unwrap();
        assert!(store.at_work().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn who_is_in_a_room_is_known_across_transactions() {
        let store = Store::in_memory(user_id!("@appservice:example.org")).await.unwrap();
        let (cook, room) = (owned_user_id!("@cook:example.org"), owned_room_id!("!r:example.org"));
        for (txn, here) in [("1", true), ("2", true), ("3", false)] {
            let members = vec![(room.clone(), cook.clone(), here)];
            store.take(txn, &Pushed { members, ..Pushed::default() }).await.unwrap();
            assert_eq!(store.agents_in(&room).await.unwrap().contains(&cook), here);
        }
    }
}
