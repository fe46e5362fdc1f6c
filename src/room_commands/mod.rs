//! Room commands: what a room allows its agent to run, and how it is run.
//!
//! Nothing can be run that no list names. A list stands in the operator's configuration or in the room's state; the former
//! may do more. The model has one tool for it, people have `!run`; both go the same way:
//!
//! - `list` reads entries and leaves out what is wrong; `confirm` lets a room's own list count once a person has said so;
//! - `check` decides whether a command may run now, by the rights of the person who asks;
//! - `chain` runs its actions in order, up to the first that fails; `actions` are what it can do;
//! - `tool` is the model's way in, [`Commands::run`] the person's.
//!
//! A form (`crate::http::forms`) takes what must not pass through the chat; `paste` catches what somebody writes there all
//! the same.

mod actions;
mod chain;
mod check;
mod confirm;
mod fields;
mod inputs;
mod list;
mod paste;
mod run;
mod template;
#[cfg(test)]
mod tests;
mod tool;

use std::{sync::Arc, time::Duration};

use ipnet::IpNet;
use jiff::{Timestamp, fmt::strtime, tz::TimeZone};
use matrix_link::{Event, Rooms};
use rand::distr::{Alphanumeric, SampleString};
use ruma::{EventId, OwnedEventId, RoomId};
use serde_json::{Map, Value};

pub use list::{Entry, EntryError, List, Listed, Scope, Source};

use crate::{
    asks::Asks,
    clock::Clock,
    config::{self, Config, Switch},
    http::forms::{FormVerdict, Forms},
    outbox::{Outbox, Place, Text},
    rich::{Desk, Here},
    store::{AskKind, Call, Store, StoreError},
    tools::Tool,
};
use actions::Web;
use chain::{Ended, Progress};
use check::Refused;
use confirm::Standing;

/// The state event that holds a room's own list.
pub const STATE_TYPE: &str = "dev.waybread.commands";
/// How long a form stays open, at least, after a start.
const BACKLOG: Duration = Duration::from_secs(30);

/// What the operator decides about room commands.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether the model is offered `room_command`.
    pub tool: Switch,
    /// Whether a room's own list counts once it is confirmed.
    pub state_lists: Switch,
    /// What the operator lists.
    pub commands: Vec<Listed>,
    /// Addresses of local networks that a webhook may call.
    pub private_addresses: Vec<IpNet>,
    /// Who is no person.
    pub access: config::Access,
    /// The zone of times that people are told.
    pub time_zone: TimeZone,
}

impl Settings {
    /// Those of a configuration.
    pub fn of(config: &Config) -> Self {
        let config::Room { tool, state_lists, private_addresses, commands } = config.room.clone();
        let (access, time_zone) = (config.access.clone(), config.agent.time_zone.clone());
        Self { tool, state_lists, commands, private_addresses, access, time_zone }
    }
}

/// What room commands need of the house. A handle: clones share it.
#[derive(Clone)]
pub struct Commands(Arc<Parts>);

/// The rooms of the house that commands work with.
pub struct Needs {
    /// What is remembered.
    pub store: Store,
    /// The way out.
    pub outbox: Outbox,
    /// Rooms and their people.
    pub rooms: Arc<dyn Rooms>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Messages with blocks.
    pub desk: Desk,
    /// One-time forms.
    pub forms: Forms,
}

struct Parts {
    store: Store,
    outbox: Outbox,
    rooms: Arc<dyn Rooms>,
    clock: Arc<dyn Clock>,
    desk: Desk,
    forms: Forms,
    asks: Asks,
    web: Web,
    settings: Settings,
    by_hand: run::Running,
}

impl Commands {
    /// The commands of an agent's rooms.
    pub fn new(needs: Needs, settings: Settings) -> Self {
        let Needs { store, outbox, rooms, clock, desk, forms } = needs;
        let asks = forms.asks().clone();
        let web = Web::new(settings.private_addresses.clone());
        let by_hand = run::Running::default();
        Self(Arc::new(Parts { store, outbox, rooms, clock, desk, forms, asks, web, settings, by_hand }))
    }

    fn parts(&self) -> &Parts {
        &self.0
    }

    /// The tool for one turn; none where the room has no list, or the operator wants none.
    pub async fn tool(&self, here: &Here) -> Option<Arc<dyn Tool>> {
        if self.0.settings.tool == Switch::Off {
            return None;
        }
        let listed = async {
            self.look(&here.room).await?;
            self.list(&here.room).await
        };
        match listed.await {
            Ok(list) => tool::RoomCommand::new(self.clone(), here.clone(), &list).map(|tool| Arc::new(tool) as _),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the room's list of commands can't be read");
                None
            }
        }
    }

    /// What can be run in a room: the operator's entries, and behind them those of the room's own list, if it is confirmed.
    /// A name of the operator's is not taken over.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list(&self, room: &RoomId) -> Result<List, StoreError> {
        let mut list = List::default();
        for listed in self.0.settings.commands.iter().filter(|one| one.is_for(room)) {
            if list.find(&listed.entry.name).is_none() {
                list.entries.push(listed.entry.clone());
            }
        }
        if self.reads_state()
            && let Standing::Confirmed(own) = self.standing(room).await?
        {
            for entry in own.list.entries {
                if list.find(&entry.name).is_none() {
                    list.entries.push(entry);
                }
            }
        }
        Ok(list)
    }

    fn reads_state(&self) -> bool {
        self.0.settings.state_lists == Switch::On
    }

    /// Looks a command up and checks that it may run now, for this person.
    async fn prepare(
        &self,
        here: &Here,
        name: &str,
        inputs: &Value,
    ) -> Result<Result<(Arc<Entry>, Map<String, Value>), Refused>, StoreError> {
        let list = self.list(&here.room).await?;
        let Some(entry) = list.find(name) else { return Ok(Err(Refused::unknown(name, &list))) };
        let inputs = match entry.inputs.check(inputs) {
            Ok(inputs) => inputs,
            Err(reason) => return Ok(Err(Refused::Inputs { command: name.to_owned(), reason })),
        };
        // What was begun goes on: its conditions held then, and it may be what has changed them.
        if self.0.store.command_run(&call_of(here, entry, &inputs)).await?.is_some() {
            return Ok(Ok((entry.clone(), inputs)));
        }
        let may = check::check(entry, here, self.0.rooms.as_ref(), &self.0.store).await?;
        Ok(may.map(|()| (entry.clone(), inputs)))
    }

    /// Runs a command that was prepared, for a turn. The same call in the same turn is run once.
    async fn carry_out(&self, entry: &Entry, here: &Here, inputs: &Map<String, Value>) -> Result<Ended, StoreError> {
        let call = call_of(here, entry, inputs);
        let kept = self.0.store.command_run(&call).await?.and_then(|kept| serde_json::from_value(kept).ok());
        chain::run(self, entry, here, inputs, &call, kept.unwrap_or_else(Progress::new)).await
    }

    /// A message of the agent's was redacted: a form whose address stood in it is taken back.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn redacted(&self, event: &Event, target: &EventId) -> Result<(), StoreError> {
        let ask = self.0.store.ask_by_event(&event.room, target).await?;
        if let Some(ask) = ask.filter(|ask| ask.kind == AskKind::Form && ask.person == event.sender) {
            self.0.asks.close(&ask.id, &FormVerdict::Withdrawn.to_value()).await?;
        }
        Ok(())
    }

    /// Goes on with what an earlier run has left open: forms, and commands that people have run by hand.
    pub async fn resume(&self) {
        let resumed = async {
            if !self.0.store.open_asks(AskKind::Form).await?.is_empty()
                && let Err(error) = self.0.forms.address().await
            {
                tracing::error!(error = &error as &dyn std::error::Error, "open forms can't be served");
            }
            actions::resume_forms(self, BACKLOG).await?;
            self.resume_runs().await
        };
        if let Err(error) = resumed.await {
            tracing::error!(error = &error as &dyn std::error::Error, "room commands of an earlier run can't be read");
        }
    }

    fn is_bot(&self, event: &Event) -> bool {
        self.0.settings.access.is_bot(&event.sender)
    }

    /// Says a service's word, and does not wait until it is there.
    fn say(&self, room: &RoomId, thread: Option<OwnedEventId>, text: &str) {
        let place = Place { thread, reply_to: None };
        let delivery = self.0.outbox.post(room.to_owned(), place).finish(&Text::notice(text));
        let room = room.to_owned();
        tokio::spawn(async move {
            if let Err(error) = delivery.await {
                tracing::warn!(%room, error = &error as &dyn std::error::Error, "notice not delivered");
            }
        });
    }

    /// How long a form is open, in words.
    fn form_time(&self) -> String {
        match self.0.forms.open_for().as_secs() {
            seconds @ 0..=119 => format!("{seconds} seconds"),
            seconds => format!("{} minutes", seconds / 60),
        }
    }

    /// A time in milliseconds, as people read it.
    fn time_of_day(&self, at: i64) -> String {
        let at = Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
        let zone = &self.0.settings.time_zone;
        let there = at.to_zoned_datetime(zone.clone());
        let text = strtime::format("%H:%M on %-d %B %Y", &there).unwrap_or_else(|_| there.to_string());
        format!("at {text} ({})", zone.iana_name().unwrap_or("UTC"))
    }
}

/// What a command of a turn is known by in the store: the same when the turn is begun anew.
fn call_of(here: &Here, entry: &Entry, inputs: &Map<String, Value>) -> Call {
    let arguments = format!("{} {} {}", tool::NAME, entry.name, Value::from(inputs.clone()));
    Call { origin: here.origin.clone(), arguments }
}

impl Progress {
    fn new() -> Self {
        Self {
            run: Alphanumeric.sample_string(&mut rand::rng(), 16),
            effects: Vec::new(),
            made: chain::Made::default(),
            begun: false,
            by_hand: None,
        }
    }
}
