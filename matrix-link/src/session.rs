//! Logs in once, keeps the session, restores it at every later start.
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
    Client, ClientBuildError, HttpError, SessionMeta, SessionTokens, SqliteStoreConfig,
    authentication::matrix::MatrixSession,
    config::RequestConfig,
    encryption::{BackupDownloadStrategy, EncryptionSettings},
    store::{RoomLoadSettings, StateStoreDataKey, StateStoreDataValue},
};
use matrix_sdk_base::crypto::{CryptoStoreError, OlmError};
use ruma::{
    DeviceKeyAlgorithm, DeviceKeyId, MilliSecondsSinceUnixEpoch, OwnedDeviceId, OwnedUserId,
    api::{client::keys::get_keys::v3::Request as GetKeys, error::ErrorKind},
    encryption::DeviceKeys,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::watch;

use crate::{
    AccessList, SyncState, Trust,
    files::{private_dir, read_or_create_key, write_private},
    invites::Invites,
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
}

/// An open session.
#[derive(Debug, Clone)]
pub struct Link {
    pub(crate) client: Client,
    pub(crate) user: OwnedUserId,
    pub(crate) access: AccessList,
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
        private_dir(&folder).map_err(files)?;
        let kept = read_session(&folder.join("session.json")).map_err(files)?;
        let store = folder.join("matrix");
        if let Some(kept) = &kept {
            if kept.meta.user_id != account.user {
                let (kept, asked) = (kept.meta.user_id.clone(), account.user);
                return Err(OpenError::OtherAccount { folder, kept, asked });
            }
            if !store.join("matrix-sdk-crypto.sqlite3").exists() {
                let device = kept.meta.device_id.clone();
                return Err(OpenError::StoreLost { device, why: StoreLoss::Missing(store) });
            }
        }
        if kept.is_none() && account.credentials.is_none() {
            return Err(OpenError::NoCredentials(account.user));
        }
        if kept.is_none() && store.exists() {
            // Left by a login that never succeeded or whose session was removed: keys of a device that is not ours now.
            // They may still open old messages, so they are moved away and not removed.
            let aside = folder.join(format!("matrix.old-{}", MilliSecondsSinceUnixEpoch::now().get()));
            tracing::warn!(from = %store.display(), to = %aside.display(), "keys without a session are moved away");
            fs::rename(&store, &aside).map_err(files)?;
        }
        private_dir(&store).map_err(files)?;
        let key = read_or_create_key(&folder.join("store.key")).map_err(files)?;
        let client = build(&account, &store, &key).await.map_err(|error| OpenError::Build(Box::new(error)))?;
        if let (Some(position), Some(_)) = (position, &kept) {
            let value = StateStoreDataValue::SyncToken(position);
            client
                .state_store()
                .set_kv_data(StateStoreDataKey::SyncToken, value)
                .await
                .map_err(|error| OpenError::Sdk(Box::new(error.into())))?;
        }
        renewal::save_changes(&client, folder.clone()).map_err(|error| OpenError::Sdk(Box::new(error)))?;
        let known = kept.is_some();
        let session = match kept {
            Some(kept) => Some(kept),
            None => log_in(&client, &account).await?,
        };
        if let Some(session) = session {
            let device = session.meta.device_id.clone();
            client.matrix_auth().restore_session(session, RoomLoadSettings::default()).await.map_err(|error| {
                if is_other_account(&error) {
                    OpenError::StoreLost { device, why: StoreLoss::OtherDevice(store.clone()) }
                } else {
                    classify(&account, error)
                }
            })?;
        }
        if let (false, Some(session)) = (known, client.matrix_auth().session()) {
            write_session(&folder, &session).map_err(files)?;
        }
        let Account { user, access, trust, credentials, state_dir, limits, .. } = account;
        let link = Self {
            client,
            user,
            access,
            trust,
            looked_up: LookedUp::default(),
            credentials,
            state_dir,
            invites: Invites::default(),
            names: Names::default(),
            limits,
            round_limit: ROUND_LIMIT,
            sync_state: watch::Sender::new(SyncState::Starting),
        };
        if known && let Some(device) = link.lost_device().await {
            return Err(OpenError::StoreLost { device, why: StoreLoss::OtherKeys(store) });
        }
        Ok(link)
    }

    /// The device, if the homeserver has refused its keys or has others of it than the store. What can't be asked counts
    /// as in order: the loop hears of it later.
    async fn lost_device(&self) -> Option<OwnedDeviceId> {
        let device = self.device_id()?;
        let refused = self.client.state_store().get_kv_data(StateStoreDataKey::OneTimeKeyAlreadyUploaded).await;
        if refused.ok().flatten().is_some() {
            return Some(device);
        }
        let published = self.published_keys().await?;
        let published = published.keys.get(&DeviceKeyId::from_parts(DeviceKeyAlgorithm::Ed25519, &device))?;
        let ours = self.client.encryption().ed25519_key().await?;
        (*published != ours).then_some(device)
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

async fn build(account: &Account, store: &Path, key: &[u8; 32]) -> Result<Client, ClientBuildError> {
    let builder = if cfg!(target_os = "android") {
        let bundled = roots::bundled().map_err(|error| ClientBuildError::Http(HttpError::Reqwest(error)))?;
        Client::builder().http_client(bundled)
    } else {
        Client::builder()
    };
    builder
        .homeserver_url(&account.homeserver)
        // The operator's address is the one to use, also where the homeserver tells another one to the public.
        .respect_login_well_known(false)
        .sqlite_store_with_config_and_cache_path(SqliteStoreConfig::new(store).key(Some(key)), None::<&Path>)
        .request_config(RequestConfig::new().timeout(REQUEST_TIMEOUT).retry_limit(REQUEST_RETRIES))
        .with_encryption_settings(EncryptionSettings {
            auto_enable_cross_signing: true,
            auto_enable_backups: false,
            backup_download_strategy: BackupDownloadStrategy::AfterDecryptionFailure,
        })
        .with_room_key_recipient_strategy(recipients(account.trust))
        .handle_refresh_tokens()
        .build()
        .await
}

/// Makes a session. None when the client is logged in by it already; Some when it is still to be restored.
async fn log_in(client: &Client, account: &Account) -> Result<Option<MatrixSession>, OpenError> {
    match &account.credentials {
        None => Err(OpenError::NoCredentials(account.user.clone())),
        Some(Credentials::Password(password)) => {
            client
                .matrix_auth()
                .login_username(&account.user, password.expose_secret())
                .initial_device_display_name(&account.device_name)
                .request_refresh_token()
                .send()
                .await
                .map_err(|error| classify(account, error))?;
            Ok(None)
        }
        Some(Credentials::Token(token)) => who_is(account, token).await.map(Some),
    }
}

/// Asks the homeserver whose token it is, before it is bound to this store.
async fn who_is(account: &Account, token: &SecretString) -> Result<MatrixSession, OpenError> {
    let client = Client::builder()
        .homeserver_url(&account.homeserver)
        .build()
        .await
        .map_err(|error| OpenError::Build(Box::new(error)))?;
    let tokens = SessionTokens { access_token: token.expose_secret().to_owned(), refresh_token: None };
    let asking = SessionMeta { user_id: account.user.clone(), device_id: "UNKNOWN".into() };
    let asking = MatrixSession { meta: asking, tokens: tokens.clone() };
    client
        .matrix_auth()
        .restore_session(asking, RoomLoadSettings::default())
        .await
        .map_err(|error| classify(account, error))?;
    let answer = client.whoami().await.map_err(|error| classify(account, error.into()))?;
    if answer.user_id != account.user {
        return Err(OpenError::OtherAccount {
            folder: account.state_dir.clone(),
            kept: answer.user_id,
            asked: account.user.clone(),
        });
    }
    let device_id = answer.device_id.ok_or_else(|| OpenError::Forbidden(account.user.clone()))?;
    Ok(MatrixSession { meta: SessionMeta { user_id: answer.user_id, device_id }, tokens })
}

fn classify(account: &Account, error: matrix_sdk::Error) -> OpenError {
    match error.client_api_error_kind() {
        Some(ErrorKind::Forbidden | ErrorKind::UnknownToken(_)) => OpenError::Forbidden(account.user.clone()),
        Some(ErrorKind::LimitExceeded(limit)) => OpenError::RateLimited(match limit.retry_after {
            Some(ruma::api::error::RetryAfter::Delay(delay)) => delay,
            _ => REQUEST_TIMEOUT,
        }),
        Some(_) => OpenError::Sdk(Box::new(error)),
        None if matches!(error, matrix_sdk::Error::Http(_)) => {
            OpenError::Unreachable { homeserver: account.homeserver.clone(), source: Box::new(error) }
        }
        None => OpenError::Sdk(Box::new(error)),
    }
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

/// Puts session and crypto store aside, so that the next [`Link::open`] logs in as a new device. What else the folder
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
