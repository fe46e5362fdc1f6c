//! Files with secrets: random, made once, readable by their owner alone.

use std::{
    fs::{self, DirBuilder, File},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use anyhow::{Context, Result};
use rand::distr::{Alphanumeric, SampleString};

/// About 140 bits, and still to be typed by hand.
const LENGTH: usize = 24;

/// A new secret of letters and digits.
pub fn generate() -> String {
    Alphanumeric.sample_string(&mut rand::rng(), LENGTH)
}

/// The secret in this file, made at the first call.
pub fn in_file(path: &Path) -> Result<String> {
    if !path.exists() {
        write(path, &generate())?;
    }
    fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

/// Writes a 0600 file in one go: an interrupted write leaves no half secret behind.
pub fn write(path: &Path, secret: &str) -> Result<()> {
    let staging = path.with_added_extension("new");
    let mut file = File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&staging)
        .with_context(|| format!("can't write {}", staging.display()))?;
    file.write_all(secret.as_bytes())?;
    fs::rename(&staging, path).with_context(|| format!("can't write {}", path.display()))
}

/// Makes a folder, with its parents, that only its owner can look into.
pub fn folder(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("can't make the folder {}", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_readable_by_its_owner_alone() {
        let folder = std::env::temp_dir().join(format!("xtask-secret-{}", std::process::id()));
        super::folder(&folder).unwrap();
        let path = folder.join("password");
        let first = in_file(&path).unwrap();
        let second = in_file(&path).unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let modes = (mode(folder.as_path()), mode(path.as_path()));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((first.len(), first == second, modes), (LENGTH, true, (0o700, 0o600)));
    }
}
