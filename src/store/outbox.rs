//! What is sent: the frozen payload under its transaction id, and answers that are decided and not all sent.

use matrix_link::{Outgoing, Payload};
use ruma::{EventId, OwnedEventId, OwnedRoomId, OwnedTransactionId, TransactionId};
use serde_json::Value;
use sqlx::Row;

use super::{Store, StoreError, inbox::now};

const CONTENT: &str = "outbox.content";
const ANSWER: &str = "answer.answer";
/// The part of what is no part of an answer.
const NO_PART: i64 = -1;

/// Which part of the answer to which message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The message that is answered.
    pub origin: OwnedEventId,
    /// From 0; a long answer has several.
    pub index: u32,
}

/// Which tool call in the turn on which message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The message that the turn is about.
    pub origin: OwnedEventId,
    /// The tool and its arguments, as they count: the same for the same call.
    pub arguments: String,
}

/// Why a payload is sent: what a later run knows it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It is a part of an answer.
    Part(Part),
    /// A tool call wants it.
    Call(Call),
}

impl Cause {
    fn origin(&self) -> &EventId {
        match self {
            Self::Part(Part { origin, .. }) | Self::Call(Call { origin, .. }) => origin,
        }
    }
}

/// A payload before it is sent for the first time.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPayload<'a> {
    /// The payload.
    pub outgoing: &'a Outgoing,
    /// Why it is sent.
    pub cause: Option<&'a Cause>,
    /// Whether it is the last content of its message.
    pub is_last: bool,
}

/// What an earlier run has sent of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sent {
    /// The message's first event.
    pub event: Option<OwnedEventId>,
    /// Whether its last content stands there.
    pub is_finished: bool,
}

impl Store {
    /// Freezes an event before it is sent for the first time. Redactions carry no words and are not kept.
    ///
    /// # Errors
    /// When the store fails; then it must not be sent.
    pub async fn freeze(&self, payload: NewPayload<'_>) -> Result<(), StoreError> {
        let Payload::Event { event_type, content } = &payload.outgoing.payload else { return Ok(()) };
        let (part, call) = match payload.cause {
            None => (0, None),
            Some(Cause::Part(part)) => (i64::from(part.index), None),
            Some(Cause::Call(call)) => (NO_PART, Some(self.seal.digest(&call.arguments)?)),
        };
        sqlx::query(
            "INSERT INTO outbox (txn, agent, room, event_type, content, target, origin, part, call, is_last, queued_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(payload.outgoing.txn.as_str())
        .bind(self.agent())
        .bind(payload.outgoing.room.as_str())
        .bind(event_type)
        .bind(self.seal.seal(CONTENT, &serde_json::to_string(content)?)?)
        .bind(content.get("m.new_content").and_then(|_| content["m.relates_to"]["event_id"].as_str()))
        .bind(payload.cause.map(|cause| cause.origin().as_str()))
        .bind(part)
        .bind(call)
        .bind(payload.is_last)
        .bind(now())
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Ends the matter of a payload: with the event that it became, or with none when it was given up.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn settle(&self, txn: &TransactionId, event: Option<&EventId>) -> Result<(), StoreError> {
        sqlx::query("UPDATE outbox SET settled_at = ?, event_id = ? WHERE txn = ?")
            .bind(now())
            .bind(event.map(EventId::as_str))
            .bind(txn.as_str())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// What an earlier run froze and did not settle, oldest first.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn unsettled(&self) -> Result<Vec<Outgoing>, StoreError> {
        let rows = sqlx::query(
            "SELECT txn, room, event_type, content FROM outbox
             WHERE settled_at IS NULL AND agent = ? AND content IS NOT NULL ORDER BY seq",
        )
        .bind(self.agent())
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|row| {
                let room = OwnedRoomId::try_from(row.get::<String, _>(1)).map_err(invalid)?;
                let content = serde_json::from_str(&self.seal.open(CONTENT, row.get(3))?)?;
                let payload = Payload::Event { event_type: row.get(2), content };
                Ok(Outgoing { room, txn: OwnedTransactionId::from(row.get::<String, _>(0)), payload })
            })
            .collect()
    }

    /// What has been sent of a part of an answer.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn sent(&self, part: &Part) -> Result<Sent, StoreError> {
        let rows = sqlx::query(
            "SELECT event_id, is_last FROM outbox
             WHERE agent = ? AND origin = ? AND part = ? AND event_id IS NOT NULL ORDER BY seq",
        )
        .bind(self.agent())
        .bind(part.origin.as_str())
        .bind(part.index)
        .fetch_all(&self.pool)
        .await?;
        let event = rows.first().map(|row| row.get::<String, _>(0)).map(OwnedEventId::try_from);
        Ok(Sent { event: event.transpose().map_err(invalid)?, is_finished: rows.iter().any(|row| row.get(1)) })
    }

    /// The event that a tool call has already sent, in this run or an earlier one.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn sent_by(&self, call: &Call) -> Result<Option<OwnedEventId>, StoreError> {
        let event: Option<String> = sqlx::query_scalar(
            "SELECT event_id FROM outbox WHERE agent = ? AND origin = ? AND call = ? AND event_id IS NOT NULL",
        )
        .bind(self.agent())
        .bind(call.origin.as_str())
        .bind(self.seal.digest(&call.arguments)?)
        .fetch_optional(&self.pool)
        .await?;
        event.map(OwnedEventId::try_from).transpose().map_err(invalid)
    }

    /// Whether an event of the agent's is a part of an answer.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn is_part_of_an_answer(&self, event: &EventId) -> Result<bool, StoreError> {
        Ok(sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM outbox WHERE agent = ? AND event_id = ? AND origin IS NOT NULL AND part >= 0)",
        )
        .bind(self.agent())
        .bind(event.as_str())
        .fetch_one(&self.pool)
        .await?)
    }

    /// Keeps an answer before its first part is sent for good. The first decision stands.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn decide(&self, origin: &EventId, answer: &Value) -> Result<(), StoreError> {
        sqlx::query("INSERT OR IGNORE INTO answer (agent, origin, answer, decided_at) VALUES (?, ?, ?, ?)")
            .bind(self.agent())
            .bind(origin.as_str())
            .bind(self.seal.seal(ANSWER, &answer.to_string())?)
            .bind(now())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// The answer that an earlier run has decided on, and of which not all is known to be sent.
    ///
    /// # Errors
    /// When the store fails or holds something unreadable.
    pub async fn decided(&self, origin: &EventId) -> Result<Option<Value>, StoreError> {
        let sealed: Option<Vec<u8>> = sqlx::query_scalar("SELECT answer FROM answer WHERE agent = ? AND origin = ?")
            .bind(self.agent())
            .bind(origin.as_str())
            .fetch_optional(&self.pool)
            .await?;
        sealed.map(|sealed| Ok(serde_json::from_str(&self.seal.open(ANSWER, &sealed)?)?)).transpose()
    }

    /// All of an answer is sent and remembered.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delivered(&self, origin: &EventId) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM answer WHERE agent = ? AND origin = ?")
            .bind(self.agent())
            .bind(origin.as_str())
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

pub(super) fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::Database(sqlx::Error::Decode(Box::new(error)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{event_id, owned_event_id, owned_room_id, user_id};
    use serde_json::json;

    use super::*;

    fn outgoing(txn: &str, body: &str) -> Outgoing {
        let payload = Payload::Event { event_type: "m.room.message".into(), content: json!({ "body": body }) };
        Outgoing { room: owned_room_id!("!r:example.org"), txn: txn.into(), payload }
    }

    async fn store() -> Store {
        Store::in_memory(user_id!("@bot:example.org")).await.unwrap()
    }

    #[tokio::test]
    async fn what_was_not_settled_comes_back_as_it_was_frozen() {
        let store = store().await;
        for (txn, body) in [("t1", "one"), ("t2", "two"), ("t3", "three")] {
            let outgoing = outgoing(txn, body);
            store.freeze(NewPayload { outgoing: &outgoing, cause: None, is_last: false }).await.unwrap();
        }
        store.settle("t1".into(), Some(event_id!("$one"))).await.unwrap();
        store.settle("t3".into(), None).await.unwrap();
        assert_eq!(store.unsettled().await.unwrap(), [outgoing("t2", "two")]);
    }

    #[tokio::test]
    async fn a_part_knows_its_first_event_and_whether_it_is_finished() {
        let store = store().await;
        let part = Part { origin: owned_event_id!("$question"), index: 0 };
        let mut seen = vec![store.sent(&part).await.unwrap()];
        for (txn, is_last) in [("first", false), ("edit", false), ("last", true)] {
            let outgoing = outgoing(txn, txn);
            store
                .freeze(NewPayload { outgoing: &outgoing, cause: Some(&Cause::Part(part.clone())), is_last })
                .await
                .unwrap();
            store.settle(txn.into(), Some(&EventId::parse(format!("${txn}")).unwrap())).await.unwrap();
            seen.push(store.sent(&part).await.unwrap());
        }
        let sent = |is_finished| Sent { event: Some(owned_event_id!("$first")), is_finished };
        assert_eq!(seen, [Sent::default(), sent(false), sent(false), sent(true)]);
        let other = Part { index: 1, ..part };
        assert_eq!(store.sent(&other).await.unwrap(), Sent::default());
    }

    #[tokio::test]
    async fn the_first_decision_on_an_answer_stands_until_it_is_delivered() {
        let store = store().await;
        let question = event_id!("$question");
        store.decide(question, &json!(["yes"])).await.unwrap();
        store.decide(question, &json!(["no"])).await.unwrap();
        assert_eq!(store.decided(question).await.unwrap(), Some(json!(["yes"])));
        store.delivered(question).await.unwrap();
        assert_eq!(store.decided(question).await.unwrap(), None);
    }
}
