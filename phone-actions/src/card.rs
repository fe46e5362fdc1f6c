//! The card: what the agent sends into the room, and what the phone reads of it.

use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    Malformed,
    action::Action,
    check::check,
    id::{CardId, is_device_id, is_event_id, is_user_id},
    tables::tables,
    text::{Frame, Text, text_of},
    wire::{CARD_KEY, VERSION, canonical, has_float, object, restored, text},
};

/// The longest that a card may wait for its answer.
pub const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The largest content of a card, in bytes of JSON, as the edit that closes it and without an answer's message.
///
/// An event may have 64 KiB. Encrypted this becomes a third more, and the message and what is around it need room.
const MAX_CONTENT: usize = 32 * 1024;

/// A card: it asks one person for one action, for some time.
///
/// Made by [`Card::new`] and [`Card::read`], which check it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Card {
    /// Its own id; the answer names it.
    pub id: CardId,
    /// The person it is for, and the only one whose answer counts.
    pub person: String,
    /// The event that is being answered: the person's message.
    pub re: String,
    /// The paired phone it is for. Without one, the person does it by hand and says so.
    pub device: Option<String>,
    /// What the phone is to do.
    pub action: Action,
    /// How long it waits for its answer, from the card's `origin_server_ts`. Whole milliseconds.
    pub expires_in: Duration,
    /// Whether it still waits.
    pub state: State,
}

/// Whether a card still waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Open,
    /// It does not: this came of it.
    Closed(Outcome),
}

/// What came of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The person confirmed, and it was done.
    Done,
    /// The person said no.
    Declined,
    /// The phone could not.
    Failed,
    /// Nobody answered in time.
    Expired,
    /// The agent took it back.
    Withdrawn,
}

impl State {
    const ALL: [(Self, &str); 6] = [
        (Self::Open, "open"),
        (Self::Closed(Outcome::Done), "done"),
        (Self::Closed(Outcome::Declined), "declined"),
        (Self::Closed(Outcome::Failed), "failed"),
        (Self::Closed(Outcome::Expired), "expired"),
        (Self::Closed(Outcome::Withdrawn), "withdrawn"),
    ];

    /// The state as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL.into_iter().find(|(state, _)| *state == self).map_or("", |(_, name)| name)
    }

    fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(state, _)| state)
    }
}

/// Why no card can be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CardError {
    /// An id or the time is not what it should be.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The action does not fit into an event. Shown, it is a result for the model.
    #[error("{text}")]
    TooLarge {
        /// The text for the model.
        text: String,
    },
}

impl Card {
    /// A card that waits, for `person`, who sent the event `re`, on the paired phone `device` or by hand.
    ///
    /// # Errors
    /// An id is none, the time is under a millisecond or over [`MAX_WAIT`], or the card would be too large to send.
    pub fn new(
        id: CardId,
        person: &str,
        re: &str,
        device: Option<&str>,
        action: Action,
        expires_in: Duration,
    ) -> Result<Self, CardError> {
        let card = Self {
            id,
            person: person.to_owned(),
            re: re.to_owned(),
            device: device.map(str::to_owned),
            action,
            expires_in,
            state: State::Open,
        };
        // Reading is the check: what can be read again may be sent.
        let card = Self::read(&json!({CARD_KEY: card.key()}))?.unwrap_or(card);
        if card.outcome_content("$", Outcome::Withdrawn, None).to_string().len() > MAX_CONTENT {
            return Err(CardError::TooLarge { text: tables().texts.too_large.clone() });
        }
        Ok(card)
    }

    /// Reads the card in the content of a message, or in an edit's `m.new_content`; `None` if there is none, as in a
    /// redacted one. The action is checked as a call is, so that a card can't ask for more than a call.
    ///
    /// # Errors
    /// What is wrong with it. Whoever shows cards ignores such a one.
    pub fn read(content: &Value) -> Result<Option<Self>, Malformed> {
        let Some(key) = object(content, CARD_KEY)? else { return Ok(None) };
        if key.values().any(has_float) {
            return Err(Malformed::field(CARD_KEY, "free of floats"));
        }
        let device = match key.get("device") {
            None => None,
            Some(_) => Some(text(key, "device", is_device_id, "a device id")?.to_owned()),
        };
        let longest = u64::try_from(MAX_WAIT.as_millis()).unwrap_or(u64::MAX);
        let expires_in = key.get("expires_in_ms").and_then(Value::as_u64).filter(|ms| (1..=longest).contains(ms));
        let expires_in =
            expires_in.ok_or_else(|| Malformed::field("expires_in_ms", "an integer from 1 to 86400000"))?;
        let state = key.get("state").and_then(Value::as_str).and_then(State::read);
        Ok(Some(Self {
            id: CardId::parse(text(key, "id", |_| true, "a text")?)?,
            person: text(key, "for", is_user_id, "a user id")?.to_owned(),
            re: text(key, "re", is_event_id, "an event id")?.to_owned(),
            device,
            action: check(&restored(key.get("action").unwrap_or(&Value::Null))?)?,
            expires_in: Duration::from_millis(expires_in),
            state: state.ok_or_else(|| Malformed::field("state", "one of the states of a card"))?,
        }))
    }

    /// Whether this is the earlier card in another state. An edit that is not must be ignored: nothing else of a card
    /// ever changes.
    #[must_use]
    pub fn is_update_of(&self, earlier: &Self) -> bool {
        Self { state: earlier.state, ..self.clone() } == *earlier
    }

    /// The content of the message that puts the card into the room; the caller adds where it stands.
    #[must_use]
    pub fn content(&self) -> Value {
        self.message(self.state, None)
    }

    /// The content of the message as it stands once the card is closed, to be an edit's `m.new_content`. `message` is
    /// what the phone or the person said with the answer.
    #[must_use]
    pub fn closed_content(&self, outcome: Outcome, message: Option<&str>) -> Value {
        self.message(State::Closed(outcome), message)
    }

    /// The content of the edit that closes the card, whose event is `event`. It mentions nobody anew.
    #[must_use]
    pub fn outcome_content(&self, event: &str, outcome: Outcome, message: Option<&str>) -> Value {
        let content = self.closed_content(outcome, message);
        let again = |key: &str| format!("* {}", content[key].as_str().unwrap_or_default());
        json!({
            "msgtype": content["msgtype"],
            "body": again("body"),
            "format": content["format"],
            "formatted_body": again("formatted_body"),
            "m.mentions": {},
            "m.relates_to": {"rel_type": "m.replace", "event_id": event},
            "m.new_content": content,
        })
    }

    /// What the person reads. `message` is what was said with the answer of a closed card.
    #[must_use]
    pub fn text(&self, message: Option<&str>) -> Text {
        self.text_in(self.state, message)
    }

    fn text_in(&self, state: State, message: Option<&str>) -> Text {
        let wait = self.expires_in;
        let frame = match (state, &self.device) {
            (State::Open, Some(_)) => Frame::OnPhone { wait },
            (State::Open, None) => Frame::ByHand { wait },
            (State::Closed(outcome), _) => Frame::Closed { outcome, message },
        };
        text_of(tables(), &self.action, frame)
    }

    fn message(&self, state: State, message: Option<&str>) -> Value {
        let text = self.text_in(state, message);
        json!({
            "msgtype": "m.text",
            "body": text.plain(),
            "format": "org.matrix.custom.html",
            "formatted_body": text.html(),
            "m.mentions": {"user_ids": [self.person]},
            CARD_KEY: Self { state, ..self.clone() }.key(),
        })
    }

    fn key(&self) -> Value {
        let ms = u64::try_from(self.expires_in.as_millis()).unwrap_or(u64::MAX);
        let mut key = json!({
            "v": VERSION,
            "id": self.id,
            "for": self.person,
            "re": self.re,
            "action": canonical(&self.action.to_value()),
            "expires_in_ms": ms,
            "state": self.state.as_str(),
        });
        if let (Some(device), Some(key)) = (&self.device, key.as_object_mut()) {
            key.insert("device".to_owned(), device.as_str().into());
        }
        key
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    pub(crate) fn card(call: &Value, device: Option<&str>) -> Card {
        let id = CardId::from_bytes([7; 16]);
        let wait = Duration::from_secs(120);
        Card::new(id, "@alice:example.org", "$question", device, check(call).unwrap(), wait).unwrap()
    }

    fn route() -> Card {
        let home = json!({"lat": 48.85, "lon": 2, "name": "Home"});
        card(&json!({"action": "navigate", "destination": home, "mode": "walk", "summary": "Go home"}), Some("PHONE"))
    }

    #[test]
    fn the_key_of_a_card_holds_all_that_a_phone_needs_and_no_float() {
        let expected = json!({
            "v": 1, "id": "BwcHBwcHBwcHBwcHBwcHBw", "for": "@alice:example.org", "re": "$question", "device": "PHONE",
            "action": {
                "action": "navigate", "summary": "Go home", "mode": "walk",
                "destination": {"lat": "48.85", "lon": "2", "name": "Home"},
            },
            "expires_in_ms": 120_000, "state": "open",
        });
        assert_eq!(route().content()[CARD_KEY], expected);
    }

    #[test]
    fn the_message_mentions_the_person_and_its_edit_nobody_anew() {
        let content = route().content();
        assert_eq!(content["msgtype"], "m.text");
        assert_eq!(content["m.mentions"], json!({"user_ids": ["@alice:example.org"]}));
        let edit = route().outcome_content("$card", Outcome::Failed, Some("no map app"));
        assert_eq!(edit["m.mentions"], json!({}));
        assert_eq!(edit["m.relates_to"], json!({"rel_type": "m.replace", "event_id": "$card"}));
        let new = &edit["m.new_content"];
        assert_eq!(new, &route().closed_content(Outcome::Failed, Some("no map app")));
        assert_eq!(edit["body"], format!("* {}", new["body"].as_str().unwrap()));
    }

    #[test]
    fn only_the_state_changes_when_a_card_is_closed() {
        let edit = route().outcome_content("$card", Outcome::Done, None);
        let closed = Card::read(&edit["m.new_content"]).unwrap().unwrap();
        assert_eq!(closed.state, State::Closed(Outcome::Done));
        assert!(closed.is_update_of(&route()));
        let mut other = closed;
        other.expires_in += Duration::from_millis(1);
        assert!(!other.is_update_of(&route()));
    }

    #[test]
    fn a_card_is_read_as_it_was_made() {
        let made = card(&json!({"action": "torch", "on": true}), None);
        assert_eq!(Card::read(&made.content()), Ok(Some(made)));
        assert_eq!(Card::read(&json!({"body": "hello"})), Ok(None));
        assert_eq!(Card::read(&json!({})), Ok(None));
    }

    #[test]
    fn a_card_with_a_broken_id_or_time_is_not_made() {
        let new = |person, re, device, wait| {
            let action = check(&json!({"action": "torch", "on": true})).unwrap();
            Card::new(CardId::from_bytes([0; 16]), person, re, device, action, wait).map(|_| ())
        };
        let second = Duration::from_secs(1);
        assert_eq!(new("@a:b", "$q", Some("D"), second), Ok(()));
        assert_eq!(new("@a:b", "$q", None, MAX_WAIT), Ok(()));
        for broken in [
            new("a", "$q", None, second),
            new("@a:b", "q", None, second),
            new("@a:b", "$q", Some(""), second),
            new("@a:b", "$q", None, Duration::from_micros(999)),
            new("@a:b", "$q", None, MAX_WAIT + Duration::from_millis(1)),
        ] {
            assert!(matches!(broken, Err(CardError::Malformed(_))), "{broken:?}");
        }
    }

    #[test]
    fn a_card_too_large_to_send_is_refused_with_a_text_for_the_model() {
        let call = json!({"action": "sms_draft", "to": ["Bob"], "body": "é".repeat(20_000)});
        let made =
            Card::new(CardId::from_bytes([0; 16]), "@a:b", "$q", None, check(&call).unwrap(), Duration::from_secs(1));
        assert_eq!(made, Err(CardError::TooLarge { text: tables().texts.too_large.clone() }));
    }
}
