//! `phone.toml` in the state folder: what the phone's owner decides. Every key may be left out, and so may the file.
//!
//! Nothing is silent: an unknown key or a value that is none is an error of one line, with the file, the line, the key,
//! what is expected and what was found.

mod table;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use phone_actions::Refusal;
use toml_edit::{Document, Item};

use crate::safety;

use table::{Source, Table, line, one_line};

/// The file's name.
pub(crate) const FILE: &str = "phone.toml";

/// The largest file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// All that the owner decides, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `backend`: what shows and does things.
    pub(crate) backend: BackendKind,
    /// `heat_guard`: from which heat on nothing is done.
    pub(crate) heat_guard: HeatGuard,
    /// `confirm`: how a card is shown on Android.
    pub(crate) confirm: ConfirmBy,
    /// `[exec]`: the owner's programs.
    pub(crate) exec: Exec,
    /// `[apps]`: an app by its [folded](safety::folded) name, and its package, with or without an activity behind `/`.
    pub(crate) apps: BTreeMap<String, String>,
}

/// What shows and does things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BackendKind {
    /// Termux where it is there, else the owner's programs where there are any, else the terminal.
    #[default]
    Auto,
    /// Android, by Termux and Termux:API.
    Termux,
    /// The owner's programs.
    Exec,
    /// This terminal, which does nothing.
    Terminal,
}

/// From which heat on nothing is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HeatGuard {
    /// At an emergency only.
    #[default]
    Minimal,
    /// From critical on.
    Medium,
    /// From severe on.
    High,
}

/// How a card is shown on Android.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConfirmBy {
    /// A dialog over what is on the screen.
    #[default]
    Dialog,
    /// A notification with buttons.
    Notification,
}

/// The owner's programs, each the program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exec {
    /// By an action's name.
    pub(crate) programs: BTreeMap<String, Vec<String>>,
    /// What asks the person; the terminal does where there is none.
    pub(crate) confirm: Option<Vec<String>>,
    /// How long an action's program may run.
    pub(crate) timeout: Duration,
}

impl Default for Exec {
    fn default() -> Self {
        Self { programs: BTreeMap::new(), confirm: None, timeout: Duration::from_secs(25) }
    }
}

/// Why the settings can't be used. The text is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The file can't be read.
    #[error("{file}: {reason}")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// The file is no TOML.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A key that means nothing, or a value that is none.
    #[error("{file}:{line}: {key}: {problem}")]
    Key {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key's path, such as `exec.confirm`.
        key: String,
        /// What is expected, and what was found.
        problem: String,
    },
}

impl Settings {
    /// Reads the settings in a state folder; the defaults where there is no file.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn load(state_dir: &Path) -> Result<Self, SettingsError> {
        let file = state_dir.join(FILE);
        let unreadable = |reason| SettingsError::Unreadable { file: file.clone(), reason };
        match fs::metadata(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Ok(metadata) if metadata.len() > MAX_FILE => return Err(unreadable(io::ErrorKind::FileTooLarge.into())),
            Ok(_) | Err(_) => {}
        }
        Self::parse(&file, fs::read_to_string(&file).map_err(unreadable)?)
    }

    fn parse(file: &Path, text: String) -> Result<Self, SettingsError> {
        let document = Document::parse(text.clone()).map_err(|error| SettingsError::Syntax {
            file: file.to_owned(),
            line: line(&text, error.span()),
            message: one_line(error.message()),
        })?;
        let source = Source { file, text: &text };
        let root = source.table("", document.as_table(), &["backend", "heat_guard", "confirm", "exec", "apps"])?;
        let settings = Self {
            backend: root.choice("backend", &BACKENDS)?,
            heat_guard: root.choice("heat_guard", &HEAT_GUARDS)?,
            confirm: root.choice("confirm", &CONFIRM_BY)?,
            exec: root.below("exec", &["programs", "confirm", "timeout_seconds"])?.map_or(Ok(Exec::default()), exec)?,
            apps: root.open_table("apps")?.map_or(Ok(BTreeMap::new()), apps)?,
        };
        if settings.backend == BackendKind::Exec && settings.exec.programs.is_empty() {
            return Err(root.problem("backend", "\"exec\" needs a program in [exec.programs]"));
        }
        Ok(settings)
    }
}

const BACKENDS: [(&str, BackendKind); 4] = [
    ("auto", BackendKind::Auto),
    ("termux", BackendKind::Termux),
    ("exec", BackendKind::Exec),
    ("terminal", BackendKind::Terminal),
];
const HEAT_GUARDS: [(&str, HeatGuard); 3] =
    [("minimal", HeatGuard::Minimal), ("medium", HeatGuard::Medium), ("high", HeatGuard::High)];
const CONFIRM_BY: [(&str, ConfirmBy); 2] = [("dialog", ConfirmBy::Dialog), ("notification", ConfirmBy::Notification)];

fn exec(table: Table<'_>) -> Result<Exec, SettingsError> {
    let mut exec = Exec::default();
    if let Some(programs) = table.open_table("programs")? {
        for name in programs.keys() {
            let call = serde_json::json!({"action": name});
            if matches!(phone_actions::check(&call), Err(Refusal::UnknownAction { .. })) {
                return Err(programs.problem(name, "there is no such action"));
            }
            exec.programs.insert(name.to_owned(), programs.command(name)?);
        }
    }
    if table.item("confirm").is_some() {
        exec.confirm = Some(table.command("confirm")?);
    }
    if let Some(item) = table.item("timeout_seconds") {
        let seconds = item.as_integer().and_then(|seconds| u64::try_from(seconds).ok());
        let seconds = seconds.filter(|seconds| (1..=3600).contains(seconds));
        let seconds = seconds.ok_or_else(|| table.expected("timeout_seconds", "a whole number from 1 to 3600"))?;
        exec.timeout = Duration::from_secs(seconds);
    }
    Ok(exec)
}

fn apps(table: Table<'_>) -> Result<BTreeMap<String, String>, SettingsError> {
    let mut apps = BTreeMap::new();
    for name in table.keys() {
        let folded = safety::folded(name);
        if folded.is_empty() {
            return Err(table.problem(name, "the name of an app has a letter or a digit in it"));
        }
        let package = table.item(name).and_then(Item::as_str).filter(|package| is_package(package));
        let package = package.ok_or_else(|| {
            table.expected(name, "a package such as \"org.mozilla.firefox\", or \"package/.Activity\"")
        })?;
        if apps.insert(folded, package.to_owned()).is_some() {
            return Err(table.problem(name, "an app of this name stands there already"));
        }
    }
    Ok(apps)
}

/// Whether a text is the name of a package, and of an activity behind a `/` if there is one.
fn is_package(text: &str) -> bool {
    let word = |word: &str, more: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || more.contains(c))
    };
    let (package, activity) =
        text.split_once('/').map_or((text, None), |(package, activity)| (package, Some(activity)));
    package.contains('.')
        && package.split('.').all(|part| word(part, ""))
        && activity.is_none_or(|activity| {
            activity.strip_prefix('.').unwrap_or(activity).split('.').all(|part| word(part, "$"))
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Settings, SettingsError> {
        Settings::parse(Path::new("phone.toml"), text.to_owned())
    }

    #[test]
    fn without_a_file_or_in_an_empty_one_all_is_as_it_is_by_default() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Settings::load(folder.path()).unwrap(), Settings::default());
        fs::write(folder.path().join(FILE), "# nothing\n").unwrap();
        assert_eq!(Settings::load(folder.path()).unwrap(), Settings::default());
        fs::write(folder.path().join(FILE), b"\xff").unwrap();
        assert!(matches!(Settings::load(folder.path()), Err(SettingsError::Unreadable { .. })));
    }

    #[test]
    fn every_key_is_read() {
        let text = r#"
            backend = "exec"
            heat_guard = "high"
            confirm = "notification"
            [exec]
            confirm = ["ask", "--now"]
            timeout_seconds = 5
            programs = { alarm = ["clock"] }
            [apps]
            "Fire Fox" = "org.mozilla.firefox"
            Notes = "org.example.notes_2/.ui.Main$Start"
        "#;
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let expected = Settings {
            backend: BackendKind::Exec,
            heat_guard: HeatGuard::High,
            confirm: ConfirmBy::Notification,
            exec: Exec {
                programs: BTreeMap::from([("alarm".to_owned(), words(&["clock"]))]),
                confirm: Some(words(&["ask", "--now"])),
                timeout: Duration::from_secs(5),
            },
            apps: BTreeMap::from([
                ("firefox".to_owned(), "org.mozilla.firefox".to_owned()),
                ("notes".to_owned(), "org.example.notes_2/.ui.Main$Start".to_owned()),
            ]),
        };
        assert_eq!(read(text).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_key() {
        let wrong = [
            "backend = ",
            "\nback_end = \"auto\"",
            "backend = \"android\"",
            "backend = 5",
            "backend = \"exec\"",
            "heat_guard = \"off\"",
            "confirm = \"none\"",
            "exec = 5",
            "[exec]\nconfirm = \"none\"",
            "[exec]\nconfirm = []",
            "[exec]\nconfirm = [\"\"]",
            "[exec]\ntimeout_seconds = 0",
            "[exec]\ntimeout_seconds = 1.5",
            "[exec]\nprogram = 1",
            "[exec.programs]\nalarm = [\"a\"]\nfly = [\"b\"]",
            "[exec.programs]\nalarm = [\"a\", 5]",
            "[exec.programs]\nalarm = \"rm -rf /\"",
            "[apps]\nFirefox = \"firefox\"",
            "[apps]\nFirefox = \"org.mozilla.firefox -d x\"",
            "[apps]\nFirefox = \"-n.a/.B\"",
            "[apps]\n\"!\" = \"org.example.a\"",
            "[apps]\nMaps = \"org.example.a\"\n\"m-a-p-s\" = \"org.example.b\"",
            "[apps.\"a\\nb\"]",
        ];
        let told: Vec<_> = wrong.iter().map(|text| format!("{text:?}\n    {}", read(text).unwrap_err())).collect();
        insta::assert_snapshot!(told.join("\n"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_one_line(
            key in "backend|exec|exec\\.programs|exec\\.confirm|apps|apps\\.a|\\PC{0,5}", value in "\\PC{0,20}|\\[\"\\PC{0,3}\"\\]|[0-9]{1,20}"
        ) {
            if let Err(error) = read(&format!("{key} = {value}")) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
