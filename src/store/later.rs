//! Turns that the agent has set itself for later.

use jiff::Timestamp;
use ruma::{EventId, OwnedEventId, OwnedRoomId, OwnedUserId, RoomId};
use sqlx::{Row, sqlite::SqliteRow};

use super::{Call, Store, StoreError, outbox::invalid};

const NOTE: &str = "later.note";

/// A turn to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLater {
    /// The room.
    pub room: OwnedRoomId,
    /// The thread's root; none for the main timeline.
    pub thread: Option<OwnedEventId>,
    /// For whom it works then.
    pub person: OwnedUserId,
    /// What the agent has told itself.
    pub note: String,
    /// When.
    pub due_at: Timestamp,
}

/// A turn to come, with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Later {
    /// Never given twice.
    pub id: i64,
    /// The turn.
    pub later: NewLater,
}

impl Store {
    /// Keeps a turn to come that a tool call has set, and gives its number; the same call sets one. None when the
    /// conversation has `max` of them already.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn add_later(&self, later: &NewLater, call: &Call, max: u32) -> Result<Option<i64>, StoreError> {
        let digest = self.seal.digest(&call.arguments)?;
        let mut transaction = self.pool.begin().await?;
        sqlx::query(
            "INSERT INTO later (agent, room, thread, person, note, due_at, origin, call)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
             WHERE (SELECT count(*) FROM later WHERE agent = ?1 AND room = ?2 AND thread IS ?3) < ?9
             ON CONFLICT DO NOTHING",
        )
        .bind(self.agent())
        .bind(later.room.as_str())
        .bind(later.thread.as_ref().map(|id| id.as_str()))
        .bind(later.person.as_str())
        .bind(self.seal.seal(NOTE, &later.note)?)
        .bind(later.due_at.as_millisecond())
        .bind(call.origin.as_str())
        .bind(&digest)
        .bind(max)
        .execute(&mut *transaction)
        .await?;
        let id = sqlx::query_scalar("SELECT id FROM later WHERE agent = ? AND origin = ? AND call = ?")
            .bind(self.agent())
            .bind(call.origin.as_str())
            .bind(&digest)
            .fetch_optional(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(id)
    }

    /// The turns to come of a conversation, the next first.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn laters(&self, room: &RoomId, thread: Option<&EventId>) -> Result<Vec<Later>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, room, thread, person, note, due_at FROM later
             WHERE agent = ? AND room = ? AND thread IS ? ORDER BY due_at, id",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .bind(thread.map(EventId::as_str))
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(|row| self.read_later(row)).collect()
    }

    /// The turns that are due by now, the oldest first, and when the next one behind them is. One that can't be read is
    /// put aside, with a line in the log: it must not hold up all others.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn due_laters(&self, now: Timestamp) -> Result<(Vec<Later>, Option<Timestamp>), StoreError> {
        let rows = sqlx::query(
            "SELECT id, room, thread, person, note, due_at FROM later WHERE agent = ? AND due_at <= ? ORDER BY due_at, id",
        )
        .bind(self.agent())
        .bind(now.as_millisecond())
        .fetch_all(&self.pool)
        .await?;
        let next: Option<i64> = sqlx::query_scalar("SELECT MIN(due_at) FROM later WHERE agent = ? AND due_at > ?")
            .bind(self.agent())
            .bind(now.as_millisecond())
            .fetch_one(&self.pool)
            .await?;
        let mut due = Vec::new();
        for row in &rows {
            match self.read_later(row) {
                Ok(later) => due.push(later),
                Err(error) => {
                    let id = row.get(0);
                    tracing::error!(
                        id,
                        error = &error as &dyn std::error::Error,
                        "turn for later can't be read: put aside"
                    );
                    self.remove_later(id).await?;
                }
            }
        }
        Ok((due, next.map(Timestamp::from_millisecond).transpose().map_err(invalid)?))
    }

    /// Takes a turn to come away: it has ended, or is not wanted any more. Says whether it was there.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remove_later(&self, id: i64) -> Result<bool, StoreError> {
        let removed = sqlx::query("DELETE FROM later WHERE agent = ? AND id = ?")
            .bind(self.agent())
            .bind(id)
            .execute(&self.pool)
            .await?;
        Ok(removed.rows_affected() > 0)
    }

    fn read_later(&self, row: &SqliteRow) -> Result<Later, StoreError> {
        let thread = row.get::<Option<String>, _>(2).map(OwnedEventId::try_from).transpose().map_err(invalid)?;
        let later = NewLater {
            room: OwnedRoomId::try_from(row.get::<String, _>(1)).map_err(invalid)?,
            thread,
            person: OwnedUserId::try_from(row.get::<String, _>(3)).map_err(invalid)?,
            note: self.seal.open(NOTE, row.get(4))?,
            due_at: Timestamp::from_millisecond(row.get(5)).map_err(invalid)?,
        };
        Ok(Later { id: row.get(0), later })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{event_id, owned_event_id, owned_room_id, owned_user_id, room_id, user_id};

    use super::*;

    fn later(second: i64, thread: Option<OwnedEventId>) -> NewLater {
        NewLater {
            room: owned_room_id!("!r:example.org"),
            thread,
            person: owned_user_id!("@alice:example.org"),
            note: format!("at {second}"),
            due_at: Timestamp::from_second(second).unwrap(),
        }
    }

    #[tokio::test]
    async fn what_is_due_comes_in_order_and_stays_until_it_is_removed() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let thread = Some(owned_event_id!("$root"));
        let add = async |later: NewLater, call: &str| {
            let call = Call { origin: owned_event_id!("$q"), arguments: call.to_owned() };
            store.add_later(&later, &call, 2).await.unwrap()
        };
        let one = add(later(30, None), "a").await.unwrap();
        assert_eq!(add(later(30, None), "a").await, Some(one), "the same call sets one");
        let two = add(later(10, None), "b").await.unwrap();
        assert_eq!(add(later(20, None), "c").await, None);
        let three = add(later(20, thread), "d").await.unwrap();
        let ids = |laters: &[Later]| laters.iter().map(|one| one.id).collect::<Vec<_>>();
        let (due, next) = store.due_laters(Timestamp::from_second(20).unwrap()).await.unwrap();
        assert_eq!((ids(&due), next), (vec![two, three], Some(Timestamp::from_second(30).unwrap())));
        assert!(store.remove_later(two).await.unwrap() && !store.remove_later(two).await.unwrap());
        let room = room_id!("!r:example.org");
        assert_eq!(ids(&store.laters(room, None).await.unwrap()), [one]);
        assert_eq!(ids(&store.laters(room, Some(event_id!("$root"))).await.unwrap()), [three]);
    }
}
