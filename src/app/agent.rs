//! One agent, from its session to its answers: the rooms of the house, put together.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use matrix_link::{Batch, Confirm, Event, EventKind, Link, Rooms, Sink, SinkError, SyncError, Trust, Undecrypted};
use ruma::{OwnedEventId, RoomId};
use tokio::{
    sync::{Mutex, Notify, Semaphore, watch},
    time::{Instant, timeout},
};

use crate::{
    clock::SystemClock,
    config::Config,
    conversation::{BotTurns, Hub, NamedModel, Settings, Shared},
    http::forms::Forms,
    inbox::Inbox,
    observe::{Guard, Health, metrics},
    outbox::Outbox,
    phone::Phones,
    rich::Desk,
    room_commands::{self, Commands},
    store::{Store, StoreError},
    tools::{Now, Toolbox},
    turn::Typing,
};

/// How long an agent whose homeserver rings listens after a bell: what belongs to it comes a moment later.
const LISTEN_FOR: Duration = Duration::from_secs(30);
/// How often one that does not listen looks whether it has something to do, at least.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// An agent with an open session; nothing happens before [`Agent::run`].
pub(super) struct Agent {
    link: Arc<Link>,
    pub(super) inbox: Inbox,
    received: Watched,
    hub: Hub,
    pub(super) outbox: Outbox,
    phones: Phones,
    commands: Commands,
    confirm: Confirm<'static>,
}

/// What the agents of a process share. A handle: clones share it.
#[derive(Clone)]
pub(super) struct Commons {
    /// Whether they are well.
    pub health: Health,
    /// One for each turn that may run at once.
    pub places: Arc<Semaphore>,
    /// The turns that bots have caused.
    pub bots: BotTurns,
    /// Where forms are served.
    pub forms: Forms,
}

impl Commons {
    pub(super) fn new(config: &Config, store: &Store) -> Self {
        let places = Arc::new(Semaphore::new(config.turn.max_concurrent));
        let forms = Forms::new(store.clone(), Arc::new(SystemClock), config.forms.clone());
        Guard::of_process().set_patterns(config.secrets.redact.clone());
        Self { health: Health::new(), places, bots: BotTurns::default(), forms }
    }
}

/// Since when what people say reaches the agent.
#[derive(Debug)]
pub(super) enum Hears {
    /// Since its session is open: what the first round of sync brings was said before.
    FromNow,
    /// Since the homeserver pushes it here, and rings for what sync is to bring.
    Rung {
        /// When that began.
        since: Timestamp,
        /// When it has last rung.
        rung_at: watch::Receiver<Instant>,
    },
}

/// Why an agent has ended by itself.
pub(super) enum Left {
    /// Its session is over, or to be opened anew.
    Sync(SyncError),
    /// Something that never ends has ended.
    Other(&'static str),
}

impl Agent {
    /// Puts an agent together.
    pub(super) fn new(
        config: &Config,
        link: Arc<Link>,
        store: Store,
        models: Vec<NamedModel>,
        commons: Commons,
        hears: Hears,
    ) -> Self {
        let Commons { health, places, bots, forms } = commons;
        let clock = Arc::new(SystemClock);
        let outbox = Outbox::new(link.clone(), store.clone(), &config.outbox, &config.draft);
        let rich =
            Desk::new(outbox.clone(), store.clone(), link.clone(), config.rich.clone(), config.outbox.max_event_bytes);
        let phones = Phones::new(store.clone(), outbox.clone(), link.clone(), clock.clone(), config.phone.clone());
        let needs = room_commands::Needs {
            store: store.clone(),
            outbox: outbox.clone(),
            rooms: link.clone(),
            clock: clock.clone(),
            desk: rich.clone(),
            forms: forms.of(link.user_id()),
        };
        let commands = Commands::new(needs, room_commands::Settings::of(config));
        let shared = Arc::new(Shared {
            rich,
            commands: commands.clone(),
            phones: phones.clone(),
            set_later: Notify::new(),
            typing: Typing::new(link.clone()),
            rooms: link.clone(),
            outbox: outbox.clone(),
            store: store.clone(),
            models,
            tools: Toolbox::new(vec![Arc::new(Now::new(clock.clone(), config.agent.time_zone.clone()))]),
            clock,
            bots,
            places,
            settings: settings(config),
        });
        let inbox = Inbox::new(store.clone(), config.inbox.max_queued);
        let (hub, inbox, bell) = match hears {
            Hears::FromNow => (Hub::new(shared), inbox, None),
            Hears::Rung { since, rung_at } => {
                let bell = Bell { store, before: Mutex::new(0), rung_at };
                (Hub::since(shared, since), inbox.without_backlog(), Some(bell))
            }
        };
        let confirm = match config.access.trust {
            Trust::Any | Trust::CrossSigned => Confirm::Unseen,
            Trust::Verified => Confirm::Never,
        };
        let received = Watched { inbox: inbox.clone(), health, bell };
        Self { link, inbox, received, hub, outbox, phones, commands, confirm }
    }

    /// Receives, answers and sends, for as long as the session is good.
    pub(super) async fn run(&mut self) -> Left {
        let Self { link, inbox, received, hub, outbox, phones, commands, confirm } = self;
        phones.resume().await;
        commands.resume().await;
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
    let Config { access, agent, colleagues, model, turn, draft, outbox, inbox, later, rich, .. } = config.clone();
    Settings { access, agent, colleagues, model, turn, draft, outbox, inbox, later, rich }
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
    rung_at: watch::Receiver<Instant>,
}

impl Bell {
    /// Waits until sync may have something to bring: when it has rung lately, or something is under way that sync may bring
    /// more of, such as a key.
    async fn until_rung(&self) -> Result<(), StoreError> {
        let mut rung_at = self.rung_at.clone();
        loop {
            let has_rung = rung_at.borrow_and_update().elapsed() < LISTEN_FOR;
            if has_rung || self.store.is_at_work().await? {
                break;
            }
            tracing::debug!("sync rests");
            // Nobody rings any more when the process ends.
            if let Ok(Err(_)) = timeout(LOOK_EVERY, rung_at.changed()).await {
                return std::future::pending().await;
            }
        }
        *self.before.lock().await = self.store.newest_bell().await?;
        Ok(())
    }

    async fn round_ends(&self, brought: &[Event]) -> Result<(), StoreError> {
        self.store.bells_answered(*self.before.lock().await, brought).await
    }
}

#[async_trait]
impl Sink for Watched {
    async fn until_worth(&self) {
        if let Some(bell) = &self.bell
            && let Err(error) = bell.until_rung().await
        {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "what has rung can't be read: asked for all the same"
            );
        }
    }

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use ruma::{owned_room_id, owned_user_id, user_id};

    use super::*;
    use crate::store::Pushed;

    /// No time in which a store answers.
    const MOMENT: Duration = Duration::from_millis(300);

    #[tokio::test]
    async fn sync_rests_while_nothing_has_rung_lately_and_nothing_is_to_be_done() {
        let agent = owned_user_id!("@cook:example.org");
        let store = Store::in_memory(user_id!("@appservice:example.org")).await.unwrap();
        let long_ago = || Instant::now().checked_sub(LISTEN_FOR).unwrap();
        let (rung_at, heard) = watch::channel(Instant::now());
        let bell = Bell { store: store.of(&agent), before: Mutex::new(0), rung_at: heard };
        bell.until_rung().await.unwrap();
        rung_at.send_replace(long_ago());
        assert!(timeout(MOMENT, bell.until_rung()).await.is_err(), "it rests");
        let (woken, ()) = tokio::join!(bell.until_rung(), async {
            rung_at.send_replace(Instant::now());
        });
        woken.unwrap();

        rung_at.send_replace(long_ago());
        let bells = BTreeMap::from([((agent, owned_room_id!("!r:example.org")), "$a".to_owned())]);
        store.take("1", &Pushed { bells, ..Pushed::default() }).await.unwrap();
        bell.until_rung().await.unwrap();
        assert_eq!(*bell.before.lock().await, bell.store.newest_bell().await.unwrap());
        bell.round_ends(&[]).await.unwrap();
        assert!(!bell.store.is_at_work().await.unwrap());
    }
}
