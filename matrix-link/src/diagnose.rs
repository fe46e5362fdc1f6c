//! What an operator's check asks: how the homeserver, the session and the account's keys stand.
//!
//! Nothing here moves the position from which a run receives, or repairs anything: a check must find what a run will find.

use std::{fs, io, path::Path, time::Duration};

use matrix_sdk::{
    ClientBuildError, Error,
    config::{RequestConfig, SyncSettings},
    encryption::secret_storage::SecretStorageError,
    store::StateStoreDataKey,
    sync::SyncResponse,
};
use ruma::{
    EventId, RoomId,
    api::client::{filter::FilterDefinition, sync::sync_events::v3::Filter},
    events::secret::request::SecretName,
    presence::PresenceState,
};

use crate::{FetchError, KeyFault, Link, login::no_homeserver, renewal::Logout, roots, session::crypto_store};

/// How long the homeserver may take to say which versions it speaks.
const VERSIONS_TIMEOUT: Duration = Duration::from_secs(10);
/// Rounds of sync in which an event must come, and how long each may wait for news. One would do, if homeservers did not
/// repeat their recent answers: Synapse does for two minutes, so the rounds of an earlier check come first.
const SYNC_ROUNDS: u32 = 10;
const SYNC_WAIT: Duration = Duration::from_secs(2);
/// What the account's secret storage holds when it is whole.
const SECRETS: [SecretName; 4] = [
    SecretName::CrossSigningMasterKey,
    SecretName::CrossSigningSelfSigningKey,
    SecretName::CrossSigningUserSigningKey,
    SecretName::RecoveryKey,
];

/// Something could not be found out.
#[derive(Debug, thiserror::Error)]
pub enum DiagnoseError {
    /// The address can't be used.
    #[error("the address can't be used")]
    Address(#[source] Box<ClientBuildError>),
    /// Something else answers there.
    #[error("that is no Matrix homeserver: it answers {0}")]
    NoHomeserver(String),
    /// No answer, or one that says no.
    #[error("the homeserver does not answer")]
    Server(#[source] Box<Error>),
    /// The account's secrets can't be looked at.
    #[error("the account's secrets can't be looked at")]
    Secrets(#[source] Box<SecretStorageError>),
    /// The file with the recovery key can't be read.
    #[error("the recovery key can't be read")]
    File(#[source] io::Error),
}

/// Whether the account's secrets can be taken back with the recovery key that is kept here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryKey {
    /// It opens them, and they are all there.
    Usable,
    /// There is no file with the key.
    NoFile,
    /// What is in the file does not open them.
    NotAccepted(KeyFault),
    /// The account has none.
    NothingToOpen,
    /// It opens them, and these are not there.
    Missing(Vec<String>),
}

/// Whether keys of messages can be taken back from the homeserver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyBackup {
    /// There is a backup, and we have its key.
    Usable,
    /// There is a backup, and we lack its key.
    Locked,
    /// There is none.
    Missing,
}

/// Whether the homeserver still knows our session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// It does.
    Stands,
    /// Its token has ended, its device is there: a run logs in again by itself.
    Expired,
    /// It was logged out, or its device was deleted.
    Ended,
}

/// The versions of Matrix that the homeserver speaks; asked without a session.
///
/// # Errors
/// When there is no homeserver at that address.
pub async fn homeserver_versions(homeserver: &str) -> Result<Vec<String>, DiagnoseError> {
    let once = RequestConfig::new().timeout(VERSIONS_TIMEOUT).disable_retry();
    let builder = roots::builder().map_err(DiagnoseError::Address)?.homeserver_url(homeserver);
    let client = builder.request_config(once).build().await;
    let client = client.map_err(|error| DiagnoseError::Address(Box::new(error)))?;
    client
        .fetch_server_versions(Some(once))
        .await
        .map(|answer| answer.versions)
        .map_err(|error| no_homeserver(&error).map_or_else(|| server(error.into()), DiagnoseError::NoHomeserver))
}

/// Whether the state folder keeps a session, so that opening it needs no login.
#[must_use]
pub fn keeps_session(state_dir: &Path) -> bool {
    state_dir.join("session.json").exists()
}

/// Whether a session is kept whose store is gone: it opens no more, and a new device must take its place.
pub fn has_lost_its_store(state_dir: &Path) -> bool {
    keeps_session(state_dir) && !crypto_store(state_dir).exists()
}

impl Link {
    /// Asks the homeserver whether it still knows this session.
    ///
    /// # Errors
    /// When it can't be reached.
    pub async fn session(&self) -> Result<Session, DiagnoseError> {
        let mut changes = self.client.subscribe_to_session_changes();
        let Err(error) = self.client.whoami().await else { return Ok(Session::Stands) };
        let error = error.into();
        match Logout::found_in(&error, &mut changes) {
            Some(Logout::Soft) => Ok(Session::Expired),
            Some(Logout::Hard) => Ok(Session::Ended),
            None => Err(server(error)),
        }
    }

    /// Opens the account's secrets with the recovery key in the state folder, as another machine would have to.
    ///
    /// # Errors
    /// When that can't be tried.
    pub async fn recovery_key(&self) -> Result<RecoveryKey, DiagnoseError> {
        let key = match fs::read_to_string(self.state_dir.join("recovery-key")) {
            Ok(key) => key,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RecoveryKey::NoFile),
            Err(error) => return Err(DiagnoseError::File(error)),
        };
        let secrets = match self.client.encryption().secret_storage().open_secret_store(key.trim()).await {
            Ok(secrets) => secrets,
            Err(SecretStorageError::MissingKeyInfo { .. }) => return Ok(RecoveryKey::NothingToOpen),
            Err(error) => match KeyFault::of(&error) {
                Some(fault) => return Ok(RecoveryKey::NotAccepted(fault)),
                None => return Err(DiagnoseError::Secrets(Box::new(error))),
            },
        };
        let mut missing = Vec::new();
        for name in SECRETS {
            let found = secrets.get_secret(name.clone()).await;
            if found.map_err(|error| DiagnoseError::Secrets(Box::new(error)))?.is_none() {
                missing.push(name.to_string());
            }
        }
        Ok(if missing.is_empty() { RecoveryKey::Usable } else { RecoveryKey::Missing(missing) })
    }

    /// Looks whether there is a key backup, and whether we can open it.
    ///
    /// # Errors
    /// When the homeserver can't be asked.
    pub async fn key_backup(&self) -> Result<KeyBackup, DiagnoseError> {
        let backups = self.client.encryption().backups();
        Ok(match backups.fetch_exists_on_server().await.map_err(server)? {
            false => KeyBackup::Missing,
            true if backups.are_enabled().await => KeyBackup::Usable,
            true => KeyBackup::Locked,
        })
    }

    /// Whether the account has signed this device, as the homeserver shows it to others.
    ///
    /// # Errors
    /// When the homeserver can't be asked.
    pub async fn device_signed(&self) -> Result<bool, DiagnoseError> {
        let encryption = self.client.encryption();
        encryption.request_user_identity(&self.user).await.map_err(server)?;
        let own = encryption.get_own_device().await.map_err(|error| server(error.into()))?;
        Ok(own.is_some_and(|device| device.is_cross_signed_by_owner()))
    }

    /// Takes in what has changed, as a run does before it sends: without it, keys would be missing.
    ///
    /// # Errors
    /// When the homeserver can't be asked.
    pub async fn catch_up(&self) -> Result<(), DiagnoseError> {
        self.sync_aside(Duration::ZERO).await.map(drop)
    }

    /// Whether a sync brings this event, which was not received before.
    ///
    /// # Errors
    /// When the homeserver can't be asked.
    pub async fn sync_brings(&self, room: &RoomId, event: &EventId) -> Result<bool, DiagnoseError> {
        for _ in 0..SYNC_ROUNDS {
            let answer = self.sync_aside(SYNC_WAIT).await?;
            let Some(room) = answer.rooms.joined.get(room) else { continue };
            if room.timeline.events.iter().any(|one| one.event_id().is_some_and(|id| id == event)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One round of sync whose position is not kept: a run receives all of it again, from where its own store ends.
    async fn sync_aside(&self, wait: Duration) -> Result<SyncResponse, DiagnoseError> {
        let filter = Filter::FilterDefinition(FilterDefinition::with_lazy_loading());
        let settings = SyncSettings::new().timeout(wait).filter(filter).set_presence(PresenceState::Offline);
        let answer = self.client.sync_once(settings).await.map_err(server)?;
        let forgotten = self.client.state_store().remove_kv_data(StateStoreDataKey::SyncToken).await;
        forgotten.map_err(|error| server(error.into()))?;
        Ok(answer)
    }

    /// Leaves a room and forgets it: it shows up nowhere any more.
    ///
    /// # Errors
    /// When we are not in it, or the homeserver refuses or can't be reached.
    pub async fn leave_for_good(&self, room: &RoomId) -> Result<(), FetchError> {
        let room = self.client.get_room(room).ok_or_else(|| FetchError::NotInRoom(room.to_owned()))?;
        let failed = |error| FetchError::Server(Box::new(error));
        room.leave().await.map_err(failed)?;
        room.forget().await.map_err(failed)
    }
}

fn server(error: Error) -> DiagnoseError {
    DiagnoseError::Server(Box::new(error))
}
