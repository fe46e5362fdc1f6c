//! What is sent: the frozen payload under its transaction id.

use matrix_link::{Outgoing, Payload};
use ruma::{EventId, OwnedRoomId, OwnedTransactionId, RoomId, TransactionId};
use sqlx::Row;

use super::{Store, StoreError, inbox::now};

/// A payload of which it is not known whether it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Unsettled {
    /// What was to be sent, with its transaction id.
    pub outgoing: Outgoing,
}

impl Store {
    /// Freezes an event before it is sent for the first time.
    ///
    /// # Errors
    /// When the store fails; then it must not be sent.
    pub async fn freeze(
        &self,
        txn: &TransactionId,
        room: &RoomId,
        event_type: &str,
        content: &serde_json::Value,
    ) -> Result<(), StoreError> {
        sqlx::query("INSERT INTO outbox (txn, agent, room, event_type, content, queued_at) VALUES (?, ?, ?, ?, ?, ?)")
            .bind(txn.as_str())
            .bind(self.agent())
            .bind(room.as_str())
            .bind(event_type)
            .bind(serde_json::to_string(content)?)
            .bind(now())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Ends the matter of a payload: with the event that it became, or with none when it was given up.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn settle(&self, txn: &TransactionId, event: Option<&EventId>) -> Result<(), StoreError> {
        sqlx::query("UPDATE outbox SET settled_at = ?, event_id = ? WHERE txn = ?")
            .bind(now())
            .bind(event.map(EventId::as_str))
            .bind(txn.as_str())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// What an earlier run froze and did not settle, oldest first.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        let rows = sqlx::query(
            "SELECT txn, room, event_type, content FROM outbox
             WHERE settled_at IS NULL AND agent = ? ORDER BY queued_at, rowid",
        )
        .bind(self.agent())
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                let room = OwnedRoomId::try_from(row.get::<String, _>(1)).map_err(invalid)?;
                let payload = Payload::Event { event_type: row.get(2), content: serde_json::from_str(row.get(3))? };
                let txn = OwnedTransactionId::from(row.get::<String, _>(0));
                Ok(Unsettled { outgoing: Outgoing { room, txn, payload } })
            })
            .collect()
    }
}

pub(super) fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Database(sqlx::Error::Decode(Box::new(error)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{event_id, room_id, user_id};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_was_not_settled_comes_back_as_it_was_frozen() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let room = room_id!("!r:example.org");
        for (txn, body) in [("t1", "one"), ("t2", "two"), ("t3", "three")] {
            store.freeze(txn.into(), room, "m.room.message", &json!({"body": body})).await.unwrap();
        }
        store.settle("t1".into(), Some(event_id!("$one"))).await.unwrap();
        store.settle("t3".into(), None).await.unwrap();
        let outgoing = Outgoing {
            room: room.to_owned(),
            txn: "t2".into(),
            payload: Payload::Event { event_type: "m.room.message".into(), content: json!({"body": "two"}) },
        };
        assert_eq!(store.unsettled().await.unwrap(), [Unsettled { outgoing }]);
    }
}
