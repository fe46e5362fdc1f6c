//! What was received.

use std::collections::{BTreeSet, HashMap};

use matrix_link::{Batch, Event, EventKind, Message, Undecrypted};
use ruma::{EventId, MilliSecondsSinceUnixEpoch, OwnedEventId, OwnedRoomId, RoomId, UserId};
use sqlx::{Row, SqliteConnection};

use super::{Store, StoreError, outbox::invalid};

const EVENT: &str = "inbox.event";

/// An event that waits to be handled.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Its place in the order of arrival.
    pub seq: i64,
    /// The event.
    pub event: Event,
    /// Whether it was answered before the device was there.
    pub answered: bool,
}

impl Store {
    /// The sync position up to which everything is here.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn position(&self) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT position FROM position WHERE agent = ?")
            .bind(self.agent())
            .fetch_optional(&self.pool)
            .await?)
    }

    /// Keeps a batch: its events, those that are here already excepted, and the position behind them. The first batch of a
    /// device is its rooms' past: what the agent has spoken behind is answered.
    ///
    /// # Errors
    /// When the store fails; then nothing of it is kept.
    pub async fn receive(&self, batch: &Batch) -> Result<(), StoreError> {
        // Before the transaction: one that reads first is refused when somebody else has written meanwhile.
        let is_past = self.position().await?.is_none();
        let answered = if is_past { answered(&batch.events, &self.agent) } else { BTreeSet::new() };
        let mut transaction = self.pool.begin().await?;
        for event in &batch.events {
            self.insert(&mut transaction, event, answered.contains(&event.id)).await?;
        }
        sqlx::query(
            "INSERT INTO position (agent, position) VALUES (?, ?)
             ON CONFLICT (agent) DO UPDATE SET position = excluded.position",
        )
        .bind(self.agent())
        .bind(&batch.position)
        .execute(&mut *transaction)
        .await?;
        Ok(transaction.commit().await?)
    }

    pub(super) async fn insert(
        &self,
        transaction: &mut SqliteConnection,
        event: &Event,
        answered: bool,
    ) -> Result<(), StoreError> {
        let (session, target) = match &event.kind {
            EventKind::Undecryptable { session } => (session.as_deref(), None),
            EventKind::Edit { target, .. } => (None, Some(target.as_str())),
            _ => (None, None),
        };
        sqlx::query(
            "INSERT INTO inbox (agent, room, event_id, event, target, session, received_at, answered)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent, event_id) DO NOTHING",
        )
        .bind(self.agent())
        .bind(event.room.as_str())
        .bind(event.id.as_str())
        .bind(self.seal.seal(EVENT, &serde_json::to_string(event)?)?)
        .bind(target)
        .bind(session)
        .bind(now())
        .bind(answered)
        .execute(transaction)
        .await?;
        Ok(())
    }

    /// Which of these events of a room are here; None when nothing of the room is.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn kept(
        &self,
        room: &RoomId,
        events: &[OwnedEventId],
    ) -> Result<Option<BTreeSet<OwnedEventId>>, StoreError> {
        let any: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM inbox WHERE agent = ?1 AND room = ?2
             UNION ALL SELECT 1 FROM transcript WHERE agent = ?1 AND room = ?2)",
        )
        .bind(self.agent())
        .bind(room.as_str())
        .fetch_one(&self.pool)
        .await?;
        if !any {
            return Ok(None);
        }
        let mut kept = BTreeSet::new();
        for event in events {
            // What the inbox has forgotten by its age, the transcript still knows. Not by the agent's own words: they are
            // written down when they are sent, whatever the sync has missed before them.
            let here: bool = sqlx::query_scalar(
                "SELECT EXISTS (SELECT 1 FROM inbox WHERE agent = ?1 AND event_id = ?3
                 UNION ALL SELECT 1 FROM transcript
                 WHERE agent = ?1 AND room = ?2 AND event_id = ?3 AND sender <> ?1)",
            )
            .bind(self.agent())
            .bind(room.as_str())
            .bind(event.as_str())
            .fetch_one(&self.pool)
            .await?;
            if here {
                kept.insert(event.clone());
            }
        }
        Ok(Some(kept))
    }

    /// The message that an event here is an edit of.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn edited_by(&self, event: &EventId) -> Result<Option<OwnedEventId>, StoreError> {
        let target: Option<Option<String>> =
            sqlx::query_scalar("SELECT target FROM inbox WHERE agent = ? AND event_id = ?")
                .bind(self.agent())
                .bind(event.as_str())
                .fetch_optional(&self.pool)
                .await?;
        target.flatten().map(OwnedEventId::try_from).transpose().map_err(invalid)
    }

    /// A message as its newest version that was not taken back: an edit by the same sender, or itself.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn newest_version(&self, message: &EventId) -> Result<Option<Event>, StoreError> {
        let rows = sqlx::query(
            "SELECT event FROM inbox WHERE agent = ?1 AND (event_id = ?2 OR target = ?2) AND event IS NOT NULL
             ORDER BY target IS NULL, seq DESC",
        )
        .bind(self.agent())
        .bind(message.as_str())
        .fetch_all(&self.pool)
        .await?;
        let mut versions = Vec::new();
        for row in rows {
            versions.push(serde_json::from_str::<Event>(&self.seal.open(EVENT, row.get(0))?)?);
        }
        let sender = versions.last().map(|original| original.sender.clone());
        Ok(versions.into_iter().find(|version| Some(&version.sender) == sender.as_ref()))
    }

    /// The oldest events that wait for a key, `limit` at most: all, or those of one session.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn undecrypted(&self, session: Option<&str>, limit: u32) -> Result<Vec<Undecrypted>, StoreError> {
        let rows = sqlx::query(
            "SELECT room, event_id, session FROM inbox
             WHERE agent = ?1 AND session IS NOT NULL AND (?2 IS NULL OR session = ?2) ORDER BY seq LIMIT ?3",
        )
        .bind(self.agent())
        .bind(session)
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(Undecrypted {
                    room: OwnedRoomId::try_from(row.get::<String, _>(0)).map_err(invalid)?,
                    event: OwnedEventId::try_from(row.get::<String, _>(1)).map_err(invalid)?,
                    session: row.get(2),
                })
            })
            .collect()
    }

    /// Whether an event still waits for its key.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_undecrypted(&self, event: &EventId) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM inbox WHERE agent = ? AND event_id = ? AND session IS NOT NULL)",
        )
        .bind(self.agent())
        .bind(event.as_str())
        .fetch_one(&self.pool)
        .await?)
    }

    /// Puts an event that waited for its key behind all others, decrypted, to be handled. One that does not wait (any
    /// more) is left as it is.
    ///
    /// # Errors
    /// When the store fails; then it waits on.
    pub async fn decrypted(&self, event: &Event) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        let waited: Option<bool> = sqlx::query_scalar(
            "DELETE FROM inbox WHERE agent = ? AND event_id = ? AND session IS NOT NULL RETURNING answered",
        )
        .bind(self.agent())
        .bind(event.id.as_str())
        .fetch_optional(&mut *transaction)
        .await?;
        if let Some(answered) = waited {
            self.insert(&mut transaction, event, answered).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// The oldest events after `seq` that wait to be handled, `limit` at most. One that can't be read is put aside, with a
    /// line in the log: it must not hold up all others.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn waiting(&self, seq: i64, limit: u32) -> Result<Vec<Received>, StoreError> {
        loop {
            let rows = sqlx::query(
                "SELECT seq, event, answered FROM inbox
                 WHERE handled_at IS NULL AND event IS NOT NULL AND agent = ? AND seq > ? ORDER BY seq LIMIT ?",
            )
            .bind(self.agent())
            .bind(seq)
            .bind(limit)
            .fetch_all(&self.pool)
            .await?;
            let none_left = rows.is_empty();
            let mut waiting = Vec::new();
            for row in rows {
                let seq = row.get(0);
                match self.seal.open(EVENT, row.get(1)).and_then(|event| Ok(serde_json::from_str(&event)?)) {
                    Ok(event) => waiting.push(Received { seq, event, answered: row.get(2) }),
                    Err(error) => {
                        tracing::error!(
                            seq,
                            error = &error as &dyn std::error::Error,
                            "event can't be read: put aside"
                        );
                        self.handled(seq).await?;
                    }
                }
            }
            if none_left || !waiting.is_empty() {
                return Ok(waiting);
            }
        }
    }

    /// The place of the newest event that is here; 0 where there is none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn newest_received(&self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar("SELECT COALESCE(MAX(seq), 0) FROM inbox").fetch_one(&self.pool).await?)
    }

    /// How many events wait to be handled, by all agents.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count_waiting(&self) -> Result<u64, StoreError> {
        let waiting: i64 =
            sqlx::query_scalar("SELECT count(*) FROM inbox WHERE handled_at IS NULL AND event IS NOT NULL")
                .fetch_one(&self.pool)
                .await?;
        Ok(waiting.unsigned_abs())
    }

    /// Marks an event as handled.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn handled(&self, seq: i64) -> Result<(), StoreError> {
        sqlx::query("UPDATE inbox SET handled_at = ? WHERE seq = ?").bind(now()).bind(seq).execute(&self.pool).await?;
        Ok(())
    }
}

/// The events of others behind which the agent has spoken, in the same thread or main timeline. Where it can't be told in
/// which, since its key is not here, any will do: an answer too few is better than one given twice.
fn answered(events: &[Event], agent: &UserId) -> BTreeSet<OwnedEventId> {
    let mut spoken: HashMap<&RoomId, Vec<Option<&Message>>> = HashMap::new();
    let mut answered = BTreeSet::new();
    for event in events.iter().rev() {
        let message = match &event.kind {
            EventKind::Message(message) => Some(message),
            _ => None,
        };
        let behind = spoken.entry(&event.room).or_default();
        if event.sender == agent {
            if message.is_some() || matches!(event.kind, EventKind::Undecryptable { .. }) {
                behind.push(message);
            }
        } else if behind.iter().any(|one| one.zip(message).is_none_or(|(one, message)| one.thread == message.thread)) {
            answered.insert(event.id.clone());
        }
    }
    answered
}

pub(super) fn now() -> i64 {
    i64::try_from(u64::from(MilliSecondsSinceUnixEpoch::now().get())).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use matrix_link::{Protection, parse};
    use ruma::{event_id, owned_event_id, owned_user_id, room_id, user_id};
    use serde_json::json;

    use super::*;

    fn event(id: &str) -> Event {
        let raw = json!({"type": "m.room.message", "event_id": id, "sender": "@alice:example.org",
            "origin_server_ts": 1, "content": {"msgtype": "m.text", "body": id}});
        parse(room_id!("!r:example.org"), &raw, Protection::Clear).unwrap()
    }

    fn batch(position: &str, ids: &[&str]) -> Batch {
        Batch { position: position.into(), events: ids.iter().map(|id| event(id)).collect(), ..Batch::default() }
    }

    #[tokio::test]
    async fn an_event_that_comes_twice_waits_once_and_keeps_its_place() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        store.receive(&batch("p1", &["$a", "$b"])).await.unwrap();
        store.receive(&batch("p2", &["$b", "$c", "$a"])).await.unwrap();
        let waiting = store.waiting(0, 10).await.unwrap();
        let events: Vec<_> = waiting.iter().map(|received| received.event.clone()).collect();
        assert_eq!(events, [event("$a"), event("$b"), event("$c")]);
        assert_eq!(store.position().await.unwrap().as_deref(), Some("p2"));
    }

    #[tokio::test]
    async fn of_a_devices_past_what_the_agent_has_spoken_behind_is_answered() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let message = |id: &str, sender: &str, thread: &str| {
            let relation =
                if thread.is_empty() { json!({}) } else { json!({"rel_type": "m.thread", "event_id": thread}) };
            let raw = json!({"type": "m.room.message", "event_id": id, "sender": sender, "origin_server_ts": 1,
                "content": {"msgtype": "m.text", "body": id, "m.relates_to": relation}});
            parse(room_id!("!r:example.org"), &raw, Protection::Clear).unwrap()
        };
        let (alice, bot) = ("@alice:example.org", "@bot:example.org");
        let past = |late: Event| Batch {
            position: "p1".into(),
            events: vec![
                message("$answered", alice, ""),
                late,
                message("$in-thread", alice, "$answered"),
                message("$answer", bot, ""),
                message("$open", alice, ""),
            ],
            ..Batch::default()
        };
        store.receive(&past(undecryptable("$late", "s"))).await.unwrap();
        store.decrypted(&message("$late", alice, "")).await.unwrap();
        let answered = async |store: &Store| {
            let waiting = store.waiting(0, 10).await.unwrap().into_iter();
            waiting.filter(|one| one.answered).map(|one| one.event.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(answered(&store).await, ["$answered", "$late"]);
        // Whatever comes behind the past is new.
        let more = vec![message("$new", alice, ""), message("$by-hand", bot, "")];
        store.receive(&Batch { position: "p2".into(), events: more, ..Batch::default() }).await.unwrap();
        assert_eq!(answered(&store).await, ["$answered", "$late"]);

        let restored = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let own = Event { sender: owned_user_id!("@bot:example.org"), ..undecryptable("$own", "s") };
        let events = vec![message("$in-thread", alice, "$root"), own, message("$open", alice, "")];
        restored.receive(&Batch { position: "p1".into(), events, ..Batch::default() }).await.unwrap();
        assert_eq!(answered(&restored).await, ["$in-thread"], "the agent's own words can't be read");
    }

    fn undecryptable(id: &str, session: &str) -> Event {
        Event { kind: EventKind::Undecryptable { session: Some(session.into()) }, ..event(id) }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_received_is_kept_while_others_write() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("s"), user_id!("@bot:example.org"), &[1; 32]).await.unwrap();
        let writes = tokio::spawn({
            let store = store.clone();
            async move {
                for seq in 0..200 {
                    store.handled(seq).await.unwrap();
                }
            }
        });
        for number in 0..200 {
            store.receive(&batch(&number.to_string(), &[&format!("${number}")])).await.unwrap();
        }
        writes.await.unwrap();
    }

    #[tokio::test]
    async fn a_late_key_brings_an_event_once_and_behind_all_others() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let late = undecryptable("$late", "s1");
        let batch = Batch { events: vec![late, undecryptable("$never", "s2"), event("$b")], ..Batch::default() };
        store.receive(&batch).await.unwrap();
        for received in store.waiting(0, 10).await.unwrap() {
            store.handled(received.seq).await.unwrap();
        }
        let waiting = |found: Vec<Undecrypted>| found.into_iter().map(|one| one.event.to_string()).collect::<Vec<_>>();
        assert_eq!(waiting(store.undecrypted(None, 10).await.unwrap()), ["$late", "$never"]);
        assert_eq!(waiting(store.undecrypted(Some("s1"), 10).await.unwrap()), ["$late"]);
        for _ in 0..2 {
            store.decrypted(&event("$late")).await.unwrap();
            let events: Vec<_> = store.waiting(3, 10).await.unwrap().into_iter().map(|one| one.event).collect();
            assert_eq!(events, [event("$late")]);
        }
        assert!(!store.is_undecrypted(event_id!("$late")).await.unwrap());
        store.decrypted(&event("$b")).await.unwrap();
        assert_eq!(store.waiting(3, 10).await.unwrap().len(), 1, "what was read before does not come again");
    }

    #[tokio::test]
    async fn a_gap_is_known_by_what_is_kept_of_its_room() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        store.receive(&batch("p1", &["$a", "$b"])).await.unwrap();
        let ids = [owned_event_id!("$b"), owned_event_id!("$c")];
        let room = room_id!("!r:example.org");
        assert_eq!(store.kept(room, &ids).await.unwrap(), Some(BTreeSet::from([owned_event_id!("$b")])));
        assert_eq!(store.kept(room_id!("!other:example.org"), &ids).await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_event_that_can_not_be_read_holds_up_no_other() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        store.receive(&batch("p1", &["$a", "$b"])).await.unwrap();
        sqlx::query("UPDATE inbox SET event = x'00' WHERE seq = 1").execute(&store.pool).await.unwrap();
        for limit in [1, 9] {
            let ids: Vec<_> = store.waiting(0, limit).await.unwrap().into_iter().map(|one| one.event.id).collect();
            assert_eq!(ids, ["$b"]);
        }
    }

    #[tokio::test]
    async fn a_message_has_its_earlier_text_again_when_its_edit_is_taken_back() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let room = room_id!("!r:example.org");
        let edit = |id: &str, sender: &str| {
            let raw = json!({"type": "m.room.message", "event_id": id, "sender": sender, "origin_server_ts": 2,
                "content": {"msgtype": "m.text", "body": "* x", "m.new_content": {"msgtype": "m.text", "body": id},
                    "m.relates_to": {"rel_type": "m.replace", "event_id": "$a"}}});
            parse(room, &raw, Protection::Clear).unwrap()
        };
        let events = vec![
            event("$a"),
            edit("$one", "@alice:example.org"),
            edit("$two", "@alice:example.org"),
            edit("$forged", "@mallory:example.org"),
        ];
        store.receive(&Batch { events, ..Batch::default() }).await.unwrap();
        let mut seen = Vec::new();
        for struck in [None, Some(event_id!("$two")), Some(event_id!("$one"))] {
            if let Some(struck) = struck {
                assert_eq!(store.edited_by(struck).await.unwrap(), Some(owned_event_id!("$a")));
                store.strike_line(room, struck).await.unwrap();
            }
            let version = store.newest_version(event_id!("$a")).await.unwrap().unwrap();
            seen.push(version.message().unwrap().body.clone());
        }
        assert_eq!(seen, ["$two", "$one", "$a"]);
        store.strike_line(room, event_id!("$a")).await.unwrap();
        assert_eq!(store.newest_version(event_id!("$a")).await.unwrap(), None, "all versions are struck");
    }

    #[tokio::test]
    async fn a_handled_event_does_not_come_back() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        store.receive(&batch("p1", &["$a", "$b"])).await.unwrap();
        let first = store.waiting(0, 1).await.unwrap().remove(0);
        store.handled(first.seq).await.unwrap();
        store.receive(&batch("p2", &["$a"])).await.unwrap();
        assert_eq!(store.count_waiting().await.unwrap(), 1);
        let ids: Vec<_> = store.waiting(0, 10).await.unwrap().into_iter().map(|one| one.event.id).collect();
        assert_eq!(ids, ["$b"]);
    }
}
