//! `phone.toml` in the state folder: what the phone's owner decides. Every key may be left out.

use std::{collections::BTreeMap, time::Duration};

/// The file's name.
pub(crate) const FILE: &str = "phone.toml";

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
    /// `[apps]`: an app as its owner calls it, and its package. The names are folded by [`crate::safety`].
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
        Self { programs: BTreeMap::new(), confirm: None, timeout: Duration::from_secs(30) }
    }
}
