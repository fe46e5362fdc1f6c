//! Android, by Termux: `am` starts what an intent asks for, and the programs of Termux:API do the rest.
//!
//! - [`plan`]: which commands an action is, a pure function; a file for each family of actions;
//! - `intent`, `uri`: how text gets into a command and stays text;
//! - `ask`: the dialog and the notification that ask the person;
//! - here: the commands are run, and what they say is read.
//!
//! No command goes through a shell, but for what a button of a notification runs (see [`buttons`](super::buttons)).

mod apps;
mod ask;
mod clock;
mod intent;
mod maps;
mod messages;
mod plan;
mod uri;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use jiff::tz::TimeZone;
use phone_actions::Action;
use serde_json::Value;
use tracing::{info, warn};

use crate::settings::{ConfirmBy, Settings};

use super::{
    Backend, BackendError, Decision, Health, Performed, Prompt,
    buttons::Buttons,
    exec,
    run::{Ended, run},
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
    program: PathBuf,
}

impl Termux {
    /// The phone that this runs on. The state folder is where the buttons are heard.
    ///
    /// # Errors
    /// It is not known where this program or the state folder is.
    pub(super) fn new(settings: Settings, state_dir: &Path) -> io::Result<Self> {
        Ok(Self { settings, state_dir: std::path::absolute(state_dir)?, program: std::env::current_exe()? })
    }

    /// Takes one step of a plan.
    async fn take(&self, step: &Step) -> Result<(), String> {
        let launch;
        let argv = match step {
            Step::Run(argv) => argv,
            Step::Launch { package } => {
                let found = command(&apps::look_up(package)).await?;
                launch = apps::launch(&apps::component(&found.out, package).ok_or("the app is not on this phone")?);
                &launch
            }
        };
        command(argv).await.and_then(|ended| ended_well(&ended))
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
        let shown = ask::Shown::show(&notice).await?;
        let pressed = async { buttons.pressed(prompt.id).await.map_err(|reason| named("buttons.sock", reason)) };
        let decision = match self.settings.confirm {
            ConfirmBy::Notification => pressed.await,
            ConfirmBy::Dialog => tokio::select! {
                decision = pressed => decision,
                decision = ask::dialog(prompt) => decision,
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
        let mut failed = "the phone has no way to do this".to_owned();
        for attempt in tries {
            match self.take(&attempt.step).await {
                Ok(()) => return Performed::Done(attempt.note),
                Err(why) => failed = why,
            }
        }
        Performed::Failed(failed)
    }

    async fn health(&self) -> Health {
        match run(&["termux-battery-status".to_owned()], b"", Some(COMMAND)).await {
            Ok(ended) => health(&ended.out),
            Err(error) => {
                warn!(%error, "battery and heat are not known");
                Health::default()
            }
        }
    }

    async fn keep_awake(&self, on: bool) {
        let program = if on { "termux-wake-lock" } else { "termux-wake-unlock" };
        if let Err(error) = run(&[program.to_owned()], b"", Some(COMMAND)).await {
            warn!(%error, "the phone may fall asleep");
        }
    }

    async fn notice(&self, text: &str) {
        if let Err(error) = run(&["termux-toast".to_owned()], text.as_bytes(), Some(COMMAND)).await {
            info!(%error, "a notice is not shown");
        }
    }
}

/// The app's entry in the owner's table, found by its folded name.
type Apps = BTreeMap<String, String>;

async fn command(argv: &[String]) -> Result<Ended, String> {
    run(argv, b"", Some(COMMAND)).await.map_err(|error| {
        warn!(%error, "a command has not ended well");
        "a command of the phone could not be run".to_owned()
    })
}

/// Whether a command did what it should. `am` tells some of its errors with exit code 0. What it prints holds the intent
/// and is not passed on.
fn ended_well(ended: &Ended) -> Result<(), String> {
    let says = |words: &[&str]| words.iter().any(|word| ended.err.contains(word) || ended.out.contains(word));
    let begins = |text: &str| text.lines().any(|line| line.starts_with("Error"));
    if says(&["SecurityException", "Permission Denial"]) {
        return Err("Android does not permit this to Termux".to_owned());
    }
    if says(&["unable to resolve Intent", "Error type 3", "No Activity found"]) {
        return Err("no app on this phone can do this".to_owned());
    }
    if ended.code != Some(0) || begins(&ended.out) || begins(&ended.err) {
        warn!(code = ended.code, "a command has failed");
        return Err("a command of the phone has failed".to_owned());
    }
    Ok(())
}

fn named(program: &str, reason: io::Error) -> BackendError {
    BackendError::Program { program: program.to_owned(), reason }
}

/// What `termux-battery-status` tells: `percentage`, `status`, `plugged` and `temperature` in °C. What makes no sense is
/// not known: Android's "unknown" is a number far out of range.
fn health(text: &str) -> Health {
    let status: Value = serde_json::from_str(text).unwrap_or_default();
    let word = |key| status.get(key).and_then(Value::as_str).unwrap_or_default();
    let charging = match (word("status"), word("plugged")) {
        ("CHARGING" | "FULL", _) => Some(true),
        // Plugged in, and yet it gets less: a weak charger does not keep it alive.
        ("DISCHARGING" | "NOT_CHARGING", _) | (_, "UNPLUGGED") => Some(false),
        (_, "PLUGGED_AC" | "PLUGGED_USB" | "PLUGGED_WIRELESS" | "PLUGGED_DOCK") => Some(true),
        _ => None,
    };
    let percentage = status.get("percentage").and_then(Value::as_f64).filter(|percent| (0.0..=100.0).contains(percent));
    let temperature = status.get("temperature").and_then(Value::as_f64).filter(|degrees| degrees.abs() <= 150.0);
    Health {
        battery: percentage.map(|percent| percent as u8),
        charging,
        temperature: temperature.map(|degrees| degrees as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn battery_and_heat_are_read_as_far_as_they_make_sense() {
        let known = |battery, charging, temperature| Health {
            battery: Some(battery),
            charging: Some(charging),
            temperature: Some(temperature),
        };
        for (text, expected) in [
            (
                r#"{"percentage":3,"status":"DISCHARGING","plugged":"UNPLUGGED","temperature":31.5}"#,
                known(3, false, 31.5),
            ),
            (r#"{"percentage":100,"status":"FULL","plugged":"PLUGGED_AC","temperature":-4}"#, known(100, true, -4.0)),
            (
                r#"{"percentage":2,"status":"DISCHARGING","plugged":"PLUGGED_USB","temperature":40}"#,
                known(2, false, 40.0),
            ),
            (
                r#"{"percentage":50.0,"status":"UNKNOWN","plugged":"PLUGGED_WIRELESS","temperature":1}"#,
                known(50, true, 1.0),
            ),
            (r#"{"percentage":-1,"plugged":"PLUGGED_-1","temperature":-214748364.8}"#, Health::default()),
            (r#"{"percentage":"7","status":7}"#, Health::default()),
            ("", Health::default()),
            ("The Termux:API plugin is not installed", Health::default()),
        ] {
            assert_eq!(health(text), expected, "{text}");
        }
    }

    #[test]
    fn an_error_of_am_is_told_in_words_and_without_the_intent() {
        let ended = |code, out: &str, err: &str| Ended { code: Some(code), out: out.to_owned(), err: err.to_owned() };
        let started = "Starting: Intent { act=android.intent.action.VIEW dat=https://x }\n";
        assert_eq!(ended_well(&ended(0, started, "")), Ok(()));
        let why = |code, out, err| ended_well(&ended(code, out, err)).unwrap_err();
        let unresolved = "Error: Activity not started, unable to resolve Intent { dat=https://secret }";
        assert_eq!(why(0, started, unresolved), "no app on this phone can do this");
        assert_eq!(why(1, unresolved, ""), "no app on this phone can do this");
        let denied = "Caused by: java.lang.SecurityException: Permission Denial: starting Intent { (has extras) }";
        assert_eq!(why(1, started, denied), "Android does not permit this to Termux");
        assert_eq!(why(0, "", "Error: unknown"), "a command of the phone has failed");
        assert_eq!(why(1, "", ""), "a command of the phone has failed");
        assert!(ended_well(&Ended::default()).is_err(), "ended by a signal");
    }
}
