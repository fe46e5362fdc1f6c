//! Keeps the session that a login has made, and restores it at every later start.
//!
//! What is kept, all below the account's state folder (0700), each file 0600:
//!
//! - `session.json`: user, device and token;
//! - `store.key`: the 32 bytes that open the SDK's store and seal ours;
//! - `matrix/`: the SDK's store (room state, encryption keys);
//! - `recovery-key`: opens the account's secrets on another device.
//!
//! Session and store belong together: a device whose encryption keys are lost can never be used again, since others have
//! sent to keys that are gone. So a session without its store, or with one that holds other keys than the homeserver has
//! of the device, is refused and never begun; [`set_device_aside`] makes room for a new device.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use matrix_sdk::{
    Client, ClientBuildError, ClientBuilder, SqliteStoreConfig,
    authentication::matrix::MatrixSession,
    config::RequestConfig,
    encryption::{BackupDownloadStrategy, EncryptionSettings},
    store::{RoomLoadSettings, StateStoreDataKey, StateStoreDataValue},
};
use matrix_sdk_base::crypto::{CryptoStoreError, OlmError};
use ruma::{
    DeviceId, DeviceKeyAlgorithm, DeviceKeyId, MilliSecondsSinceUnixEpoch, OwnedDeviceId, OwnedUserId,
    api::client::keys::get_keys::v3::Request as GetKeys, encryption::DeviceKeys,
};
use secrecy::SecretString;
use tokio::sync::watch;

use crate::{
    AccessList, Appservice, AppserviceError, SyncState, Trust,
    files::{private_dir, read_or_create_key, write_private},
    invites::Invites,
    login::{Login, log_in},
    names::Names,
    renewal, roots,
    trust::{LookedUp, recipients},
    watchdog::ROUND_LIMIT,
};

/// How long one request may take, and how often it is repeated; sends have rules of their own (`sender`).
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const REQUEST_RETRIES: usize = 3;

/// An account to open.
#[derive(Debug, Clone)]
pub struct Account {
    /// The homeserver's client address.
    pub homeserver: String,
    /// The account.
    pub user: OwnedUserId,
    /// How to log in, needed while there is no session yet.
    pub credentials: Option<Credentials>,
    /// The new device's name, as others see it.
    pub device_name: String,
    /// Where session, keys and stores are kept.
    pub state_dir: PathBuf,
    /// Which devices' words count, and who gets message keys.
    pub trust: Trust,
    /// Whose invites are accepted.
    pub access: AccessList,
    /// An account that invites for those whose invites are accepted.
    pub host: Option<OwnedUserId>,
    /// How much one round of sync brings.
    pub limits: SyncLimits,
}

/// How much one round of sync brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncLimits {
    /// Timeline events of a room, at most.
    pub timeline_events: u32,
    /// Events of a room that are fetched besides when it had more, at most.
    pub gap_events: usize,
}

impl Default for SyncLimits {
    fn default() -> Self {
        Self { timeline_events: 100, gap_events: 500 }
    }
}

/// How to log in.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// The account's password: makes a new device.
    Password(SecretString),
    /// An access token: its device must never have used encryption.
    Token(SecretString),
    /// The account is a virtual user of this appservice, which makes user and device.
    Appservice(Appservice),
}

/// An open session.
#[derive(Debug, Clone)]
pub struct Link {
    pub(crate) client: Client,
    pub(crate) user: OwnedUserId,
    pub(crate) access: AccessList,
    pub(crate) host: Option<OwnedUserId>,
    pub(crate) trust: Trust,
    pub(crate) looked_up: LookedUp,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) state_dir: PathBuf,
    pub(crate) invites: Invites,
    pub(crate) names: Names,
    pub(crate) limits: SyncLimits,
    pub(crate) round_limit: Duration,
    pub(crate) sync_state: watch::Sender<SyncState>,
}

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no session yet, and no way to make one.
    #[error("no session of {0} yet, and neither a password nor an access token to make one")]
    NoCredentials(OwnedUserId),
    /// The password or token is not accepted.
    #[error("the homeserver does not accept the password or token of {0}")]
    Forbidden(OwnedUserId),
    /// Too many logins.
    #[error("the homeserver limits logins: try again in {} s", .0.as_secs())]
    RateLimited(Duration),
    /// No homeserver there.
    #[error("no homeserver at {homeserver}")]
    Unreachable {
        /// The address that was tried.
        homeserver: String,
        /// What happened.
        #[source]
        source: Box<matrix_sdk::Error>,
    },
    /// Something else is there.
    #[error("that is no Matrix homeserver: {homeserver} answers {answer}")]
    NoHomeserver {
        /// The address that was tried.
        homeserver: String,
        /// What it answers.
        answer: String,
    },
    /// The state folder is another account's.
    #[error("{} keeps a session of {kept}, not of {asked}: give each account a state folder of its own", folder.display())]
    OtherAccount {
        /// The folder.
        folder: PathBuf,
        /// Whose session it holds.
        kept: OwnedUserId,
        /// Who was to be opened.
        asked: OwnedUserId,
    },
    /// The device's keys are gone.
    #[error("the keys of device {device} are lost and it can't be used again: {why}")]
    StoreLost {
        /// The device.
        device: OwnedDeviceId,
        /// How that shows.
        why: StoreLoss,
    },
    /// The appservice can't make the user or its device.
    #[error("the virtual user {user} can't be made")]
    Virtual {
        /// Who.
        user: OwnedUserId,
        /// What happened.
        #[source]
        source: AppserviceError,
    },
    /// A file of the state folder can't be read or written.
    #[error("state folder {}", folder.display())]
    Files {
        /// The folder.
        folder: PathBuf,
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// The client can't be built: most often a damaged store or a wrong address.
    #[error("the Matrix client can't start")]
    Build(#[source] Box<ClientBuildError>),
    /// Anything else that the SDK reports.
    #[error("the Matrix session can't start")]
    Sdk(#[source] Box<matrix_sdk::Error>),
}

/// How it shows that a device's keys are lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreLoss {
    /// There is no store.
    #[error("{} is missing", .0.display())]
    Missing(PathBuf),
    /// The store is another device's.
    #[error("{} is another device's", .0.display())]
    OtherDevice(PathBuf),
    /// The homeserver has other keys of the device than the store.
    #[error("the homeserver has other keys of it than {}", .0.display())]
    OtherKeys(PathBuf),
}

impl Link {
    /// Opens the account's session: restores the kept one, or logs in and keeps it.
    ///
    /// `position` is the sync position up to which the caller's store has everything. It is handed to the SDK before
    /// the session is restored: the SDK's own is written before its events are handled, and would lose those of a crash.
    ///
    /// # Errors
    /// See [`OpenError`]. Nothing is lost by any of them.
    pub async fn open(account: Account, position: Option<String>) -> Result<Self, OpenError> {
        let folder = account.state_dir.clone();
        let files = |source| OpenError::Files { folder: folder.clone(), source };
        let Some(kept) = read_session(&folder.join("session.json")).map_err(files)? else {
            let login = log_in(&account).await?;
            return Self::begin(account, login).await;
        };
        if kept.meta.user_id != account.user {
            let (kept, asked) = (kept.meta.user_id, account.user);
            return Err(OpenError::OtherAccount { folder, kept, asked });
        }
        let store = folder.join("matrix");
        let device = kept.meta.device_id.clone();
        if !crypto_store(&folder).exists() {
            return Err(OpenError::StoreLost { device, why: StoreLoss::Missing(store) });
        }
        let link = Self::with_session(account, kept, position).await?;
        if link.has_lost_its_keys(&device).await {
            return Err(OpenError::StoreLost { device, why: StoreLoss::OtherKeys(store) });
        }
        Ok(link)
    }

    /// Opens the session of a login and keeps it; none is kept yet.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn begin(account: Account, Login(session): Login) -> Result<Self, OpenError> {
        let folder = account.state_dir.clone();
        let files = |source| OpenError::Files { folder: folder.clone(), source };
        let store = folder.join("matrix");
        if store.exists() {
            // Its session was removed, or a crash came before it was kept: keys of a device that is not ours now. They may
            // still open old messages, so they are moved away and not removed.
            let aside = folder.join(format!("matrix.old-{}", MilliSecondsSinceUnixEpoch::now().get()));
            tracing::warn!(from = %store.display(), to = %aside.display(), "keys without a session are moved away");
            fs::rename(&store, &aside).map_err(files)?;
        }
        let link = Self::with_session(account, session.clone(), None).await?;
        write_session(&folder, &session).map_err(files)?;
        Ok(link)
    }

    async fn with_session(
        account: Account,
        mut session: MatrixSession,
        position: Option<String>,
    ) -> Result<Self, OpenError> {
        let folder = account.state_dir.clone();
        let files = |source| OpenError::Files { folder: folder.clone(), source };
        let failed = |error: matrix_sdk::Error| OpenError::Sdk(Box::new(error));
        let store = folder.join("matrix");
        private_dir(&store).map_err(files)?;
        let key = read_or_create_key(&folder.join("store.key")).map_err(files)?;
        let builder = match &account.credentials {
            Some(Credentials::Appservice(appservice)) if session.tokens.access_token.is_empty() => {
                // It counts in this process alone.
                session.tokens.access_token = appservice.admit(&session.meta.user_id, &session.meta.device_id);
                roots::loopback().map_err(OpenError::Build)?.homeserver_url(appservice.address())
            }
            _ => roots::builder().map_err(OpenError::Build)?.homeserver_url(&account.homeserver),
        };
        let client = build(builder, account.trust, &store, &key).await.map_err(OpenError::Build)?;
        if let Some(position) = position {
            let value = StateStoreDataValue::SyncToken(position);
            let kept = client.state_store().set_kv_data(StateStoreDataKey::SyncToken, value).await;
            kept.map_err(|error| failed(error.into()))?;
        }
        renewal::save_changes(&client, folder.clone()).map_err(failed)?;
        let device = session.meta.device_id.clone();
        client.matrix_auth().restore_session(session, RoomLoadSettings::default()).await.map_err(|error| {
            if is_other_account(&error) {
                OpenError::StoreLost { device, why: StoreLoss::OtherDevice(store) }
            } else {
                failed(error)
            }
        })?;
        let Account { user, access, host, trust, credentials, state_dir, limits, .. } = account;
        Ok(Self {
            client,
            user,
            access,
            host,
            trust,
            looked_up: LookedUp::default(),
            credentials,
            state_dir,
            invites: Invites::default(),
            names: Names::default(),
            limits,
            round_limit: ROUND_LIMIT,
            sync_state: watch::Sender::new(SyncState::Starting),
        })
    }

    /// Whether the homeserver has refused the device's keys or has others of it than the store. What can't be asked counts
    /// as in order: the loop hears of it later.
    async fn has_lost_its_keys(&self, device: &DeviceId) -> bool {
        let refused = self.client.state_store().get_kv_data(StateStoreDataKey::OneTimeKeyAlreadyUploaded).await;
        if refused.ok().flatten().is_some() {
            return true;
        }
        let Some(published) = self.published_keys().await else { return false };
        let published = published.keys.get(&DeviceKeyId::from_parts(DeviceKeyAlgorithm::Ed25519, device));
        let ours = self.client.encryption().ed25519_key().await;
        published.zip(ours).is_some_and(|(published, ours)| *published != ours)
    }

    /// The keys that others get of this device.
    pub(crate) async fn published_keys(&self) -> Option<DeviceKeys> {
        let device = self.device_id()?;
        let mut request = GetKeys::new();
        request.device_keys.insert(self.user.clone(), vec![device.clone()]);
        let answer = self.client.send(request).await.ok()?;
        answer.device_keys.get(&self.user)?.get(&device)?.deserialize().ok()
    }

    /// The same link, whose rounds of sync count as stuck after `limit`.
    #[must_use]
    pub fn with_round_limit(self, limit: Duration) -> Self {
        Self { round_limit: limit, ..self }
    }

    /// The device that this session is.
    pub fn device_id(&self) -> Option<OwnedDeviceId> {
        self.client.device_id().map(ToOwned::to_owned)
    }
}

/// Where the SDK keeps the device's keys.
pub(crate) fn crypto_store(state_dir: &Path) -> PathBuf {
    state_dir.join("matrix").join("matrix-sdk-crypto.sqlite3")
}

async fn build(
    builder: ClientBuilder,
    trust: Trust,
    store: &Path,
    key: &[u8; 32],
) -> Result<Client, Box<ClientBuildError>> {
    builder
        // The operator's address is the one to use, also where the homeserver tells another one to the public.
        .respect_login_well_known(false)
        .sqlite_store_with_config_and_cache_path(SqliteStoreConfig::new(store).key(Some(key)), None::<&Path>)
        .request_config(RequestConfig::new().timeout(REQUEST_TIMEOUT).retry_limit(REQUEST_RETRIES))
        .with_encryption_settings(EncryptionSettings {
            // It may need the password: `trust` does it.
            auto_enable_cross_signing: false,
            auto_enable_backups: false,
            backup_download_strategy: BackupDownloadStrategy::AfterDecryptionFailure,
        })
        .with_room_key_recipient_strategy(recipients(trust))
        .handle_refresh_tokens()
        .build()
        .await
        .map_err(Box::new)
}

/// Whether the SDK says that the store is another account's or device's.
fn is_other_account(error: &matrix_sdk::Error) -> bool {
    let cause = match error {
        matrix_sdk::Error::CryptoStoreError(cause) => cause,
        matrix_sdk::Error::OlmError(error) => match &**error {
            OlmError::Store(cause) => cause,
            _ => return false,
        },
        _ => return false,
    };
    matches!(cause, CryptoStoreError::MismatchedAccount { .. })
}

/// Puts session and crypto store aside, to make room for those of a new device's [`Login`]. What else the folder
/// holds stays, the recovery key above all. Gives where they are, if there were any.
///
/// # Errors
/// When a file can't be read or moved. A repetition goes on where this one stopped.
pub fn set_device_aside(state_dir: &Path) -> io::Result<Option<PathBuf>> {
    let session = state_dir.join("session.json");
    let Some(kept) = read_session(&session)? else { return Ok(None) };
    let name: String = kept.meta.device_id.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    let aside = state_dir.join("old-devices").join(name);
    private_dir(&aside)?;
    // The session last: without one, the store that is left here counts as nobody's.
    for file in ["matrix", "session.json"] {
        match fs::rename(state_dir.join(file), aside.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(Some(aside))
}

fn read_session(path: &Path) -> io::Result<Option<MatrixSession>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn write_session(folder: &Path, session: &MatrixSession) -> io::Result<()> {
    write_private(&folder.join("session.json"), &serde_json::to_vec(session)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_device_that_is_set_aside_takes_its_store_along_and_leaves_the_recovery_key() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path();
        assert_eq!(set_device_aside(state).unwrap(), None);
        let session = r#"{"user_id": "@bot:example.org", "device_id": "../DEV/1", "access_token": "t"}"#;
        fs::write(state.join("session.json"), session).unwrap();
        fs::write(state.join("recovery-key"), "key").unwrap();
        fs::create_dir(state.join("matrix")).unwrap();
        let aside = set_device_aside(state).unwrap().unwrap();
        assert_eq!(aside, state.join("old-devices").join("DEV1"));
        assert!(aside.join("matrix").exists());
        assert_eq!(fs::read_to_string(aside.join("session.json")).unwrap(), session);
        let mut left: Vec<_> = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["old-devices", "recovery-key"]);
    }
}
