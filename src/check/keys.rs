//! The account's keys, three things apart: each can be broken alone, and each is mended in another way.

use std::time::Duration;

use matrix_link::{KeyBackup, KeyFault, Link, RecoveryKey, Trust};

use super::{Report, STEP, because, within};
use crate::config::Config;

/// What is checked here.
pub(super) const CHECKS: [&str; 3] = ["recovery key", "key backup", "own device"];
/// A signature that was just made is a moment behind: looked up so often, this far apart.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

pub(super) async fn check(report: &mut Report, config: &Config, link: &Link) {
    // As a run does: the first time, this makes the keys.
    let established = tokio::time::timeout(STEP, link.establish_trust()).await;
    let new = established.is_ok_and(|report| report.new_recovery_key.is_some());
    recovery_key(report, config, link, new).await;
    key_backup(report, link).await;
    own_device(report, config, link).await;
}

async fn recovery_key(report: &mut Report, config: &Config, link: &Link, new: bool) {
    let [check, ..] = CHECKS;
    let path = config.matrix.state_dir.join("recovery-key");
    let file = path.display();
    match within(STEP, link.recovery_key()).await {
        Ok(RecoveryKey::Usable) if new => {
            report.ok(check, format!("made and written to {file}; keep a copy in a safe place"));
        }
        Ok(RecoveryKey::Usable) => report.ok(check, format!("{file} opens the account's secrets")),
        Ok(RecoveryKey::NoFile) => report.fail(
            check,
            format!("{file} is missing: if this machine is lost, the account's keys are lost"),
            "write your copy of the recovery key there (chmod 600)",
        ),
        Ok(RecoveryKey::NotAccepted(KeyFault::Mistyped)) => report.fail(
            check,
            format!("what is in {file} is no recovery key: it is mistyped, or not all of it is there"),
            "compare it with your copy: 12 groups of 4 characters, in which case matters",
        ),
        Ok(RecoveryKey::NotAccepted(KeyFault::OfOthers)) => report.fail(
            check,
            format!("the recovery key in {file} is another account's, or an earlier one of this account"),
            "write the present one there (chmod 600)",
        ),
        Ok(RecoveryKey::NothingToOpen) => report.fail(
            check,
            "the account keeps no secrets on the homeserver that a recovery key could open",
            format!("move {file} away, if it is there, and check again: then a new one is made"),
        ),
        Ok(RecoveryKey::Missing(names)) => report.fail(
            check,
            format!("{file} opens the account's secrets, but some are not there: {}", names.join(", ")),
            "set up recovery anew with a client that has them, and write its recovery key there",
        ),
        Err(error) => report.fail(check, because("it can't be tried", &error), format!("check {file}")),
    }
}

async fn key_backup(report: &mut Report, link: &Link) {
    let [_, check, _] = CHECKS;
    match within(STEP, link.key_backup()).await {
        Ok(KeyBackup::Usable) => report.ok(check, "usable: keys of messages can be taken back"),
        Ok(KeyBackup::Locked) => report.fail(
            check,
            "there is one on the homeserver, and its key is not here",
            "write the account's recovery key into the file recovery-key of the state folder, then check again",
        ),
        Ok(KeyBackup::Missing) => report.fail(
            check,
            "there is none on the homeserver: if this machine is lost, old messages can't be read any more",
            "switch on the key backup with a client of the agent's account",
        ),
        Err(error) => report.fail(check, because("it can't be looked up", &error), "check the homeserver"),
    }
}

async fn own_device(report: &mut Report, config: &Config, link: &Link) {
    let [.., check] = CHECKS;
    let what = "not signed by its account: clients may show a warning and withhold keys";
    let advice = "give it the account's recovery key; docs/operate.md, \"An account that has used encryption before\"";
    match within(STEP, is_signed(link)).await {
        Ok(true) => report.ok(check, "signed by its account"),
        Ok(false) if config.access.trust == Trust::Any => report.warn(check, what, advice),
        Ok(false) => report.fail(check, what, advice),
        Err(error) => report.fail(check, because("it can't be looked up", &error), "check the homeserver"),
    }
}

async fn is_signed(link: &Link) -> anyhow::Result<bool> {
    for _ in 1..LOOKS {
        if link.device_signed().await? {
            return Ok(true);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Ok(link.device_signed().await?)
}
