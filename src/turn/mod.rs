//! The turn: a person has spoken, the model answers.
//!
//! A turn is a loop of steps. In a step the model is shown the conversation ([`Perception`]) and what happened in this turn
//! so far, and streams text and tool calls; the text goes into the draft, the calls are run and their results are fed
//! back. It ends when the model calls nothing more, or by a limit, a stop or an error. Invariants:
//!
//! - a [`Signal::Stop`] ends it at once, whatever the model or a tool does;
//! - what the draft has shown is always brought to an end: whole, or with a mark that says why not;
//! - what the person adds during the turn is seen at the next step; what is not seen is left for the next turn.

mod draft;
mod limits;
mod run;
mod seat;
mod steering;
#[cfg(test)]
mod tests;
mod typing;

use async_trait::async_trait;
use ruma::OwnedEventId;

use crate::{
    model::{Message, ModelError},
    outbox::PostError,
    store::StoreError,
};

pub use crate::tools::Origin;
pub use draft::{DraftSettings, NO_REPLY};
pub use run::{Turn, run};
pub use seat::Seat;
pub use typing::Typing;

/// What happens to a turn from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// The same person said more.
    Steer {
        /// The handle of the message: it is taken in when the model is shown it.
        handle: i64,
        /// Where the turn comes from once it is taken in.
        origin: Origin,
    },
    /// The prompt was edited: what the model writes now answers the wrong question.
    Replaced,
    /// A person ends it.
    Stop,
}

/// What the model is shown of the room.
#[async_trait]
pub trait Perception: Send + Sync {
    /// The system prompt and the room's lines, up to the message with this handle or to the newest.
    async fn history(&self, up_to: Option<i64>) -> Result<History, StoreError>;

    /// The lines after a handle, and the handle of the last; None when there are none.
    async fn news(&self, after: i64) -> Result<Option<(String, i64)>, StoreError>;
}

/// The room as the model is shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The system prompt first.
    pub messages: Vec<Message>,
    /// The handle of the newest line in it.
    pub newest: i64,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Why.
    pub end: End,
    /// The handle of the newest line that the model was shown.
    pub seen: i64,
    /// What the transcript remembers of what stands in the room now; empty where that is nothing.
    pub text: String,
    /// The events of it.
    pub events: Vec<OwnedEventId>,
}

/// Why a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The model was done.
    Answered,
    /// The model chose to say nothing.
    NoReply,
    /// A person ended it.
    Stopped,
    /// A limit ended it.
    Limit(Limit),
    /// It could not go on.
    Failed(String),
}

/// The limits of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Too many model calls.
    Steps,
    /// Too much working time.
    Time,
    /// Round in circles in spite of hints.
    Loop,
}

/// What made a turn fail.
#[derive(Debug, thiserror::Error)]
enum TurnError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the model answered with nothing")]
    Empty,
}

impl End {
    /// The mark that the room sees at the end of what broke off.
    fn mark(&self) -> Option<&'static str> {
        match self {
            Self::Answered | Self::NoReply => None,
            Self::Stopped => Some("⏹ Stopped."),
            Self::Limit(Limit::Steps) => Some("⏹ Ended: this took too many steps."),
            Self::Limit(Limit::Time) => Some("⏹ Ended: this took too long."),
            Self::Limit(Limit::Loop) => Some("⏹ Ended: I was going round in circles."),
            Self::Failed(_) => None,
        }
    }
}

impl TurnError {
    /// What people see: short, with what to do, and nothing of the inside.
    fn for_people(&self) -> &'static str {
        match self {
            Self::Model(ModelError::RateLimited { .. }) => "⚠ My model is busy. Please try again in a few minutes.",
            Self::Model(ModelError::Refused { .. } | ModelError::Endpoint(_)) => {
                "⚠ My model refuses to work. My operator finds the reason in the log."
            }
            Self::Model(ModelError::TooLong { .. }) => "⚠ That is too long for my model. Please ask in smaller parts.",
            Self::Model(ModelError::Timeout { .. }) => "⚠ My model did not answer in time. Please try again.",
            Self::Model(
                ModelError::Unreachable(_) | ModelError::Server { .. } | ModelError::Cut | ModelError::Malformed(_),
            ) => "⚠ My model can't be reached right now. Please try again later.",
            Self::Store(_) => "⚠ I can't read my notes right now. Please tell my operator.",
            Self::Empty => "⚠ My model answered with nothing. Please ask again, perhaps in other words.",
        }
    }
}

impl From<PostError> for End {
    fn from(error: PostError) -> Self {
        Self::Failed(error.to_string())
    }
}
