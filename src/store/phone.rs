//! What is known of people's phones.

use ruma::{EventId, RoomId, UserId};
use serde_json::Value;

use super::{Store, StoreError};

const ANNOUNCEMENT: &str = "phone.announcement";

impl Store {
    /// What a person's phone client has announced last.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn phone(&self, person: &UserId) -> Result<Option<Value>, StoreError> {
        let sealed: Option<Vec<u8>> =
            sqlx::query_scalar("SELECT announcement FROM phone WHERE agent = ? AND person = ?")
                .bind(self.agent())
                .bind(person.as_str())
                .fetch_optional(&self.pool)
                .await?;
        sealed.map(|sealed| Ok(serde_json::from_str(&self.seal.open(ANNOUNCEMENT, &sealed)?)?)).transpose()
    }

    /// Keeps what a person's phone client has announced.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_phone(&self, person: &UserId, announcement: &Value) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO phone (agent, person, announcement) VALUES (?, ?, ?)
             ON CONFLICT (agent, person) DO UPDATE SET announcement = excluded.announcement",
        )
        .bind(self.agent())
        .bind(person.as_str())
        .bind(self.seal.seal(ANNOUNCEMENT, &announcement.to_string())?)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// A person says that what comes from this place (a device, or a room without encryption) comes from the phone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_phone_here(&self, person: &UserId, place: &str) -> Result<(), StoreError> {
        sqlx::query("INSERT OR IGNORE INTO phone_here (agent, person, place) VALUES (?, ?, ?)")
            .bind(self.agent())
            .bind(person.as_str())
            .bind(place)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Whether a person has said so of this place.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_phone_here(&self, person: &UserId, place: &str) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM phone_here WHERE agent = ? AND person = ? AND place = ?)")
            .bind(self.agent())
            .bind(person.as_str())
            .bind(place)
            .fetch_one(&self.pool)
            .await?)
    }

    /// Forgets all that is known of a person's phone.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_phone(&self, person: &UserId) -> Result<(), StoreError> {
        for query in [
            "DELETE FROM phone WHERE agent = ? AND person = ?",
            "DELETE FROM phone_here WHERE agent = ? AND person = ?",
        ] {
            sqlx::query(query).bind(self.agent()).bind(person.as_str()).execute(&self.pool).await?;
        }
        Ok(())
    }

    /// A message was sent from a phone in this conversation.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_phone_chat(&self, room: &RoomId, thread: Option<&EventId>) -> Result<(), StoreError> {
        sqlx::query("INSERT OR IGNORE INTO phone_chat (agent, room, thread) VALUES (?, ?, ?)")
            .bind(self.agent())
            .bind(room.as_str())
            .bind(thread.map_or("", EventId::as_str))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Whether one ever was.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_phone_chat(&self, room: &RoomId, thread: Option<&EventId>) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM phone_chat WHERE agent = ? AND room = ? AND thread = ?)")
            .bind(self.agent())
            .bind(room.as_str())
            .bind(thread.map_or("", EventId::as_str))
            .fetch_one(&self.pool)
            .await?)
    }
}
