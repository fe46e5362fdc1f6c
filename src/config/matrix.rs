//! The account, and who may talk to it.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use matrix_link::{AccessList, Trust};
use reqwest::Url;
use ruma::{OwnedUserId, UserId};
use secrecy::SecretString;

use super::{error::ConfigError, reader::Reader};

/// `[matrix]`: the account.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// The homeserver's client address, with "/" at the end of its path.
    pub homeserver: Url,
    /// The agent's account.
    pub user: OwnedUserId,
    /// The account's password, needed for the first login.
    pub password: Option<SecretString>,
    /// A token instead of a password; its device must never have used encryption.
    pub access_token: Option<SecretString>,
    /// The name that other clients show for the agent's session.
    pub device_name: String,
    /// The folder of what the agent keeps.
    pub state_dir: PathBuf,
    /// A round of sync that makes no progress for so long is dropped and begun anew.
    pub sync_timeout: Duration,
}

impl Matrix {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut matrix = reader.table("matrix");
        Ok(Self {
            homeserver: matrix.get("homeserver")?.url()?,
            user: matrix.get("user")?.user_id()?,
            password: matrix.secret("password")?,
            access_token: matrix.secret("access_token")?,
            device_name: matrix.get("device_name")?.text(1..=200)?,
            state_dir: matrix.get("state_dir")?.path()?,
            sync_timeout: matrix.get("sync_timeout_seconds")?.seconds(3..=3600)?,
        })
    }
}

/// `[access]`: whose words count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Who may talk to the agent and invite it.
    pub allow: AccessList,
    /// Which devices count in encrypted rooms.
    pub trust: Trust,
    /// Other bots in the rooms.
    pub bots: AccessList,
    /// The agents of the same appservice, this one among them: bots too.
    pub agents: Arc<BTreeSet<OwnedUserId>>,
    /// The agent that invites for people who may talk to this one.
    pub host: Option<OwnedUserId>,
    /// Turns in a row that bots may cause in one room before the agent waits for a person.
    pub max_bot_turns: u32,
}

impl Access {
    /// Whether this account is known as a bot's.
    pub fn is_bot(&self, user: &UserId) -> bool {
        self.bots.allows(user) || self.agents.contains(user)
    }

    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut access = reader.table("access");
        Ok(Self {
            allow: access.get("allow")?.access_list()?,
            trust: access.get("trust")?.choice(&Trust::ALL.map(|trust| (trust.as_str(), trust)))?,
            bots: access.get("bots")?.access_list()?,
            agents: Arc::default(),
            host: None,
            max_bot_turns: access.get("max_bot_turns")?.whole(1..=100)?,
        })
    }
}
