//! What was received.

use matrix_link::{Batch, Event};
use ruma::MilliSecondsSinceUnixEpoch;
use sqlx::Row;

use super::{Store, StoreError};

const EVENT: &str = "inbox.event";

/// An event that waits to be handled.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Its place in the order of arrival.
    pub seq: i64,
    /// The event.
    pub event: Event,
}

impl Store {
    /// The sync position up to which everything is here.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn position(&self) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT position FROM position WHERE agent = ?")
            .bind(self.agent())
            .fetch_optional(&self.pool)
            .await?)
    }

    /// Keeps a batch: its events, those that are here already excepted, and the position behind them.
    ///
    /// # Errors
    /// When the store fails; then nothing of it is kept.
    pub async fn receive(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        for event in &batch.events {
            sqlx::query(
                "INSERT INTO inbox (agent, room, event_id, event, received_at) VALUES (?, ?, ?, ?, ?)
                 ON CONFLICT (agent, event_id) DO NOTHING",
            )
            .bind(self.agent())
            .bind(event.room.as_str())
            .bind(event.id.as_str())
            .bind(self.seal.seal(EVENT, &serde_json::to_string(event)?)?)
            .bind(now())
            .execute(&mut *transaction)
            .await?;
        }
        sqlx::query(
            "INSERT INTO position (agent, position) VALUES (?, ?)
             ON CONFLICT (agent) DO UPDATE SET position = excluded.position",
        )
        .bind(self.agent())
        .bind(&batch.position)
        .execute(&mut *transaction)
        .await?;
        Ok(transaction.commit().await?)
    }

    /// The oldest events after `seq` that wait to be handled, `limit` at most.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn waiting(&self, seq: i64, limit: u32) -> Result<Vec<Received>, StoreError> {
        sqlx::query(
            "SELECT seq, event FROM inbox
             WHERE handled_at IS NULL AND event IS NOT NULL AND agent = ? AND seq > ? ORDER BY seq LIMIT ?",
        )
        .bind(self.agent())
        .bind(seq)
        .bind(limit)
        .fetch_all(&self.pool)
        .await?
        .into_iter()
        .map(|row| Ok(Received { seq: row.get(0), event: serde_json::from_str(&self.seal.open(EVENT, row.get(1))?)? }))
        .collect()
    }

    /// How many events wait to be handled.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count_waiting(&self) -> Result<u64, StoreError> {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM inbox WHERE handled_at IS NULL AND event IS NOT NULL AND agent = ?",
        )
        .bind(self.agent())
        .fetch_one(&self.pool)
        .await?;
        Ok(waiting.unsigned_abs())
    }

    /// Marks an event as handled.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn handled(&self, seq: i64) -> Result<(), StoreError> {
        sqlx::query("UPDATE inbox SET handled_at = ? WHERE seq = ?").bind(now()).bind(seq).execute(&self.pool).await?;
        Ok(())
    }
}

pub(super) fn now() -> i64 {
    i64::try_from(u64::from(MilliSecondsSinceUnixEpoch::now().get())).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use matrix_link::{Protection, parse};
    use ruma::{room_id, user_id};
    use serde_json::json;

    use super::*;

    fn event(id: &str) -> Event {
        let raw = json!({"type": "m.room.message", "event_id": id, "sender": "@alice:example.org",
            "origin_server_ts": 1, "content": {"msgtype": "m.text", "body": id}});
        parse(room_id!("!r:example.org"), &raw, Protection::Clear).unwrap()
    }

    fn batch(position: &str, ids: &[&str]) -> Batch {
        Batch { position: position.into(), events: ids.iter().map(|id| event(id)).collect(), ..Batch::default() }
    }

    #[tokio::test]
    async fn an_event_that_comes_twice_waits_once_and_keeps_its_place() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        store.receive(&batch("p1", &["$a", "$b"])).await.unwrap();
        store.receive(&batch("p2", &["$b", "$c", "$a"])).await.unwrap();
        let waiting = store.waiting(0, 10).await.unwrap();
        let events: Vec<_> = waiting.iter().map(|received| received.event.clone()).collect();
        assert_eq!(events, [event("$a"), event("$b"), event("$c")]);
        assert_eq!(store.position().await.unwrap().as_deref(), Some("p2"));
    }

    #[tokio::test]
    async fn a_handled_event_does_not_come_back() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        store.receive(&batch("p1", &["$a", "$b"])).await.unwrap();
        let first = store.waiting(0, 1).await.unwrap().remove(0);
        store.handled(first.seq).await.unwrap();
        store.receive(&batch("p2", &["$a"])).await.unwrap();
        assert_eq!(store.count_waiting().await.unwrap(), 1);
        let ids: Vec<_> = store.waiting(0, 10).await.unwrap().into_iter().map(|one| one.event.id).collect();
        assert_eq!(ids, ["$b"]);
    }
}
