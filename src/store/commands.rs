//! Room commands: forms besides their asks, lists that were confirmed, runs that are not over.

use jiff::Timestamp;
use ruma::{OwnedUserId, RoomId, UserId};
use serde_json::Value;
use sqlx::Row;

use super::{Ask, Call, Store, StoreError, outbox::invalid};

const PROGRESS: &str = "command_run.progress";

/// What is known of the list in a room's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListStanding {
    /// The hash of the list that the room was told of.
    pub hash: String,
    /// Whether somebody has confirmed it.
    pub confirmed: bool,
}

impl Store {
    /// A form is about to be opened.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn form_opened(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query("INSERT OR IGNORE INTO form (agent, id) VALUES (?, ?)")
            .bind(self.agent())
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Whose form it is, of all agents that share the store.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn form_agent(&self, id: &str) -> Result<Option<OwnedUserId>, StoreError> {
        let agent = sqlx::query_scalar("SELECT agent FROM form WHERE id = ?").bind(id);
        let agent: Option<String> = agent.fetch_optional(&self.pool).await?;
        agent.map(OwnedUserId::try_from).transpose().map_err(invalid)
    }

    /// The digest of what the browser keeps that has opened a form.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn form_browser(&self, id: &str) -> Result<Option<String>, StoreError> {
        let browser = sqlx::query_scalar("SELECT browser FROM form WHERE agent = ? AND id = ?")
            .bind(self.agent())
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        Ok(browser.flatten())
    }

    /// Binds a form to a browser, if it is to none. Says whether it was this one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn bind_form(&self, id: &str, browser: &str) -> Result<bool, StoreError> {
        let bound = sqlx::query("UPDATE form SET browser = ? WHERE agent = ? AND id = ? AND browser IS NULL")
            .bind(browser)
            .bind(self.agent())
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(bound.rows_affected() > 0)
    }

    /// Whether a form is open for a person.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn has_open_form(&self, person: &UserId, now: Timestamp) -> Result<bool, StoreError> {
        let query =
            "SELECT EXISTS (SELECT 1 FROM ask WHERE agent = ? AND person = ? AND kind = 'form' AND verdict IS NULL
                     AND event_id IS NOT NULL AND expires_at > ?)";
        Ok(sqlx::query_scalar(query)
            .bind(self.agent())
            .bind(person.as_str())
            .bind(now.as_millisecond())
            .fetch_one(&self.pool)
            .await?)
    }

    /// The forms whose end was not told yet, open ones among them.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn untold_forms(&self) -> Result<Vec<Ask>, StoreError> {
        let ids: Vec<String> = sqlx::query_scalar("SELECT id FROM form WHERE agent = ? AND told = 0")
            .bind(self.agent())
            .fetch_all(&self.pool)
            .await?;
        let mut asks = Vec::new();
        for id in ids {
            asks.extend(self.ask_by_id(&id).await?);
        }
        Ok(asks)
    }

    /// A form's end was told.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn form_told(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE form SET told = 1 WHERE agent = ? AND id = ?")
            .bind(self.agent())
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// What is known of the list in a room's state.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn command_list(&self, room: &RoomId) -> Result<Option<ListStanding>, StoreError> {
        let row = sqlx::query("SELECT hash, confirmed_by IS NOT NULL FROM command_list WHERE agent = ? AND room = ?")
            .bind(self.agent())
            .bind(room.as_str())
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|row| ListStanding { hash: row.get(0), confirmed: row.get(1) }))
    }

    /// The room is told of a list. Says whether it was another one before; what was confirmed is so no more.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tell_command_list(&self, room: &RoomId, hash: &str) -> Result<bool, StoreError> {
        let told = sqlx::query(
            "INSERT INTO command_list (agent, room, hash) VALUES (?, ?, ?)
             ON CONFLICT (agent, room) DO UPDATE SET hash = excluded.hash, confirmed_by = NULL WHERE hash != excluded.hash",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .bind(hash)
        .execute(&self.pool)
        .await?;
        Ok(told.rows_affected() > 0)
    }

    /// Somebody has confirmed the list that the room was told of.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn confirm_command_list(&self, room: &RoomId, hash: &str, by: &UserId) -> Result<(), StoreError> {
        sqlx::query("UPDATE command_list SET confirmed_by = ? WHERE agent = ? AND room = ? AND hash = ?")
            .bind(by.as_str())
            .bind(self.agent())
            .bind(room.as_str())
            .bind(hash)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// How far a run has come.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn command_run(&self, call: &Call) -> Result<Option<Value>, StoreError> {
        let sealed: Option<Vec<u8>> =
            sqlx::query_scalar("SELECT progress FROM command_run WHERE agent = ? AND origin = ? AND call = ?")
                .bind(self.agent())
                .bind(call.origin.as_str())
                .bind(self.seal.digest(&call.arguments)?)
                .fetch_optional(&self.pool)
                .await?;
        sealed.map(|sealed| Ok(serde_json::from_str(&self.seal.open(PROGRESS, &sealed)?)?)).transpose()
    }

    /// All runs that are kept.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn command_runs(&self) -> Result<Vec<Value>, StoreError> {
        let sealed: Vec<Vec<u8>> =
            sqlx::query_scalar("SELECT progress FROM command_run WHERE agent = ? ORDER BY begun_at")
                .bind(self.agent())
                .fetch_all(&self.pool)
                .await?;
        sealed.iter().map(|sealed| Ok(serde_json::from_str(&self.seal.open(PROGRESS, sealed)?)?)).collect()
    }

    /// Keeps how far a run has come.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn keep_command_run(&self, call: &Call, progress: &Value, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO command_run (agent, origin, call, progress, begun_at) VALUES (?, ?, ?, ?, ?)
             ON CONFLICT (agent, origin, call) DO UPDATE SET progress = excluded.progress",
        )
        .bind(self.agent())
        .bind(call.origin.as_str())
        .bind(self.seal.digest(&call.arguments)?)
        .bind(self.seal.seal(PROGRESS, &progress.to_string())?)
        .bind(now.as_millisecond())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Forgets a run.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_command_run(&self, call: &Call) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM command_run WHERE agent = ? AND origin = ? AND call = ?")
            .bind(self.agent())
            .bind(call.origin.as_str())
            .bind(self.seal.digest(&call.arguments)?)
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{owned_event_id, room_id, user_id};
    use serde_json::json;

    use super::*;

    async fn store() -> Store {
        Store::in_memory(user_id!("@bot:example.org")).await.unwrap()
    }

    #[tokio::test]
    async fn a_list_is_told_once_and_a_change_takes_the_confirmation_away() {
        let (store, room) = (store().await, room_id!("!r:example.org"));
        assert!(store.tell_command_list(room, "a").await.unwrap());
        assert!(!store.tell_command_list(room, "a").await.unwrap());
        store.confirm_command_list(room, "another", user_id!("@alice:example.org")).await.unwrap();
        assert_eq!(
            store.command_list(room).await.unwrap().unwrap(),
            ListStanding { hash: "a".into(), confirmed: false }
        );
        store.confirm_command_list(room, "a", user_id!("@alice:example.org")).await.unwrap();
        assert!(!store.tell_command_list(room, "a").await.unwrap());
        assert!(store.command_list(room).await.unwrap().unwrap().confirmed);
        for hash in ["b", "a"] {
            assert!(store.tell_command_list(room, hash).await.unwrap());
            assert!(!store.command_list(room).await.unwrap().unwrap().confirmed, "anew at each change");
        }
    }

    #[tokio::test]
    async fn the_first_browser_has_the_form() {
        let store = store().await;
        store.form_opened("f").await.unwrap();
        let of_another = store.of(user_id!("@other:example.org"));
        assert_eq!(of_another.form_agent("f").await.unwrap().as_deref(), Some(store.agent.as_ref()));
        assert_eq!(of_another.form_agent("g").await.unwrap(), None);
        assert_eq!(store.form_browser("f").await.unwrap(), None);
        assert!(store.bind_form("f", "one").await.unwrap());
        assert!(!store.bind_form("f", "two").await.unwrap());
        assert!(!store.bind_form("unknown", "two").await.unwrap());
        assert_eq!(store.form_browser("f").await.unwrap().as_deref(), Some("one"));
    }

    #[tokio::test]
    async fn a_run_is_kept_until_it_is_forgotten() {
        let store = store().await;
        let call = Call { origin: owned_event_id!("$q"), arguments: "deploy".into() };
        store.keep_command_run(&call, &json!({"step": 1}), Timestamp::UNIX_EPOCH).await.unwrap();
        store.keep_command_run(&call, &json!({"step": 2}), Timestamp::UNIX_EPOCH).await.unwrap();
        assert_eq!(store.command_run(&call).await.unwrap(), Some(json!({"step": 2})));
        assert_eq!(store.command_runs().await.unwrap().len(), 1);
        store.forget_command_run(&call).await.unwrap();
        assert_eq!(store.command_run(&call).await.unwrap(), None);
    }
}
