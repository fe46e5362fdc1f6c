//! Files that only their owner may read.

use std::{
    fs::{self, DirBuilder},
    io::{self, ErrorKind, Write},
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use rand::Rng;
use tempfile::NamedTempFile;

/// Makes a folder, and those above it, with mode 0700. One that is there is left as it is.
///
/// # Errors
/// When the folder can't be made.
pub fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file with mode 0600, all or nothing: a crash leaves the old content or the new one.
///
/// # Errors
/// When the file can't be written.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// The 32 random bytes in the file, written at first use.
///
/// # Errors
/// When the file can't be read or written, or holds something else: a key that is replaced makes all that it sealed
/// unreadable.
pub fn read_or_create_key(path: &Path) -> io::Result<[u8; 32]> {
    match fs::read(path) {
        Ok(bytes) => bytes
            .try_into()
            .map_err(|_| io::Error::new(ErrorKind::InvalidData, format!("{}: not a key of 32 bytes", path.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let mut key = [0; 32];
            rand::rng().fill_bytes(&mut key);
            write_private(path, &key)?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = read_or_create_key(&path).unwrap();
        assert_eq!(read_or_create_key(&path).unwrap(), key);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_key_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "short").unwrap();
        assert!(read_or_create_key(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"short");
    }
}
