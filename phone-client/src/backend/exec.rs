//! The owner's own programs: one for each action that this phone shall do.
//!
//! A program gets the action as one line of JSON on its input. Exit code 0 is done, any other is failed, and the first
//! line of its output is what the model is told. Who asks the person is a program too, or the terminal.

use std::time::Duration;

use async_trait::async_trait;
use phone_actions::Action;
use serde_json::json;
use tracing::warn;

use crate::settings;

use super::{
    Backend, BackendError, Decision, Health, Performed, Prompt,
    run::{RunError, run},
    terminal::Terminal,
};

/// The owner's programs.
pub(crate) struct Exec {
    settings: settings::Exec,
    terminal: Terminal,
}

impl Exec {
    pub(super) fn new(settings: settings::Exec, terminal: Terminal) -> Self {
        Self { settings, terminal }
    }
}

#[async_trait]
impl Backend for Exec {
    fn can(&self, action: &str) -> bool {
        self.settings.programs.contains_key(action)
    }

    async fn confirm(&self, prompt: &Prompt<'_>) -> Result<Decision, BackendError> {
        match &self.settings.confirm {
            Some(program) => ask(program, prompt).await,
            None => self.terminal.confirm(prompt).await,
        }
    }

    async fn perform(&self, action: &Action) -> Performed {
        match self.settings.programs.get(action.name()) {
            Some(program) => perform(program, action, self.settings.timeout).await,
            None => Performed::Failed(format!("this phone has no program for {}", action.name())),
        }
    }

    async fn health(&self) -> Health {
        Health::default()
    }

    async fn keep_awake(&self, _: bool) {}

    async fn notice(&self, text: &str) {
        if self.settings.confirm.is_none() {
            self.terminal.notice(text).await;
        }
    }
}

/// Asks the person by a program: exit code 0 is yes, 1 is no, 2 is STOP.
async fn ask(program: &[String], prompt: &Prompt<'_>) -> Result<Decision, BackendError> {
    let question = json!({
        "id": prompt.id,
        "agent": prompt.agent,
        "remaining_seconds": prompt.remaining.as_secs(),
        "text": prompt.text(),
        "action": prompt.action,
    });
    let ended = run(program, format!("{question}\n").as_bytes(), None).await?;
    match ended.code {
        Some(0) => Ok(Decision::Confirmed),
        Some(1) => Ok(Decision::Declined),
        Some(2) => Ok(Decision::Stop),
        code => {
            let what = match code {
                Some(code) => format!("ended with code {code}, which is none of 0, 1 and 2"),
                None => "was ended by a signal".to_owned(),
            };
            Err(BackendError::Answer { program: program.first().cloned().unwrap_or_default(), what })
        }
    }
}

/// Does an action by a program.
pub(super) async fn perform(program: &[String], action: &Action, limit: Duration) -> Performed {
    let input = format!("{}\n", action.to_value());
    match run(program, input.as_bytes(), Some(limit)).await {
        Ok(ended) if ended.code == Some(0) => Performed::Done(ended.first_line()),
        Ok(ended) => Performed::Failed(ended.first_line().unwrap_or_else(|| "its program failed".to_owned())),
        Err(error) => {
            warn!(action = action.name(), %error, "a program for an action has not ended well");
            Performed::Failed(match error {
                RunError::TooLong { limit, .. } => format!("its program was ended after {} s", limit.as_secs()),
                _ => "its program could not be run".to_owned(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use std::{collections::BTreeMap, io};

    use phone_actions::{CardId, check};
    use ruma::user_id;

    use super::*;

    fn sh(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    fn exec(program: &str, confirm: Option<&str>) -> Exec {
        let settings = settings::Exec {
            programs: BTreeMap::from([("alarm".to_owned(), sh(program))]),
            confirm: confirm.map(sh),
            timeout: Duration::from_millis(700),
        };
        Exec::new(settings, Terminal::new(io::sink()))
    }

    fn alarm() -> Action {
        check(&json!({"action": "alarm", "time": "07:30", "label": "$(id) 'x' -n"})).unwrap()
    }

    #[tokio::test]
    async fn a_program_gets_exactly_the_action_and_its_first_line_is_the_message() {
        let performed = exec("cat", None).perform(&alarm()).await;
        let expected = r#"{"action":"alarm","label":"$(id) 'x' -n","summary":"alarm","time":"07:30"}"#;
        let Performed::Done(Some(line)) = performed else { panic!("{performed:?}") };
        assert_eq!(line.parse::<serde_json::Value>().unwrap(), expected.parse::<serde_json::Value>().unwrap());
        assert_eq!(exec("true", None).perform(&alarm()).await, Performed::Done(None));
    }

    #[tokio::test]
    async fn a_program_that_fails_says_why_or_is_ended() {
        for (script, why) in [
            ("echo No clock; echo more; exit 1", "No clock"),
            ("exit 7", "its program failed"),
            ("sleep 60", "its program was ended after 0 s"),
        ] {
            assert_eq!(exec(script, None).perform(&alarm()).await, Performed::Failed(why.to_owned()));
        }
        let torch = check(&json!({"action": "torch", "on": true})).unwrap();
        let why = "this phone has no program for torch".to_owned();
        let exec = exec("true", None);
        assert_eq!(exec.perform(&torch).await, Performed::Failed(why));
        assert!(exec.can("alarm") && !exec.can("torch"));
    }

    #[tokio::test]
    async fn the_confirming_program_reads_the_card_and_answers_by_its_code() {
        let (action, id) = (alarm(), CardId::from_bytes([0; 16]));
        let prompt = Prompt {
            action: &action,
            id: &id,
            agent: user_id!("@agent:example.org"),
            remaining: Duration::from_secs(100),
        };
        let script = |code: u8| {
            format!(
                r#"grep -q '"agent":"@agent:example.org".*"remaining_seconds":100.*Set an alarm for 07:30' && exit {code}; exit 9"#
            )
        };
        for (code, decision) in [(0, Decision::Confirmed), (1, Decision::Declined), (2, Decision::Stop)] {
            assert_eq!(exec("true", Some(&script(code))).confirm(&prompt).await.unwrap(), decision);
        }
        let error = exec("true", Some(&script(3))).confirm(&prompt).await.unwrap_err();
        assert_eq!(error.to_string(), "sh: ended with code 3, which is none of 0, 1 and 2");
    }
}
