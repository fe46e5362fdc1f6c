//! What the phone has begun and not yet answered, in one file: at most one card.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use matrix_link::write_private;
use phone_actions::CardId;
use ruma::{OwnedEventId, OwnedRoomId};
use serde::{Deserialize, Serialize};

/// The file's name in the state folder.
const FILE: &str = "card.json";

/// A card that was confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) card: String,
    pub(super) room: OwnedRoomId,
    pub(super) event: OwnedEventId,
    pub(super) thread: Option<OwnedEventId>,
    /// What came of it: the status and the phone's words. None while it is being done.
    pub(super) came: Option<(String, Option<String>)>,
}

impl Begun {
    /// The card's id, if the file was not tampered with.
    pub(super) fn id(&self) -> Option<CardId> {
        CardId::parse(&self.card).ok()
    }
}

/// The file.
pub(super) struct Journal(PathBuf);

impl Journal {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self(state_dir.join(FILE))
    }

    /// What an earlier run has left.
    pub(super) fn left(&self) -> io::Result<Option<Begun>> {
        match fs::read(&self.0) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write(&self, begun: &Begun) -> io::Result<()> {
        write_private(&self.0, &serde_json::to_vec(begun)?)
    }

    /// It is answered.
    pub(super) fn clear(&self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(%error, file = %self.0.display(), "not removed; its card is answered again at the next start");
        }
    }
}
