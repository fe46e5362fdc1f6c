//! Android, by Termux: `am` starts what an intent asks for, and the programs of Termux:API do the rest.
//!
//! - [`mod@plan`]: which commands an action is, a pure function; a file for each family of actions;
//! - `intent`, `uri`: how text gets into a command and stays text;
//! - `ask`: the dialog and the notification that ask the person;
//! - `battery`: battery and heat;
//! - here: the commands are run, and what they say is read.
//!
//! No command goes through a shell, but for what a button of a notification runs (see [`buttons`](super::buttons)).

mod apps;
mod ask;
mod battery;
mod clock;
mod intent;
mod maps;
mod messages;
mod plan;
mod uri;

use std::{
    collections::BTreeMap,
    env, io,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use jiff::tz::TimeZone;
use phone_actions::Action;
use tracing::warn;

use crate::settings::{ConfirmBy, Settings};

use super::{
    Backend, BackendError, Decision, Health, Performed, Prompt,
    buttons::Buttons,
    exec,
    run::{Ended, RunError, run},
};

use plan::{Phone, Step, plan};

#[cfg(test)]
pub(crate) use plan::tests::any_call;

/// How long a command may take that asks nobody.
const COMMAND: Duration = Duration::from_secs(10);

/// An Android phone.
pub(crate) struct Termux {
    settings: Settings,
    state_dir: PathBuf,
    /// This program, which the buttons run.
    program: PathBuf,
    programs: Programs,
}

/// Where the programs of Termux are.
#[derive(Clone, Debug)]
struct Programs(PathBuf);

impl Programs {
    /// Termux's own folder; without one they are looked for where all programs are.
    fn of_termux() -> Self {
        Self(env::var_os("PREFIX").map(|prefix| Path::new(&prefix).join("bin")).unwrap_or_default())
    }

    async fn run(&self, argv: &[String], stdin: &[u8], limit: Option<Duration>) -> Result<Ended, RunError> {
        let mut argv = argv.to_vec();
        if let Some(program) = argv.first_mut()
            && let Some(path) = self.0.join(&*program).to_str()
        {
            *program = path.to_owned();
        }
        run(&argv, stdin, limit).await
    }
}

/// Why a step of a plan came to nothing.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// Nothing has happened: another way may be tried.
    Refused(&'static str),
    /// It is not known whether anything has happened.
    Unknown(&'static str),
}

impl Termux {
    /// The phone that this runs on. The state folder is where the buttons are heard.
    ///
    /// # Errors
    /// It is not known where this program or the state folder is.
    pub(super) fn new(settings: Settings, state_dir: &Path) -> io::Result<Self> {
        let state_dir = std::path::absolute(state_dir)?;
        // Where Android lets its linker alone be run, that is what the system takes this program for.
        let program = match env::var_os("TERMUX_EXEC__PROC_SELF_EXE") {
            Some(program) => program.into(),
            None => env::current_exe()?,
        };
        Ok(Self { settings, state_dir, program, programs: Programs::of_termux() })
    }

    /// Takes one step of a plan.
    async fn take(&self, step: &Step) -> Result<(), Failure> {
        let launch;
        let argv = match step {
            Step::Run(argv) => argv,
            Step::Launch { package } => {
                let found = self.command(&apps::look_up(package)).await?;
                let component = apps::component(&found.out, package);
                launch = apps::launch(&component.ok_or(Failure::Refused("Android knows of no such app"))?);
                &launch
            }
        };
        ended_well(&self.command(argv).await?).map_err(Failure::Refused)
    }

    async fn command(&self, argv: &[String]) -> Result<Ended, Failure> {
        self.programs.run(argv, b"", Some(COMMAND)).await.map_err(|error| {
            warn!(%error, "a command has not ended well");
            match error {
                RunError::TooLong { .. } | RunError::Wait { .. } => {
                    Failure::Unknown("a command of the phone has not ended, so it may or may not have worked")
                }
                RunError::Start { .. } | RunError::Unnamed => Failure::Refused("a command of the phone can't be run"),
            }
        })
    }

    /// Runs one of Termux's programs that the answer does not depend on.
    async fn aside(&self, program: &str, stdin: &str) -> Option<Ended> {
        let ended = self.programs.run(&[program.to_owned()], stdin.as_bytes(), Some(COMMAND)).await;
        ended.inspect_err(|error| warn!(%error, "a program of Termux has not ended well")).ok()
    }
}

#[async_trait]
impl Backend for Termux {
    fn can(&self, action: &str) -> bool {
        self.settings.exec.programs.contains_key(action) || plan::can(action, &self.settings.apps)
    }

    async fn confirm(&self, prompt: &Prompt<'_>) -> Result<Decision, BackendError> {
        let buttons = Buttons::listen(&self.state_dir).map_err(|reason| named("buttons.sock", reason))?;
        let notice = ask::notice(&self.program, &self.state_dir, self.settings.confirm, prompt)
            .map_err(|reason| named("termux-notification", reason))?;
        let shown = ask::Shown::show(&self.programs, &notice).await?;
        let pressed = async { buttons.pressed(prompt.id).await.map_err(|reason| named("buttons.sock", reason)) };
        let decision = match self.settings.confirm {
            ConfirmBy::Notification => pressed.await,
            ConfirmBy::Dialog => tokio::select! {
                decision = pressed => decision,
                decision = ask::dialog(&self.programs, prompt) => decision,
            },
        };
        shown.take_away().await;
        decision
    }

    async fn perform(&self, action: &Action) -> Performed {
        if let Some(program) = self.settings.exec.programs.get(action.name()) {
            return exec::perform(program, action, self.settings.exec.timeout).await;
        }
        let zone = TimeZone::system();
        let tries = match plan(action, &Phone { zone: &zone, apps: &self.settings.apps }) {
            Ok(tries) => tries,
            Err(why) => return Performed::Failed(why),
        };
        let mut failed = "the phone has no way to do this";
        for attempt in tries {
            match self.take(&attempt.step).await {
                Ok(()) => return Performed::Done(attempt.note),
                Err(Failure::Refused(why)) => failed = why,
                Err(Failure::Unknown(why)) => return Performed::Failed(why.to_owned()),
            }
        }
        Performed::Failed(failed.to_owned())
    }

    async fn health(&self) -> Health {
        self.aside("termux-battery-status", "").await.map(|ended| battery::health(&ended.out)).unwrap_or_default()
    }

    async fn keep_awake(&self, on: bool) {
        self.aside(if on { "termux-wake-lock" } else { "termux-wake-unlock" }, "").await;
    }

    async fn notice(&self, text: &str) {
        self.aside("termux-toast", text).await;
    }
}

/// The owner's table of apps: packages by folded names.
type Apps = BTreeMap<String, String>;

/// Whether a command did what it should. `am` tells some of its errors with exit code 0. What it prints holds the intent
/// and is not passed on.
fn ended_well(ended: &Ended) -> Result<(), &'static str> {
    let says = |words: &[&str]| words.iter().any(|word| ended.err.contains(word) || ended.out.contains(word));
    let begins = |text: &str| text.lines().any(|line| line.starts_with("Error"));
    if says(&["SecurityException", "Permission Denial"]) {
        return Err("Android does not permit this to Termux");
    }
    if says(&["unable to resolve Intent", "Error type 3", "No Activity found"]) {
        return Err("no app on this phone can do this");
    }
    if ended.code != Some(0) || begins(&ended.out) || begins(&ended.err) {
        warn!(code = ended.code, "a command has failed");
        return Err("a command of the phone has failed");
    }
    Ok(())
}

fn named(program: &str, reason: io::Error) -> BackendError {
    BackendError::Program { program: program.to_owned(), reason }
}

#[cfg(test)]
mod tests;
