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
    env, io,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use jiff::tz::TimeZone;
use phone_actions::Action;
use serde_json::Value;
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
        let (state_dir, program) = (std::path::absolute(state_dir)?, env::current_exe()?);
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
        self.aside("termux-battery-status", "").await.map(|ended| health(&ended.out)).unwrap_or_default()
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
    #![allow(clippy::unwrap_used)]

    use std::{fs, process::Command};

    use phone_actions::{CardId, check};
    use ruma::user_id;
    use serde_json::json;

    use super::*;

    /// A phone whose programs are scripts, each of which first writes down how it was called.
    struct Fake {
        folder: tempfile::TempDir,
        termux: Termux,
    }

    impl Fake {
        fn new(confirm: ConfirmBy, scripts: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["am", "cmd", "termux-dialog", "termux-notification", "termux-notification-remove"] {
                let script = scripts.iter().find(|(known, _)| *known == name).map_or("", |(_, script)| script);
                let log = folder.path().join("log");
                let text = format!("#!/bin/sh\necho \"{name} $*\" >> '{}'\n{script}\n", log.display());
                // Written by another process: one of ours that is open for writing at a fork could not be run.
                let path = folder.path().join(name);
                let write = format!("printf %s \"$1\" > '{0}'; chmod +x '{0}'", path.display());
                assert!(Command::new("sh").args(["-c", &write, "sh", &text]).status().unwrap().success());
            }
            let apps = [("notes", "org.example.notes")].map(|(name, package)| (name.to_owned(), package.to_owned()));
            let termux = Termux {
                settings: Settings { confirm, apps: apps.into(), ..Settings::default() },
                state_dir: folder.path().to_owned(),
                program: "/bin/true".into(),
                programs: Programs(folder.path().to_owned()),
            };
            Self { folder, termux }
        }

        async fn perform(&self, call: Value) -> Performed {
            self.termux.perform(&check(&call).unwrap()).await
        }

        /// The lines of the calls, each up to its first words.
        fn log(&self) -> Vec<String> {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            log.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
        }

        async fn confirm(&self, press: Option<(CardId, Decision)>) -> Result<Decision, BackendError> {
            let action = check(&json!({"action": "torch", "on": true})).unwrap();
            let (id, remaining) = (CardId::from_bytes([1; 16]), Duration::from_secs(100));
            let prompt = Prompt { action: &action, id: &id, agent: user_id!("@agent:example.org"), remaining };
            let press = async {
                let Some((card, decision)) = press else { return };
                let socket = self.folder.path().join("buttons.sock");
                while !socket.exists() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let word = if decision == Decision::Stop { "stop" } else { "yes" };
                let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
                sender.send_to(format!("{card} {word}").as_bytes(), socket).unwrap();
            };
            tokio::join!(self.termux.confirm(&prompt), press).0
        }
    }

    fn card() -> CardId {
        CardId::from_bytes([1; 16])
    }

    const UNRESOLVED: &str = "echo 'Error: Activity not started, unable to resolve Intent { }' >&2; exit 1";

    #[tokio::test]
    async fn another_way_is_tried_only_where_nothing_has_happened() {
        let navigate = json!({"action": "navigate", "destination": {"name": "Home"}});
        let no_navigation = format!("case \"$*\" in *google.navigation*) {UNRESOLVED};; esac");
        let fake = Fake::new(ConfirmBy::Dialog, &[("am", &no_navigation)]);
        let Performed::Done(Some(note)) = fake.perform(navigate.clone()).await else { panic!("not done") };
        assert!(note.starts_with("the map app only shows the place"));
        assert_eq!(fake.log(), ["am start", "am start"]);

        let fake = Fake::new(ConfirmBy::Dialog, &[("am", UNRESOLVED)]);
        let why = Performed::Failed("no app on this phone can do this".to_owned());
        assert_eq!(fake.perform(navigate.clone()).await, why);

        let fake = Fake::new(ConfirmBy::Dialog, &[]);
        assert_eq!(fake.perform(navigate).await, Performed::Done(None));
        assert_eq!(fake.log(), ["am start"]);
        let torch = Performed::Failed("a command of the phone can't be run".to_owned());
        assert_eq!(fake.perform(json!({"action": "torch", "on": true})).await, torch);
    }

    #[tokio::test]
    async fn a_program_of_the_owner_goes_before_a_plan() {
        let mut fake = Fake::new(ConfirmBy::Dialog, &[]);
        assert!(!fake.termux.can("media") && fake.termux.can("torch"));
        let program = ["sh", "-c", "echo Paused"].map(str::to_owned).to_vec();
        fake.termux.settings.exec.programs.insert("media".to_owned(), program);
        assert!(fake.termux.can("media"));
        let performed = fake.perform(json!({"action": "media", "command": "pause"})).await;
        assert_eq!(performed, Performed::Done(Some("Paused".to_owned())));
    }

    #[tokio::test]
    async fn a_dialog_or_a_button_decides_and_the_notification_is_gone_then() {
        let yes = [("termux-dialog", "echo '{\"code\": -1, \"text\": \"yes\"}'")];
        let fake = Fake::new(ConfirmBy::Dialog, &yes);
        assert_eq!(fake.confirm(None).await.unwrap(), Decision::Confirmed);
        assert_eq!(fake.log().last().unwrap(), "termux-notification-remove waybread-AQEBAQEBAQEBAQEBAQEBAQ");

        let open = [("termux-dialog", "sleep 60")];
        let fake = Fake::new(ConfirmBy::Dialog, &open);
        assert_eq!(fake.confirm(Some((card(), Decision::Stop))).await.unwrap(), Decision::Stop);

        let fake = Fake::new(ConfirmBy::Notification, &[]);
        assert_eq!(fake.confirm(Some((card(), Decision::Confirmed))).await.unwrap(), Decision::Confirmed);
        assert!(!fake.log().iter().any(|line| line.starts_with("termux-dialog")));
        assert!(!fake.folder.path().join("buttons.sock").exists());
    }

    #[tokio::test]
    async fn a_card_that_is_dropped_takes_its_notification_with_it() {
        let fake = Fake::new(ConfirmBy::Notification, &[]);
        let other = CardId::from_bytes([2; 16]);
        let asked = fake.confirm(Some((other, Decision::Confirmed)));
        assert!(tokio::time::timeout(Duration::from_secs(1), asked).await.is_err(), "of another card");
        while fake.log().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(fake.log()[1].starts_with("termux-notification-remove"));
    }

    #[tokio::test]
    async fn a_phone_without_termux_api_asks_nobody() {
        let fake = Fake::new(ConfirmBy::Dialog, &[("termux-dialog", "exit 0")]);
        let error = fake.confirm(None).await.unwrap_err().to_string();
        assert_eq!(error, "termux-dialog: gave no answer; is the app Termux:API installed?");
        let fake = Fake::new(ConfirmBy::Dialog, &[("termux-notification", "exit 1")]);
        assert!(fake.confirm(None).await.is_err());
    }

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
