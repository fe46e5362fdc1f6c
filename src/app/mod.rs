//! Puts the house together and runs it.

mod models;

use std::{
    io::{self, Write},
    sync::Arc,
};

use anyhow::Context;
use async_trait::async_trait;
use matrix_link::{
    Account, Batch, Credentials, Link, OpenError, Rooms, Sink, SinkError, TrustReport, private_dir, read_or_create_key,
};
use tokio::sync::Semaphore;

use crate::{
    clock::SystemClock,
    config::{self, Config},
    conversation::{Hub, Settings, Shared},
    http::{self, Sources},
    inbox::Inbox,
    observe::Health,
    outbox::Outbox,
    store::Store,
    tools::{Now, Toolbox},
    turn::Typing,
};

/// Runs the agent until it is told to end (Ctrl-C, SIGTERM).
///
/// Prints a line that begins with `ready:` on standard output when it can be talked to.
///
/// # Errors
/// When it can't start, or the homeserver has ended its session.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let state_dir = &config.matrix.state_dir;
    private_dir(state_dir).with_context(|| format!("state folder {}", state_dir.display()))?;
    let key = read_or_create_key(&state_dir.join("store.key")).context("store.key")?;
    let store = Store::open(&state_dir.join("waybread.sqlite3"), &config.matrix.user, &key)
        .await
        .with_context(|| format!("store in {}", state_dir.display()))?;
    let health = Health::new();
    let models = models::build(&config.model, &store, &health)?;
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

    let received = Watched { inbox: inbox.clone(), health: health.clone() };
    let sources = Sources { health, store, outbox: outbox.clone() };

    writeln!(io::stdout(), "ready: {}", link.user_id())?;
    tokio::select! {
        served = http::serve(config.http.listen, sources) => served.context("http.listen"),
        ended = link.run_sync(&received) => Err(ended.err().map_or_else(|| anyhow::anyhow!("sync ended"), Into::into)),
        () = async {
            outbox.taken_up().await;
            inbox.run(&mut hub).await;
        } => Ok(()),
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
}

fn account(config: &Config) -> Account {
    let config::Matrix { homeserver, user, password, access_token, device_name, state_dir } = config.matrix.clone();
    Account {
        homeserver: homeserver.to_string(),
        user,
        credentials: access_token.map(Credentials::Token).or(password.map(Credentials::Password)),
        device_name,
        state_dir,
        trust: config.access.trust,
        access: config.access.allow.clone(),
    }
}

fn settings(config: &Config) -> Settings {
    let Config { access, agent, model, turn, draft, outbox, inbox, .. } = config.clone();
    Settings { access, agent, model, turn, draft, outbox, inbox }
}

/// Says what the operator can do about a session that does not open.
fn explain(error: OpenError, config: &Config) -> anyhow::Error {
    let advice = match &error {
        OpenError::NoCredentials(_) => "write the account's password into the file that matrix.password_file names \
                                        (chmod 600), or set WAYBREAD_MATRIX_PASSWORD"
            .to_owned(),
        OpenError::Forbidden(user) => format!("check matrix.user ({user}) and its password or token"),
        OpenError::Unreachable { .. } => {
            format!("check matrix.homeserver ({}) and whether it runs", config.matrix.homeserver)
        }
        _ => return error.into(),
    };
    anyhow::anyhow!("{:#}; {advice}", anyhow::Error::new(error))
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
