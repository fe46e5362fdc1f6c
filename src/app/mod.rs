//! Puts the house together and runs it.

pub(crate) mod models;

use std::{
    collections::BTreeSet,
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use async_trait::async_trait;
use matrix_link::{
    Account, Batch, Credentials, Link, OpenError, Rooms, Sink, SinkError, SyncLimits, TrustReport, read_or_create_key,
};
use ruma::{OwnedEventId, RoomId};
use tokio::sync::Semaphore;

use crate::{
    clock::SystemClock,
    config::{self, Config},
    conversation::{Hub, Settings, Shared},
    http::{self, Health},
    inbox::Inbox,
    outbox::Outbox,
    state_dir::StateDir,
    store::Store,
    tools::{Now, Toolbox},
    turn::Typing,
};

/// How often what is kept long enough is looked for.
const FORGET_EVERY: Duration = Duration::from_secs(3600);

/// Runs the agent until it is told to end (Ctrl-C, SIGTERM).
///
/// Prints a line that begins with `ready:` on standard output when it can be talked to.
///
/// # Errors
/// When it can't start, or the homeserver has ended its session.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let held = StateDir::open(&config.matrix.state_dir)?;
    let state_dir = held.path();
    let key = read_or_create_key(&state_dir.join("store.key")).context("store.key")?;
    let store = Store::open(&state_dir.join("waybread.sqlite3"), &config.matrix.user, &key)
        .await
        .with_context(|| format!("store in {}", state_dir.display()))?;
    let models = models::build(&config.model, &store)?;
    let link = Link::open(account(&config), store.position().await?).await.map_err(|error| explain(error, &config))?;
    let report = link.establish_trust().await;
    announce(&report)?;

    let link = Arc::new(link);
    let clock = Arc::new(SystemClock);
    let outbox = Outbox::new(link.clone(), store.clone(), &config.outbox, &config.draft);
    let shared = Shared {
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

    let health = Health::new();
    let received = Watched { inbox: inbox.clone(), health: health.clone() };

    writeln!(io::stdout(), "ready: {}", link.user_id())?;
    tokio::select! {
        served = http::serve(config.http.listen, health) => served.context("http.listen"),
        ended = link.run_sync(&received) => Err(ended.err().map_or_else(|| anyhow::anyhow!("sync ended"), Into::into)),
        () = inbox.run(&mut hub) => Ok(()),
        () = link.run_late_keys(&inbox) => Ok(()),
        () = forget(&store, &config.store) => Ok(()),
        () = outbox.run() => Ok(()),
        () = told_to_end() => {
            tracing::info!("told to end");
            Ok(())
        }
    }
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
        Ok(())
    }

    async fn kept(&self, room: &RoomId, events: &[OwnedEventId]) -> Result<Option<BTreeSet<OwnedEventId>>, SinkError> {
        self.inbox.kept(room, events).await
    }
}

/// The account to open.
pub(crate) fn account(config: &Config) -> Account {
    let config::Matrix { homeserver, user, password, access_token, device_name, state_dir } = config.matrix.clone();
    Account {
        homeserver: homeserver.to_string(),
        user,
        credentials: access_token.map(Credentials::Token).or(password.map(Credentials::Password)),
        device_name,
        state_dir,
        trust: config.access.trust,
        access: config.access.allow.clone(),
        limits: SyncLimits { timeline_events: config.inbox.sync_events, gap_events: config.inbox.max_gap_events },
    }
}

fn settings(config: &Config) -> Settings {
    let Config { access, agent, model, turn, draft, outbox, inbox, .. } = config.clone();
    Settings { access, agent, model, turn, draft, outbox, inbox }
}

/// Adds what the operator can do about a session that does not open.
fn explain(error: OpenError, config: &Config) -> anyhow::Error {
    match advice(&error, config) {
        Some(advice) => anyhow::anyhow!("{:#}; {advice}", anyhow::Error::new(error)),
        None => error.into(),
    }
}

/// What the operator can do about a session that does not open, where the error does not say it itself.
pub(crate) fn advice(error: &OpenError, config: &Config) -> Option<String> {
    Some(match error {
        OpenError::NoCredentials(_) => "write the account's password into the file that matrix.password_file names \
                                        (chmod 600), or set WAYBREAD_MATRIX_PASSWORD"
            .to_owned(),
        OpenError::Forbidden(user) => format!("check matrix.user ({user}) and its password or token"),
        OpenError::Unreachable { .. } => {
            format!("check matrix.homeserver ({}) and whether it runs", config.matrix.homeserver)
        }
        _ => return None,
    })
}

/// Tells the operator how the account's keys stand.
fn announce(report: &TrustReport) -> io::Result<()> {
    if let Some(file) = &report.new_recovery_key {
        writeln!(
            io::stdout(),
            "recovery key: written to {}; keep a copy in a safe place, it opens the agent's keys on another machine",
            file.display()
        )?;
    }
    if !report.device_signed {
        tracing::warn!("this device is not signed by its account: clients may show a warning and withhold keys");
    }
    if !report.recovery {
        tracing::warn!("the account's keys can't be recovered if this machine is lost");
    }
    Ok(())
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
