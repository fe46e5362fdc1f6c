//! What was said in a room, as its newest text.

use ruma::{EventId, MilliSecondsSinceUnixEpoch, OwnedEventId, OwnedUserId, RoomId, UInt};
use sqlx::{Row, sqlite::SqliteRow};

use super::{Store, StoreError, inbox::now, outbox::invalid};

const NAME: &str = "transcript.name";
const TEXT: &str = "transcript.text";

/// A message to be written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLine {
    /// Its event.
    pub event_id: OwnedEventId,
    /// The root of the thread that it stands in.
    pub thread: Option<OwnedEventId>,
    /// Who said it.
    pub sender: OwnedUserId,
    /// Under which name.
    pub name: String,
    /// What, as plain text.
    pub text: String,
    /// The message that it replies to.
    pub reply_to: Option<OwnedEventId>,
    /// When.
    pub sent_at: MilliSecondsSinceUnixEpoch,
}

/// A message that was written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number in the room: small, stable, never given twice.
    pub handle: i64,
    /// The message.
    pub line: NewLine,
}

impl Store {
    /// Writes a message down and gives its handle; one that is there keeps its text and handle.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn write_line(&self, room: &RoomId, line: &NewLine) -> Result<i64, StoreError> {
        let written = sqlx::query_scalar(
            "INSERT INTO transcript (agent, room, handle, event_id, thread, sender, name, text, reply_to, sent_at)
             SELECT ?1, ?2, COALESCE(MAX(handle), 0) + 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9
             FROM transcript WHERE agent = ?1 AND room = ?2
             ON CONFLICT (agent, room, event_id) DO NOTHING RETURNING handle",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .bind(line.event_id.as_str())
        .bind(line.thread.as_ref().map(|id| id.as_str()))
        .bind(line.sender.as_str())
        .bind(self.seal.seal(NAME, &line.name)?)
        .bind(self.seal.seal(TEXT, &self.guard.redact(&line.text))?)
        .bind(line.reply_to.as_ref().map(|id| id.as_str()))
        .bind(i64::from(line.sent_at.get()))
        .fetch_optional(&self.pool)
        .await?;
        if let Some(handle) = written {
            return Ok(handle);
        }
        let query = "SELECT handle FROM transcript WHERE agent = ? AND room = ? AND event_id = ?";
        Ok(sqlx::query_scalar(query)
            .bind(self.agent())
            .bind(room.as_str())
            .bind(line.event_id.as_str())
            .fetch_one(&self.pool)
            .await?)
    }

    /// The newest text of a message. Only its sender can change it. Says whether there was such a message.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn rewrite_line(
        &self,
        room: &RoomId,
        event: &EventId,
        sender: &OwnedUserId,
        text: &str,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "UPDATE transcript SET text = ?
             WHERE agent = ? AND room = ? AND event_id = ? AND sender = ? AND text IS NOT NULL",
        )
        .bind(self.seal.seal(TEXT, &self.guard.redact(text))?)
        .bind(self.agent())
        .bind(room.as_str())
        .bind(event.as_str())
        .bind(sender.as_str())
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Takes a message's words away for good.
    ///
    /// Its places in the transcript, the inbox and the outbox stay, so that its handle is not given again and it does not
    /// come again.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn strike_line(&self, room: &RoomId, event: &EventId) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("UPDATE transcript SET text = NULL WHERE agent = ? AND room = ? AND event_id = ?")
            .bind(self.agent())
            .bind(room.as_str())
            .bind(event.as_str())
            .execute(&mut *transaction)
            .await?;
        sqlx::query(
            "UPDATE inbox SET event = NULL, session = NULL, handled_at = COALESCE(handled_at, ?)
             WHERE agent = ? AND room = ? AND ? IN (event_id, target)",
        )
        .bind(now())
        .bind(self.agent())
        .bind(room.as_str())
        .bind(event.as_str())
        .execute(&mut *transaction)
        .await?;
        sqlx::query("DELETE FROM rich WHERE agent = ? AND room = ? AND event_id = ?")
            .bind(self.agent())
            .bind(room.as_str())
            .bind(event.as_str())
            .execute(&mut *transaction)
            .await?;
        sqlx::query("UPDATE outbox SET content = NULL WHERE agent = ? AND room = ? AND ? IN (event_id, target)")
            .bind(self.agent())
            .bind(room.as_str())
            .bind(event.as_str())
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }

    /// One message.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn line(&self, room: &RoomId, event: &EventId) -> Result<Option<Line>, StoreError> {
        sqlx::query(
            "SELECT handle, event_id, thread, sender, name, text, reply_to, sent_at FROM transcript
             WHERE agent = ? AND room = ? AND event_id = ? AND text IS NOT NULL",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .bind(event.as_str())
        .fetch_optional(&self.pool)
        .await?
        .map(|row| self.read(&row))
        .transpose()
    }

    /// The event of the message with this handle, whether its words are still there or not.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn event_of(&self, room: &RoomId, handle: i64) -> Result<Option<OwnedEventId>, StoreError> {
        let event: Option<String> =
            sqlx::query_scalar("SELECT event_id FROM transcript WHERE agent = ? AND room = ? AND handle = ?")
                .bind(self.agent())
                .bind(room.as_str())
                .bind(handle)
                .fetch_optional(&self.pool)
                .await?;
        event.map(OwnedEventId::try_from).transpose().map_err(invalid)
    }

    /// The newest handle of a room; 0 in one where nothing was said.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn newest_handle(&self, room: &RoomId) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("SELECT COALESCE(MAX(handle), 0) FROM transcript WHERE agent = ? AND room = ?")
            .bind(self.agent())
            .bind(room.as_str())
            .fetch_one(&self.pool)
            .await?)
    }

    /// The newest `limit` messages of a room's main timeline, or of one of its threads (its root included), in order. Of
    /// others' messages only those up to a handle, where one is given; the agent's own stand there in any case.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn lines(
        &self,
        room: &RoomId,
        thread: Option<&EventId>,
        up_to: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Line>, StoreError> {
        let rows = sqlx::query(
            "SELECT handle, event_id, thread, sender, name, text, reply_to, sent_at FROM transcript
             WHERE agent = ?1 AND room = ?2 AND (thread IS ?3 OR event_id = ?3) AND text IS NOT NULL
               AND (?4 IS NULL OR handle <= ?4 OR sender = ?1)
             ORDER BY handle DESC LIMIT ?5",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .bind(thread.map(EventId::as_str))
        .bind(up_to)
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().rev().map(|row| self.read(row)).collect()
    }

    /// Whether the agent itself has spoken in a thread, or began it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn takes_part_in(&self, room: &RoomId, thread: &EventId) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM transcript
             WHERE agent = ?1 AND room = ?2 AND sender = ?1 AND (thread = ?3 OR event_id = ?3))",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .bind(thread.as_str())
        .fetch_one(&self.pool)
        .await?)
    }

    fn read(&self, row: &SqliteRow) -> Result<Line, StoreError> {
        let event =
            |column| row.get::<Option<String>, _>(column).map(OwnedEventId::try_from).transpose().map_err(invalid);
        let sent_at = UInt::try_from(row.get::<i64, _>(7)).map_err(invalid)?;
        Ok(Line {
            handle: row.get(0),
            line: NewLine {
                event_id: OwnedEventId::try_from(row.get::<String, _>(1)).map_err(invalid)?,
                thread: event(2)?,
                sender: OwnedUserId::try_from(row.get::<String, _>(3)).map_err(invalid)?,
                name: self.seal.open(NAME, row.get(4))?,
                // What was said before a secret was known is shown without it too.
                text: self.guard.redact(&self.seal.open(TEXT, row.get(5))?).into_owned(),
                reply_to: event(6)?,
                sent_at: MilliSecondsSinceUnixEpoch(sent_at),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{event_id, owned_user_id, room_id, uint, user_id};

    use super::*;

    fn line(id: &str, thread: Option<&str>, sender: &str) -> NewLine {
        NewLine {
            event_id: id.try_into().unwrap(),
            thread: thread.map(|id| id.try_into().unwrap()),
            sender: sender.try_into().unwrap(),
            name: "name".into(),
            text: format!("text of {id}"),
            reply_to: None,
            sent_at: MilliSecondsSinceUnixEpoch(uint!(5)),
        }
    }

    async fn store() -> Store {
        Store::in_memory(user_id!("@bot:example.org")).await.unwrap()
    }

    #[tokio::test]
    async fn a_thread_has_its_root_and_the_main_timeline_has_no_threads() {
        let store = store().await;
        let room = room_id!("!r:example.org");
        for (id, thread) in [("$root", None), ("$a", Some("$root")), ("$b", None), ("$c", Some("$root"))] {
            store.write_line(room, &line(id, thread, "@alice:example.org")).await.unwrap();
        }
        let ids = |lines: Vec<Line>| lines.iter().map(|one| one.line.event_id.to_string()).collect::<Vec<_>>();
        assert_eq!(ids(store.lines(room, Some(event_id!("$root")), None, 9).await.unwrap()), ["$root", "$a", "$c"]);
        assert_eq!(ids(store.lines(room, None, None, 9).await.unwrap()), ["$root", "$b"]);
        assert_eq!(ids(store.lines(room, None, None, 1).await.unwrap()), ["$b"]);
    }

    #[tokio::test]
    async fn a_handle_is_stable_and_counts_per_room() {
        let store = store().await;
        let (one, two) = (room_id!("!one:example.org"), room_id!("!two:example.org"));
        let alice = "@alice:example.org";
        assert_eq!(store.write_line(one, &line("$a", None, alice)).await.unwrap(), 1);
        assert_eq!(store.write_line(one, &line("$b", None, alice)).await.unwrap(), 2);
        assert_eq!(store.write_line(two, &line("$c", None, alice)).await.unwrap(), 1);
        assert_eq!(store.write_line(one, &line("$a", None, alice)).await.unwrap(), 1);
    }

    #[tokio::test]
    async fn only_the_sender_rewrites_a_message() {
        let store = store().await;
        let room = room_id!("!r:example.org");
        store.write_line(room, &line("$a", None, "@alice:example.org")).await.unwrap();
        let bob = owned_user_id!("@bob:example.org");
        let alice = owned_user_id!("@alice:example.org");
        assert!(!store.rewrite_line(room, event_id!("$a"), &bob, "forged").await.unwrap());
        assert!(store.rewrite_line(room, event_id!("$a"), &alice, "mended").await.unwrap());
        assert_eq!(store.line(room, event_id!("$a")).await.unwrap().unwrap().line.text, "mended");
    }

    #[tokio::test]
    async fn a_struck_message_is_gone_and_its_handle_is_not_given_again() {
        let store = store().await;
        let room = room_id!("!r:example.org");
        store.write_line(room, &line("$a", None, "@alice:example.org")).await.unwrap();
        store.write_line(room, &line("$b", None, "@alice:example.org")).await.unwrap();
        store.strike_line(room, event_id!("$b")).await.unwrap();
        assert_eq!(store.line(room, event_id!("$b")).await.unwrap(), None);
        assert_eq!(store.write_line(room, &line("$c", None, "@alice:example.org")).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn the_agent_takes_part_in_threads_where_it_spoke_or_that_it_began() {
        let store = store().await;
        let room = room_id!("!r:example.org");
        store.write_line(room, &line("$mine", None, "@bot:example.org")).await.unwrap();
        store.write_line(room, &line("$x", Some("$spoke"), "@bot:example.org")).await.unwrap();
        store.write_line(room, &line("$y", Some("$other"), "@alice:example.org")).await.unwrap();
        for (thread, part) in [("$mine", true), ("$spoke", true), ("$other", false)] {
            let thread = EventId::parse(thread).unwrap();
            assert_eq!(store.takes_part_in(room, &thread).await.unwrap(), part, "{thread}");
        }
    }
}
