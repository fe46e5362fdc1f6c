//! The agent's own store: SQLite, one file, one owner. The agents of an appservice share one, each with what is its own
//! ([`Store::of`]).
//!
//! Invariants that the rest relies on:
//!
//! - an event is in the inbox before the sync position behind it is kept (`inbox`), and is there once;
//! - a payload is in the outbox, with its transaction id, before it is sent (`outbox`);
//! - a handle names the same message of a room for ever (`transcript`).
//!
//! One file per table's verbs. All methods are one transaction each.

mod asks;
mod commands;
mod inbox;
mod later;
mod outbox;
mod phone;
mod pushed;
mod retention;
mod rich;
mod seal;
mod secrets;
mod settings;
mod transcript;

use std::{path::Path, time::Duration};

use matrix_link::write_private;
use ruma::{DeviceId, OwnedDeviceId, OwnedUserId, UserId};
use seal::Seal;
use sqlx::{
    SqlitePool,
    migrate::MigrateError,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

pub use asks::{Ask, AskKind};
pub use commands::ListStanding;
pub use inbox::Received;
pub use later::{Later, NewLater};
pub use outbox::{Call, Cause, NewPayload, Part, Sent};
pub use pushed::Pushed;
pub use rich::Blocks;
pub use secrets::{NewSecret, SecretName, SecretOwner, Submission};
pub use transcript::{Line, NewLine};

use crate::observe::Guard;

/// What is sealed as the proof of the key.
const PROOF: &str = "owner.proof";
/// How long a writer waits for another one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The agent's store.
#[derive(Debug, Clone)]
pub struct Store {
    pool: SqlitePool,
    agent: OwnedUserId,
    seal: Seal,
    guard: Guard,
}

/// Why the store did not do it. Whether it is worth another attempt is not known: a full disk may be emptied.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file can't be opened, read or written.
    #[error("the store failed")]
    Database(#[from] sqlx::Error),
    /// A newer version has written the file.
    #[error("the store was written by a newer version of Waybread: run that one, or put back a copy from before")]
    Newer,
    /// The schema can't be brought up to date.
    #[error("the store's schema does not fit this version")]
    Schema(#[source] MigrateError),
    /// Something in it can't be read back.
    #[error("the store holds something unreadable")]
    Malformed(#[from] serde_json::Error),
    /// Something in it does not open with this key.
    #[error("the store does not open with the key beside it: put back the store.key that it was made with")]
    Sealed,
    /// It is another device's.
    #[error("the store belongs to device {bound}, not to {asked}: the sync position of one means nothing to the other")]
    OtherDevice {
        /// Whose it is.
        bound: String,
        /// Which one asked.
        asked: OwnedDeviceId,
    },
    /// It is somebody else's.
    #[error("the store belongs to {owner}, not to {asked}: give each account a state folder of its own")]
    OtherOwner {
        /// Whose it is.
        owner: String,
        /// Who asked.
        asked: OwnedUserId,
    },
}

impl Store {
    /// Opens the store in `file` for `agent` with its key, and makes it at the first time.
    ///
    /// # Errors
    /// When the file can't be used, is newer than this version, was made with another key, or is another account's.
    pub async fn open(file: &Path, agent: &UserId, key: &[u8; 32]) -> Result<Self, StoreError> {
        if !file.exists() {
            // SQLite's other files get the mode of this one.
            write_private(file, b"").map_err(|error| StoreError::Database(error.into()))?;
        }
        let options = SqliteConnectOptions::new()
            .filename(file)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        // A connection to a file does not go away, so it need not be tried before each query.
        let pool = SqlitePoolOptions::new().max_connections(4).test_before_acquire(false).connect_with(options).await?;
        Self::with(pool, agent, key, Guard::of_process()).await
    }

    /// A store in memory, gone with its last handle.
    ///
    /// # Errors
    /// When SQLite has no memory left.
    pub async fn in_memory(agent: &UserId) -> Result<Self, StoreError> {
        // One connection that never ends: a second one would see an empty database of its own.
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect("sqlite::memory:")
            .await?;
        Self::with(pool, agent, &[0; 32], Guard::default()).await
    }

    async fn with(pool: SqlitePool, agent: &UserId, key: &[u8; 32], guard: Guard) -> Result<Self, StoreError> {
        sqlx::migrate!("src/store/migrations").run(&pool).await.map_err(|error| match error {
            MigrateError::VersionMissing(_) => StoreError::Newer,
            error => StoreError::Schema(error),
        })?;
        sqlx::query("INSERT OR IGNORE INTO owner (one, user) VALUES (1, ?)")
            .bind(agent.as_str())
            .execute(&pool)
            .await?;
        let owner: String = sqlx::query_scalar("SELECT user FROM owner").fetch_one(&pool).await?;
        if owner != agent.as_str() {
            return Err(StoreError::OtherOwner { owner, asked: agent.to_owned() });
        }
        let store = Self { pool, agent: agent.to_owned(), seal: Seal::new(key), guard };
        store.prove_key().await?;
        store.guard_secrets().await?;
        Ok(store)
    }

    /// Makes sure that the store's words open with this key, before more are sealed with it.
    async fn prove_key(&self) -> Result<(), StoreError> {
        let proof: Option<Vec<u8>> = sqlx::query_scalar("SELECT proof FROM owner").fetch_one(&self.pool).await?;
        match proof {
            Some(proof) => self.seal.open(PROOF, &proof).map(|_| ()),
            None => {
                let sealed = self.seal.seal(PROOF, PROOF)?;
                sqlx::query("UPDATE owner SET proof = ?").bind(sealed).execute(&self.pool).await?;
                Ok(())
            }
        }
    }

    /// The same store, with what is another agent's.
    #[must_use]
    pub fn of(&self, agent: &UserId) -> Self {
        Self { agent: agent.to_owned(), ..self.clone() }
    }

    /// Binds the store to the account's device; its words are those of that device's rooms.
    ///
    /// # Errors
    /// When it is bound to another one, or fails.
    pub async fn bind_device(&self, device: &DeviceId) -> Result<(), StoreError> {
        sqlx::query("INSERT OR IGNORE INTO device (agent, device) VALUES (?, ?)")
            .bind(self.agent())
            .bind(device.as_str())
            .execute(&self.pool)
            .await?;
        let bound: String = sqlx::query_scalar("SELECT device FROM device WHERE agent = ?")
            .bind(self.agent())
            .fetch_one(&self.pool)
            .await?;
        if bound == device.as_str() { Ok(()) } else { Err(StoreError::OtherDevice { bound, asked: device.to_owned() }) }
    }

    /// The device that the store is bound to.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn device(&self) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT device FROM device WHERE agent = ?")
            .bind(self.agent())
            .fetch_optional(&self.pool)
            .await?)
    }

    /// Makes the store ready for a new device of the account: what it keeps of the rooms stays, the sync position does not.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn release_device(&self) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        for query in ["DELETE FROM device WHERE agent = ?", "DELETE FROM position WHERE agent = ?"] {
            sqlx::query(query).bind(self.agent()).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Keeps secrets out of what is written down and shown.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// A short text that is the same for the same text, and tells nothing to those without the key.
    pub(crate) fn digest(&self, text: &str) -> Result<String, StoreError> {
        self.seal.digest(text)
    }

    fn agent(&self) -> &str {
        self.agent.as_str()
    }

    /// Whether nothing is asked of it right now: its threads know no paused clock, so tests look here before time passes.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.pool.num_idle() == self.pool.size() as usize
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{device_id, user_id};

    use super::*;

    const KEY: [u8; 32] = [1; 32];

    #[tokio::test]
    async fn a_store_of_a_newer_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.sqlite3");
        let store = Store::open(&file, user_id!("@bot:example.org"), &KEY).await.unwrap();
        sqlx::query(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'of the future', 1, x'00', 0)",
        )
        .execute(&store.pool)
        .await
        .unwrap();
        let error = Store::open(&file, user_id!("@bot:example.org"), &KEY).await.unwrap_err();
        assert!(error.to_string().starts_with("the store was written by a newer version"), "{error}");
    }

    #[tokio::test]
    async fn a_store_opens_with_its_own_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.sqlite3");
        Store::open(&file, user_id!("@bot:example.org"), &KEY).await.unwrap();
        Store::open(&file, user_id!("@bot:example.org"), &KEY).await.unwrap();
        let error = Store::open(&file, user_id!("@bot:example.org"), &[2; 32]).await.unwrap_err();
        assert!(matches!(error, StoreError::Sealed), "{error}");
    }

    #[tokio::test]
    async fn a_store_is_one_accounts_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.sqlite3");
        Store::open(&file, user_id!("@bot:example.org"), &KEY).await.unwrap();
        let store = Store::open(&file, user_id!("@bot:example.org"), &KEY).await.unwrap();
        assert_eq!(store.device().await.unwrap(), None);
        store.bind_device(device_id!("ONE")).await.unwrap();
        assert_eq!(store.device().await.unwrap().as_deref(), Some("ONE"));
        store.bind_device(device_id!("ONE")).await.unwrap();
        assert!(
            store.bind_device(device_id!("OTHER")).await.unwrap_err().to_string().contains("device ONE, not to OTHER")
        );
        store.release_device().await.unwrap();
        store.bind_device(device_id!("OTHER")).await.unwrap();
        let error = Store::open(&file, user_id!("@other:example.org"), &KEY).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the store belongs to @bot:example.org, not to @other:example.org: \
             give each account a state folder of its own"
        );
    }
}
