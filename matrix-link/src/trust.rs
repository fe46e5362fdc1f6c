//! Cross-signing, the recovery key, and which devices' words count.
//!
//! At the first start the account gets a cross-signing identity, signs its own device with it, and gets a recovery key
//! with a key backup. All of it is idempotent: later starts find it done. An identity whose secrets we lack is never
//! replaced: that would break the trust that people have put into it.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::OptionFuture;
use matrix_sdk::{
    Error, HttpError, Room,
    deserialized_responses::{AlgorithmInfo, DeviceLinkProblem, EncryptionInfo, VerificationLevel, VerificationState},
    encryption::{
        CrossSigningResetAuthType,
        recovery::{RecoveryError, RecoveryState},
        secret_storage::SecretStorageError,
    },
};
use matrix_sdk_base::crypto::{CollectStrategy, secret_storage::DecodeError};
use ruma::{
    OwnedDeviceId, OwnedUserId, UserId,
    api::{
        client::{
            device::delete_devices,
            uiaa::{AuthData, AuthType, MatrixUserIdentifier, Password, UserIdentifier},
        },
        error::ErrorKind,
    },
};
use secrecy::ExposeSecret;
use tokio::time::{Instant, timeout};

use crate::{Credentials, Link, Standing, Trust, files::write_private};

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
    /// Whether this device is signed by the account's own identity, or will be with its keys, which the first sync
    /// publishes.
    pub device_signed: bool,
    /// Whether the account has an identity whose secrets are not here: another device has made it.
    pub secrets_missing: bool,
    /// Whether the account's secrets can be recovered, and are all here.
    pub recovery: bool,
    /// Why the recovery key in the file could not be used, where it was needed.
    pub key_fault: Option<KeyFault>,
    /// The file with the recovery key, when this start wrote it.
    pub new_recovery_key: Option<PathBuf>,
}

/// Why a recovery key does not open the account's secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFault {
    /// It is no recovery key: a character is wrong, or some are missing.
    Mistyped,
    /// It is one, of another account or an earlier time.
    OfOthers,
}

impl KeyFault {
    /// None when the error is about something else.
    pub(crate) fn of(error: &SecretStorageError) -> Option<Self> {
        let SecretStorageError::SecretStorageKey(error) = error else { return None };
        Some(match error {
            DecodeError::Base58(_) | DecodeError::Prefix(..) | DecodeError::Parity(..) | DecodeError::KeyLength(..) => {
                Self::Mistyped
            }
            _ => Self::OfOthers,
        })
    }
}

/// Why an identity could not be replaced.
#[derive(Debug, thiserror::Error)]
pub enum ResetError {
    /// The homeserver asks for the password, and there is none.
    #[error("replacing the identity needs the account's password, and there is none: give it and start again")]
    NoPassword,
    /// The homeserver wants another proof than the password.
    #[error("the homeserver replaces an identity only at its own page for the account, not by the password")]
    NotByPassword,
    /// The homeserver does not accept the password. Nothing was changed.
    #[error("the homeserver does not accept the account's password: nothing was changed; correct it and start again")]
    WrongPassword,
    /// The homeserver says no, or can't be reached.
    #[error("the identity could not be replaced")]
    Refused(#[source] Box<Error>),
    /// The homeserver says no to a step of it, or can't be reached.
    #[error("the identity could not be replaced")]
    Recovery(#[source] Box<RecoveryError>),
    /// The new recovery key can't be written.
    #[error("the new recovery key could not be written")]
    NotWritten(#[from] io::Error),
}

/// A key in groups of four letters, as people compare it.
#[must_use]
pub fn in_groups(key: &str) -> String {
    let letters: Vec<char> = key.chars().collect();
    letters.chunks(4).map(String::from_iter).collect::<Vec<_>>().join(" ")
}

/// Makes a recovery key and writes it down. The file is there, empty, before the key is: a crash in between leaves a
/// promise, which the next start keeps with another key.
async fn make_recovery_key(
    file: &Path,
    make: impl AsyncFnOnce() -> Result<String, RecoveryError>,
) -> Result<(), ResetError> {
    write_private(file, b"")?;
    let key = make().await.map_err(|error| ResetError::Recovery(Box::new(error)))?;
    Ok(write_private(file, format!("{key}\n").as_bytes())?)
}

/// Whether an earlier start has broken off before it wrote the key down.
fn is_promised(file: &Path) -> bool {
    file.metadata().is_ok_and(|file| file.len() == 0)
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
/// a new verification says that nobody did. A key from the backup says nothing of the device that made it, and whoever has
/// the homeserver can put one there: it counts as much as a device that they slipped in.
fn standing(state: &VerificationState) -> Standing {
    match state {
        VerificationState::Verified => Standing::Verified,
        VerificationState::Unverified(level) => match level {
            VerificationLevel::UnverifiedIdentity => Standing::CrossSigned,
            VerificationLevel::VerificationViolation
            | VerificationLevel::UnsignedDevice
            | VerificationLevel::None(DeviceLinkProblem::InsecureSource) => Standing::Unsigned,
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
        // Most homeservers take the first identity unasked; others want the password for that too.
        if let Err(error) = encryption.bootstrap_cross_signing_if_needed(self.password(None)).await {
            tracing::error!(error = &error as &dyn std::error::Error, "no cross-signing identity");
        }
        let key_file = self.recovery_key_file();
        let (mut new_recovery_key, mut key_fault) = (None, None);
        let recovery = encryption.recovery();
        match recovery.state() {
            RecoveryState::Disabled if !key_file.exists() || is_promised(&key_file) => {
                match make_recovery_key(&key_file, async || recovery.enable().await).await {
                    Ok(()) => new_recovery_key = Some(key_file),
                    Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "no recovery key"),
                }
            }
            RecoveryState::Enabled if is_promised(&key_file) => {
                match make_recovery_key(&key_file, async || recovery.reset_key().await).await {
                    Ok(()) => new_recovery_key = Some(key_file),
                    Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "no recovery key"),
                }
            }
            RecoveryState::Incomplete => {
                if let Ok(key) = fs::read_to_string(&key_file)
                    && let Err(error) = recovery.recover(key.trim()).await
                {
                    tracing::warn!(%error, file = %key_file.display(), "the recovery key is not accepted");
                    if let RecoveryError::SecretStorage(error) = &error {
                        key_fault = KeyFault::of(error);
                    }
                }
            }
            _ => {}
        }
        // The signature counts as the homeserver shows it to others, so it is looked up there.
        let identity = encryption.request_user_identity(&self.user).await;
        let identity = identity.inspect_err(|error| tracing::warn!(%error, "our own devices can't be looked up"));
        let own_device = encryption.get_own_device().await.ok().flatten();
        let secrets = encryption.cross_signing_status().await.is_some_and(|status| status.is_complete());
        TrustReport {
            device_signed: own_device.is_some_and(|device| device.is_cross_signed_by_owner())
                || (secrets && self.published_keys().await.is_none()),
            secrets_missing: !secrets && matches!(identity, Ok(Some(_))),
            recovery: recovery.state() == RecoveryState::Enabled,
            key_fault,
            new_recovery_key,
        }
    }

    /// Gives the account a new cross-signing identity in place of one whose secrets are lost, with a new recovery key.
    ///
    /// All that people have verified of the account is void after it, and so is its key backup. Nothing is undone before
    /// the homeserver has accepted the password.
    ///
    /// # Errors
    /// When the homeserver does not allow it, or the key can't be written.
    pub async fn reset_identity(&self) -> Result<(), ResetError> {
        // The SDK takes the old recovery key and the backup away first, and asks for the password after that. A virtual user
        // has none, and is not asked.
        if !matches!(self.credentials, Some(Credentials::Appservice(_))) {
            self.prove_password().await?;
        }
        let encryption = self.client.encryption();
        encryption.wait_for_e2ee_initialization_tasks().await;
        let recovery = encryption.recovery();
        let refused = |error: Error| ResetError::Refused(Box::new(error));
        let failed = |error: RecoveryError| ResetError::Recovery(Box::new(error));
        if let Some(asked) = recovery.reset_identity().await.map_err(failed)? {
            let CrossSigningResetAuthType::Uiaa(uiaa) = asked.auth_type() else {
                return Err(ResetError::NotByPassword);
            };
            let answer = self.password(uiaa.session.clone()).ok_or(ResetError::NoPassword)?;
            asked.reset(Some(answer)).await.map_err(failed)?;
        }
        encryption.request_user_identity(&self.user).await.map_err(refused)?;
        // Whom the old identity has verified is a stranger to the new one, and not somebody whose identity has changed.
        for user in encryption.tracked_users().await.map_err(|error| refused(error.into()))? {
            if let Ok(Some(identity)) = encryption.get_user_identity(&user).await
                && user != self.user
                && identity.has_verification_violation()
            {
                identity.withdraw_verification().await.map_err(|error| refused(error.into()))?;
            }
        }
        make_recovery_key(&self.recovery_key_file(), async || recovery.enable().await).await
    }

    /// The master key of an account's cross-signing identity, in unpadded base64, as the homeserver shows it now: what
    /// people compare, and what changes only when the identity is replaced. None where there is no identity, or it can't
    /// be asked for.
    pub async fn identity_key(&self, user: &UserId) -> Option<String> {
        match self.client.encryption().request_user_identity(user).await {
            Ok(identity) => identity?.master_key().get_first_key().map(|key| key.to_base64()),
            Err(error) => {
                tracing::warn!(%user, %error, "an identity can't be looked up");
                None
            }
        }
    }

    /// Lets the homeserver try the password, by the same question that it asks before an identity is replaced: it is asked
    /// to delete no device at all. A login would prove the password too, and not that it is asked for; and people would see
    /// a device come and go.
    async fn prove_password(&self) -> Result<(), ResetError> {
        if self.password(None).is_none() {
            return Err(ResetError::NoPassword);
        }
        let mut request = delete_devices::v3::Request::new(Vec::new());
        let refused = |error: HttpError| ResetError::Refused(Box::new(error.into()));
        let asked = match self.client.send(request.clone()).await {
            // The homeserver relies on a proof that this session has given a moment ago.
            Ok(_) => return Ok(()),
            Err(error) => match error.as_uiaa_response() {
                Some(asked) => asked.clone(),
                // Accounts whose sessions another service manages have no such question.
                None if matches!(error.client_api_error_kind(), Some(ErrorKind::Unrecognized)) => {
                    return Err(ResetError::NotByPassword);
                }
                None => return Err(refused(error)),
            },
        };
        if !asked.flows.iter().any(|flow| flow.stages == [AuthType::Password]) {
            return Err(ResetError::NotByPassword);
        }
        request.auth = self.password(asked.session);
        match self.client.send(request).await {
            Ok(_) => Ok(()),
            Err(error) if error.as_uiaa_response().is_some() => Err(ResetError::WrongPassword),
            Err(error) if matches!(error.client_api_error_kind(), Some(ErrorKind::Forbidden)) => {
                Err(ResetError::WrongPassword)
            }
            Err(error) => Err(refused(error)),
        }
    }

    /// The account's password, as the answer to a homeserver that asks for it.
    fn password(&self, session: Option<String>) -> Option<AuthData> {
        let Some(Credentials::Password(password)) = &self.credentials else { return None };
        let user = UserIdentifier::Matrix(MatrixUserIdentifier::new(self.user.to_string()));
        let mut answer = Password::new(user, password.expose_secret().to_owned());
        answer.session = session;
        Some(AuthData::Password(answer))
    }

    fn recovery_key_file(&self) -> PathBuf {
        self.state_dir.join("recovery-key")
    }

    /// Whether the device is one of a person who was verified after its session had begun: the SDK goes on to call such a
    /// session unverified until it is replaced, a week later.
    async fn is_verified_by_now(&self, info: &EncryptionInfo) -> bool {
        let AlgorithmInfo::MegolmV1AesSha2 { curve25519_key, .. } = &info.algorithm_info else { return false };
        let Some(device) = &info.sender_device else { return false };
        match self.client.encryption().get_device(&info.sender, device).await {
            Ok(Some(device)) => {
                device.is_verified_with_cross_signing()
                    && device.curve25519_key().is_some_and(|key| key.to_base64() == *curve25519_key)
            }
            _ => false,
        }
    }

    /// The standing of the device behind a decrypted event.
    ///
    /// A device that does not count as we know it is looked up once more with fresh keys: at the first message of a new
    /// session its keys are often a moment behind. Only for people who may talk, not long, and seldom for one device: the
    /// sync waits for it.
    pub(crate) async fn standing(&self, room: &Room, info: &EncryptionInfo) -> Standing {
        let first = standing(&info.verification_state);
        // Under the other levels nothing rests on it, and it costs a look into the store.
        let matters = self.trust == Trust::Verified;
        if matters && first == Standing::CrossSigned && self.is_verified_by_now(info).await {
            return Standing::Verified;
        }
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
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn a_recovery_key_is_promised_before_it_is_made_and_the_promise_outlives_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recovery-key");
        assert!(!is_promised(&file), "nobody has promised one yet");
        // Whatever ends the process while the key is made: the homeserver may have it, and nobody here knows it.
        let broken = make_recovery_key(&file, async || {
            assert!(is_promised(&file));
            Err(RecoveryError::BackupExistsOnServer)
        });
        assert!(matches!(broken.await, Err(ResetError::Recovery(_))));
        assert!(is_promised(&file));
        make_recovery_key(&file, async || Ok("key".to_owned())).await.unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "key\n");
        assert!(!is_promised(&file));
    }

    #[test]
    fn a_key_is_shown_in_groups() {
        assert_eq!(in_groups("abcdefghij"), "abcd efgh ij");
        assert_eq!(in_groups(""), "");
    }

    #[test]
    fn each_verdict_of_the_sdk_has_its_standing() {
        let of = |level| standing(&VerificationState::Unverified(level));
        assert_eq!(standing(&VerificationState::Verified), Standing::Verified);
        assert_eq!(of(VerificationLevel::UnverifiedIdentity), Standing::CrossSigned);
        assert_eq!(of(VerificationLevel::VerificationViolation), Standing::Unsigned);
        assert_eq!(of(VerificationLevel::UnsignedDevice), Standing::Unsigned);
        assert_eq!(of(VerificationLevel::None(DeviceLinkProblem::InsecureSource)), Standing::Unsigned);
        assert_eq!(of(VerificationLevel::None(DeviceLinkProblem::MissingDevice)), Standing::NotTheirs);
        assert_eq!(of(VerificationLevel::MismatchedSender), Standing::NotTheirs);
    }
}
