//! Whose cards this phone takes, and which devices are on it.
//!
//! An agent is paired by the master key of its identity, which both ends show for the person to compare. The key is pinned:
//! another one unpairs, loudly, and nothing of that agent is taken any more until the person pairs again.
//!
//! - `pair`: the comparison, and the pin;
//! - `link`: the person's other devices on this phone, such as Element;
//! - `announce`: each paired agent is told of the phone, once and whenever it changes.

pub(crate) mod announce;
pub(crate) mod link;
pub(crate) mod pair;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use matrix_link::{private_dir, write_private};
use ruma::{DeviceId, OwnedDeviceId, OwnedUserId, UserId};
use serde::{Deserialize, Serialize};

/// The file's name in the state folder.
const FILE: &str = "pairings.json";

/// The most agents of one phone.
pub(crate) const MAX_AGENTS: usize = 16;

/// The pairings as they are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    agents: BTreeMap<OwnedUserId, Agent>,
    chat_devices: BTreeSet<OwnedDeviceId>,
}

/// A paired agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Agent {
    /// The master key of its identity, in unpadded base64.
    pub(crate) key: String,
    /// What it was told of the phone last; none if it was told nothing yet.
    pub(crate) announced: Option<serde_json::Value>,
}

/// The pairings of a state folder. Every change is on disk before it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pairings {
    file: PathBuf,
    kept: Kept,
}

/// Why pairings can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PairingError {
    /// The file can't be read or written.
    #[error("{}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The agents are too many.
    #[error("{MAX_AGENTS} agents are paired already: unpair one first")]
    TooMany,
}

impl Pairings {
    /// Reads the pairings of a state folder; none where there is no file.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn load(state_dir: &Path) -> Result<Self, PairingError> {
        let file = state_dir.join(FILE);
        let kept = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kept::default()),
            Err(error) => Err(error),
        };
        match kept {
            Ok(kept) => Ok(Self { file, kept }),
            Err(source) => Err(PairingError::File { file, source }),
        }
    }

    /// The paired agents.
    pub(crate) fn agents(&self) -> impl Iterator<Item = (&OwnedUserId, &Agent)> {
        self.kept.agents.iter()
    }

    /// The key that is pinned of an agent.
    pub(crate) fn key(&self, agent: &UserId) -> Option<&str> {
        self.kept.agents.get(agent).map(|agent| agent.key.as_str())
    }

    /// The person's other devices on this phone.
    pub(crate) fn chat_devices(&self) -> &BTreeSet<OwnedDeviceId> {
        &self.kept.chat_devices
    }

    /// Pins an agent's key. Pinned anew, the agent is told of the phone anew.
    ///
    /// # Errors
    /// There are too many, or it can't be written.
    pub(crate) fn pin(&mut self, agent: &UserId, key: &str) -> Result<(), PairingError> {
        if self.key(agent) == Some(key) {
            return Ok(());
        }
        if self.kept.agents.len() >= MAX_AGENTS && self.key(agent).is_none() {
            return Err(PairingError::TooMany);
        }
        self.change(|kept| {
            kept.agents.insert(agent.to_owned(), Agent { key: key.to_owned(), announced: None });
        })
    }

    /// Forgets an agent. Says whether it was paired.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn unpair(&mut self, agent: &UserId) -> Result<bool, PairingError> {
        let was = self.key(agent).is_some();
        self.change(|kept| {
            kept.agents.remove(agent);
        })?;
        Ok(was)
    }

    /// Says which other devices of the person are on this phone.
    ///
    /// # Errors
    /// It can't be written.
    pub(crate) fn set_chat_devices(&mut self, devices: BTreeSet<OwnedDeviceId>) -> Result<(), PairingError> {
        self.change(|kept| kept.chat_devices = devices)
    }

    /// Whether a device of the person is on this phone, `own` being ours.
    pub(crate) fn is_on_phone(&self, own: &DeviceId, device: &DeviceId) -> bool {
        own == device || self.kept.chat_devices.contains(device)
    }

    /// An agent was told of the phone.
    fn announced(&mut self, agent: &UserId, content: serde_json::Value) -> Result<(), PairingError> {
        self.change(|kept| {
            if let Some(agent) = kept.agents.get_mut(agent) {
                agent.announced = Some(content);
            }
        })
    }

    fn change(&mut self, change: impl FnOnce(&mut Kept)) -> Result<(), PairingError> {
        let mut kept = self.kept.clone();
        change(&mut kept);
        let failed = |source| PairingError::File { file: self.file.clone(), source };
        if let Some(folder) = self.file.parent() {
            private_dir(folder).map_err(failed)?;
        }
        let bytes = serde_json::to_vec_pretty(&kept).map_err(|error| failed(error.into()))?;
        write_private(&self.file, &bytes).map_err(failed)?;
        self.kept = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{device_id, user_id};

    use super::*;

    #[test]
    fn what_is_paired_and_linked_is_there_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let mut pairings = Pairings::load(folder.path()).unwrap();
        let agent = user_id!("@agent:example.org");
        assert_eq!(pairings.key(agent), None);
        pairings.pin(agent, "abcdefghi").unwrap();
        pairings.announced(agent, serde_json::json!({"v": 1})).unwrap();
        pairings.set_chat_devices([device_id!("ELEMENT").to_owned()].into()).unwrap();
        let mut again = Pairings::load(folder.path()).unwrap();
        assert_eq!(again, pairings);
        assert_eq!(again.key(agent), Some("abcdefghi"));
        let (own, element, other) = (device_id!("PHONE"), device_id!("ELEMENT"), device_id!("WEB"));
        assert!(again.is_on_phone(own, own) && again.is_on_phone(own, element) && !again.is_on_phone(own, other));
        // The same key changes nothing, another one is told of the phone anew.
        again.pin(agent, "abcdefghi").unwrap();
        assert_eq!(again, pairings);
        again.pin(agent, "other").unwrap();
        assert_eq!(again.agents().next().unwrap().1.announced, None);
        assert!(again.unpair(agent).unwrap());
        assert!(!again.unpair(agent).unwrap());
        assert_eq!(Pairings::load(folder.path()).unwrap().key(agent), None);
    }

    #[test]
    fn agents_are_bounded_and_a_broken_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut pairings = Pairings::load(folder.path()).unwrap();
        for number in 0..MAX_AGENTS {
            pairings.pin(&UserId::parse(format!("@a{number}:example.org")).unwrap(), "key").unwrap();
        }
        assert!(matches!(pairings.pin(user_id!("@more:example.org"), "key"), Err(PairingError::TooMany)));
        pairings.pin(user_id!("@a1:example.org"), "another").unwrap();
        fs::write(folder.path().join(FILE), "{").unwrap();
        let error = Pairings::load(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with(FILE), "{error}");
    }
}
