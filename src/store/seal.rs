//! People's words at rest: sealed with the 32-byte key of the state folder.
//!
//! XChaCha20-Poly1305 with a random nonce before the ciphertext. The column's name is bound in, so that what was sealed for
//! one column can't be passed off as another's.

use std::sync::Arc;

use chacha20poly1305::{
    AeadCore, XChaCha20Poly1305, XNonce,
    aead::{Aead, KeyInit, OsRng, Payload},
};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::StoreError;

/// Bytes of the nonce.
const NONCE: usize = 24;

/// Seals and opens.
#[derive(Clone)]
pub(super) struct Seal(Arc<Inner>);

struct Inner {
    cipher: XChaCha20Poly1305,
    key: [u8; 32],
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(..)")
    }
}

impl Seal {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(Arc::new(Inner { cipher: XChaCha20Poly1305::new(key.into()), key: *key }))
    }

    /// A short text that is the same for the same text, and tells nothing to those without the key.
    pub(super) fn digest(&self, text: &str) -> Result<String, StoreError> {
        let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.0.key).map_err(|_| StoreError::Sealed)?;
        mac.update(text.as_bytes());
        Ok(mac.finalize().into_bytes().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Text -> nonce and ciphertext.
    pub(super) fn seal(&self, column: &str, text: &str) -> Result<Vec<u8>, StoreError> {
        let nonce = XChaCha20Poly1305::generate_nonce(&mut OsRng);
        let payload = Payload { msg: text.as_bytes(), aad: column.as_bytes() };
        let sealed = self.0.cipher.encrypt(&nonce, payload).map_err(|_| StoreError::Sealed)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Nonce and ciphertext -> text.
    pub(super) fn open(&self, column: &str, sealed: &[u8]) -> Result<String, StoreError> {
        let (nonce, msg) = sealed.split_at_checked(NONCE).ok_or(StoreError::Sealed)?;
        let text = self
            .0
            .cipher
            .decrypt(XNonce::from_slice(nonce), Payload { msg, aad: column.as_bytes() })
            .map_err(|_| StoreError::Sealed)?;
        String::from_utf8(text).map_err(|_| StoreError::Sealed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_sealed_opens_with_its_key_and_column_only(text in "\\PC{0,80}", flip in 0usize..200) {
            let seal = Seal::new(&[7; 32]);
            let sealed = seal.seal("text", &text).unwrap();
            prop_assert_eq!(seal.open("text", &sealed).unwrap(), text);
            prop_assert!(seal.open("event", &sealed).is_err());
            prop_assert!(Seal::new(&[8; 32]).open("text", &sealed).is_err());
            let mut damaged = sealed.clone();
            let at = flip % damaged.len();
            damaged[at] ^= 1;
            prop_assert!(seal.open("text", &damaged).is_err());
            prop_assert!(seal.open("text", &sealed[..at]).is_err());
        }
    }
}
