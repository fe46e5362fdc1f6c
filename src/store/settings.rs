//! Small facts that outlive a run: what people chose for a room, what was found out about a model.

use ruma::RoomId;

use super::{Store, StoreError};

impl Store {
    /// What was chosen for a room under `name`.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn room_setting(&self, room: &RoomId, name: &str) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT value FROM room_setting WHERE agent = ? AND room = ? AND name = ?")
            .bind(self.agent())
            .bind(room.as_str())
            .bind(name)
            .fetch_optional(&self.pool)
            .await?)
    }

    /// Keeps a choice for a room.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_room_setting(&self, room: &RoomId, name: &str, value: &str) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO room_setting (agent, room, name, value) VALUES (?, ?, ?, ?)
             ON CONFLICT (agent, room, name) DO UPDATE SET value = excluded.value",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .bind(name)
        .bind(value)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The form of tool calls that was found out for a model.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn model_form(&self, url: &str, model: &str) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT form FROM model_form WHERE url = ? AND model = ?")
            .bind(url)
            .bind(model)
            .fetch_optional(&self.pool)
            .await?)
    }

    /// Keeps the form of tool calls that was found out for a model.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_model_form(&self, url: &str, model: &str, form: &str) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO model_form (url, model, form) VALUES (?, ?, ?)
             ON CONFLICT (url, model) DO UPDATE SET form = excluded.form",
        )
        .bind(url)
        .bind(model)
        .bind(form)
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}
