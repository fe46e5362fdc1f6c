//! The state folder, held by one process at a time.
//!
//! The Matrix SDK's store must never be used by two: their ratchets would part, and messages would be lost for good. The
//! lock belongs to the open file, so it ends with the process, however that ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use matrix_link::private_dir;

/// The folder, ours until this is dropped.
#[derive(Debug)]
#[must_use = "the folder is held only as long as this lives"]
pub struct StateDir {
    path: PathBuf,
    _lock: File,
}

/// Why the folder can't be had.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// Another process holds it.
    #[error("another waybread runs with this state folder ({})", .0.display())]
    InUse(PathBuf),
    /// It can't be made or written.
    #[error("state folder {}", path.display())]
    Files {
        /// The folder.
        path: PathBuf,
        /// What happened.
        #[source]
        source: io::Error,
    },
}

impl StateDir {
    /// Takes the folder, and makes it where there is none.
    ///
    /// # Errors
    /// When another process has it, or it can't be made or written.
    pub fn open(path: &Path) -> Result<Self, StateDirError> {
        let path = path.to_owned();
        match lock(&path) {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StateDirError::InUse(path)),
            Err(TryLockError::Error(source)) => Err(StateDirError::Files { path, source }),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn lock(folder: &Path) -> Result<File, TryLockError> {
    private_dir(folder).map_err(TryLockError::Error)?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(folder.join("lock"))
        .map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_folder_is_held_by_one_until_it_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let held = StateDir::open(&path).unwrap();
        let error = StateDir::open(&path).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("another waybread runs with this state folder ({})", held.path().display())
        );
        drop(held);
        let _again = StateDir::open(&path).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let error = StateDir::open(&folder.path().join("file/state")).unwrap_err();
        assert!(matches!(error, StateDirError::Files { .. }), "{error}");
    }
}
