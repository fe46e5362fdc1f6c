//! The person's account: whose it is, and its session.
//!
//! `account.json` in the state folder says which account and homeserver, so that they are named once, at the login.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use matrix_link::{AccessEntry, Account, Credentials, Link, SyncLimits, Trust, private_dir, write_private};
use ruma::OwnedUserId;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

/// The file's name in the state folder.
const FILE: &str = "account.json";
/// How other devices of the person see this one.
const DEVICE_NAME: &str = "waybread-phone";

/// Whose account, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The homeserver's client address.
    pub(crate) homeserver: String,
    /// The person.
    pub(crate) user: OwnedUserId,
}

impl Identity {
    /// The account that has logged in here, if one has.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn kept(state_dir: &Path) -> anyhow::Result<Option<Self>> {
        let file = state_dir.join(FILE);
        match fs::read(&file) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).with_context(|| file.display().to_string())?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| file.display().to_string()),
        }
    }

    /// The account that is named, or else the one that has logged in here.
    ///
    /// # Errors
    /// There is none, or another one than named has logged in here.
    pub(crate) fn of(homeserver: Option<&str>, user: Option<&OwnedUserId>, state_dir: &Path) -> anyhow::Result<Self> {
        let kept = Self::kept(state_dir)?;
        if let (Some(kept), Some(user)) = (&kept, user)
            && kept.user != *user
        {
            bail!("{} is the folder of {}; give {user} another one by --state-dir", state_dir.display(), kept.user);
        }
        let named = homeserver
            .zip(user)
            .map(|(homeserver, user)| Self { homeserver: homeserver.to_owned(), user: user.clone() });
        named.or(kept).context(
            "nobody has logged in here yet: begin with `waybread-phone login --homeserver URL --user @you:server`",
        )
    }

    /// Opens the session, and logs in where there is none yet. Only invites of `agents` are accepted by it.
    ///
    /// # Errors
    /// It can't be opened.
    pub(crate) async fn open(
        &self,
        state_dir: &Path,
        password: Option<SecretString>,
        agents: impl IntoIterator<Item = OwnedUserId>,
    ) -> anyhow::Result<Link> {
        let account = Account {
            homeserver: self.homeserver.clone(),
            user: self.user.clone(),
            credentials: password.map(Credentials::Password),
            device_name: DEVICE_NAME.to_owned(),
            state_dir: state_dir.to_owned(),
            trust: Trust::CrossSigned,
            access: agents.into_iter().map(AccessEntry::User).collect(),
            host: None,
            limits: SyncLimits::default(),
        };
        let link = Link::open(account, None).await?;
        private_dir(state_dir)?;
        write_private(&state_dir.join(FILE), &serde_json::to_vec(self)?)?;
        Ok(link)
    }
}

/// A password or key in a file, without the line's end.
///
/// # Errors
/// The file can't be read.
pub(crate) fn secret_in(file: &Path) -> anyhow::Result<SecretString> {
    let secret = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(SecretString::from(secret.trim_end()))
}

/// Where all is kept unless it is said.
pub(crate) fn default_state_dir() -> PathBuf {
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map_or_else(PathBuf::new, PathBuf::from).join(".local/share");
    data.unwrap_or_else(home).join("waybread-phone")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::owned_user_id;

    use super::*;

    #[test]
    fn an_account_is_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let of = |homeserver, user: Option<&OwnedUserId>| Identity::of(homeserver, user, folder.path());
        let (alice, bob) = (owned_user_id!("@alice:example.org"), owned_user_id!("@bob:example.org"));
        assert!(of(None, None).unwrap_err().to_string().starts_with("nobody has logged in here yet"));
        let named = of(Some("https://example.org"), Some(&alice)).unwrap();
        fs::write(folder.path().join(FILE), serde_json::to_vec(&named).unwrap()).unwrap();
        assert_eq!(of(None, None).unwrap(), named);
        let other = of(Some("https://example.org"), Some(&bob)).unwrap_err().to_string();
        assert!(other.contains("is the folder of @alice:example.org"), "{other}");
    }
}
