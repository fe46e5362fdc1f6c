//! What is said to a card: by its phone, by a reaction, or in words.
//!
//! Only the person whom the card is for, and only while it is open; the first answer decides. With a paired phone only its
//! own device says done or failed, and the person's no counts from anywhere. Without one the person says so by hand. A
//! reaction is never encrypted: it answers only what is harmless, and a card does nothing by itself.

use std::time::Duration;

use matrix_link::{Event, EventKind, Message};
use phone_actions::{Answer, Card, Status};
use ruma::EventId;

use super::{Phones, Verdict};
use crate::{
    config,
    store::{Ask, AskKind, StoreError},
};

/// How long a card stays open, at least, once the phone has begun.
const TAKEN: Duration = Duration::from_secs(30);

/// What an event says to a card.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// Nothing: it is an ordinary event.
    Nothing,
    /// Nothing that counts.
    Ignored,
    /// The phone has begun.
    Taken,
    /// This came of it.
    Ended(Status, Option<String>),
}

impl Phones {
    /// Takes an answer to a card. Says whether the event was meant for one: then it is for nobody else.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn answered(&self, event: &Event) -> Result<bool, StoreError> {
        let Some(ask) = self.card_of(event).await? else { return Ok(false) };
        let Ok(Some(card)) = Card::read(&ask.question) else { return Ok(false) };
        match said(event, &ask, &card, &self.0.settings) {
            Said::Nothing => Ok(false),
            Said::Ignored => Ok(true),
            Said::Taken => {
                self.0.asks.prolong(&ask, TAKEN).await?;
                Ok(true)
            }
            Said::Ended(status, message) => {
                self.0.asks.close(&ask.id, &Verdict::ended(status, message).to_value()).await?;
                Ok(true)
            }
        }
    }

    /// A message of the agent's was redacted: a card is withdrawn by it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn redacted(&self, event: &Event, target: &EventId) -> Result<(), StoreError> {
        if let Some(ask) = self.0.store.ask_by_event(&event.room, target).await?.filter(|ask| ask.kind == AskKind::Card)
        {
            self.0.asks.close(&ask.id, &Verdict::Withdrawn.to_value()).await?;
        }
        Ok(())
    }

    /// The card that an event is about.
    async fn card_of(&self, event: &Event) -> Result<Option<Ask>, StoreError> {
        let ask = match &event.kind {
            EventKind::Reaction { target, .. } => self.0.store.ask_by_event(&event.room, target).await?,
            EventKind::Message(message) => match (Answer::read(&message.content), &message.reply_to) {
                (Ok(Some(answer)), _) => self.0.store.ask_by_id(answer.card().as_str()).await?,
                (_, Some(target)) => self.0.store.ask_by_event(&event.room, target).await?,
                (_, None) => None,
            },
            _ => None,
        };
        Ok(ask.filter(|ask| ask.room == event.room))
    }
}

fn said(event: &Event, ask: &Ask, card: &Card, settings: &config::Phone) -> Said {
    let by_hand = card.device.is_none();
    let is_structured = matches!(&event.kind, EventKind::Message(message)
        if matches!(Answer::read(&message.content), Ok(Some(_))));
    if event.sender != ask.person || ask.verdict.is_some() {
        // A phone's words are no conversation, whenever they come.
        return if is_structured { Said::Ignored } else { Said::Nothing };
    }
    match &event.kind {
        EventKind::Reaction { key, .. } => match key.trim_end_matches('\u{fe0f}') {
            "✅" | "👍" if by_hand => Said::Ended(Status::Done, None),
            "✅" | "👍" => Said::Ignored,
            "❌" | "👎" => Said::Ended(Status::Declined, None),
            _ => Said::Nothing,
        },
        EventKind::Message(message) => match Answer::read(&message.content) {
            Ok(Some(answer)) => {
                let device = event.device().map(|device| device.as_str());
                match (device == card.device.as_deref() && device.is_some(), answer) {
                    (false, _) => Said::Ignored,
                    (true, Answer::Taken { .. }) => Said::Taken,
                    (true, Answer::Ended { status, message, .. }) => Said::Ended(status, message),
                }
            }
            _ => in_words(message, by_hand, settings),
        },
        _ => Said::Nothing,
    }
}

/// What a reply in words says.
fn in_words(message: &Message, by_hand: bool, settings: &config::Phone) -> Said {
    let said = message.body.trim();
    let bare = said.trim_end_matches(['.', '!']).trim().to_lowercase();
    let is = |words: &[String]| words.iter().any(|word| word.to_lowercase() == bare);
    if is(&settings.declined_words) {
        return Said::Ended(Status::Declined, None);
    }
    match by_hand {
        false => Said::Nothing,
        true if is(&settings.done_words) => Said::Ended(Status::Done, None),
        true if is(&settings.failed_words) => Said::Ended(Status::Failed, None),
        true => Said::Ended(Status::Failed, Some(said.to_owned())),
    }
}
