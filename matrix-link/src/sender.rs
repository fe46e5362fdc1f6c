//! The one way out: [`Outgoing`] -> a request, with the caller's transaction id.
//!
//! The homeserver takes a transaction id once per device, so a retry with the same id never doubles a message. Whether
//! a room is encrypted is decided here, from the room's state, for every caller: there is no second path that could
//! forget it.

use std::time::Duration;

use async_trait::async_trait;
use matrix_sdk::{Error, HttpError, RoomState, config::RequestConfig};
use ruma::{
    OwnedEventId, OwnedRoomId, OwnedTransactionId,
    api::error::{ErrorKind, RetryAfter},
};
use serde_json::Value;

use crate::Link;

/// How long one attempt at sending may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);

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
    /// We are not in the room (any more).
    #[error("not in the room {0}")]
    NotInRoom(OwnedRoomId),
}

impl SendError {
    /// Whether another attempt may succeed.
    pub fn retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. } | Self::Unavailable(_) => true,
            Self::TooLarge | Self::Refused(_) | Self::NotInRoom(_) => false,
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
        match &outgoing.payload {
            Payload::Event { event_type, content } => room
                .send_raw(event_type, content.clone())
                .with_transaction_id(&outgoing.txn)
                .with_request_config(RequestConfig::new().disable_retry().timeout(ATTEMPT_TIMEOUT))
                .await
                .map(|sent| sent.response.event_id)
                .map_err(classify),
            Payload::Redaction { target } => room
                .redact(target, None, Some(outgoing.txn.clone()))
                .await
                .map(|response| response.event_id)
                .map_err(|error| classify(Error::Http(Box::new(error)))),
        }
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
    let status = error.as_client_api_error().map(|error| error.status_code);
    match (&error, status) {
        (_, Some(status)) if status.is_client_error() && status.as_u16() != 408 => SendError::Refused(Box::new(error)),
        (Error::Http(http), None) if matches!(**http, HttpError::IntoHttp(_)) => SendError::Refused(Box::new(error)),
        _ => SendError::Unavailable(Box::new(error)),
    }
}
