//! Ids: a card's own, and the shapes of those that come from Matrix.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Malformed;

/// The longest id of Matrix, in bytes.
const MAX_ID: usize = 255;

/// How long a card's id is, in characters.
const CARD_ID: usize = 22;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A card's id: 22 characters of `[A-Za-z0-9_-]`. Whoever knows it could be shown the card, so it must not be guessed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CardId(String);

impl CardId {
    /// The id that these bytes write in base64url; the caller takes them from a good source of randomness.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let bits = u128::from_be_bytes(bytes);
        // 22 times 6 bits are 4 more than there are: the last character holds the 2 lowest bits, and zeros.
        let sextet = |place: usize| match 122_usize.checked_sub(6 * place) {
            Some(shift) => bits >> shift & 63,
            None => bits << 4 & 63,
        };
        let letter = |place| ALPHABET.get(sextet(place) as usize).copied().map_or('A', char::from);
        Self((0..CARD_ID).map(letter).collect())
    }

    /// Reads an id.
    ///
    /// # Errors
    /// The text is not 22 characters of `[A-Za-z0-9_-]`.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let fits = text.len() == CARD_ID && text.bytes().all(|byte| ALPHABET.contains(&byte));
        if fits { Ok(Self(text.to_owned())) } else { Err(Malformed::field("id", "22 characters of A-Z a-z 0-9 _ -")) }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CardId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl TryFrom<String> for CardId {
    type Error = Malformed;

    fn try_from(text: String) -> Result<Self, Malformed> {
        Self::parse(&text)
    }
}

impl From<CardId> for String {
    fn from(id: CardId) -> Self {
        id.0
    }
}

/// Whether a text has the shape of a user id: `@name:server`.
pub(crate) fn is_user_id(text: &str) -> bool {
    let server = text.strip_prefix('@').and_then(|rest| rest.split_once(':')).map(|(_, server)| server);
    is_id(text) && server.is_some_and(|server| !server.is_empty())
}

/// Whether a text has the shape of an event id: `$` and something.
pub(crate) fn is_event_id(text: &str) -> bool {
    is_id(text) && text.len() > 1 && text.starts_with('$')
}

/// Whether a text may be a device id; they are opaque.
pub(crate) fn is_device_id(text: &str) -> bool {
    is_id(text)
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_ID && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn sixteen_bytes_are_an_id_in_base64url() {
        assert_eq!(CardId::from_bytes([0; 16]).as_str(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(CardId::from_bytes([255; 16]).as_str(), "_____________________w");
        let counted: [u8; 16] = std::array::from_fn(|index| u8::try_from(index).unwrap());
        assert_eq!(CardId::from_bytes(counted).as_str(), "AAECAwQFBgcICQoLDA0ODw");
    }

    #[test]
    fn an_id_has_22_characters_of_its_alphabet() {
        assert!(CardId::parse("abcdefghijklmnopqrst-_").is_ok());
        for wrong in
            ["", "abcdefghijklmnopqrst-", "abcdefghijklmnopqrst-_a", "abcdefghijklmnopqrst+/", "éééééééééééaaaaaaaaaaa"]
        {
            assert!(CardId::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ids_of_matrix_are_told_by_their_shape() {
        for (is, fine, wrong) in [
            (is_user_id as fn(&str) -> bool, ["@a:b", "@a:b:8448"], ["a:b", "@a", "@a:", "@a b:c"]),
            (is_event_id, ["$a", "$a:b"], ["$", "a", "$a\n", ""]),
            (is_device_id, ["ABC", "a/b+c"], ["", " ", "a\tb", "a b"]),
        ] {
            assert!(fine.iter().all(|id| is(id)), "{fine:?}");
            assert!(!wrong.iter().any(|id| is(id)), "{wrong:?}");
            assert!(!is(&format!("@{}:x", "a".repeat(255))));
        }
    }
}
