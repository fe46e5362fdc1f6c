//! Cross-signing, the recovery key, and which devices' words count.
//!
//! At the first start the account gets a cross-signing identity, signs its own device with it, and gets a recovery key
//! with a key backup. All of it is idempotent: later starts find it done. An identity whose secrets we lack is never
//! replaced: that would break the trust that people have put into it.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::OptionFuture;
use matrix_sdk::{
    Room,
    deserialized_responses::{EncryptionInfo, VerificationLevel, VerificationState},
    encryption::recovery::RecoveryState,
};
use matrix_sdk_base::crypto::CollectStrategy;
use ruma::{OwnedDeviceId, OwnedUserId};
use tokio::time::{Instant, timeout};

use crate::{Link, Standing, Trust, files::write_private};

/// How long a lookup of somebody's devices may take.
const LOOKUP_WITHIN: Duration = Duration::from_secs(5);
/// How often the same device is looked up.
const LOOKUP_EVERY: Duration = Duration::from_secs(60);
/// Devices that are looked up in that time, at most.
const MAX_LOOKUPS: usize = 256;

/// Devices that were looked up a short time ago.
pub(crate) type LookedUp = Arc<Mutex<HashMap<(OwnedUserId, Option<OwnedDeviceId>), Instant>>>;

/// Where the account stands with its own keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustReport {
    /// Whether this device is signed by the account's own identity.
    pub device_signed: bool,
    /// Whether the account's secrets can be recovered, and are all here.
    pub recovery: bool,
    /// The file with the recovery key, when this start wrote it.
    pub new_recovery_key: Option<PathBuf>,
}

/// Who gets the keys of our messages.
pub(crate) fn recipients(trust: Trust) -> CollectStrategy {
    match trust {
        Trust::Any => CollectStrategy::AllDevices,
        Trust::CrossSigned => CollectStrategy::IdentityBasedStrategy,
        Trust::Verified => CollectStrategy::OnlyTrustedDevices,
    }
}

/// What the SDK's verdict on a decrypted event says of the device.
///
/// An identity that was verified and has changed counts as unsigned: somebody may have taken the account over, and only
/// a new verification says that nobody did.
fn standing(state: &VerificationState) -> Standing {
    match state {
        VerificationState::Verified => Standing::Verified,
        VerificationState::Unverified(level) => match level {
            VerificationLevel::UnverifiedIdentity => Standing::CrossSigned,
            VerificationLevel::VerificationViolation | VerificationLevel::UnsignedDevice => Standing::Unsigned,
            VerificationLevel::None(_) | VerificationLevel::MismatchedSender => Standing::NotTheirs,
        },
    }
}

impl Link {
    /// Makes sure that the account has its keys in order, and says how they stand.
    ///
    /// Never fails: an account that can't be signed still answers where `trust` allows it, and the report says so.
    pub async fn establish_trust(&self) -> TrustReport {
        let encryption = self.client.encryption();
        encryption.wait_for_e2ee_initialization_tasks().await;
        let key_file = self.state_dir.join("recovery-key");
        let mut new_recovery_key = None;
        let recovery = encryption.recovery();
        match recovery.state() {
            RecoveryState::Disabled if !key_file.exists() => match recovery.enable().await {
                Ok(key) => match write_private(&key_file, format!("{key}\n").as_bytes()) {
                    Ok(()) => new_recovery_key = Some(key_file),
                    Err(error) => tracing::error!(%error, "the recovery key could not be written"),
                },
                Err(error) => tracing::warn!(%error, "no recovery key could be made"),
            },
            RecoveryState::Incomplete => {
                if let Ok(key) = fs::read_to_string(&key_file)
                    && let Err(error) = recovery.recover(key.trim()).await
                {
                    tracing::warn!(%error, file = %key_file.display(), "the recovery key is not accepted");
                }
            }
            _ => {}
        }
        // The signature counts as the homeserver shows it to others, so it is looked up there.
        if let Err(error) = encryption.request_user_identity(&self.user).await {
            tracing::warn!(%error, "our own devices can't be looked up");
        }
        let own_device = encryption.get_own_device().await.ok().flatten();
        TrustReport {
            device_signed: own_device.is_some_and(|device| device.is_cross_signed_by_owner()),
            recovery: recovery.state() == RecoveryState::Enabled,
            new_recovery_key,
        }
    }

    /// The standing of the device behind a decrypted event.
    ///
    /// A device that does not count as we know it is looked up once more with fresh keys: at the first message of a new
    /// session its keys are often a moment behind. Only for people who may talk, not long, and seldom for one device: the
    /// sync waits for it.
    pub(crate) async fn standing(&self, room: &Room, info: &EncryptionInfo) -> Standing {
        let first = standing(&info.verification_state);
        let forged = VerificationState::Unverified(VerificationLevel::MismatchedSender);
        if first.meets(self.trust) || info.verification_state == forged || !self.may_look_up(info) {
            return first;
        }
        match timeout(LOOKUP_WITHIN, self.client.encryption().request_user_identity(&info.sender)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(sender = %info.sender, %error, "the sender's devices can't be looked up");
                return first;
            }
            Err(_) => {
                tracing::warn!(sender = %info.sender, "the sender's devices can't be looked up in time");
                return first;
            }
        }
        let fresh: OptionFuture<_> =
            info.session_id().map(|session| room.get_encryption_info(session, &info.sender)).into();
        fresh.await.flatten().map_or(first, |info| standing(&info.verification_state))
    }

    fn may_look_up(&self, info: &EncryptionInfo) -> bool {
        let device = (info.sender.clone(), info.sender_device.clone());
        let mut looked_up = self.looked_up.lock().unwrap_or_else(PoisonError::into_inner);
        looked_up.retain(|_, at| at.elapsed() < LOOKUP_EVERY);
        self.access.allows(&info.sender)
            && looked_up.len() < MAX_LOOKUPS
            && looked_up.insert(device, Instant::now()).is_none()
    }
}

#[cfg(test)]
mod tests {
    use matrix_sdk::deserialized_responses::DeviceLinkProblem;

    use super::*;

    #[test]
    fn each_verdict_of_the_sdk_has_its_standing() {
        let of = |level| standing(&VerificationState::Unverified(level));
        assert_eq!(standing(&VerificationState::Verified), Standing::Verified);
        assert_eq!(of(VerificationLevel::UnverifiedIdentity), Standing::CrossSigned);
        assert_eq!(of(VerificationLevel::VerificationViolation), Standing::Unsigned);
        assert_eq!(of(VerificationLevel::UnsignedDevice), Standing::Unsigned);
        assert_eq!(of(VerificationLevel::None(DeviceLinkProblem::MissingDevice)), Standing::NotTheirs);
        assert_eq!(of(VerificationLevel::MismatchedSender), Standing::NotTheirs);
    }
}
