//! The agent: its own program, as an operator runs it.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use ruma::OwnedUserId;
use tempfile::TempDir;

use super::{Account, Homeserver, ModelServer};

/// How long the agent may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// What an agent is started with; can be started again with the same state.
pub struct AgentSetup {
    pub account: Account,
    folder: PathBuf,
    /// Where the folder is the test's own.
    _scratch: Option<TempDir>,
    environment: Vec<(String, String)>,
}

/// A running agent. Ends with SIGKILL when it is dropped; its log is shown when the test has failed.
pub struct Agent {
    process: Child,
    log: PathBuf,
}

impl AgentSetup {
    pub async fn new(homeserver: &Homeserver, model: &ModelServer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let account = homeserver.account("waybread").await;
        let mut setup = Self::in_folder(account.clone(), folder.path().to_owned(), model);
        setup._scratch = Some(folder);
        for (name, value) in [
            ("MATRIX_HOMESERVER", homeserver.url.as_str()),
            ("MATRIX_USER", account.user.as_str()),
            ("MATRIX_PASSWORD", &account.password),
        ] {
            setup.set(name, value);
        }
        setup
    }

    /// With what the folder's configuration says.
    pub fn in_folder(account: Account, folder: PathBuf, model: &ModelServer) -> Self {
        let mut setup = Self { account, folder, _scratch: None, environment: Vec::new() };
        for (name, value) in [
            ("MATRIX_STATE_DIR", setup.state().display().to_string().as_str()),
            ("MODEL_URL", &model.url()),
            ("MODEL_NAME", "scripted"),
            ("MODEL_TOOL_CALLS", "native"),
            ("MODEL_RETRY_FIRST_SECONDS", "1"),
            ("LOG_FILTER", "info,waybread=debug,matrix_link=debug"),
        ] {
            setup.set(name, value);
        }
        setup
    }

    /// Sets a key of the configuration: `MODEL_IDLE_SECONDS` is `model.idle_seconds`.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.push((format!("WAYBREAD_{name}"), value.to_owned()));
    }

    /// Writes the configuration's file; the environment wins over it.
    pub fn configure(&self, text: &str) {
        fs::write(self.folder.join("config.toml"), text).unwrap();
    }

    pub fn user(&self) -> &OwnedUserId {
        &self.account.user
    }

    /// Where its configuration is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The files that the agent keeps.
    pub fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Starts it and waits until it is ready.
    pub async fn start(&self) -> Agent {
        self.start_with(&[]).await
    }

    /// The same with options of `run`.
    pub async fn start_with(&self, options: &[&str]) -> Agent {
        let log = self.folder.join("log");
        let mut process = self.command("run", options).spawn().unwrap();
        let (ready, is_ready) = mpsc::channel();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if line.starts_with("ready:") {
                    let _ = ready.send(());
                }
            }
        });
        let agent = Agent { process, log };
        let is_ready = tokio::task::spawn_blocking(move || is_ready.recv_timeout(READY_WITHIN));
        is_ready.await.unwrap().unwrap_or_else(|_| panic!("the agent is not ready:\n{}", agent.log()));
        agent
    }

    /// Starts it, which it refuses, and gives its last word.
    pub async fn refusal(&self) -> String {
        self.refusal_with(&[]).await
    }

    /// The same with options of `run`.
    pub async fn refusal_with(&self, options: &[&str]) -> String {
        let mut process = self.command("run", options).spawn().unwrap();
        let ended = tokio::task::spawn_blocking(move || process.wait());
        let ended = tokio::time::timeout(READY_WITHIN, ended).await.expect("the agent does not end").unwrap().unwrap();
        assert_eq!(ended.code(), Some(1));
        self.last_word()
    }

    /// The last line that it has written.
    pub fn last_word(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap();
        log.lines().last().unwrap_or_default().to_owned()
    }

    /// `waybread verify`, with its terminal in our hands.
    pub fn verify(&self) -> Child {
        self.command("verify", &[]).stdin(Stdio::piped()).spawn().unwrap()
    }

    /// The program, with this set-up.
    pub fn command(&self, name: &str, options: &[&str]) -> Command {
        let log = self.folder.join("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_waybread"));
        command
            .arg(name)
            .args(options)
            .current_dir(&self.folder)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::OpenOptions::new().create(true).append(true).open(log).unwrap());
        command
    }
}

impl Agent {
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the log has a line with this, and gives the line.
    pub async fn logs(&self, text: &str) -> String {
        let waited = tokio::time::timeout(READY_WITHIN, async {
            loop {
                if let Some(line) = self.log().lines().find(|line| line.contains(text)) {
                    return line.to_owned();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("no line with {text}"))
    }

    /// Waits until the log has so many lines with this.
    pub async fn logs_often(&self, text: &str, count: usize) {
        let waited = tokio::time::timeout(READY_WITHIN, async {
            while self.log().matches(text).count() < count {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("fewer than {count} lines with {text}"));
    }

    /// Waits until it has ended by itself, with an error.
    pub async fn ended(&mut self) {
        let waited = tokio::time::timeout(READY_WITHIN, async {
            loop {
                if let Some(status) = self.process.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        assert_eq!(waited.await.expect("the agent does not end").code(), Some(1));
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Kills it: no word of farewell, no file closed.
    pub fn kill(mut self) {
        self.stop();
    }

    /// The same, and its log can still be read.
    pub fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- the agent's log:\n{}", self.log());
        }
    }
}
