//! Which cards this phone takes, as far as the card itself and what the person wrote say it.

use std::time::Duration;

use matrix_link::{Event, EventKind, Message, Trust};
use phone_actions::{Card, Malformed, State};

use super::Phone;

/// How old what the person wrote may be when the card comes.
const MAX_AGE: Duration = Duration::from_secs(600);

/// Why a card is passed over, for the log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PassedOver {
    /// Nobody vouches for it.
    #[error("it was not encrypted by a device that its account has signed")]
    NotEncrypted,
    /// A stranger's.
    #[error("its sender is not paired")]
    NotPaired,
    /// The sender's key is another one than the pinned, or can't be seen.
    #[error("the key of its sender can't be seen now")]
    KeyUnseen,
    /// The sender's identity has changed.
    #[error("its sender has another key now: no longer paired")]
    KeyChanged,
    /// It is no card.
    #[error("it is malformed: {0}")]
    Malformed(#[from] Malformed),
    /// Somebody else's.
    #[error("it is for another person")]
    OtherPerson,
    /// It answers nothing that the owner has just written from this phone.
    #[error("it does not answer what was written from this phone in the last 10 minutes")]
    NotAsked,
    /// It is over, or about to be.
    #[error("it is over")]
    Over,
    /// The homeserver does not say how it stands.
    #[error("the homeserver does not show it")]
    Unseen,
}

/// The card for this phone in a message; none if there is none, or it is for another device, or to be done by hand.
pub(super) fn card_in(event: &Event, message: &Message, phone: &Phone) -> Result<Option<Card>, PassedOver> {
    let Some(card) = Card::read(&message.content)? else { return Ok(None) };
    if card.device.as_deref() != Some(phone.device.as_str()) {
        return Ok(None);
    }
    if phone.pairings().key(&event.sender).is_none() {
        return Err(PassedOver::NotPaired);
    }
    if !event.counts(true, Trust::CrossSigned) {
        return Err(PassedOver::NotEncrypted);
    }
    if card.person != phone.user.as_str() {
        return Err(PassedOver::OtherPerson);
    }
    if card.state != State::Open {
        return Err(PassedOver::Over);
    }
    Ok(Some(card))
}

/// Whether an edit closes a card: its sender's, encrypted, and the same card in another state.
pub(super) fn closes(edit: &Event, message: &Message, card: &Card, phone: &Phone) -> bool {
    phone.pairings().key(&edit.sender).is_some()
        && edit.counts(true, Trust::CrossSigned)
        && matches!(Card::read(&message.content), Ok(Some(now)) if now.is_update_of(card) && now.state != State::Open)
}

/// Whether the owner has asked for a card: by a message `asked` in the same room, from this phone, a short time before.
pub(super) fn asked_for(posted: &Event, asked: &Event, phone: &Phone) -> Result<(), PassedOver> {
    let from_here = asked.device().is_some_and(|device| phone.pairings().is_on_phone(&phone.device, device));
    let before = u64::from(posted.sent_at.get()).checked_sub(asked.sent_at.get().into()).map(Duration::from_millis);
    let right = asked.room == posted.room
        && asked.sender == phone.user
        && matches!(asked.kind, EventKind::Message(_))
        && asked.counts(true, Trust::CrossSigned)
        && from_here
        && before.is_some_and(|before| before <= MAX_AGE);
    if right { Ok(()) } else { Err(PassedOver::NotAsked) }
}
