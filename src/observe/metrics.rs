//! All figures that `/metrics` tells, in the order of the constants below: name, unit, labels, meaning.
//!
//! A label's values are bounded: words of our own, names from the configuration, names of tools that exist, and the ids
//! of the first `MAX_ROOMS` rooms that were answered in since the start (further rooms together are `other`).
//! Where nobody can ask for figures (no `http.listen`), none are kept.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use ::metrics::{
    SetRecorderError, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
    set_global_recorder, with_local_recorder,
};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use ruma::{OwnedRoomId, RoomId};
use tokio::time::{Instant, interval};

use crate::{
    model::{ModelError, Usage},
    turn::{End, Limit},
};

/// Rooms with a series of their own.
const MAX_ROOMS: usize = 100;
/// Upper bounds of the histograms, in seconds.
const BUCKETS: [f64; 12] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// How often what was measured is added up: until then each value is kept by itself.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Figure {
    name: &'static str,
    help: &'static str,
}

macro_rules! figures {
    ($($(#[$doc:meta])* $constant:ident: $kind:ident = $name:literal, $help:literal;)*) => {
        $($(#[$doc])* const $constant: Figure = Figure { name: $name, help: $help };)*

        fn describe() {
            $($kind!($constant.name, $constant.help);)*
        }

        #[cfg(test)]
        pub(super) const NAMES: &[&str] = &[$($name),*];
    };
}

figures! {
    /// Gauge, seconds. Missing before the first sync.
    SYNC_AGE: describe_gauge = "waybread_sync_age_seconds", "Time since the homeserver last answered a sync.";
    /// Gauge, events.
    INBOX_WAITING: describe_gauge = "waybread_inbox_waiting", "Events received and not done with; a question until it is answered.";
    /// Gauge, messages.
    OUTBOX_WAITING: describe_gauge = "waybread_outbox_waiting", "Messages with something to be sent.";
    /// Gauge, turns.
    TURNS_RUNNING: describe_gauge = "waybread_turns_running", "Turns at work or being delivered.";
    /// Counter, turns; `end`: see [`end_of`].
    TURNS: describe_counter = "waybread_turns_total", "Turns that have ended, by how.";
    /// Histogram, seconds.
    TURN_SECONDS: describe_histogram = "waybread_turn_seconds", "Time of a turn, from its beginning until its answer stands in the room.";
    /// Histogram, seconds; `model`.
    FIRST_TOKEN: describe_histogram = "waybread_model_first_token_seconds", "Time from a request until the model's first word or tool call.";
    /// Counter, tokens; `model`, `direction` (`read`, `written`).
    MODEL_TOKENS: describe_counter = "waybread_model_tokens_total", "Tokens by model, where the endpoint counts them.";
    /// Counter, tokens; `room`, `direction` (`read`, `written`).
    ROOM_TOKENS: describe_counter = "waybread_room_tokens_total", "Tokens by room, where the endpoint counts them.";
    /// Counter, calls; `model`, `kind`: see [`kind_of`].
    MODEL_ERRORS: describe_counter = "waybread_model_errors_total", "Calls of a model that failed, by kind; each attempt counts.";
    /// Counter, calls; `tool` (`unknown` where there is none of that name), `outcome` (`ran`, `refused`).
    TOOL_CALLS: describe_counter = "waybread_tool_calls_total", "Tool calls, by outcome.";
    /// Counter, attempts.
    RATE_LIMITED: describe_counter = "waybread_homeserver_rate_limited_total", "Attempts at sending that the homeserver refused with 429.";
    /// Histogram, seconds.
    EDIT_LAG: describe_histogram = "waybread_edit_lag_seconds", "Time from a text being there until the edit that shows it is accepted.";
    /// Counter, events; `reason` ([`Ignored`]).
    IGNORED: describe_counter = "waybread_events_ignored_total", "Events that did not count, by reason.";
    /// Counter, events; `cause`: a word of the caller's.
    UNDECRYPTABLE: describe_counter = "waybread_undecryptable_events_total", "Events that came without their key, by cause.";
    /// Counter, events.
    DECRYPTED_LATE: describe_counter = "waybread_decrypted_late_total", "Events whose key came after them.";
}

/// Why an event did not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// Not encrypted, in an encrypted room.
    Clear,
    /// From a device that `access.trust` does not accept.
    UntrustedDevice,
}

/// A turn at work. One that is dropped without [`RunningTurn::ended`] is no longer running, and no more.
#[must_use = "the turn counts as running as long as this lives"]
pub struct RunningTurn(Instant);

impl RunningTurn {
    /// A turn begins.
    pub fn begin() -> Self {
        gauge!(TURNS_RUNNING.name).increment(1);
        Self(Instant::now())
    }

    /// It has ended so.
    pub fn ended(self, end: &End) {
        counter!(TURNS.name, "end" => end_of(end)).increment(1);
        histogram!(TURN_SECONDS.name).record(self.0.elapsed());
    }
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        gauge!(TURNS_RUNNING.name).decrement(1);
    }
}

/// What is known only when somebody asks: the sync's age, and what waits. What can't be found out stays as it was.
pub fn waiting(sync_age: Option<Duration>, inbox: Option<u64>, outbox: usize) {
    if let Some(age) = sync_age {
        gauge!(SYNC_AGE.name).set(age);
    }
    if let Some(inbox) = inbox {
        gauge!(INBOX_WAITING.name).set(inbox as f64);
    }
    gauge!(OUTBOX_WAITING.name).set(outbox as f64);
}

/// A model has said its first word, so long after it was asked.
pub fn model_spoke(model: &str, after: Duration) {
    histogram!(FIRST_TOKEN.name, "model" => model.to_owned()).record(after);
}

/// A call of a model has failed.
pub fn model_failed(model: &str, error: &ModelError) {
    counter!(MODEL_ERRORS.name, "model" => model.to_owned(), "kind" => kind_of(error)).increment(1);
}

/// A model has counted a step's tokens.
pub fn model_tokens(model: &str, usage: Usage) {
    for (direction, tokens) in directions(usage) {
        counter!(MODEL_TOKENS.name, "model" => model.to_owned(), "direction" => direction).increment(tokens);
    }
}

/// A step in a room took these tokens.
pub fn room_tokens(room: &RoomId, usage: Usage) {
    static ROOMS: Mutex<BTreeSet<OwnedRoomId>> = Mutex::new(BTreeSet::new());
    let room = room_label(&mut ROOMS.lock().unwrap_or_else(PoisonError::into_inner), room);
    for (direction, tokens) in directions(usage) {
        counter!(ROOM_TOKENS.name, "room" => room.clone(), "direction" => direction).increment(tokens);
    }
}

/// A tool was called and has run. `tool` is the name of one that exists.
pub fn tool_ran(tool: &str) {
    counter!(TOOL_CALLS.name, "tool" => tool.to_owned(), "outcome" => "ran").increment(1);
}

/// A call was refused; `tool` is the name of one that exists, or none.
pub fn tool_refused(tool: Option<&str>) {
    counter!(TOOL_CALLS.name, "tool" => tool.unwrap_or("unknown").to_owned(), "outcome" => "refused").increment(1);
}

/// The homeserver has refused an attempt at sending with 429.
pub fn rate_limited() {
    counter!(RATE_LIMITED.name).increment(1);
}

/// An edit was accepted, so long after its oldest words were there.
pub fn edit_lag(lag: Duration) {
    histogram!(EDIT_LAG.name).record(lag);
}

/// An event did not count.
pub fn ignored(reason: Ignored) {
    let reason = match reason {
        Ignored::Clear => "clear_in_encrypted_room",
        Ignored::UntrustedDevice => "untrusted_device",
    };
    counter!(IGNORED.name, "reason" => reason).increment(1);
}

/// An event came without its key. `cause` is one of a few words.
pub fn undecryptable(cause: &'static str) {
    counter!(UNDECRYPTABLE.name, "cause" => cause).increment(1);
}

/// The key of such an event came after all.
pub fn decrypted_late() {
    counter!(DECRYPTED_LATE.name).increment(1);
}

fn directions(usage: Usage) -> [(&'static str, u64); 2] {
    [("read", usage.prompt), ("written", usage.completion)]
}

/// A word for how a turn has ended.
pub fn end_of(end: &End) -> &'static str {
    match end {
        End::Answered => "answered",
        End::NoReply => "no_reply",
        End::Stopped => "stopped",
        End::Limit(Limit::Steps) => "limit_steps",
        End::Limit(Limit::Time) => "limit_time",
        End::Limit(Limit::Loop) => "limit_loop",
        End::Failed(_) => "failed",
    }
}

fn kind_of(error: &ModelError) -> &'static str {
    match error {
        ModelError::Endpoint(_) => "endpoint",
        ModelError::Unreachable(_) => "unreachable",
        ModelError::Timeout { .. } => "timeout",
        ModelError::RateLimited { .. } => "rate_limited",
        ModelError::Server { .. } => "server",
        ModelError::Refused { .. } => "refused",
        ModelError::TooLong { .. } => "too_long",
        ModelError::Cut => "cut",
        ModelError::Malformed(_) => "malformed",
    }
}

fn room_label(known: &mut BTreeSet<OwnedRoomId>, room: &RoomId) -> String {
    if !known.contains(room) {
        if known.len() >= MAX_ROOMS {
            return "other".to_owned();
        }
        known.insert(room.to_owned());
    }
    room.to_string()
}

/// Where the figures are kept until somebody asks.
#[derive(Clone)]
pub struct Exporter(PrometheusHandle);

/// Why no figures can be kept.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The figures are kept already: once in a process.
    #[error("figures are kept already")]
    Installed(#[from] SetRecorderError<PrometheusRecorder>),
    /// The buckets are wrong.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl Exporter {
    /// Keeps this process's figures, from the first call on: an agent that begins anew within the process goes on with them.
    ///
    /// # Errors
    /// When another part of the program keeps figures already.
    pub fn install() -> Result<Self, InstallError> {
        static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = installed.as_ref() {
            return Ok(Self(handle.clone()));
        }
        let recorder = recorder()?;
        let handle = recorder.handle();
        set_global_recorder(recorder)?;
        Ok(Self(installed.insert(handle).clone()))
    }

    /// Adds up what was measured, for ever; without it, memory grows until somebody asks.
    pub async fn upkeep(&self) {
        let mut tick = interval(UPKEEP_EVERY);
        loop {
            tick.tick().await;
            self.0.run_upkeep();
        }
    }

    /// The figures, in Prometheus' text format.
    pub fn render(&self) -> String {
        self.0.render()
    }
}

/// With all names described, and with those that have no labels at 0, so that a first event is a change.
fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let recorder = PrometheusBuilder::new().set_buckets(&BUCKETS)?.build_recorder();
    with_local_recorder(&recorder, || {
        describe();
        gauge!(TURNS_RUNNING.name).set(0);
        counter!(RATE_LIMITED.name).absolute(0);
        counter!(DECRYPTED_LATE.name).absolute(0);
    });
    Ok(recorder)
}

#[cfg(test)]
pub(crate) mod testing {
    #![allow(clippy::unwrap_used)]

    use super::{Exporter, PrometheusRecorder, recorder};

    /// A recorder for [`metrics::set_default_local_recorder`], for a test's own thread.
    pub(crate) fn local() -> (PrometheusRecorder, Exporter) {
        let recorder = recorder().unwrap();
        let exporter = Exporter(recorder.handle());
        (recorder, exporter)
    }

    /// The lines that hold figures, sorted; of histograms their sums and counts.
    pub(crate) fn figures(rendered: &str) -> String {
        let is_figure = |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.contains("_bucket{");
        let mut lines: Vec<_> = rendered.lines().filter(is_figure).collect();
        lines.sort_unstable();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{
        testing::{figures, local},
        *,
    };

    #[tokio::test(start_paused = true)]
    async fn every_verb_moves_its_figure() {
        let (recorder, exporter) = local();
        let _local = ::metrics::set_default_local_recorder(&recorder);
        let room = ruma::room_id!("!room:example.org");
        let usage = Usage { prompt: 120, completion: 8 };
        waiting(Some(Duration::from_millis(1500)), Some(3), 2);
        let (answered, stopped, dropped, _running) =
            (RunningTurn::begin(), RunningTurn::begin(), RunningTurn::begin(), RunningTurn::begin());
        tokio::time::advance(Duration::from_secs(2)).await;
        answered.ended(&End::Answered);
        stopped.ended(&End::Stopped);
        drop(dropped);
        model_spoke("small", Duration::from_millis(250));
        model_failed("small", &ModelError::Cut);
        model_tokens("small", usage);
        room_tokens(room, usage);
        tool_ran("now");
        tool_refused(Some("now"));
        tool_refused(None);
        rate_limited();
        edit_lag(Duration::from_secs(3));
        ignored(Ignored::Clear);
        ignored(Ignored::UntrustedDevice);
        undecryptable("missing_key");
        decrypted_late();
        insta::assert_snapshot!(figures(&exporter.render()));
    }

    #[test]
    fn a_process_begins_with_described_figures() {
        let (_, exporter) = local();
        assert_eq!(
            figures(&exporter.render()),
            "waybread_decrypted_late_total 0\nwaybread_homeserver_rate_limited_total 0\nwaybread_turns_running 0"
        );
        assert!(exporter.render().contains("# HELP waybread_turns_running Turns at work or being delivered.\n"));
    }

    #[test]
    fn rooms_beyond_the_bound_share_a_label() {
        let mut known = BTreeSet::new();
        let room = |number: usize| RoomId::parse(format!("!room{number}:example.org")).unwrap();
        for number in 0..MAX_ROOMS {
            assert_eq!(room_label(&mut known, &room(number)), room(number).as_str());
        }
        assert_eq!(room_label(&mut known, &room(MAX_ROOMS)), "other");
        assert_eq!(room_label(&mut known, &room(0)), room(0).as_str());
        assert_eq!(known.len(), MAX_ROOMS);
    }

    #[test]
    fn every_figure_is_explained_to_the_operator() {
        let text = include_str!("../../docs/operate.md");
        let missing: Vec<_> = NAMES.iter().filter(|name| !text.contains(*name)).collect();
        assert_eq!(missing, [&""; 0]);
    }
}
