//! Bounds of what the agent does: turns, drafts, sending, receiving.

use std::{net::SocketAddr, time::Duration};

use super::{error::ConfigError, reader::Reader};

/// `[turn]`: the bounds of one turn, and of turns at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Model calls in one turn.
    pub max_steps: u32,
    /// Working time of one turn; waiting for a person does not count.
    pub max_time: Duration,
    /// Hints to a model that goes round in circles, before its turn is stopped.
    pub loop_hints: u32,
    /// Turns at once in this process.
    pub max_concurrent: usize,
    /// Messages waiting for one conversation.
    pub max_waiting: usize,
}

impl Turn {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut turn = reader.table("turn");
        Ok(Self {
            max_steps: turn.get("max_steps")?.whole(1..=1000)?,
            max_time: turn.get("max_seconds")?.seconds(1..=86_400)?,
            loop_hints: turn.get("loop_hints")?.whole(0..=20)?,
            max_concurrent: turn.get("max_concurrent")?.whole(1..=10_000)?,
            max_waiting: turn.get("max_waiting")?.whole(1..=10_000)?,
        })
    }
}

/// `[draft]`: an answer while it is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Nothing is posted before a first sentence is there, or text for this long.
    pub first_after: Duration,
    /// The time between two edits of one message, at least.
    pub edit_every: Duration,
    /// Edits of one answer while it is being written; the final text always comes.
    pub max_edits: u32,
}

impl Draft {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut draft = reader.table("draft");
        Ok(Self {
            first_after: draft.get("first_after_ms")?.millis(0..=60_000)?,
            edit_every: draft.get("edit_every_ms")?.millis(1..=60_000)?,
            max_edits: draft.get("max_edits")?.whole(0..=1000)?,
        })
    }
}

/// `[outbox]`: what is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Outbox {
    /// The account's send budget to start with.
    pub events_per_second: f64,
    /// Events that may go at once when the budget is full.
    pub burst: u32,
    /// The largest event as sent.
    pub max_event_bytes: usize,
    /// How long an event is tried when the homeserver can't be reached.
    pub give_up_after: Duration,
}

impl Outbox {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut outbox = reader.table("outbox");
        Ok(Self {
            events_per_second: outbox.get("events_per_second")?.number(0.01..=1000.0)?,
            burst: outbox.get("burst")?.whole(1..=1000)?,
            // Below 65536, where the specification's limit is: the homeserver adds to what was sent.
            max_event_bytes: outbox.get("max_event_bytes")?.whole(4096..=65_000)?,
            give_up_after: outbox.get("give_up_seconds")?.seconds(1..=2_592_000)?,
        })
    }
}

/// `[inbox]`: what is received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbox {
    /// Messages older than this when they arrive are read, and not answered.
    pub answer_within: Duration,
    /// Events waiting to be handled in memory; the rest waits in the store.
    pub max_queued: usize,
    /// Events of a room that one sync brings, at most.
    pub sync_events: u32,
    /// Events of a room that are fetched when the sync left some out, at most.
    pub max_gap_events: usize,
    /// A room is told of a message whose key has not come after this time.
    pub unreadable_after: Duration,
}

impl Inbox {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut inbox = reader.table("inbox");
        Ok(Self {
            answer_within: inbox.get("answer_within_seconds")?.seconds(1..=2_592_000)?,
            max_queued: inbox.get("max_queued")?.whole(1..=100_000)?,
            sync_events: inbox.get("sync_events")?.whole(1..=1000)?,
            max_gap_events: inbox.get("max_gap_events")?.whole(0..=100_000)?,
            unreadable_after: inbox.get("unreadable_after_seconds")?.seconds(1..=3600)?,
        })
    }
}

/// `[store]`: how long things are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// What was received and sent.
    pub keep_events: Duration,
    /// What was said.
    pub keep_transcript: Duration,
}

impl Store {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut store = reader.table("store");
        Ok(Self {
            keep_events: store.get("keep_events_days")?.days(1..=3650)?,
            keep_transcript: store.get("keep_transcript_days")?.days(1..=3650)?,
        })
    }
}

/// `[http]`: what is told over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Where health is told; nowhere without it.
    pub listen: Option<SocketAddr>,
}

impl Http {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut http = reader.table("http");
        Ok(Self { listen: http.find("listen").map(|found| found.address()).transpose()? })
    }
}
