//! Many agents on one homeserver, which pushes what happens.
//!
//! The homeserver tells all agents at once, by transactions ([`intake`]). An agent is opened when there is something for
//! it, and closed when it has been idle for a while ([`agents`]): what it has to do stands in the store that all share.
//!
//! What a transaction says in clear is handled from there. What is encrypted only the agent's own sync can bring, with the
//! keys for it: then the transaction is its bell.

mod agents;
mod avatar;
mod intake;

use std::{
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use matrix_link::Appservice;
use secrecy::SecretString;
use tokio::time::interval;

use self::agents::Agents;
use super::{Start, agent::Commons, forget, listen, open, serve, told_to_end};
use crate::{
    config::{Config, Token},
    http::{
        Sources,
        push::{Guard, PushEndpoint},
    },
    observe::Health,
    state_dir::StateDir,
};

/// How often the homeserver is asked whether it reaches us. It then also sends at once what it could not before.
const PING_EVERY: Duration = Duration::from_secs(60);

/// Runs the appservice until it is told to end.
pub(super) async fn run(config: Config, start: Start) -> anyhow::Result<()> {
    if start.new_device {
        bail!("--new-device is for an agent with a password: an appservice makes its agents' devices by itself");
    }
    let as_token = known(&config.appservice.as_token, "as_token")?;
    let hs_token = known(&config.appservice.hs_token, "hs_token")?;
    let held = StateDir::open(&config.matrix.state_dir)?;
    let store = open::store(&config, &held).await?;
    let commons = Commons::new(&config, &store);
    let health = commons.health.clone();
    let devices = config.appservice.devices;
    let appservice =
        Appservice::open(config.matrix.homeserver.as_str(), as_token, devices).await.context("no way out")?;
    let pushed = PushEndpoint::open(config.appservice.listen).await.context("appservice.listen")?;
    let endpoint = listen(&config.http).await?;
    let keep = config.store.clone();
    let guard = Guard { token: hs_token, in_address: config.appservice.token_in_address };
    let id = config.appservice.id.clone();
    let count = config.agents.len();
    let agents = Agents::new(config, store.clone(), appservice.clone(), commons, start);
    let unsent = Arc::new({
        let agents = agents.clone();
        move || agents.unsent()
    });
    let sources = Sources { health: health.clone(), store: store.clone(), unsent };

    agents.wake_those_at_work().await?;
    writeln!(io::stdout(), "ready: appservice {id} with {count} agents")?;
    tokio::select! {
        served = pushed.serve(guard, Arc::new(agents)) => served.context("appservice.listen"),
        served = serve(endpoint, sources) => served.context("http.listen"),
        () = ping(&appservice, &id, &health) => Ok(()),
        () = forget(&store, &keep) => Ok(()),
        () = told_to_end() => {
            tracing::info!("told to end");
            Ok(())
        }
    }
}

fn known(token: &Token, name: &str) -> anyhow::Result<SecretString> {
    let missing = || anyhow!("no appservice.{name} in {}: make it by `waybread registration`", token.file.display());
    token.secret.clone().ok_or_else(missing)
}

/// Finds out again and again whether both directions work.
async fn ping(appservice: &Appservice, id: &str, health: &Health) {
    let mut tick = interval(PING_EVERY);
    loop {
        tick.tick().await;
        match appservice.ping(id).await {
            Ok(took) => {
                tracing::debug!(?took, "the homeserver reaches us");
                health.synced();
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the homeserver and we don't reach each other"
                );
            }
        }
    }
}
