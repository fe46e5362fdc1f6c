//! Puts the house together and runs it.

mod agent;
mod appservice;
pub(crate) mod models;
pub(crate) mod open;
mod registration;
mod verify;

use std::{
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use matrix_link::{Rooms, SyncError, SyncState};
use tokio::sync::watch;

use self::agent::{Agent, Commons, Hears, Left};
use crate::{
    config::{self, Config, Mode},
    http::{Endpoint, Sources},
    observe::Health,
    state_dir::StateDir,
    store::Store,
};

/// How often what is kept long enough is looked for.
const FORGET_EVERY: Duration = Duration::from_secs(3600);

pub use registration::register;
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

/// Runs what the configuration describes until it is told to end (Ctrl-C, SIGTERM), or its session is to be opened anew.
///
/// Prints a line that begins with `ready:` on standard output when it can be talked to.
///
/// # Errors
/// When it can't start, or the homeserver has ended its session.
pub async fn run(config: Config, start: Start) -> anyhow::Result<Ended> {
    match config.mode {
        Mode::Bot => bot(config, start).await,
        Mode::Appservice => appservice::run(config, start).await.map(|()| Ended::AsTold),
    }
}

/// One agent, with an account of its own.
async fn bot(config: Config, start: Start) -> anyhow::Result<Ended> {
    let held = StateDir::open(&config.matrix.state_dir)?;
    let store = open::store(&config, &held).await?;
    let commons = Commons::new(&config, &store);
    let health = commons.health.clone();
    let models = models::build(&config.model, &store, &health)?;
    let link = Arc::new(open::link(&config, &store, start, None).await?);
    let mut agent = Agent::new(&config, link.clone(), store.clone(), models, commons, Hears::FromNow);
    let outbox = agent.outbox.clone();
    let unsent = Arc::new(move || outbox.waiting());
    let sources = Sources { health: health.clone(), store: store.clone(), unsent };
    let endpoint = listen(&config.http).await?;

    writeln!(io::stdout(), "ready: {}", link.user_id())?;
    tokio::select! {
        served = serve(endpoint, sources) => served.context("http.listen").map(|()| Ended::AsTold),
        ended = agent.run() => match ended {
            Left::Sync(reason) if reason.begin_anew() => Ok(Ended::BeginAnew(reason.into())),
            Left::Sync(reason) => Err(advise(reason)),
            Left::Other(reason) => Err(anyhow!(reason)),
        },
        () = follow(link.sync_state(), &health) => Ok(Ended::AsTold),
        () = forget(&store, &config.store) => Ok(Ended::AsTold),
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

/// Listens for those who ask about health and figures, where the operator wants that.
async fn listen(config: &config::Http) -> anyhow::Result<Option<Endpoint>> {
    match config.listen {
        Some(listen) => Ok(Some(Endpoint::open(listen).await.context("http.listen")?)),
        None => Ok(None),
    }
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
