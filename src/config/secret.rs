//! Secrets: from the environment, or from a file that only its owner can open. Never from the configuration's
//! text, and never shown in an error.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use secrecy::SecretString;

use super::error::one_line;

/// The longest secret: far above any password or token, far below a file that was named by mistake.
const MAX_SECRET_BYTES: u64 = 8192;

/// The permission bits of everybody but the owner.
const GROUP_AND_OTHERS: u32 = 0o077;

/// The file's secret; none where there is no file. An error is a text for the operator.
pub(super) fn from_file(path: &Path) -> Result<Option<SecretString>, String> {
    let name = one_line(&path.display().to_string());
    let unreadable = |error: io::Error| format!("{name}: expected a readable file: {error}");
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if !metadata.is_file() {
        return Err(format!("{name}: expected a regular file"));
    }
    if metadata.permissions().mode() & GROUP_AND_OTHERS != 0 {
        return Err(format!("{name}: open to group or others; run: chmod 600 {name}"));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_SECRET_BYTES + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    from_bytes(bytes).map_err(|problem| format!("{name}: {problem}"))
}

/// The secret in a text, without the white space at its end; none in an empty one. An error is a text for the
/// operator.
pub(super) fn from_bytes(bytes: Vec<u8>) -> Result<Option<SecretString>, String> {
    if bytes.len() as u64 > MAX_SECRET_BYTES {
        return Err(format!("expected a secret of at most {MAX_SECRET_BYTES} bytes"));
    }
    let Ok(mut text) = String::from_utf8(bytes) else {
        return Err("expected a secret in UTF-8".to_owned());
    };
    text.truncate(text.trim_end().len());
    if text.contains(char::is_control) {
        return Err("expected a secret on one line, without control characters".to_owned());
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::path::PathBuf;

    use secrecy::ExposeSecret as _;
    use tempfile::TempDir;

    use super::*;

    fn file(content: &[u8], mode: u32) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    #[test]
    fn a_secret_file_is_read_without_the_white_space_at_its_end() {
        for mode in [0o600, 0o400] {
            let (_folder, path) = file(b" two words \r\n\n", mode);
            assert_eq!(from_file(&path).unwrap().unwrap().expose_secret(), " two words");
        }
    }

    #[test]
    fn no_file_and_an_empty_file_count_as_none() {
        let (folder, path) = file(b" \n", 0o600);
        assert!(from_file(&path).unwrap().is_none());
        assert!(from_file(&folder.path().join("missing")).unwrap().is_none());
    }

    #[test]
    fn a_file_open_to_group_or_others_is_refused_with_the_command_that_mends_it() {
        for mode in [0o640, 0o604, 0o620, 0o777] {
            let (_folder, path) = file(b"hunter2", mode);
            let name = path.display();
            assert_eq!(
                from_file(&path).unwrap_err(),
                format!("{name}: open to group or others; run: chmod 600 {name}")
            );
        }
    }

    #[test]
    fn what_can_be_no_secret_is_refused_without_being_shown() {
        for (content, problem) in [
            (b"two\nlines".to_vec(), "expected a secret on one line, without control characters"),
            (vec![0xff, 0xfe], "expected a secret in UTF-8"),
            (vec![b'x'; 8193], "expected a secret of at most 8192 bytes"),
        ] {
            let (_folder, path) = file(&content, 0o600);
            assert_eq!(from_file(&path).unwrap_err(), format!("{}: {problem}", path.display()));
        }
    }

    #[test]
    fn a_folder_is_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            from_file(folder.path()).unwrap_err(),
            format!("{}: expected a regular file", folder.path().display())
        );
    }
}
