//! The answer: what the phone says to a card, and what the model is told of it.

use serde_json::{Map, Value, json};

use crate::{
    Malformed, Outcome,
    id::CardId,
    tables::tables,
    wire::{ANSWER_KEY, VERSION, object, text},
};

/// What came of an action, as the phone says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The person confirmed, and the phone did it.
    Done,
    /// The person's no.
    Declined,
    /// The phone's: an app is missing, a permission was refused, it can't be done.
    Failed,
}

impl Status {
    /// The status that a phone wrote. One that is not known counts as failed.
    #[must_use]
    pub fn read(status: &str) -> Self {
        match status {
            "done" => Self::Done,
            "declined" => Self::Declined,
            _ => Self::Failed,
        }
    }

    /// The status as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Declined => "declined",
            Self::Failed => "failed",
        }
    }
}

impl From<Status> for Outcome {
    fn from(status: Status) -> Self {
        match status {
            Status::Done => Self::Done,
            Status::Declined => Self::Declined,
            Status::Failed => Self::Failed,
        }
    }
}

/// What a phone client says to a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The person confirmed, and the phone begins: the agent waits on. No result yet.
    Taken {
        /// The card's id.
        card: CardId,
    },
    /// The end.
    Ended {
        /// The card's id.
        card: CardId,
        /// What came of it.
        status: Status,
        /// What the phone has to say, at most 500 characters.
        message: Option<String>,
    },
}

impl Answer {
    /// Reads the answer in the content of a message; `None` if there is none.
    ///
    /// What was done must not get lost to a flaw: a status of any kind that is not known counts as failed, a message
    /// that is no text as none, and a status is heard even beside `taken`.
    ///
    /// # Errors
    /// It names no card, or says nothing of it.
    pub fn read(content: &Value) -> Result<Option<Self>, Malformed> {
        let Some(key) = object(content, ANSWER_KEY)? else { return Ok(None) };
        let card = CardId::parse(text(key, "id", |_| true, "a text")?)?;
        match (key.get("status").filter(|status| !status.is_null()), key.get("taken")) {
            (Some(status), _) => {
                let status = status.as_str().map_or(Status::Failed, Status::read);
                let message = key.get("message").and_then(Value::as_str).and_then(cut);
                Ok(Some(Self::Ended { card, status, message }))
            }
            (None, Some(Value::Bool(true))) => Ok(Some(Self::Taken { card })),
            (None, _) => Err(Malformed::field("status", "there")),
        }
    }

    /// The id of the card that it answers.
    #[must_use]
    pub fn card(&self) -> &CardId {
        match self {
            Self::Taken { card } | Self::Ended { card, .. } => card,
        }
    }

    /// The content of the message that answers the card in event `event`, in the thread with this root.
    ///
    /// It is an `m.notice`, which starts no turn of any bot, not even when it comes too late to be an answer.
    #[must_use]
    pub fn content(&self, event: &str, thread: Option<&str>) -> Value {
        let texts = &tables().messages;
        let mut key = Map::from_iter([("v".into(), VERSION.into()), ("id".into(), self.card().as_str().into())]);
        let mut body = match self {
            Self::Taken { .. } => texts.taken.clone(),
            Self::Ended { status: Status::Done, .. } => texts.done.clone(),
            Self::Ended { status: Status::Declined, .. } => texts.declined.clone(),
            Self::Ended { status: Status::Failed, .. } => texts.failed.clone(),
        };
        match self {
            Self::Taken { .. } => {
                key.insert("taken".into(), true.into());
            }
            Self::Ended { status, message, .. } => {
                key.insert("status".into(), status.as_str().into());
                if let Some(message) = message.as_deref().and_then(cut) {
                    body = format!("{body}\n\n{message}");
                    key.insert("message".into(), message.into());
                }
            }
        }
        let mut relates_to = json!({"m.in_reply_to": {"event_id": event}});
        if let (Some(root), Some(relates_to)) = (thread, relates_to.as_object_mut()) {
            relates_to.insert("rel_type".into(), "m.thread".into());
            relates_to.insert("event_id".into(), root.into());
            relates_to.insert("is_falling_back".into(), false.into());
        }
        json!({
            "msgtype": "m.notice",
            "body": body,
            "m.mentions": {},
            "m.relates_to": relates_to,
            ANSWER_KEY: key,
        })
    }
}

/// The result of a call that was answered: the status's text, and what the phone has to say.
#[must_use]
pub fn result_text(status: Status, message: Option<&str>) -> String {
    let texts = &tables().texts;
    let text = match status {
        Status::Done => &texts.done,
        Status::Declined => &texts.declined,
        Status::Failed => &texts.failed,
    };
    match message.and_then(cut) {
        Some(message) => format!("{text}\n\n{}", texts.says.fill(|_| message.clone())),
        None => text.clone(),
    }
}

/// The result of a call that nobody answered in time.
#[must_use]
pub fn no_answer_text() -> &'static str {
    &tables().texts.no_answer
}

/// A message without blanks around it, cut at the most characters (Unicode scalar values) that one may have; `None` if
/// it says nothing.
pub(crate) fn cut(message: &str) -> Option<String> {
    let cut: String = message.trim().chars().take(tables().message_max_chars).collect();
    (!cut.is_empty()).then_some(cut)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn card() -> CardId {
        CardId::from_bytes([0; 16])
    }

    fn ended(status: Status, message: Option<&str>) -> Answer {
        Answer::Ended { card: card(), status, message: message.map(str::to_owned) }
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let answers = [
            Answer::Taken { card: card() },
            ended(Status::Done, None),
            ended(Status::Declined, None),
            ended(Status::Failed, Some("no map app")),
        ];
        for answer in answers {
            assert_eq!(Answer::read(&answer.content("$card", None)), Ok(Some(answer)));
        }
        assert_eq!(Answer::read(&json!({"body": "done"})), Ok(None));
    }

    #[test]
    fn an_answer_replies_to_the_card_and_starts_no_turn() {
        let expected = json!({
            "msgtype": "m.notice",
            "body": "⚠️ It did not work.\n\nno map app",
            "m.mentions": {},
            "m.relates_to": {"m.in_reply_to": {"event_id": "$card"}},
            "dev.waybread.phone_answer": {
                "v": 1, "id": "AAAAAAAAAAAAAAAAAAAAAA", "status": "failed", "message": "no map app",
            },
        });
        assert_eq!(ended(Status::Failed, Some(" no map app ")).content("$card", None), expected);
    }

    #[test]
    fn in_a_thread_the_reply_is_a_real_one() {
        let relates_to = json!({
            "rel_type": "m.thread", "event_id": "$root", "is_falling_back": false,
            "m.in_reply_to": {"event_id": "$card"},
        });
        assert_eq!(Answer::Taken { card: card() }.content("$card", Some("$root"))["m.relates_to"], relates_to);
    }

    #[test]
    fn each_status_has_its_result_and_the_message_stands_below_it() {
        let message = Some(" {{message}} ");
        let results = [
            result_text(Status::Done, None),
            result_text(Status::Declined, Some("  ")),
            result_text(Status::Failed, message),
            no_answer_text().to_owned(),
        ];
        insta::assert_snapshot!(results.join("\n\n---\n\n"));
    }

    #[test]
    fn a_message_is_cut_by_characters_and_not_by_bytes() {
        assert_eq!(cut(&"é".repeat(501)).unwrap(), "é".repeat(500));
        assert_eq!(cut(&format!(" {} ", "🗺".repeat(500))).unwrap(), "🗺".repeat(500));
        assert_eq!(cut(" \n"), None);
    }
}
