//! What is kept no longer than it is needed.

use std::time::Duration;

use super::{Store, StoreError, inbox::now};
use crate::config;

impl Store {
    /// Forgets what is older than it is kept, of all agents; what waits to be handled or sent stays. Gives the number of things forgotten.
    ///
    /// A forgotten event that comes again would count as new: the homeserver sends none that is older than the position.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_old(&self, keep: &config::Store) -> Result<u64, StoreError> {
        let before = |kept: Duration| now().saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
        let mut transaction = self.pool.begin().await?;
        let mut forgotten = 0;
        for (query, time) in [
            ("DELETE FROM inbox WHERE handled_at < ?", before(keep.keep_events)),
            ("DELETE FROM outbox WHERE settled_at < ?", before(keep.keep_events)),
            ("DELETE FROM answer WHERE decided_at < ?", before(keep.keep_events)),
            // The row with the highest handle stays, without its words: no handle is given twice.
            ("UPDATE transcript SET text = NULL WHERE sent_at < ? AND text IS NOT NULL", before(keep.keep_transcript)),
            ("DELETE FROM ask WHERE verdict IS NOT NULL AND asked_at < ?", before(keep.keep_events)),
            ("DELETE FROM rich WHERE sent_at < ?", before(keep.keep_transcript)),
            ("DELETE FROM pushed WHERE taken_at < ?", before(keep.keep_events)),
            ("DELETE FROM command_run WHERE begun_at < ?", before(keep.keep_events)),
            (
                "DELETE FROM form WHERE ? >= 0 AND NOT EXISTS
                 (SELECT 1 FROM ask WHERE ask.agent = form.agent AND ask.id = form.id)",
                before(keep.keep_events).max(0),
            ),
        ] {
            let done = sqlx::query(query).bind(time).execute(&mut *transaction).await?;
            forgotten += done.rows_affected();
        }
        transaction.commit().await?;
        Ok(forgotten)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use matrix_link::{Batch, Protection, parse};
    use ruma::{MilliSecondsSinceUnixEpoch, room_id, uint, user_id};
    use serde_json::json;

    use super::*;
    use crate::store::NewLine;

    #[tokio::test]
    async fn what_was_handled_and_said_long_ago_is_forgotten_and_what_waits_stays() {
        let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
        let room = room_id!("!r:example.org");
        let event = |id: &str| {
            let raw = json!({"type": "m.room.message", "event_id": id, "sender": "@alice:example.org",
                "origin_server_ts": 1, "content": {"msgtype": "m.text", "body": id}});
            parse(room, &raw, Protection::Clear).unwrap()
        };
        store.receive(&Batch { events: vec![event("$done"), event("$waits")], ..Batch::default() }).await.unwrap();
        store.handled(1).await.unwrap();
        let line = |id: &str, sent_at| NewLine {
            event_id: id.try_into().unwrap(),
            thread: None,
            sender: "@alice:example.org".try_into().unwrap(),
            name: "alice".into(),
            text: id.into(),
            reply_to: None,
            sent_at: MilliSecondsSinceUnixEpoch(sent_at),
        };
        store.write_line(room, &line("$old", uint!(1))).await.unwrap();
        store.write_line(room, &line("$new", MilliSecondsSinceUnixEpoch::now().get())).await.unwrap();
        let keep = config::Store { keep_events: Duration::ZERO, keep_transcript: Duration::from_secs(60) };
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(store.forget_old(&keep).await.unwrap(), 2);
        let waiting: Vec<_> = store.waiting(0, 9).await.unwrap().into_iter().map(|one| one.event).collect();
        assert_eq!(waiting, [event("$waits")]);
        let said: Vec<_> =
            store.lines(room, None, None, 9).await.unwrap().into_iter().map(|one| one.line.text).collect();
        assert_eq!(said, ["$new"]);
    }
}
