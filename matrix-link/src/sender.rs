//! The one way out: [`Outgoing`] -> a request, with the caller's transaction id.
//!
//! The homeserver takes a transaction id once per device, so a retry with the same id never doubles a message. Whether
//! a room is encrypted is decided here, from the room's state, for every caller: there is no second path that could
//! forget it.

use std::time::Duration;

use async_trait::async_trait;
use matrix_sdk::{Error, HttpError, Room, RoomState, config::RequestConfig};
use matrix_sdk_base::crypto::{OlmError, SessionRecipientCollectionError};
use ruma::{
    OwnedEventId, OwnedRoomId, OwnedTransactionId, OwnedUserId,
    api::error::{ErrorKind, RetryAfter},
};
use serde_json::Value;
use tokio::time::timeout;

use crate::Link;

/// How long one attempt at sending may take, the sharing of keys included.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long its last request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Something to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// Where to.
    pub room: OwnedRoomId,
    /// The caller's transaction id: the same for every attempt at this one.
    pub txn: OwnedTransactionId,
    /// What.
    pub payload: Payload,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// An event with this content; encrypted where the room is (reactions excepted, as everywhere in Matrix).
    Event {
        /// Its type, such as `m.room.message`.
        event_type: String,
        /// Its content: an object.
        content: Value,
    },
    /// Takes one of our events back.
    Redaction {
        /// Which.
        target: OwnedEventId,
    },
}

/// Sends to rooms.
#[async_trait]
pub trait Sender: Send + Sync {
    /// Makes one attempt and gives the id of the event.
    ///
    /// # Errors
    /// See [`SendError`]; the caller repeats it with the same [`Outgoing`] where it is retryable.
    async fn send(&self, outgoing: &Outgoing) -> Result<OwnedEventId, SendError>;
}

/// Why an attempt at sending failed.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The account's limit is reached (429).
    #[error("the homeserver limits the rate")]
    RateLimited {
        /// When to try again, where the server says so.
        retry_after: Option<Duration>,
    },
    /// No answer, a broken one, or a failure of the server's own.
    #[error("the homeserver did not take it")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The event is larger than the server takes.
    #[error("the event is too large")]
    TooLarge,
    /// The server says no, and will say so again.
    #[error("the homeserver refused it")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Others would get no keys from this device, since its account has not signed it.
    #[error(
        "this device is not verified: another one has made the account's identity. Write the account's recovery key \
         into the file recovery-key of this state folder (chmod 600) and start again; the other device's state folder \
         has it in a file of that name"
    )]
    Unsigned,
    /// We are not in the room (any more).
    #[error("not in the room {0}")]
    NotInRoom(OwnedRoomId),
}

impl SendError {
    /// Whether another attempt may succeed.
    pub fn retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::Unavailable(_) => true,
            Self::TooLarge | Self::Refused(_) | Self::Unsigned | Self::NotInRoom(_) => false,
        }
    }
}

#[async_trait]
impl Sender for Link {
    async fn send(&self, outgoing: &Outgoing) -> Result<OwnedEventId, SendError> {
        let room = self
            .client
            .get_room(&outgoing.room)
            .filter(|room| room.state() == RoomState::Joined)
            .ok_or_else(|| SendError::NotInRoom(outgoing.room.clone()))?;
        // Sharing keys is a part of the attempt, and has requests of its own.
        match timeout(ATTEMPT_TIMEOUT, self.attempt(&room, outgoing)).await {
            Ok(sent) => sent,
            Err(elapsed) => Err(SendError::Unavailable(Box::new(elapsed))),
        }
    }
}

impl Link {
    async fn attempt(&self, room: &Room, outgoing: &Outgoing) -> Result<OwnedEventId, SendError> {
        let sent = send_once(room, outgoing).await;
        match &sent {
            Err(Error::OlmError(error)) => match &**error {
                // Somebody whom we have verified has a new identity. That must not silence us for all others in the room:
                // they count as never verified, which `trust` judges.
                OlmError::SessionRecipientCollectionError(
                    SessionRecipientCollectionError::VerifiedUserChangedIdentity(users),
                ) => {
                    self.withdraw_verification(users).await;
                    send_once(room, outgoing).await.map_err(classify)
                }
                _ => sent.map_err(classify),
            },
            _ => sent.map_err(classify),
        }
    }

    async fn withdraw_verification(&self, users: &[OwnedUserId]) {
        for user in users {
            tracing::warn!(%user, "verified before, and has a new identity: no longer verified");
            match self.client.encryption().get_user_identity(user).await {
                Ok(Some(identity)) => {
                    if let Err(error) = identity.withdraw_verification().await {
                        tracing::error!(%user, %error, "verification not withdrawn");
                    }
                }
                Ok(None) => {}
                Err(error) => tracing::error!(%user, %error, "identity can't be read"),
            }
        }
    }
}

async fn send_once(room: &Room, outgoing: &Outgoing) -> Result<OwnedEventId, Error> {
    match &outgoing.payload {
        Payload::Event { event_type, content } => room
            .send_raw(event_type, content.clone())
            .with_transaction_id(&outgoing.txn)
            .with_request_config(RequestConfig::new().disable_retry().timeout(REQUEST_TIMEOUT))
            .await
            .map(|sent| sent.response.event_id),
        Payload::Redaction { target } => room
            .redact(target, None, Some(outgoing.txn.clone()))
            .await
            .map(|response| response.event_id)
            .map_err(|error| Error::Http(Box::new(error))),
    }
}

fn classify(error: Error) -> SendError {
    match error.client_api_error_kind() {
        Some(ErrorKind::LimitExceeded(limit)) => {
            let retry_after = match &limit.retry_after {
                Some(RetryAfter::Delay(delay)) => Some(*delay),
                _ => None,
            };
            return SendError::RateLimited { retry_after };
        }
        Some(ErrorKind::TooLarge) => return SendError::TooLarge,
        // The sync loop logs in again, or ends.
        Some(ErrorKind::UnknownToken(_)) => return SendError::Unavailable(Box::new(error)),
        _ => {}
    }
    let status = error.as_client_api_error().map(|error| error.status_code.as_u16());
    let in_matrix_terms = error.client_api_error_kind().is_some();
    match (&error, status) {
        (_, Some(413)) => SendError::TooLarge,
        // A gateway's own page says nothing of the event: only the homeserver refuses for good.
        (_, Some(400..=407 | 409..=499)) if in_matrix_terms => SendError::Refused(Box::new(error)),
        (Error::Http(http), None) if matches!(**http, HttpError::IntoHttp(_)) => SendError::Refused(Box::new(error)),
        // Nobody may read it, or our own device is not trusted: it stays so until a person acts.
        (Error::OlmError(olm), _) => match &**olm {
            OlmError::SessionRecipientCollectionError(
                SessionRecipientCollectionError::CrossSigningNotSetup
                | SessionRecipientCollectionError::SendingFromUnverifiedDevice,
            ) => SendError::Unsigned,
            OlmError::SessionRecipientCollectionError(_) => SendError::Refused(Box::new(error)),
            _ => SendError::Unavailable(Box::new(error)),
        },
        _ => SendError::Unavailable(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_message_that_may_be_encrypted_for_nobody_is_refused_and_not_repeated() {
        let error = SessionRecipientCollectionError::VerifiedUserHasUnsignedDevice(BTreeMap::new());
        let error = classify(Error::OlmError(Box::new(OlmError::SessionRecipientCollectionError(error))));
        assert!(matches!(error, SendError::Refused(_)) && !error.retryable(), "{error:?}");
    }

    #[test]
    fn a_device_that_its_account_has_not_signed_is_told_what_mends_it() {
        let error = SessionRecipientCollectionError::SendingFromUnverifiedDevice;
        let error = classify(Error::OlmError(Box::new(OlmError::SessionRecipientCollectionError(error))));
        assert!(error.to_string().contains("Write the account's recovery key into the file recovery-key"), "{error}");
        assert!(!error.retryable());
    }

    #[test]
    fn what_the_sdk_can_not_explain_may_pass() {
        let error = classify(Error::InsufficientData);
        assert!(matches!(error, SendError::Unavailable(_)) && error.retryable());
    }
}
