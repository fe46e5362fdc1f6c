//! Opens what the agent needs before it can run: its store and its session, and sees that its keys are in order.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::{Context, anyhow, bail};
use matrix_link::{
    Account, Appservice, Credentials, KeyFault, Link, OpenError, SyncLimits, Trust, TrustReport, keeps_session, log_in,
    private_dir, read_or_create_key, set_device_aside,
};

use super::Start;
use crate::{
    config::{self, Config},
    state_dir::StateDir,
    store::Store,
};

pub(crate) const NEW_DEVICE: &str =
    "start once with --new-device: the agent logs in as a new device, with the password";

/// The file of the agent's own store.
pub(crate) const STORE: &str = "waybread.sqlite3";

/// Opens the agent's own store.
pub(super) async fn store(config: &Config, held: &StateDir) -> anyhow::Result<Store> {
    let state_dir = held.path();
    let key = store_key(state_dir)?;
    Store::open(&state_dir.join(STORE), &config.matrix.user, &key)
        .await
        .with_context(|| format!("store in {}", state_dir.display()))
}

/// The key of the store in the folder. Made where there is no store yet: a new key opens nothing that is there.
pub(crate) fn store_key(state_dir: &Path) -> anyhow::Result<[u8; 32]> {
    let key = state_dir.join("store.key");
    if state_dir.join(STORE).exists() && !key.exists() {
        bail!("{} is missing: put back the one that {STORE} beside it was made with", key.display());
    }
    read_or_create_key(&key).context("store.key")
}

/// Opens the session that belongs to the store, with its keys in order as far as `access.trust` asks for it. The account
/// is a virtual user where there is an appservice.
pub(super) async fn link(
    config: &Config,
    store: &Store,
    start: Start,
    appservice: Option<&Appservice>,
) -> anyhow::Result<Link> {
    let link = session(config, store, start, appservice).await?.with_round_limit(config.matrix.sync_timeout);
    if let Some(device) = link.device_id() {
        store.bind_device(&device).await.context(NEW_DEVICE)?;
    }
    if start.reset_identity && appservice.is_none() {
        link.reset_identity().await?;
        announce_recovery_key(config)?;
    }
    let report = link.establish_trust().await;
    if report.secrets_missing && !report.device_signed {
        // Of an appservice's agents, only of those that need it.
        if start.reset_identity && appservice.is_some() {
            link.reset_identity().await?;
            announce_recovery_key(config)?;
            return Ok(link);
        }
        let file = config.matrix.state_dir.join("recovery-key");
        let state = match report.key_fault {
            Some(KeyFault::Mistyped) => {
                format!("what is in {} is no recovery key: it is mistyped, or not all of it is there", file.display())
            }
            Some(KeyFault::OfOthers) => {
                format!(
                    "the recovery key in {} is another account's, or an earlier one of this account",
                    file.display()
                )
            }
            None => format!(
                "another device of {} has made the account's cross-signing identity, and its secrets are not here, \
                 so this device can't be signed",
                config.matrix.user
            ),
        };
        let ways_out = format!(
            "write the account's recovery key into {} (chmod 600); or, if it is lost, start once with \
             --reset-identity for a new identity: people must then verify the account anew",
            file.display()
        );
        match config.access.trust {
            Trust::Any => tracing::warn!("{state}; {ways_out}"),
            Trust::CrossSigned | Trust::Verified => return Err(anyhow!("{state}; {ways_out}")),
        }
    }
    announce(&report, config)?;
    Ok(link)
}

/// The kept session, or a new device's. An appservice makes one where it must; the operator has to say so otherwise, since
/// it takes a password and one of the few logins that homeservers allow.
async fn session(
    config: &Config,
    store: &Store,
    start: Start,
    appservice: Option<&Appservice>,
) -> anyhow::Result<Link> {
    let account = account(config, appservice);
    private_dir(&account.state_dir).context("state folder")?;
    let first = appservice.is_some() && !keeps_session(&account.state_dir);
    if !start.new_device && !first {
        match Link::open(account.clone(), store.position().await?).await {
            Err(error @ OpenError::StoreLost { .. }) if appservice.is_some() => {
                tracing::warn!("{error}: a new device takes its place");
            }
            opened => return opened.map_err(|error| explain(error, config)),
        }
    }
    // The working session stays in its place until there is another one.
    let login = log_in(&account).await.map_err(|error| explain(error, config))?;
    // Before the session goes: what is left after a crash in between is the old device without a position.
    store.release_device().await?;
    if let Some(folder) = set_device_aside(&account.state_dir).context("the old session could not be put aside")? {
        writeln!(io::stdout(), "old device: kept in {}", folder.display())?;
    }
    Link::begin(account, login).await.map_err(|error| explain(error, config))
}

/// The account to open.
pub(crate) fn account(config: &Config, appservice: Option<&Appservice>) -> Account {
    let config::Matrix { homeserver, user, password, access_token, device_name, state_dir, .. } = config.matrix.clone();
    Account {
        homeserver: homeserver.to_string(),
        user,
        credentials: match appservice {
            Some(appservice) => Some(Credentials::Appservice(appservice.clone())),
            None => access_token.map(Credentials::Token).or(password.map(Credentials::Password)),
        },
        device_name,
        state_dir,
        trust: config.access.trust,
        access: config.access.allow.clone(),
        host: config.access.host.clone(),
        limits: SyncLimits { timeline_events: config.inbox.sync_events, gap_events: config.inbox.max_gap_events },
    }
}

/// Adds what the operator can do about a session that does not open.
fn explain(error: OpenError, config: &Config) -> anyhow::Error {
    match advice(&error, config, NEW_DEVICE) {
        Some(advice) => anyhow!("{:#}; {advice}", anyhow::Error::new(error)),
        None => error.into(),
    }
}

/// What the operator can do about a session that does not open, where the error does not say it itself.
pub(crate) fn advice(error: &OpenError, config: &Config, new_device: &str) -> Option<String> {
    Some(match error {
        OpenError::NoCredentials(_) => "write the account's password into the file that matrix.password_file names \
                                        (chmod 600), or set WAYBREAD_MATRIX_PASSWORD"
            .to_owned(),
        OpenError::Forbidden(user) => format!("check matrix.user ({user}) and its password or token"),
        OpenError::NoHomeserver { .. } => "check matrix.homeserver: the address of the client API itself".to_owned(),
        OpenError::Unreachable { .. } => {
            format!("check matrix.homeserver ({}) and whether it runs", config.matrix.homeserver)
        }
        OpenError::StoreLost { .. } => new_device.to_owned(),
        _ => return None,
    })
}

/// Tells the operator how the account's keys stand.
fn announce(report: &TrustReport, config: &Config) -> io::Result<()> {
    if report.new_recovery_key.is_some() {
        announce_recovery_key(config)?;
    }
    if !report.device_signed {
        tracing::warn!("this device is not signed by its account: clients may show a warning and withhold keys");
    }
    if !report.recovery {
        tracing::warn!("the account's keys can't be recovered if this machine is lost");
    }
    Ok(())
}

fn announce_recovery_key(config: &Config) -> io::Result<()> {
    writeln!(
        io::stdout(),
        "recovery key: written to {}; keep a copy in a safe place, it opens the agent's keys on another machine",
        config.matrix.state_dir.join("recovery-key").display()
    )
}
