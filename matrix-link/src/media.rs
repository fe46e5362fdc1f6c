//! Encrypted files: up to the homeserver and back.

use std::io::Cursor;

use matrix_sdk::{
    Error,
    media::{MediaFormat, MediaRequestParameters},
};
use ruma::events::room::{EncryptedFile, MediaSource};

use crate::Link;

/// A file could not be brought up or down.
#[derive(Debug, thiserror::Error)]
#[error("the file can't be transferred")]
pub struct MediaError(#[source] pub Box<Error>);

impl Link {
    /// Encrypts the bytes and uploads them. What comes back opens them: the `file` of a message's content.
    ///
    /// # Errors
    /// When the homeserver refuses or can't be reached.
    pub async fn upload_encrypted(&self, bytes: &[u8]) -> Result<EncryptedFile, MediaError> {
        let mut reader = Cursor::new(bytes);
        self.client.upload_encrypted_file(&mut reader).await.map_err(|error| MediaError(Box::new(error)))
    }

    /// Downloads an encrypted file and decrypts it. The caller sets the time limit: the size is not known before.
    ///
    /// # Errors
    /// When the homeserver refuses or can't be reached, or the file is not the one that was encrypted.
    pub async fn download_encrypted(&self, file: &EncryptedFile) -> Result<Vec<u8>, MediaError> {
        let source = MediaSource::Encrypted(Box::new(file.clone()));
        let request = MediaRequestParameters { source, format: MediaFormat::File };
        self.client.media().get_media_content(&request, false).await.map_err(|error| MediaError(Box::new(error)))
    }
}
