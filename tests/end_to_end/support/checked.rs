//! `waybread check`, run to its end.

use std::process::{Output, Stdio};

use super::AgentSetup;

/// What a check has said.
pub struct Checked {
    /// Its exit code.
    pub works: bool,
    /// As it was printed.
    pub raw: String,
    /// Without what changes from run to run.
    pub lines: String,
}

impl AgentSetup {
    /// Checks this set-up.
    pub async fn check(&self, arguments: &[&str]) -> Checked {
        let output = self.to_end("check", arguments).await;
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(log, "", "nothing beside the report");
        let raw = String::from_utf8(output.stdout).unwrap();
        Checked { works: output.status.success(), lines: self.normal(&raw), raw }
    }

    /// Runs an agent that must fail at its start, and gives its last words.
    pub async fn run_to_end(&self) -> String {
        let output = self.to_end("run", &[]).await;
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    async fn to_end(&self, name: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(name, &[]);
        command.args(arguments).stderr(Stdio::piped());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    fn normal(&self, raw: &str) -> String {
        let text = raw.replace(&self.state().display().to_string(), "STATE").replace(self.user().as_str(), "@USER");
        [("127.0.0.1:", "PORT"), (", device ", "DEVICE"), ("up to v", "VERSION")]
            .into_iter()
            .fold(text, |text, (before, name)| normal_after(&text, before, name))
    }
}

/// Puts `name` in the place of each word that comes after `before`.
fn normal_after(text: &str, before: &str, name: &str) -> String {
    let mut parts = text.split(before);
    let mut normal = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.');
        normal.push_str(&[before, name, rest].concat());
    }
    normal
}
