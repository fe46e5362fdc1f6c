//! Why a tool that posts has not posted.

use matrix_link::{ActError, FetchError};

use crate::{outbox::PostError, store::StoreError};

/// Why a call of a tool that posts did not do what it was to do; written for the model.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Its arguments are wrong, or it may not.
    #[error("{0}")]
    Call(String),
    /// The store fails.
    #[error("my notes can't be read right now; say so to the person")]
    Store(#[from] StoreError),
    /// A message that it names can't be looked up.
    #[error("the homeserver does not give that message")]
    Lookup(#[from] FetchError),
    /// Something could not be done in the room.
    #[error("{0}")]
    Act(#[from] ActError),
    /// It could not be sent.
    #[error("not posted: {0}")]
    Post(#[from] PostError),
}

impl Refusal {
    /// What is wrong with the call.
    pub fn call(reason: impl Into<String>) -> Self {
        Self::Call(reason.into())
    }
}
