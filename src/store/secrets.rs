//! Secrets that people have given through forms: sealed, named, listed without their values.

use jiff::Timestamp;
use ruma::{OwnedRoomId, OwnedUserId, UserId};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::Row;

use super::{Store, StoreError, asks::VERDICT, outbox::invalid};

/// Whose a secret is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretOwner {
    /// A person's: it works for what they run, in any room.
    Person(OwnedUserId),
    /// A room's: it works for what anybody may run there.
    Room(OwnedRoomId),
}

impl SecretOwner {
    fn kind(&self) -> &'static str {
        match self {
            Self::Person(_) => "person",
            Self::Room(_) => "room",
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::Person(user) => user.as_str(),
            Self::Room(room) => room.as_str(),
        }
    }

    /// What a value is sealed for: with it, it opens in no other place.
    fn column(&self, name: &str) -> String {
        format!("secret.value {} {} {name}", self.kind(), self.id())
    }
}

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretName {
    /// Whose it is.
    pub owner: SecretOwner,
    /// Its name.
    pub name: String,
    /// Who has given it.
    pub set_by: OwnedUserId,
    /// When.
    pub set_at: Timestamp,
}

/// A secret to be kept.
#[derive(Debug)]
pub struct NewSecret {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: SecretString,
}

/// A form that was sent.
#[derive(Debug)]
pub struct Submission<'a> {
    /// The question behind the form.
    pub ask: &'a str,
    /// What came of it: without secrets.
    pub verdict: &'a Value,
    /// Whose the secrets become.
    pub owner: &'a SecretOwner,
    /// Who has given them.
    pub set_by: &'a UserId,
    /// The secrets.
    pub secrets: &'a [NewSecret],
    /// When.
    pub at: Timestamp,
}

const COLUMNS: &str = "kind, owner, name, set_by, set_at";

impl Store {
    /// Takes a form's submission: its verdict and its secrets, all or nothing. Says whether the form was open.
    ///
    /// # Errors
    /// When the store fails; then nothing was taken.
    pub async fn submit_form(&self, submission: &Submission<'_>) -> Result<bool, StoreError> {
        let Submission { ask, verdict, owner, set_by, secrets, at } = *submission;
        let mut transaction = self.pool.begin().await?;
        let closed = sqlx::query(
            "UPDATE ask SET verdict = ? WHERE agent = ? AND id = ? AND kind = 'form' AND verdict IS NULL AND expires_at > ?",
        )
        .bind(self.seal.seal(VERDICT, &verdict.to_string())?)
        .bind(self.agent())
        .bind(ask)
        .bind(at.as_millisecond())
        .execute(&mut *transaction)
        .await?;
        if closed.rows_affected() == 0 {
            return Ok(false);
        }
        for NewSecret { name, value } in secrets {
            sqlx::query(
                "INSERT INTO secret (agent, kind, owner, name, value, set_by, set_at) VALUES (?, ?, ?, ?, ?, ?, ?)
                 ON CONFLICT (agent, kind, owner, name)
                 DO UPDATE SET value = excluded.value, set_by = excluded.set_by, set_at = excluded.set_at",
            )
            .bind(self.agent())
            .bind(owner.kind())
            .bind(owner.id())
            .bind(name)
            .bind(self.seal.seal(&owner.column(name), value.expose_secret())?)
            .bind(set_by.as_str())
            .bind(at.as_millisecond())
            .execute(&mut *transaction)
            .await?;
            // Before anything can speak of it.
            self.guard.keep(name, value.expose_secret());
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// A secret's value.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn secret(&self, owner: &SecretOwner, name: &str) -> Result<Option<SecretString>, StoreError> {
        let query = "SELECT value FROM secret WHERE agent = ? AND kind = ? AND owner = ? AND name = ?";
        let sealed: Option<Vec<u8>> = sqlx::query_scalar(query)
            .bind(self.agent())
            .bind(owner.kind())
            .bind(owner.id())
            .bind(name)
            .fetch_optional(&self.pool)
            .await?;
        sealed.map(|sealed| Ok(self.seal.open(&owner.column(name), &sealed)?.into())).transpose()
    }

    /// Whether there is such a secret.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn has_secret(&self, owner: &SecretOwner, name: &str) -> Result<bool, StoreError> {
        let query = "SELECT EXISTS (SELECT 1 FROM secret WHERE agent = ? AND kind = ? AND owner = ? AND name = ?)";
        Ok(sqlx::query_scalar(query)
            .bind(self.agent())
            .bind(owner.kind())
            .bind(owner.id())
            .bind(name)
            .fetch_one(&self.pool)
            .await?)
    }

    /// The secrets of a person or a room, by name.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn secrets_of(&self, owner: &SecretOwner) -> Result<Vec<SecretName>, StoreError> {
        self.secret_names("kind = ? AND owner = ?", [owner.kind(), owner.id()]).await
    }

    /// The secrets of rooms that a person has given under a name.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn room_secrets_set_by(&self, person: &UserId, name: &str) -> Result<Vec<SecretName>, StoreError> {
        self.secret_names("kind = 'room' AND set_by = ? AND name = ?", [person.as_str(), name]).await
    }

    async fn secret_names(&self, filter: &str, values: [&str; 2]) -> Result<Vec<SecretName>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM secret WHERE agent = ? AND {filter} ORDER BY name, owner");
        let mut query = sqlx::query(sqlx::AssertSqlSafe(query)).bind(self.agent());
        for value in values {
            query = query.bind(value);
        }
        let rows = query.fetch_all(&self.pool).await?;
        rows.iter()
            .map(|row| {
                let owner: String = row.get(1);
                Ok(SecretName {
                    owner: match row.get::<&str, _>(0) {
                        "person" => SecretOwner::Person(owner.try_into().map_err(invalid)?),
                        _ => SecretOwner::Room(owner.try_into().map_err(invalid)?),
                    },
                    name: row.get(2),
                    set_by: row.get::<String, _>(3).try_into().map_err(invalid)?,
                    set_at: Timestamp::from_millisecond(row.get(4)).map_err(invalid)?,
                })
            })
            .collect()
    }

    /// Forgets a secret. Says whether there was one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_secret(&self, owner: &SecretOwner, name: &str) -> Result<bool, StoreError> {
        let gone = sqlx::query("DELETE FROM secret WHERE agent = ? AND kind = ? AND owner = ? AND name = ?")
            .bind(self.agent())
            .bind(owner.kind())
            .bind(owner.id())
            .bind(name)
            .execute(&self.pool)
            .await?;
        Ok(gone.rows_affected() > 0)
    }

    /// Lets the guard know all that is kept.
    pub(super) async fn guard_secrets(&self) -> Result<(), StoreError> {
        let rows = sqlx::query("SELECT kind, owner, name FROM secret WHERE agent = ?")
            .bind(self.agent())
            .fetch_all(&self.pool)
            .await?;
        for row in rows {
            let (owner, name): (String, String) = (row.get(1), row.get(2));
            let owner = match row.get::<&str, _>(0) {
                "person" => SecretOwner::Person(owner.try_into().map_err(invalid)?),
                _ => SecretOwner::Room(owner.try_into().map_err(invalid)?),
            };
            if let Some(value) = self.secret(&owner, &name).await? {
                self.guard.keep(&name, value.expose_secret());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{owned_event_id, owned_room_id, owned_user_id, user_id};
    use serde_json::json;

    use super::*;
    use crate::store::{Ask, AskKind, Call};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    async fn with_form(store: &Store, id: &str) {
        let ask = Ask {
            id: id.into(),
            kind: AskKind::Form,
            room: owned_room_id!("!r:example.org"),
            thread: None,
            person: owned_user_id!("@alice:example.org"),
            question: json!({}),
            event: None,
            expires_at: at(100),
            verdict: None,
        };
        store.ask(&ask, &Call { origin: owned_event_id!("$q"), arguments: id.into() }, at(1)).await.unwrap();
    }

    async fn submit(store: &Store, ask: &str, owner: &SecretOwner, value: &str, second: i64) -> bool {
        let secrets = [NewSecret { name: "token".into(), value: value.to_owned().into() }];
        let (verdict, set_by) = (json!("given"), user_id!("@alice:example.org"));
        let submission = Submission { ask, verdict: &verdict, owner, set_by, secrets: &secrets, at: at(second) };
        store.submit_form(&submission).await.unwrap()
    }

    #[tokio::test]
    async fn a_form_is_taken_once_and_in_time_with_its_secrets_or_not_at_all() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let owner = SecretOwner::Person(owned_user_id!("@alice:example.org"));
        with_form(&store, "one").await;
        with_form(&store, "late").await;
        assert!(submit(&store, "one", &owner, "first-value", 50).await);
        assert!(!submit(&store, "one", &owner, "second-value", 51).await);
        assert!(!submit(&store, "late", &owner, "third-value", 100).await);
        assert_eq!(store.secret(&owner, "token").await.unwrap().unwrap().expose_secret(), "first-value");
        assert!(store.guard().hits("it is first-value") && !store.guard().hits("second-value"));
    }

    #[tokio::test]
    async fn a_secret_is_its_owners_alone_and_is_listed_without_its_value() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let alice = SecretOwner::Person(owned_user_id!("@alice:example.org"));
        let room = SecretOwner::Room(owned_room_id!("!r:example.org"));
        with_form(&store, "one").await;
        with_form(&store, "two").await;
        submit(&store, "one", &alice, "of-alice", 50).await;
        submit(&store, "two", &room, "of-the-room", 51).await;
        assert_eq!(store.secret(&room, "token").await.unwrap().unwrap().expose_secret(), "of-the-room");
        let listed = store.secrets_of(&alice).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert!(!format!("{listed:?}").contains("of-alice"));
        assert_eq!(store.room_secrets_set_by(user_id!("@alice:example.org"), "token").await.unwrap().len(), 1);
        assert!(store.forget_secret(&alice, "token").await.unwrap());
        assert!(!store.forget_secret(&alice, "token").await.unwrap());
        assert!(store.has_secret(&room, "token").await.unwrap());
    }

    #[tokio::test]
    async fn a_value_that_was_moved_to_another_place_opens_no_more() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let alice = SecretOwner::Person(owned_user_id!("@alice:example.org"));
        with_form(&store, "one").await;
        submit(&store, "one", &alice, "of-alice", 50).await;
        sqlx::query("UPDATE secret SET owner = '@mallory:example.org'").execute(&store.pool).await.unwrap();
        let mallory = SecretOwner::Person(owned_user_id!("@mallory:example.org"));
        assert!(matches!(store.secret(&mallory, "token").await, Err(StoreError::Sealed)));
    }

    #[tokio::test]
    async fn a_store_that_is_opened_again_guards_what_it_keeps_and_no_file_of_it_holds_a_value() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.sqlite3");
        let bot = user_id!("@bot:example.org");
        let store = Store::open(&file, bot, &[1; 32]).await.unwrap();
        let owner = SecretOwner::Person(owned_user_id!("@alice:example.org"));
        with_form(&store, "one").await;
        submit(&store, "one", &owner, "a-value-at-rest-42", 50).await;
        for entry in std::fs::read_dir(folder.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(18).any(|part| part == b"a-value-at-rest-42"));
        }
        drop(store);
        let again = Store::open(&file, bot, &[1; 32]).await.unwrap();
        assert!(again.guard().hits("a-value-at-rest-42"));
    }
}
