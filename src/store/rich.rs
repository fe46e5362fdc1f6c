//! The blocks of the agent's own messages as they stand now.

use ruma::{EventId, MilliSecondsSinceUnixEpoch, OwnedEventId, RoomId};
use serde_json::Value;
use sqlx::{Row, sqlite::SqliteRow};

use super::{Store, StoreError, inbox::now, outbox::invalid};

const PAYLOAD: &str = "rich.payload";

/// A message with blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocks {
    /// The message.
    pub event: OwnedEventId,
    /// The root of the thread that it stands in.
    pub thread: Option<OwnedEventId>,
    /// The payload that it carries now.
    pub payload: Value,
}

impl Store {
    /// Keeps the blocks of a message that was just sent; one that is known keeps its newer ones.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn keep_blocks(
        &self,
        room: &RoomId,
        blocks: &Blocks,
        sent_at: MilliSecondsSinceUnixEpoch,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO rich (agent, room, event_id, thread, payload, sent_at) VALUES (?, ?, ?, ?, ?, ?)
             ON CONFLICT (agent, room, event_id) DO NOTHING",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .bind(blocks.event.as_str())
        .bind(blocks.thread.as_ref().map(|thread| thread.as_str()))
        .bind(self.seal.seal(PAYLOAD, &blocks.payload.to_string())?)
        .bind(i64::from(sent_at.get()))
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The blocks of a message have become these: one edit more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn edit_blocks(&self, room: &RoomId, blocks: &Blocks) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO rich (agent, room, event_id, thread, payload, edits, sent_at) VALUES (?, ?, ?, ?, ?, 1, ?)
             ON CONFLICT (agent, room, event_id) DO UPDATE SET payload = excluded.payload, edits = edits + 1",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .bind(blocks.event.as_str())
        .bind(blocks.thread.as_ref().map(|thread| thread.as_str()))
        .bind(self.seal.seal(PAYLOAD, &blocks.payload.to_string())?)
        .bind(now())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// How often a message was edited.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count_edits(&self, room: &RoomId, event: &EventId) -> Result<u32, StoreError> {
        let edits: Option<u32> =
            sqlx::query_scalar("SELECT edits FROM rich WHERE agent = ? AND room = ? AND event_id = ?")
                .bind(self.agent())
                .bind(room.as_str())
                .bind(event.as_str())
                .fetch_optional(&self.pool)
                .await?;
        Ok(edits.unwrap_or(0))
    }

    /// The blocks of a message of the agent.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn blocks(&self, room: &RoomId, event: &EventId) -> Result<Option<Blocks>, StoreError> {
        sqlx::query("SELECT event_id, thread, payload FROM rich WHERE agent = ? AND room = ? AND event_id = ?")
            .bind(self.agent())
            .bind(room.as_str())
            .bind(event.as_str())
            .fetch_optional(&self.pool)
            .await?
            .map(|row| self.read_blocks(&row))
            .transpose()
    }

    /// The newest `limit` messages of a room with blocks, the newest first.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn newest_blocks(&self, room: &RoomId, limit: u32) -> Result<Vec<Blocks>, StoreError> {
        let rows = sqlx::query(
            "SELECT event_id, thread, payload FROM rich
             WHERE agent = ? AND room = ? ORDER BY sent_at DESC, rowid DESC LIMIT ?",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|row| self.read_blocks(row)).collect()
    }

    fn read_blocks(&self, row: &SqliteRow) -> Result<Blocks, StoreError> {
        Ok(Blocks {
            event: OwnedEventId::try_from(row.get::<String, _>(0)).map_err(invalid)?,
            thread: row.get::<Option<String>, _>(1).map(OwnedEventId::try_from).transpose().map_err(invalid)?,
            payload: serde_json::from_str(&self.seal.open(PAYLOAD, row.get(2))?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{event_id, owned_event_id, room_id, uint, user_id};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_newest_blocks_of_a_message_are_known_and_its_edits_counted() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let (room, event) = (room_id!("!r:example.org"), event_id!("$e"));
        assert_eq!(store.count_edits(room, event).await.unwrap(), 0);
        let blocks = |event: &EventId, payload| Blocks {
            event: event.to_owned(),
            thread: Some(owned_event_id!("$root")),
            payload,
        };
        let (one, two) = (MilliSecondsSinceUnixEpoch(uint!(1)), MilliSecondsSinceUnixEpoch(uint!(2)));
        store.keep_blocks(room, &blocks(event, json!(1)), one).await.unwrap();
        store.keep_blocks(room, &blocks(event_id!("$f"), json!("f")), two).await.unwrap();
        store.edit_blocks(room, &blocks(event, json!(2))).await.unwrap();
        store.keep_blocks(room, &blocks(event, json!(1)), one).await.unwrap();
        assert_eq!(store.blocks(room, event).await.unwrap(), Some(blocks(event, json!(2))));
        assert_eq!(store.count_edits(room, event).await.unwrap(), 1);
        let newest = store.newest_blocks(room, 9).await.unwrap();
        assert_eq!(newest.iter().map(|one| one.event.as_str()).collect::<Vec<_>>(), ["$f", "$e"]);
        store.strike_line(room, event).await.unwrap();
        assert_eq!(store.blocks(room, event).await.unwrap(), None);
    }
}
