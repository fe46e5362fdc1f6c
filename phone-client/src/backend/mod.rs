//! What shows a card to the person and does what they confirmed.
//!
//! A back end is asked in this order: [`health`](Backend::health) before a card is shown, [`confirm`](Backend::confirm),
//! and only after a [`Decision::Confirmed`] [`perform`](Backend::perform). None of them decides by itself: whether a
//! card may be shown is the runner's, whether an action may be done is [`safety`](crate::safety)'s.

pub(crate) mod buttons;
mod exec;
mod run;
pub(crate) mod terminal;
mod termux;

use std::{env, ffi::OsString, io, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use phone_actions::{Action, CardId};
use ruma::UserId;

use crate::settings::{BackendKind, Settings};

use exec::Exec;
use run::RunError;
use terminal::Terminal;
use termux::Termux;

#[cfg(test)]
pub(crate) use termux::any_call;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Decision {
    /// Do it.
    #[value(name = "yes")]
    Confirmed,
    /// Don't.
    #[value(name = "no")]
    Declined,
    /// Decline what is open, and end the client.
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

impl From<RunError> for BackendError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Start { program, reason } | RunError::Wait { program, reason } => {
                Self::Program { program, reason }
            }
            RunError::TooLong { program, limit } => {
                Self::Answer { program, what: format!("was ended after {} s", limit.as_secs()) }
            }
            RunError::Unnamed => Self::Answer { program: String::new(), what: "no program is named".to_owned() },
        }
    }
}

/// The back end that the settings ask for. The terminal is what the terminal's own back end uses, and the owner's programs
/// where none of them asks the person; its keyboard is to be taken from it before.
///
/// # Errors
/// It is not known where this program or the state folder is.
pub(crate) fn open(settings: &Settings, state_dir: &Path, terminal: Terminal) -> io::Result<Arc<dyn Backend>> {
    let variable = |name: &str| env::var_os(name);
    Ok(match detected(settings, is_termux(variable)) {
        BackendKind::Termux => Arc::new(Termux::new(settings.clone(), state_dir)?),
        BackendKind::Exec => Arc::new(Exec::new(settings.exec.clone(), terminal)),
        BackendKind::Terminal | BackendKind::Auto => Arc::new(terminal),
    })
}

/// Which back end it is; never [`BackendKind::Auto`].
fn detected(settings: &Settings, is_termux: bool) -> BackendKind {
    match settings.backend {
        BackendKind::Auto if is_termux => BackendKind::Termux,
        BackendKind::Auto if !settings.exec.programs.is_empty() => BackendKind::Exec,
        BackendKind::Auto => BackendKind::Terminal,
        kind => kind,
    }
}

/// Whether this runs in Termux: it says so itself, or its programs are there.
fn is_termux(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_there = |folder: &Path| folder.join("termux-dialog").is_file();
    variable("TERMUX_VERSION").is_some()
        || variable("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| is_there(&folder)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_back_end_is_found_unless_it_is_named() {
        let mut settings = Settings::default();
        assert_eq!(detected(&settings, true), BackendKind::Termux);
        assert_eq!(detected(&settings, false), BackendKind::Terminal);
        settings.exec.programs.insert("torch".to_owned(), vec!["light".to_owned()]);
        assert_eq!(detected(&settings, true), BackendKind::Termux);
        assert_eq!(detected(&settings, false), BackendKind::Exec);
        settings.backend = BackendKind::Terminal;
        assert_eq!(detected(&settings, true), BackendKind::Terminal);
    }

    #[test]
    fn termux_is_known_by_its_variable_or_its_programs() {
        let folder = tempfile::tempdir().unwrap();
        let path = env::join_paths(["/nowhere".as_ref(), folder.path()]).unwrap();
        let by_path = |name: &str| (name == "PATH").then(|| path.clone());
        assert!(!is_termux(|_| None) && !is_termux(by_path));
        std::fs::write(folder.path().join("termux-dialog"), "").unwrap();
        assert!(is_termux(by_path));
        assert!(is_termux(|name| (name == "TERMUX_VERSION").then(|| "0.118".into())));
    }
}
