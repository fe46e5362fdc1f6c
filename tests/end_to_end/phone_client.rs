//! Cards for a paired phone: the person chats in a plain client on one device, `waybread-phone` runs beside it on another,
//! with the owner's programs as its back end.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use ruma::{OwnedRoomId, UserId};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

use crate::support::{Account, Agent, AgentSetup, Homeserver, ModelServer, Person, Seen, calls, say};

const CARD: &str = "dev.waybread.phone_action";
const ANNOUNCED: &str = "dev.waybread.phone";
const WAIT: Duration = Duration::from_secs(60);

/// The phone: its state folder, and the owner's programs.
struct Phone {
    folder: TempDir,
}

impl Phone {
    fn new() -> Self {
        let phone = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(phone.path("state")).unwrap();
        let confirm = phone.program("confirm", "cat >> asked; exit $(cat decision)");
        let alarm = phone.program("alarm", "cat >> done; cat words; exit $(cat code)");
        let settings = json!({"exec": {"confirm": [confirm], "programs": {"alarm": [alarm]}}});
        let programs = &settings["exec"]["programs"]["alarm"];
        let text = format!(
            "backend = \"exec\"\n[exec]\nconfirm = {}\n[exec.programs]\nalarm = {programs}\n",
            settings["exec"]["confirm"]
        );
        fs::write(phone.path("state/phone.toml"), text).unwrap();
        phone
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.path(name);
        let folder = self.folder.path().display();
        fs::write(&path, format!("#!/bin/sh\ncd '{folder}'\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    /// What the person decides next, and what comes of the program then.
    fn next(&self, decision: u8, words: &str, code: u8) {
        for (name, text) in [("decision", decision.to_string()), ("words", words.into()), ("code", code.to_string())] {
            fs::write(self.path(name), text).unwrap();
        }
    }

    /// What the program that asks, or the one that acts, has got so far: one JSON value each time.
    fn got(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let program = std::env::var_os("WAYBREAD_TEST_PHONE").expect("cargo xtask test names the phone client");
        let mut command = Command::new(program);
        command.arg("--state-dir").arg(self.path("state")).args(arguments).stdin(Stdio::null());
        command
    }

    async fn does(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
    }

    /// A command that succeeds, and what it says.
    async fn says(&self, arguments: &[&str]) -> String {
        let output = self.does(arguments).await;
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{arguments:?}: {out}{err}");
        out
    }

    async fn log_in(&self, homeserver: &Homeserver, account: &Account, owner: &Person) {
        fs::write(self.path("password"), &account.password).unwrap();
        fs::write(self.path("recovery"), owner.recovery_key()).unwrap();
        let file = |name| self.path(name).display().to_string();
        let (password, recovery) = (file("password"), file("recovery"));
        let user = account.user.as_str();
        let said = self
            .says(&[
                "login",
                "--homeserver",
                &homeserver.url,
                "--user",
                user,
                "--password-file",
                &password,
                "--recovery-key-file",
                &recovery,
            ])
            .await;
        assert!(said.contains("verified as yours"), "{said}");
    }

    /// `waybread-phone run`, at work.
    async fn run(&self) -> Running {
        let log = fs::File::create(self.path("log")).unwrap();
        let mut process =
            self.command(&["run"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let out = process.stdout.take().unwrap();
        let out = tokio::process::ChildStdout::from_std(out).unwrap();
        let mut lines = BufReader::new(out).lines();
        let ready = timeout(WAIT, lines.next_line()).await.expect("the phone is not ready").unwrap();
        let log = || fs::read_to_string(self.path("log")).unwrap();
        assert!(ready.as_deref().is_some_and(|line| line.starts_with("ready: ")), "{ready:?} {}", log());
        Running(process)
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Scene {
    model: ModelServer,
    setup: AgentSetup,
    _agent: Agent,
    account: Account,
    alice: Person,
    room: OwnedRoomId,
    phone: Phone,
}

/// Alice chats with the agent at her Element, and her phone client is logged in.
async fn scene() -> Scene {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([]).await;
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    setup.set("PHONE_WAIT_SECONDS", "20");
    let agent = setup.start().await;
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let room = alice.direct_room(setup.user()).await;
    let phone = Phone::new();
    phone.log_in(&homeserver, &account, &alice).await;
    Scene { model, setup, _agent: agent, account, alice, room, phone }
}

impl Scene {
    async fn paired(&self) -> Running {
        let (agent, key) = (self.setup.user().as_str(), self.alice.key_of(self.setup.user()).await);
        self.phone.says(&["pair", agent, "--key", &key]).await;
        let linked = self.phone.says(&["link", self.alice.device().as_str()]).await;
        assert!(linked.contains("on this phone"), "{linked}");
        let running = self.phone.run().await;
        self.until(&self.account.user, "the announcement", |all| {
            all.iter().any(|one| one.message.content.get(ANNOUNCED).is_some()).then_some(())
        })
        .await;
        running
    }

    /// Alice asks for an alarm, and the agent says its last word.
    async fn ask(&self, answer: &str) {
        let alarm = json!({"action": "alarm", "time": "07:30", "summary": "Wake up"});
        self.model.add([calls("phone_action", alarm), say(answer, 0)]);
        self.alice.say(&self.room, "wake me at half past seven").await;
        let answered = |all: &[Seen]| all.iter().any(|one| one.text() == answer).then_some(());
        self.until(self.setup.user(), answer, answered).await;
    }

    async fn until<T>(&self, sender: &UserId, what: &str, condition: impl Fn(&[Seen]) -> Option<T>) -> T {
        self.alice.until(&self.room, sender, what, condition).await
    }

    /// The `number`th card once it has come to this state.
    async fn card(&self, number: usize, state: &str) -> Value {
        self.until(self.setup.user(), state, |all| {
            let mut cards = all.iter().filter_map(|one| one.message.content.get(CARD));
            cards.nth(number).filter(|card| card["state"] == state).cloned()
        })
        .await
    }

    fn last_shown(&self) -> String {
        self.model.shown().pop().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paired_phone_does_what_the_person_confirms_there() {
    let scene = scene().await;
    let _running = scene.paired().await;
    let phone = &scene.phone;

    phone.next(0, "set for tomorrow\nxyzzy\n", 0);
    scene.ask("It is set.").await;
    let card = scene.card(0, "done").await;
    let did = json!({"action": "alarm", "summary": "Wake up", "time": "07:30"});
    assert_eq!(phone.got("done"), std::slice::from_ref(&did));
    let asked = &phone.got("asked")[0];
    assert_eq!((&asked["id"], &asked["action"]), (&card["id"], &did));
    assert_eq!(card["device"], phone_device(phone), "the card names the phone, and alice's Element is linked with it");
    let shown = scene.last_shown();
    assert!(shown.contains("Done") && shown.contains("set for tomorrow") && !shown.contains("xyzzy"), "{shown}");

    phone.next(1, "", 0);
    scene.ask("As you like.").await;
    scene.card(1, "declined").await;
    assert!(scene.last_shown().contains("declined"), "{}", scene.last_shown());

    phone.next(0, "no clock app here", 3);
    scene.ask("It did not work.").await;
    scene.card(2, "failed").await;
    assert!(scene.last_shown().contains("no clock app here"), "{}", scene.last_shown());
    assert_eq!(phone.got("done").len(), 2, "what was declined is not done");

    phone.program("confirm", "cat >> asked; exec sleep 600");
    scene.ask("Nobody is there.").await;
    scene.card(3, "expired").await;
    assert_eq!((phone.got("asked").len(), phone.got("done").len()), (4, 2));
    assert_eq!(scene.model.shown().len(), 8, "what the phone says starts no turn");
    let checked = phone.says(&["check"]).await;
    assert!(checked.contains("can do alarm") && checked.contains("knows this phone"), "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_ignores_the_cards_of_an_agent_whose_key_has_changed() {
    let mut scene = scene().await;
    let running = scene.paired().await;
    let key = scene.alice.key_of(scene.setup.user()).await;
    let wrong = scene.phone.does(&["pair", scene.setup.user().as_str(), "--key", "another"]).await;
    assert!(!wrong.status.success());
    scene.phone.next(0, "", 0);
    scene._agent.stop();
    scene._agent = scene.setup.start_with(&["--reset-identity"]).await;
    scene.alice.key_other_than(scene.setup.user(), &key).await;
    scene.ask("Nobody is there.").await;
    scene.card(0, "expired").await;
    assert_eq!((scene.phone.got("asked").len(), scene.phone.got("done").len()), (0, 0));
    drop(running);
    let checked = scene.phone.does(&["check"]).await;
    let checked = String::from_utf8(checked.stdout).unwrap();
    assert!(checked.contains("none is paired"), "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_verified_by_emoji_that_the_person_compares_with_another_device() {
    let homeserver = Homeserver::relaxed();
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let answering = alice.answers_verifications();
    let log_in = async |phone: &Phone, word: &'static str| {
        fs::write(phone.path("password"), &account.password).unwrap();
        let password = phone.path("password").display().to_string();
        let arguments = ["login", "--homeserver", &homeserver.url, "--user", account.user.as_str()];
        let mut command = phone.command(&[&arguments[..], &["--password-file", &password, "--emoji"]].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        process.stdin.take().unwrap().write_all(word.as_bytes()).unwrap();
        let output = tokio::task::spawn_blocking(move || process.wait_with_output()).await.unwrap().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), [text(output.stdout), text(output.stderr)].concat())
    };

    let (same, said) = log_in(&Phone::new(), "yes\n").await;
    assert!(same && said.contains("verified as yours"), "{said}");
    let (same, said) = log_in(&Phone::new(), "no\n").await;
    assert!(!same && said.contains("the emoji are not the same") && !said.contains("verified as yours"), "{said}");
    answering.abort();
}

fn phone_device(phone: &Phone) -> String {
    let session = fs::read_to_string(phone.path("state/session.json")).unwrap();
    serde_json::from_str::<Value>(&session).unwrap()["device_id"].as_str().unwrap().to_owned()
}
