//! The keys of an event's content under which a payload and what belongs to it stand.
//!
//! There are two generations of names. A reader tries the newer first; a writer uses exactly one, for all three keys.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rich::Rich;

/// The key of a payload as most clients know it, and as it is written by default.
pub const RICH_KEY: &str = "com.ianm.mtrix";

/// The newer name of the same key.
pub const RICH_KEY_NEW: &str = "com.talaagent.mxblocks";

/// The keys of a payload, in the order in which a reader tries them.
pub const RICH_KEYS: [&str; 2] = [RICH_KEY_NEW, RICH_KEY];

/// The keys that mark a message that a click has sent, in the same order. The value may have the `id` of what was
/// clicked.
pub const USED_KEYS: [&str; 2] = ["com.talaagent.mxblocks.used", "com.ianm.mtrix.used"];

/// The keys that mark an image message as part of an album, in the same order.
pub const ALBUM_KEYS: [&str; 2] = ["com.talaagent.mxblocks.album", "com.ianm.mtrix.album"];

/// Under which name a writer puts a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteKey {
    /// [`RICH_KEY`], which old and new clients know.
    #[default]
    Legacy,
    /// [`RICH_KEY_NEW`].
    New,
}

impl WriteKey {
    /// The key of the payload itself.
    #[must_use]
    pub fn rich(self) -> &'static str {
        match self {
            Self::Legacy => RICH_KEY,
            Self::New => RICH_KEY_NEW,
        }
    }

    /// The key that marks a message as sent by a click.
    #[must_use]
    pub fn used(self) -> &'static str {
        let [new, legacy] = USED_KEYS;
        match self {
            Self::Legacy => legacy,
            Self::New => new,
        }
    }

    /// The key that marks an image as part of an album.
    #[must_use]
    pub fn album(self) -> &'static str {
        let [new, legacy] = ALBUM_KEYS;
        match self {
            Self::Legacy => legacy,
            Self::New => new,
        }
    }
}

/// The keys that a reader looks for, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentKeys {
    rich: Vec<String>,
}

/// The keys of [`RICH_KEYS`].
impl Default for ContentKeys {
    fn default() -> Self {
        Self::new(RICH_KEYS)
    }
}

impl ContentKeys {
    /// Keys of one's own. `.used` and `.album` follow from each.
    pub fn new<K: Into<String>>(rich: impl IntoIterator<Item = K>) -> Self {
        Self { rich: rich.into_iter().map(Into::into).collect() }
    }

    /// The payload in an event's content, under the first key that is there, if it is one.
    ///
    /// What stands under a later key is not looked at: a writer uses one key only.
    #[must_use]
    pub fn rich(&self, content: &Map<String, Value>) -> Option<Rich> {
        let payload = self.rich.iter().find_map(|key| content.get(key))?;
        Rich::deserialize(payload).ok()
    }

    /// What marks a message as sent by a click; see [`used_id`](Self::used_id).
    #[must_use]
    pub fn used<'a>(&self, content: &'a Map<String, Value>) -> Option<&'a Value> {
        self.rich.iter().find_map(|key| content.get(&format!("{key}.used")))
    }

    /// The id of what was clicked to send a message, if the message says so.
    #[must_use]
    pub fn used_id<'a>(&self, content: &'a Map<String, Value>) -> Option<&'a str> {
        self.used(content)?.get("id")?.as_str()
    }

    /// What marks an image as part of an album.
    #[must_use]
    pub fn album<'a>(&self, content: &'a Map<String, Value>) -> Option<&'a Value> {
        self.rich.iter().find_map(|key| content.get(&format!("{key}.album")))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn content(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn used_and_album_follow_from_the_payloads_key() {
        for (index, key) in RICH_KEYS.iter().enumerate() {
            assert_eq!(USED_KEYS[index], format!("{key}.used"));
            assert_eq!(ALBUM_KEYS[index], format!("{key}.album"));
        }
        for key in [WriteKey::Legacy, WriteKey::New] {
            assert_eq!(key.used(), format!("{}.used", key.rich()));
            assert_eq!(key.album(), format!("{}.album", key.rich()));
        }
        assert_eq!(WriteKey::default().rich(), "com.ianm.mtrix");
    }

    #[test]
    fn a_reader_takes_the_newest_key_that_is_there() {
        let payload = |symbol| json!({"v": 1, "blocks": [{"type": "ticker", "symbol": symbol, "price": 1}]});
        let keys = ContentKeys::default();
        let read = |value| keys.rich(&content(value)).map(|rich| rich.markdown());
        assert_eq!(read(json!({RICH_KEY: payload("OLD")})).unwrap(), "**OLD**: 1");
        assert_eq!(read(json!({RICH_KEY: payload("OLD"), RICH_KEY_NEW: payload("NEW")})).unwrap(), "**NEW**: 1");
        assert_eq!(read(json!({RICH_KEY: payload("OLD"), RICH_KEY_NEW: 5})), None);
        assert_eq!(read(json!({"body": "a"})), None);
    }

    #[test]
    fn a_click_is_read_under_any_of_ones_keys() {
        let clicked = content(json!({"org.example.blocks.used": {"id": "go"}}));
        let keys = ContentKeys::new(["org.example.blocks"]);
        assert_eq!(keys.used_id(&clicked), Some("go"));
        assert_eq!(keys.album(&clicked), None);
        assert_eq!(ContentKeys::default().used(&clicked), None);
        assert_eq!(ContentKeys::default().used_id(&content(json!({"com.ianm.mtrix.used": {}}))), None);
    }
}
