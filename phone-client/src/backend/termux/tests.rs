//! Termux, played by scripts.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{fs, process::Command};

use phone_actions::{CardId, check};
use ruma::user_id;
use serde_json::{Value, json};

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
