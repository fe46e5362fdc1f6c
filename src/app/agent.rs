//! One agent, from its session to its answers: the rooms of the house, put together.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use matrix_link::{Batch, Confirm, Event, EventKind, Link, Sink, SinkError, SyncError, Trust, Undecrypted};
use ruma::{OwnedEventId, RoomId};
use tokio::sync::{Mutex, Notify, Semaphore};

use crate::{
    clock::SystemClock,
    config::Config,
    conversation::{Hub, NamedModel, Settings, Shared},
    inbox::Inbox,
    observe::{Health, metrics},
    outbox::Outbox,
    phone::Phones,
    rich::Desk,
    store::{Store, StoreError},
    tools::{Now, Toolbox},
    turn::Typing,
};

/// An agent with an open session; nothing happens before [`Agent::run`].
pub(super) struct Agent {
    link: Arc<Link>,
    pub(super) inbox: Inbox,
    received: Watched,
    hub: Hub,
    pub(super) outbox: Outbox,
    phones: Phones,
    confirm: Confirm<'static>,
}

/// Since when what people say reaches the agent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hears {
    /// Since its session is open: what the first round of sync brings was said before.
    FromNow,
    /// Since this time, when the homeserver began to push it here and to ring for what sync is to bring.
    Since(Timestamp),
}

/// Why an agent has ended by itself.
pub(super) enum Left {
    /// Its session is over, or to be opened anew.
    Sync(SyncError),
    /// Something that never ends has ended.
    Other(&'static str),
}

impl Agent {
    /// Puts an agent together. `places` has one for each turn that may run at once in this process.
    pub(super) fn new(
        config: &Config,
        link: Arc<Link>,
        store: Store,
        models: Vec<NamedModel>,
        health: Health,
        places: Arc<Semaphore>,
        hears: Hears,
    ) -> Self {
        let clock = Arc::new(SystemClock);
        let outbox = Outbox::new(link.clone(), store.clone(), &config.outbox, &config.draft);
        let rich =
            Desk::new(outbox.clone(), store.clone(), link.clone(), config.rich.clone(), config.outbox.max_event_bytes);
        let phones = Phones::new(store.clone(), outbox.clone(), link.clone(), clock.clone(), config.phone.clone());
        let shared = Arc::new(Shared {
            rich,
            phones: phones.clone(),
            set_later: Notify::new(),
            typing: Typing::new(link.clone()),
            rooms: link.clone(),
            outbox: outbox.clone(),
            store: store.clone(),
            models,
            tools: Toolbox::new(vec![Arc::new(Now::new(clock.clone(), config.agent.time_zone.clone()))]),
            clock,
            places,
            settings: settings(config),
        });
        let inbox = Inbox::new(store.clone(), config.inbox.max_queued);
        let (hub, inbox, bell) = match hears {
            Hears::FromNow => (Hub::new(shared), inbox, None),
            Hears::Since(time) => {
                let bell = Bell { store, before: Mutex::new(0) };
                (Hub::since(shared, time), inbox.without_backlog(), Some(bell))
            }
        };
        let confirm = match config.access.trust {
            Trust::Any | Trust::CrossSigned => Confirm::Unseen,
            Trust::Verified => Confirm::Never,
        };
        let received = Watched { inbox: inbox.clone(), health, bell };
        Self { link, inbox, received, hub, outbox, phones, confirm }
    }

    /// Receives, answers and sends, for as long as the session is good.
    pub(super) async fn run(&mut self) -> Left {
        let Self { link, inbox, received, hub, outbox, phones, confirm } = self;
        phones.resume().await;
        if let Some(bell) = &received.bell
            && let Err(error) = bell.round_begins().await
        {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "what has rung can't be read: answered a round later"
            );
        }
        tokio::select! {
            ended = link.run_sync(received) => match ended {
                Err(reason) => Left::Sync(reason),
                Ok(()) => Left::Other("sync ended"),
            },
            () = link.answer_verifications(confirm) => Left::Other("no verification can be answered any more"),
            () = inbox.run(hub) => Left::Other("the inbox ended"),
            () = link.run_late_keys(received) => Left::Other("no late key can be followed any more"),
            () = outbox.run() => Left::Other("the outbox ended"),
        }
    }
}

fn settings(config: &Config) -> Settings {
    let Config { access, agent, model, turn, draft, outbox, inbox, later, rich, .. } = config.clone();
    Settings { access, agent, model, turn, draft, outbox, inbox, later, rich }
}

/// The inbox, watched by health.
struct Watched {
    inbox: Inbox,
    health: Health,
    /// For an agent whose homeserver rings.
    bell: Option<Bell>,
}

/// What has rung before the round of sync that is under way: it is answered when the round has come to its end.
struct Bell {
    store: Store,
    before: Mutex<i64>,
}

impl Bell {
    async fn round_begins(&self) -> Result<(), StoreError> {
        *self.before.lock().await = self.store.newest_bell().await?;
        Ok(())
    }

    async fn round_ends(&self, brought: &[Event]) -> Result<(), StoreError> {
        self.store.bells_answered(*self.before.lock().await, brought).await?;
        self.round_begins().await
    }
}

#[async_trait]
impl Sink for Watched {
    async fn commit(&self, batch: &Batch) -> Result<(), SinkError> {
        self.inbox.commit(batch).await?;
        if let Some(bell) = &self.bell {
            bell.round_ends(&batch.events).await.map_err(|error| SinkError(Box::new(error)))?;
        }
        self.health.synced();
        for event in &batch.events {
            if let EventKind::Undecryptable { session } = &event.kind {
                metrics::undecryptable(if session.is_some() { "no_key" } else { "malformed" });
                self.health.undecryptable(&event.id);
            }
        }
        Ok(())
    }

    async fn kept(&self, room: &RoomId, events: &[OwnedEventId]) -> Result<Option<BTreeSet<OwnedEventId>>, SinkError> {
        self.inbox.kept(room, events).await
    }

    async fn undecrypted(&self, session: Option<&str>, limit: u32) -> Result<Vec<Undecrypted>, SinkError> {
        self.inbox.undecrypted(session, limit).await
    }

    async fn decrypted(&self, event: &Event) -> Result<(), SinkError> {
        self.inbox.decrypted(event).await?;
        metrics::decrypted_late();
        self.health.decrypted(&event.id);
        Ok(())
    }
}
