//! Puts the house together and runs it.

pub(crate) mod models;
pub(crate) mod open;
mod verify;

use std::{
    collections::BTreeSet,
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use async_trait::async_trait;
use matrix_link::{Batch, Confirm, Event, EventKind, Rooms, Sink, SinkError, SyncError, SyncState, Trust, Undecrypted};
use ruma::{OwnedEventId, RoomId};
use tokio::sync::{Notify, Semaphore, watch};

use crate::{
    clock::SystemClock,
    config::{self, Config},
    conversation::{Hub, Settings, Shared},
    http::{Endpoint, Sources, forms::Forms},
    inbox::Inbox,
    observe::{Guard, Health, metrics},
    outbox::Outbox,
    phone::Phones,
    rich::Desk,
    room_commands::{self, Commands},
    state_dir::StateDir,
    store::Store,
    tools::{Now, Toolbox},
    turn::Typing,
};

/// How often what is kept long enough is looked for.
const FORGET_EVERY: Duration = Duration::from_secs(3600);

pub use verify::verify;

/// What the operator asks for at one start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Start {
    /// Replace the account's cross-signing identity.
    pub reset_identity: bool,
    /// Log in as a new device.
    pub new_device: bool,
}

/// Why the agent has ended.
#[derive(Debug)]
pub enum Ended {
    /// It was told to.
    AsTold,
    /// Its session is to be opened anew, for this reason.
    BeginAnew(anyhow::Error),
}

/// Runs the agent until it is told to end (Ctrl-C, SIGTERM), or its session is to be opened anew.
///
/// Prints a line that begins with `ready:` on standard output when it can be talked to.
///
/// # Errors
/// When it can't start, or the homeserver has ended its session.
pub async fn run(config: Config, start: Start) -> anyhow::Result<Ended> {
    let held = StateDir::open(&config.matrix.state_dir)?;
    let store = open::store(&config, &held).await?;
    let health = Health::new();
    let models = models::build(&config.model, &store, &health)?;
    let link = open::link(&config, &store, start).await?;

    let link = Arc::new(link);
    let clock = Arc::new(SystemClock);
    let outbox = Outbox::new(link.clone(), store.clone(), &config.outbox, &config.draft);
    let rich =
        Desk::new(outbox.clone(), store.clone(), link.clone(), config.rich.clone(), config.outbox.max_event_bytes);
    let phones = Phones::new(store.clone(), outbox.clone(), link.clone(), clock.clone(), config.phone.clone());
    Guard::of_process().set_patterns(config.secrets.redact.clone());
    let forms = Forms::new(store.clone(), clock.clone(), config.forms.clone());
    let needs = room_commands::Needs {
        store: store.clone(),
        outbox: outbox.clone(),
        rooms: link.clone(),
        clock: clock.clone(),
        desk: rich.clone(),
        forms,
    };
    let commands = Commands::new(needs, room_commands::Settings::of(&config));
    let shared = Shared {
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
        places: Semaphore::new(config.turn.max_concurrent),
        settings: settings(&config),
    };
    let mut hub = Hub::new(Arc::new(shared));
    let inbox = Inbox::new(store.clone(), config.inbox.max_queued);

    let received = Watched { inbox: inbox.clone(), health: health.clone() };
    let sources = Sources { health: health.clone(), store: store.clone(), outbox: outbox.clone() };

    let endpoint = match config.http.listen {
        Some(listen) => Some(Endpoint::open(listen).await.context("http.listen")?),
        None => None,
    };

    writeln!(io::stdout(), "ready: {}", link.user_id())?;
    phones.resume().await;
    commands.resume().await;
    let confirm = match config.access.trust {
        Trust::Any | Trust::CrossSigned => Confirm::Unseen,
        Trust::Verified => Confirm::Never,
    };
    tokio::select! {
        served = serve(endpoint, sources) => served.context("http.listen").map(|()| Ended::AsTold),
        ended = link.run_sync(&received) => match ended {
            Err(reason) if reason.begin_anew() => Ok(Ended::BeginAnew(reason.into())),
            Err(reason) => Err(advise(reason)),
            Ok(()) => Err(anyhow!("sync ended")),
        },
        () = link.answer_verifications(&confirm) => Err(anyhow!("no verification can be answered any more")),
        () = inbox.run(&mut hub) => Ok(Ended::AsTold),
        () = link.run_late_keys(&received) => Ok(Ended::AsTold),
        () = follow(link.sync_state(), &health) => Ok(Ended::AsTold),
        () = forget(&store, &config.store) => Ok(Ended::AsTold),
        () = outbox.run() => Ok(Ended::AsTold),
        () = told_to_end() => {
            tracing::info!("told to end");
            Ok(Ended::AsTold)
        }
    }
}

/// Says what the operator can do about a session that has ended.
fn advise(reason: SyncError) -> anyhow::Error {
    let advice = match &reason {
        SyncError::LoggedOut(_) | SyncError::StoreLost => open::NEW_DEVICE,
        SyncError::NoPassword(_) => "give the password and start again",
        _ => return reason.into(),
    };
    anyhow!("{:#}; {advice}", anyhow::Error::new(reason))
}

/// The inbox, watched by health.
struct Watched {
    inbox: Inbox,
    health: Health,
}

#[async_trait]
impl Sink for Watched {
    async fn commit(&self, batch: &Batch) -> Result<(), SinkError> {
        self.inbox.commit(batch).await?;
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

fn settings(config: &Config) -> Settings {
    let Config { access, agent, model, turn, draft, outbox, inbox, later, rich, .. } = config.clone();
    Settings { access, agent, model, turn, draft, outbox, inbox, later, rich }
}

/// Tells what there is to tell over HTTP, where the operator wants that.
async fn serve(endpoint: Option<Endpoint>, sources: Sources) -> io::Result<()> {
    match endpoint {
        Some(endpoint) => endpoint.serve(sources).await,
        None => std::future::pending().await,
    }
}

/// Lets health know how the sync stands.
async fn follow(mut state: watch::Receiver<SyncState>, health: &Health) {
    loop {
        health.sync_state(*state.borrow_and_update());
        if state.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Forgets what is kept long enough, from time to time.
async fn forget(store: &Store, keep: &config::Store) {
    let mut tick = tokio::time::interval(FORGET_EVERY);
    loop {
        tick.tick().await;
        match store.forget_old(keep).await {
            Ok(0) => {}
            Ok(forgotten) => tracing::info!(forgotten, "old events and words forgotten"),
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "old words not forgotten"),
        }
    }
}

async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}
