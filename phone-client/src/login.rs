//! `waybread-phone login`: a new device of the person's account, verified as theirs.
//!
//! Only a device that its account has signed may get message keys from a careful agent, so a login ends with a proof that
//! it is the person's: the recovery key, or emoji compared with another device of theirs.

use std::path::Path;

use anyhow::{Context, bail};
use async_trait::async_trait;
use matrix_link::{Comparison, Link, Verifier, VerifyError, write_private};
use ruma::UserId;
use secrecy::{ExposeSecret, SecretString};

use crate::{account::Identity, prompt, sink::Discard};

/// How the device is shown to be the person's.
pub(crate) enum Proof {
    /// By the account's recovery key.
    RecoveryKey(SecretString),
    /// By emoji, compared with another device of theirs.
    Emoji,
    /// As the person likes, asked when it is needed.
    Asked,
}

/// Logs in where there is no session yet, and verifies the device.
///
/// # Errors
/// The login is refused, or the device is not verified.
pub(crate) async fn log_in(
    identity: &Identity,
    state_dir: &Path,
    password: Option<SecretString>,
    proof: Proof,
) -> anyhow::Result<()> {
    let link = identity.open(state_dir, password, []).await?;
    if let Proof::RecoveryKey(key) = &proof {
        keep(state_dir, key)?;
    }
    let mut report = link.establish_trust().await;
    if !report.device_signed && report.secrets_missing {
        match proof {
            Proof::RecoveryKey(_) => {}
            Proof::Emoji => by_emoji(&link).await?,
            Proof::Asked => {
                let key = prompt::secret("Recovery key (or Enter, to compare emoji with another device of yours): ")?;
                if key.expose_secret().is_empty() {
                    by_emoji(&link).await?;
                } else {
                    keep(state_dir, &key)?;
                }
            }
        }
        report = link.establish_trust().await;
    }
    if !report.device_signed {
        bail!(
            "logged in, but this device is not verified: the recovery key was not accepted. Log in again with the right one"
        );
    }
    let device = link.device_id().map(|device| device.to_string()).unwrap_or_default();
    prompt::line(&format!("Logged in as {}, device {device}: verified as yours.", identity.user));
    if let Some(file) = report.new_recovery_key {
        prompt::line(&format!(
            "Your account had no recovery key. A new one is in {}: keep a copy of it.",
            file.display()
        ));
    }
    Ok(())
}

/// Where the SDK's recovery looks for it.
fn keep(state_dir: &Path, key: &SecretString) -> anyhow::Result<()> {
    let line = format!("{}\n", key.expose_secret());
    write_private(&state_dir.join("recovery-key"), line.as_bytes()).context("the recovery key can't be written")
}

async fn by_emoji(link: &Link) -> anyhow::Result<()> {
    prompt::line("Accept the request on your other device, and compare.");
    let compared = tokio::select! {
        ended = link.run_sync(&Discard) => { ended.context("the sync has ended")?; Ok(()) }
        compared = link.verify_own_device(&AtTheTerminal) => compared,
    };
    compared.context("not verified")
}

/// The person at the terminal compares.
struct AtTheTerminal;

#[async_trait]
impl Verifier for AtTheTerminal {
    async fn same(&self, comparison: &Comparison) -> bool {
        let shown: Vec<_> = comparison.emoji.iter().map(|one| format!("{} {}", one.symbol, one.name)).collect();
        let question = format!("\n  {}\n\nDoes your other device show the same?", shown.join("   "));
        // The sync must go on while the person looks.
        tokio::task::spawn_blocking(move || prompt::yes(&question)).await.is_ok_and(|answer| answer.unwrap_or(false))
    }

    async fn ended(&self, _: &UserId, _: &Result<(), VerifyError>) {}
}
