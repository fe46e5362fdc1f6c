//! What shows a card to the person and does what they confirmed.
//!
//! A back end is asked in this order: [`health`](Backend::health) before a card is shown, [`confirm`](Backend::confirm),
//! and only after a [`Decision::Confirmed`] [`perform`](Backend::perform). None of them decides by itself: whether a
//! card may be shown is the runner's, whether an action may be done is [`safety`](crate::safety)'s.

use std::{io, time::Duration};

use async_trait::async_trait;
use phone_actions::{Action, CardId};
use ruma::UserId;

/// A phone, or what stands for one.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Whether it can do this action, by its name: what it announces.
    fn can(&self, action: &str) -> bool;

    /// Shows the card and waits for what the person decides. There is no limit of time in here: to drop the future takes
    /// the display away, as far as the display allows it, and whatever is pressed afterwards counts for nothing.
    async fn confirm(&self, prompt: &Prompt<'_>) -> Result<Decision, BackendError>;

    /// Does it. To drop the future ends what runs for it.
    async fn perform(&self, action: &Action) -> Performed;

    /// How the phone is.
    async fn health(&self) -> Health;

    /// Keeps the phone awake, or lets it sleep again: for the time that a card is open.
    async fn keep_awake(&self, on: bool);

    /// A word for the person that needs no answer, such as what came of a card.
    async fn notice(&self, text: &str);
}

/// A card to be confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt<'a> {
    /// What would be done.
    pub(crate) action: &'a Action,
    /// The card's id, which a button answers with.
    pub(crate) id: &'a CardId,
    /// Who proposes it.
    pub(crate) agent: &'a UserId,
    /// How long the card is still open.
    pub(crate) remaining: Duration,
}

impl Prompt<'_> {
    /// What would happen, drawn from the action's own fields; the model's summary is a quoted line in it.
    pub(crate) fn text(&self) -> String {
        self.action.text().plain()
    }
}

/// What the person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Yes: do it.
    Confirmed,
    /// No.
    Declined,
    /// STOP: what is open is declined, and the client ends.
    Stop,
}

/// What came of an action. The words are for the model, which is told them as what the phone says: one short line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Performed {
    /// It is done.
    Done(Option<String>),
    /// It did not work, and why.
    Failed(String),
}

/// How the phone is, as far as it tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Health {
    /// What is left in the battery, in percent.
    pub(crate) battery: Option<u8>,
    /// Whether the battery is being charged, or kept full.
    pub(crate) charging: Option<bool>,
    /// The battery's temperature, in degrees Celsius.
    pub(crate) temperature: Option<f32>,
}

/// Why a person could not be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackendError {
    /// A program could not be run.
    #[error("{program}: {reason}")]
    Program {
        /// The program's name.
        program: String,
        /// What the system says.
        reason: io::Error,
    },
    /// A program ran and did not say what it should.
    #[error("{program}: {what}")]
    Answer {
        /// The program's name.
        program: String,
        /// What is wrong.
        what: String,
    },
    /// The terminal can't be written.
    #[error("the terminal can't be written: {0}")]
    Terminal(#[from] io::Error),
    /// Nobody reads the terminal any more.
    #[error("the terminal's input has ended")]
    InputEnded,
}
