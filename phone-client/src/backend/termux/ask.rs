//! The dialog and the notification that ask the person.
//!
//! A dialog has two buttons, so a notification with STOP stands beside it. A dialog can't be taken away from outside: one
//! that is still there when its card has gone does nothing, whatever is pressed on it.

use std::{io, path::Path};

use serde_json::Value;

use crate::settings::ConfirmBy;

use super::{
    super::{BackendError, Decision, Prompt, buttons::command, run::Ended},
    COMMAND, Programs,
    intent::{Argv, argv},
};

/// What a notification's id begins with; the card's id follows.
const ID: &str = "waybread-";

const TITLE: &str = "Confirm on this phone";

/// A notification to be shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notice {
    id: String,
    argv: Argv,
    /// Its text goes by the input and not as an argument: Termux:API reads its arguments from one line.
    text: String,
}

/// The notification that goes with a card.
///
/// # Errors
/// This program or the state folder has a name that no button can carry.
pub(super) fn notice(program: &Path, state_dir: &Path, by: ConfirmBy, prompt: &Prompt<'_>) -> io::Result<Notice> {
    let button = |decision| command(program, state_dir, prompt.id, decision);
    let id = format!("{ID}{}", prompt.id);
    let mut argv = argv(["termux-notification", "--id", &id, "--ongoing", "--title", TITLE, "--priority"]);
    let mut add = |words: &[&str]| argv.extend(words.iter().map(|word| (*word).to_owned()));
    let stop = button(Decision::Stop)?;
    let text = match by {
        ConfirmBy::Dialog => {
            add(&["low", "--button1", "STOP", "--button1-action", &stop]);
            format!("{} asks; a dialog is open. STOP declines and ends the client.", prompt.agent)
        }
        ConfirmBy::Notification => {
            let (yes, no) = (button(Decision::Confirmed)?, button(Decision::Declined)?);
            add(&["max", "--button1", "Yes", "--button1-action", &yes]);
            add(&["--button2", "No", "--button2-action", &no]);
            add(&["--button3", "STOP", "--button3-action", &stop]);
            // To wipe it away is a no.
            add(&["--on-delete", &no]);
            question(prompt)
        }
    };
    Ok(Notice { id, argv, text })
}

/// What is asked. It ends in words of ours: Termux:API takes a backslash at the end for more than text.
fn question(prompt: &Prompt<'_>) -> String {
    format!("{}\n\n{} asks. Nothing happens without your yes.", prompt.text(), prompt.agent)
}

/// A notification that is shown. It is taken away when this is dropped.
pub(super) struct Shown {
    programs: Programs,
    /// The command that takes it away, until it has been run.
    remove: Option<Argv>,
}

impl Shown {
    pub(super) async fn show(programs: &Programs, notice: &Notice) -> Result<Self, BackendError> {
        let remove = argv(["termux-notification-remove", &notice.id]);
        // From here on: it may stand there even if the command is ended half-way.
        let shown = Self { programs: programs.clone(), remove: Some(remove) };
        let ended = programs.run(&notice.argv, notice.text.as_bytes(), Some(COMMAND)).await?;
        match ended.code {
            Some(0) => Ok(shown),
            _ => Err(answer("termux-notification", &ended)),
        }
    }

    pub(super) async fn take_away(mut self) {
        if let Some(remove) = self.remove.take() {
            // One that stays does no harm: its buttons reach nobody.
            let _ = self.programs.run(&remove, b"", Some(COMMAND)).await;
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let (Some(remove), Ok(runtime)) = (self.remove.take(), tokio::runtime::Handle::try_current()) {
            let programs = self.programs.clone();
            runtime.spawn(async move { programs.run(&remove, b"", Some(COMMAND)).await });
        }
    }
}

/// The command of the dialog.
fn dialog_argv(prompt: &Prompt<'_>) -> Argv {
    argv(["termux-dialog", "confirm", "-t", TITLE, "-i", &question(prompt)])
}

/// Asks by a dialog.
pub(super) async fn dialog(programs: &Programs, prompt: &Prompt<'_>) -> Result<Decision, BackendError> {
    let ended = programs.run(&dialog_argv(prompt), b"", None).await?;
    chosen(&ended.out).ok_or_else(|| answer("termux-dialog", &ended))
}

/// What was chosen: `{"text": "yes"}`. A dialog that was dismissed has an empty text, which is a no.
fn chosen(printed: &str) -> Option<Decision> {
    let printed: Value = serde_json::from_str(printed).ok()?;
    match (printed.get("error"), printed.get("text")?.as_str()?) {
        (Some(_), _) => None,
        (None, "yes") => Some(Decision::Confirmed),
        (None, "no" | "") => Some(Decision::Declined),
        (None, _) => None,
    }
}

fn answer(program: &str, ended: &Ended) -> BackendError {
    let what = match ended.code {
        Some(0) => "gave no answer; is the app Termux:API installed?".to_owned(),
        Some(code) => format!("ended with code {code}; is the app Termux:API installed?"),
        None => "was ended by a signal".to_owned(),
    };
    BackendError::Answer { program: program.to_owned(), what }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use phone_actions::{Action, CardId, check};
    use ruma::user_id;
    use serde_json::json;

    use super::*;

    fn with_prompt<T>(action: &Action, ask: impl FnOnce(&Prompt<'_>) -> T) -> T {
        let (id, remaining) = (CardId::from_bytes([0; 16]), Duration::from_secs(110));
        ask(&Prompt { action, id: &id, agent: user_id!("@agent:example.org"), remaining })
    }

    fn odd() -> Action {
        check(&json!({"action": "open_app", "app": "'; id; ' $REPLY --button1-action \\", "summary": "$(id)\\"}))
            .unwrap()
    }

    #[test]
    fn a_card_is_asked_about_by_a_notification_or_a_dialog() {
        let shown = with_prompt(&odd(), |prompt| {
            let notice = |by| notice(Path::new("/bin/waybread-phone"), Path::new("/state"), by, prompt).unwrap();
            let (notification, beside) = (notice(ConfirmBy::Notification), notice(ConfirmBy::Dialog));
            format!("{notification:#?}\n{beside:#?}\n{:#?}", dialog_argv(prompt))
        });
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn no_word_of_a_card_is_in_a_command_of_a_button_or_at_the_end_of_a_text() {
        with_prompt(&odd(), |prompt| {
            let notice = notice(Path::new("/p"), Path::new("/s"), ConfirmBy::Notification, prompt).unwrap();
            assert!(!notice.argv.iter().any(|word| word.contains("REPLY") || word.contains("id;")), "{notice:?}");
            assert!(notice.text.ends_with("yes.") && question(prompt).ends_with("yes."));
        });
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        assert_eq!(chosen(r#"{"code": -1, "text": "yes"}"#), Some(Decision::Confirmed));
        for no in [r#"{"code": -2, "text": "no"}"#, r#"{"code": 0, "text": ""}"#] {
            assert_eq!(chosen(no), Some(Decision::Declined));
        }
        for unclear in ["", "yes", "null", r#"{"code": -1}"#, r#"{"text": "Yes!"}"#, r#"{"text": "yes", "error": "x"}"#]
        {
            assert_eq!(chosen(unclear), None, "{unclear}");
        }
    }
}
