//! Logs in once, keeps the session, restores it at every later start.
//!
//! What is kept, all below the account's state folder (0700), each file 0600:
//!
//! - `session.json`: user, device and token;
//! - `store.key`: the 32 bytes that open the SDK's store and seal ours;
//! - `matrix/`: the SDK's store (room state, encryption keys);
//! - `recovery-key`: opens the account's secrets on another device.
//!
//! The first two belong together: a device whose encryption keys are lost can never be used again, since others have
//! sent to keys that are gone. So a session without its store is refused, never started with an empty one.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use matrix_sdk::{
    Client, ClientBuildError, SessionMeta, SessionTokens, SqliteStoreConfig,
    authentication::matrix::MatrixSession,
    config::RequestConfig,
    encryption::{BackupDownloadStrategy, EncryptionSettings},
    store::{RoomLoadSettings, StateStoreDataKey, StateStoreDataValue},
};
use ruma::{MilliSecondsSinceUnixEpoch, OwnedDeviceId, OwnedUserId, api::error::ErrorKind};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    AccessList, Trust,
    files::{private_dir, read_or_create_key, write_private},
    invites::Invites,
    trust::{LookedUp, recipients},
};

/// How long one request may take, and how often it is repeated; sends have rules of their own (`sender`).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
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
    pub(crate) state_dir: PathBuf,
    pub(crate) invites: Invites,
    pub(crate) limits: SyncLimits,
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
    #[error(
        "{} is missing, so the keys of device {device} are lost and it can't be used again: \
         remove session.json beside it to log in as a new device (with the password)", folder.display()
    )]
    StoreLost {
        /// The store's folder.
        folder: PathBuf,
        /// The device.
        device: OwnedDeviceId,
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
                return Err(OpenError::StoreLost { folder: store, device: kept.meta.device_id.clone() });
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
        let session = match kept {
            Some(kept) => Some(kept),
            None => log_in(&client, &account).await?,
        };
        match session {
            Some(session) => {
                client
                    .matrix_auth()
                    .restore_session(session.clone(), RoomLoadSettings::default())
                    .await
                    .map_err(|error| classify(&account, error))?;
                write_session(&folder, &session).map_err(files)?;
            }
            None => {
                if let Some(session) = client.matrix_auth().session() {
                    write_session(&folder, &session).map_err(files)?;
                }
            }
        }
        let Account { user, access, trust, state_dir, limits, .. } = account;
        Ok(Self {
            client,
            user,
            access,
            state_dir,
            trust,
            looked_up: LookedUp::default(),
            invites: Invites::default(),
            limits,
        })
    }

    /// The device that this session is.
    pub fn device_id(&self) -> Option<OwnedDeviceId> {
        self.client.device_id().map(ToOwned::to_owned)
    }
}

async fn build(account: &Account, store: &Path, key: &[u8; 32]) -> Result<Client, ClientBuildError> {
    Client::builder()
        .homeserver_url(&account.homeserver)
        .sqlite_store_with_config_and_cache_path(SqliteStoreConfig::new(store).key(Some(key)), None::<&Path>)
        .request_config(RequestConfig::new().timeout(REQUEST_TIMEOUT).retry_limit(REQUEST_RETRIES))
        .with_encryption_settings(EncryptionSettings {
            auto_enable_cross_signing: true,
            auto_enable_backups: false,
            backup_download_strategy: BackupDownloadStrategy::AfterDecryptionFailure,
        })
        .with_room_key_recipient_strategy(recipients(account.trust))
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

fn read_session(path: &Path) -> io::Result<Option<MatrixSession>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_session(folder: &Path, session: &MatrixSession) -> io::Result<()> {
    write_private(&folder.join("session.json"), &serde_json::to_vec(session)?)
}
