//! Questions that a person is asked.

use jiff::Timestamp;
use ruma::{EventId, OwnedEventId, OwnedRoomId, OwnedUserId, RoomId, UserId};
use serde_json::Value;
use sqlx::{Row, sqlite::SqliteRow};

use super::{Call, Store, StoreError, outbox::invalid};

const QUESTION: &str = "ask.question";
pub(super) const VERDICT: &str = "ask.verdict";

/// What a question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskKind {
    /// A card for a person's phone.
    Card,
    /// A one-time form.
    Form,
    /// A room's list of commands.
    List,
}

impl AskKind {
    const ALL: [(&'static str, Self); 3] = [("card", Self::Card), ("form", Self::Form), ("list", Self::List)];

    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Its own id, which an answer may name.
    pub id: String,
    /// What it is.
    pub kind: AskKind,
    /// The room.
    pub room: OwnedRoomId,
    /// The root of the thread that it stands in.
    pub thread: Option<OwnedEventId>,
    /// Who may answer.
    pub person: OwnedUserId,
    /// What is asked.
    pub question: Value,
    /// The message that asks, once the homeserver has it.
    pub event: Option<OwnedEventId>,
    /// Until when it is open.
    pub expires_at: Timestamp,
    /// What came of it; none while it is open.
    pub verdict: Option<Value>,
}

const COLUMNS: &str = "id, room, thread, person, question, event_id, expires_at, verdict, kind";

impl Store {
    /// Keeps a question that a tool call asks, before it is posted.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn ask(&self, ask: &Ask, call: &Call, now: Timestamp) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO ask (agent, id, room, thread, person, origin, call, question, asked_at, expires_at, kind)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(self.agent())
        .bind(&ask.id)
        .bind(ask.room.as_str())
        .bind(ask.thread.as_ref().map(|id| id.as_str()))
        .bind(ask.person.as_str())
        .bind(call.origin.as_str())
        .bind(self.seal.digest(&call.arguments)?)
        .bind(self.seal.seal(QUESTION, &ask.question.to_string())?)
        .bind(now.as_millisecond())
        .bind(ask.expires_at.as_millisecond())
        .bind(ask.kind.as_str())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The question is posted, and open from now on until then.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn asked(&self, id: &str, event: &EventId, expires_at: Timestamp) -> Result<(), StoreError> {
        sqlx::query("UPDATE ask SET event_id = ?, expires_at = ? WHERE agent = ? AND id = ? AND event_id IS NULL")
            .bind(event.as_str())
            .bind(expires_at.as_millisecond())
            .bind(self.agent())
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Keeps a question open at least until then.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn prolong_ask(&self, id: &str, until: Timestamp) -> Result<(), StoreError> {
        sqlx::query("UPDATE ask SET expires_at = MAX(expires_at, ?) WHERE agent = ? AND id = ? AND verdict IS NULL")
            .bind(until.as_millisecond())
            .bind(self.agent())
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Closes a question, if it is open: the first verdict stands. Says whether it was this one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn close_ask(&self, id: &str, verdict: &Value) -> Result<bool, StoreError> {
        let closed = sqlx::query("UPDATE ask SET verdict = ? WHERE agent = ? AND id = ? AND verdict IS NULL")
            .bind(self.seal.seal(VERDICT, &verdict.to_string())?)
            .bind(self.agent())
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(closed.rows_affected() > 0)
    }

    /// A question by its id.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn ask_by_id(&self, id: &str) -> Result<Option<Ask>, StoreError> {
        sqlx::query(sqlx::AssertSqlSafe(format!("SELECT {COLUMNS} FROM ask WHERE agent = ? AND id = ?")))
            .bind(self.agent())
            .bind(id)
            .fetch_optional(&self.pool)
            .await?
            .map(|row| self.read_ask(&row))
            .transpose()
    }

    /// The question that a message asks.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn ask_by_event(&self, room: &RoomId, event: &EventId) -> Result<Option<Ask>, StoreError> {
        sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM ask WHERE agent = ? AND room = ? AND event_id = ?"
        )))
        .bind(self.agent())
        .bind(room.as_str())
        .bind(event.as_str())
        .fetch_optional(&self.pool)
        .await?
        .map(|row| self.read_ask(&row))
        .transpose()
    }

    /// The question of a tool call, in this run or an earlier one.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn ask_by_call(&self, call: &Call) -> Result<Option<Ask>, StoreError> {
        sqlx::query(sqlx::AssertSqlSafe(format!(
            "SELECT {COLUMNS} FROM ask WHERE agent = ? AND origin = ? AND call = ?"
        )))
        .bind(self.agent())
        .bind(call.origin.as_str())
        .bind(self.seal.digest(&call.arguments)?)
        .fetch_optional(&self.pool)
        .await?
        .map(|row| self.read_ask(&row))
        .transpose()
    }

    /// The questions of a kind that are open.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn open_asks(&self, kind: AskKind) -> Result<Vec<Ask>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM ask WHERE agent = ? AND verdict IS NULL AND kind = ?");
        let rows = sqlx::query(sqlx::AssertSqlSafe(query))
            .bind(self.agent())
            .bind(kind.as_str())
            .fetch_all(&self.pool)
            .await?;
        rows.iter().map(|row| self.read_ask(row)).collect()
    }

    /// How many questions of a kind to a person are open, and how many were asked since then.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count_asks(&self, person: &UserId, kind: AskKind, since: Timestamp) -> Result<(u32, u32), StoreError> {
        let row = sqlx::query(
            "SELECT COALESCE(SUM(verdict IS NULL), 0), COALESCE(SUM(asked_at >= ?3), 0) FROM ask
             WHERE agent = ?1 AND person = ?2 AND kind = ?4",
        )
        .bind(self.agent())
        .bind(person.as_str())
        .bind(since.as_millisecond())
        .bind(kind.as_str())
        .fetch_one(&self.pool)
        .await?;
        Ok((row.get(0), row.get(1)))
    }

    fn read_ask(&self, row: &SqliteRow) -> Result<Ask, StoreError> {
        let event =
            |column| row.get::<Option<String>, _>(column).map(OwnedEventId::try_from).transpose().map_err(invalid);
        let verdict = row.get::<Option<Vec<u8>>, _>(7);
        let kind: &str = row.get(8);
        Ok(Ask {
            id: row.get(0),
            kind: AskKind::ALL.iter().find(|(name, _)| *name == kind).map_or(AskKind::Card, |(_, kind)| *kind),
            room: OwnedRoomId::try_from(row.get::<String, _>(1)).map_err(invalid)?,
            thread: event(2)?,
            person: OwnedUserId::try_from(row.get::<String, _>(3)).map_err(invalid)?,
            question: serde_json::from_str(&self.seal.open(QUESTION, row.get(4))?)?,
            event: event(5)?,
            expires_at: Timestamp::from_millisecond(row.get(6)).map_err(invalid)?,
            verdict: match verdict {
                None => None,
                Some(sealed) => Some(serde_json::from_str(&self.seal.open(VERDICT, &sealed)?)?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{event_id, owned_event_id, owned_room_id, owned_user_id, user_id};
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[tokio::test]
    async fn the_first_verdict_stands_and_an_open_question_is_found_by_all_its_names() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let mut ask = Ask {
            id: "one".into(),
            kind: AskKind::Card,
            room: owned_room_id!("!r:example.org"),
            thread: None,
            person: owned_user_id!("@alice:example.org"),
            question: json!({"what": "tea?"}),
            event: None,
            expires_at: at(100),
            verdict: None,
        };
        let call = Call { origin: owned_event_id!("$q"), arguments: "tea".into() };
        store.ask(&ask, &call, at(10)).await.unwrap();
        assert_eq!(store.open_asks(AskKind::Card).await.unwrap(), [ask.clone()]);
        store.asked("one", event_id!("$card"), at(130)).await.unwrap();
        store.prolong_ask("one", at(120)).await.unwrap();
        (ask.event, ask.expires_at) = (Some(owned_event_id!("$card")), at(130));
        assert_eq!(store.ask_by_event(&ask.room, event_id!("$card")).await.unwrap(), Some(ask.clone()));
        assert_eq!(store.ask_by_call(&call).await.unwrap(), Some(ask.clone()));
        assert_eq!(store.count_asks(&ask.person, AskKind::Card, at(10)).await.unwrap(), (1, 1));
        assert!(store.close_ask("one", &json!("done")).await.unwrap());
        assert!(!store.close_ask("one", &json!("declined")).await.unwrap());
        ask.verdict = Some(json!("done"));
        assert_eq!(store.ask_by_id("one").await.unwrap(), Some(ask.clone()));
        assert_eq!(store.count_asks(&ask.person, AskKind::Card, at(11)).await.unwrap(), (0, 0));
        assert_eq!(store.open_asks(AskKind::Card).await.unwrap(), []);
    }
}
