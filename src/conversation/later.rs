//! Turns that the agent has set itself: the tool `later`, and how they begin when they are due.
//!
//! Nobody attends such a turn ([`Origin::Unattended`]). It stays in the store until it has ended, so a crash in the middle
//! begins it anew; what has become due while the agent was away begins at the next start.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::SignedDuration;
use ruma::OwnedEventId;
use serde_json::{Map, Value, json};

use super::{Hub, Input, Key, Prompt, Receipt, Shared};
use crate::{
    config::Switch,
    model::{Example, ToolSpec},
    rich::Here,
    store::{Call, Later, NewLater, StoreError},
    tools::{Origin, Output, Run, Tool},
};

/// How far ahead a turn may be set, in seconds.
const MIN_SECONDS: i64 = 30;
const MAX_SECONDS: i64 = 86_400;
/// When a turn is tried again whose conversation was full.
const TRY_AGAIN: Duration = Duration::from_secs(10);
/// Characters of a note.
const MAX_NOTE: usize = 1000;

/// The tool, for one conversation; None where the operator wants none.
pub(super) fn tool(shared: &Arc<Shared>, here: &Here) -> Option<Arc<dyn Tool>> {
    (shared.settings.later.tool == Switch::On)
        .then(|| Arc::new(SetLater { shared: shared.clone(), here: here.clone() }) as Arc<dyn Tool>)
}

struct SetLater {
    shared: Arc<Shared>,
    here: Here,
}

impl SetLater {
    async fn set(&self, seconds: i64, note: &str) -> Result<Output, StoreError> {
        let call = Call { origin: self.here.origin.clone(), arguments: format!("later {seconds} {note}") };
        let later = NewLater {
            room: self.here.room.clone(),
            thread: self.here.thread.clone(),
            person: self.here.person.clone(),
            note: note.to_owned(),
            due_at: self.shared.clock.now() + SignedDuration::from_secs(seconds),
        };
        let max = self.shared.settings.later.max_open;
        Ok(match self.shared.store.add_later(&later, &call, max).await? {
            Some(id) => {
                self.shared.set_later.notify_one();
                Output::new(format!("Set as number {id}: you get a turn in {seconds} s, with your note."))
            }
            None => Output::refusal(format!("there are {max} turns to come here already; wait until one is over")),
        })
    }
}

#[async_trait]
impl Tool for SetLater {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "later".into(),
            description:
                "Gives you a turn of your own in this chat after some time, to look again, remind, or update a \
                          message. Only your note tells you then what to do."
                    .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "seconds": {"type": "integer", "minimum": MIN_SECONDS, "maximum": MAX_SECONDS,
                        "description": "how long from now"},
                    "note": {"type": "string", "minLength": 1, "maxLength": MAX_NOTE,
                        "description": "what to do then, in full"},
                },
                "required": ["seconds", "note"],
                "additionalProperties": false,
            }),
            cases: Vec::new(),
            example: Some(Example {
                ask: "Remind me of the tea in three minutes.".into(),
                arguments: Map::from_iter([
                    ("seconds".into(), 180.into()),
                    ("note".into(), "Tell alice that the tea is ready.".into()),
                ]),
                result: "Set as number 4: you get a turn in 180 s, with your note.".into(),
                reply: "I'll remind you in three minutes.".into(),
            }),
        }
    }

    async fn run(&self, arguments: Value, _origin: &Origin) -> Run {
        let seconds = arguments["seconds"].as_i64().unwrap_or(MIN_SECONDS);
        let note = arguments["note"].as_str().unwrap_or_default();
        let output = self.set(seconds, note).await.unwrap_or_else(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "turn for later not kept");
            Output::refusal("it could not be written down; say so to the person")
        });
        output.into()
    }
}

impl Hub {
    /// Begins the turns that are due, each once; takes away those that have ended. Gives the time until the next.
    ///
    /// # Errors
    /// When the store fails; then it is to be called again.
    pub async fn begin_due(&mut self) -> Result<Option<Duration>, StoreError> {
        while let Ok(id) = self.ended_later.1.try_recv() {
            self.over_later.insert(id);
        }
        while let Some(id) = self.over_later.first().copied() {
            self.shared.store.remove_later(id).await?;
            self.over_later.remove(&id);
        }
        let now = self.shared.clock.now();
        let (due, next) = self.shared.store.due_laters(now).await?;
        self.begun_later.retain(|id| due.iter().any(|one| one.id == *id));
        let mut next = next.map(|next| now.duration_until(next).unsigned_abs());
        for one in due {
            let id = one.id;
            if self.begun_later.contains(&id) {
                continue;
            }
            if self.begin_later(one).await? {
                self.begun_later.insert(id);
            } else {
                next = Some(next.map_or(TRY_AGAIN, |next| next.min(TRY_AGAIN)));
            }
        }
        Ok(next)
    }

    /// Waits until a turn was set or has ended: then [`Self::begin_due`] is to be called again.
    pub async fn laters_changed(&self) {
        self.shared.set_later.notified().await;
    }

    /// Begins one; says whether its conversation could take it.
    async fn begin_later(&mut self, Later { id, later }: Later) -> Result<bool, StoreError> {
        if !self.shared.settings.access.allow.allows(&later.person) {
            tracing::warn!(room = %later.room, person = %later.person, "turn for later left out: no longer in access.allow");
            self.shared.store.remove_later(id).await?;
            return Ok(true);
        }
        tracing::info!(room = %later.room, id, "a turn that was set for later begins");
        let prompt = Prompt {
            handle: self.shared.store.newest_handle(&later.room).await?,
            event: name_of(id),
            about: None,
            direct: self.shared.rooms.is_direct(&later.room).await,
            person: later.person,
            text: later.note,
            expired: false,
            origin: Origin::Unattended { why: "later".to_owned() },
        };
        let (ended, shared) = (self.ended_later.0.clone(), self.shared.clone());
        let receipt = Receipt::new(move || {
            // Nobody hears it when the process ends: then the turn begins anew at the next start.
            let _ = ended.send(id);
            shared.set_later.notify_one();
        });
        let taken = self.hand(&Key { room: later.room, thread: later.thread }, Input::Prompt(prompt), &receipt).is_ok();
        if !taken {
            // It stays in the store, and is tried again.
            receipt.void();
        }
        Ok(taken)
    }
}

/// What the turn is known by where others have an event: never sent anywhere.
fn name_of(id: i64) -> OwnedEventId {
    OwnedEventId::try_from(format!("$later-{id}")).unwrap_or_else(|_| unreachable!("it begins with a dollar sign"))
}
