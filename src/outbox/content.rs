//! The content of the events that we send.

use mxblocks::RICH_KEY;
use ruma::{EventId, OwnedEventId, OwnedUserId, event_id};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Marks a message that is still being written (MSC4357).
const LIVE: &str = "org.matrix.msc4357.live";

/// How keys of our own begin.
const OWN_KEYS: &str = "dev.waybread.";

/// A text message as it stands now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// Markdown; goes out as the plain body and, where it says more, as HTML.
    pub markdown: String,
    /// Whom it mentions: a mention notifies.
    pub mentions: Vec<OwnedUserId>,
    /// What it is.
    pub kind: TextKind,
    /// Whether more is to come.
    pub liveness: Liveness,
    /// What it carries besides.
    #[serde(default)]
    pub rich: Option<Rich>,
}

/// Blocks that a message carries besides its text (docs/mxblocks.md).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rich {
    /// The payload: checked, and without a float.
    pub payload: Value,
    /// HTML that Markdown can't say, such as a formula.
    pub html: Option<String>,
    /// Whether clients see them.
    pub carried: Carried,
    /// Keys of reactions that the agent sets under it.
    pub seeds: Vec<String>,
}

/// Whether a message's blocks stand in its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Carried {
    /// They do.
    InEvent,
    /// They are only known here, so that a reaction is understood.
    Unseen,
}

/// What a text message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextKind {
    /// Somebody's words: `m.text`.
    Answer,
    /// A service's word, to which no bot reacts: `m.notice`.
    Notice,
}

/// Whether a message is still being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    /// More edits are to come.
    Live,
    /// This is the whole.
    Finished,
}

impl Text {
    /// A finished notice that mentions nobody.
    pub fn notice(markdown: impl Into<String>) -> Self {
        Self {
            markdown: markdown.into(),
            mentions: Vec::new(),
            kind: TextKind::Notice,
            liveness: Liveness::Finished,
            rich: None,
        }
    }

    /// A finished message with blocks, that mentions nobody.
    pub fn rich(markdown: impl Into<String>, rich: Rich) -> Self {
        Self { kind: TextKind::Answer, rich: Some(rich), ..Self::notice(markdown) }
    }

    /// The content without relations.
    pub fn content(&self) -> Value {
        let msgtype = match self.kind {
            TextKind::Answer => "m.text",
            TextKind::Notice => "m.notice",
        };
        let mut content = json!({
            "msgtype": msgtype,
            "body": self.markdown,
            "m.mentions": mentions(&self.mentions),
        });
        let own_html = self.rich.as_ref().and_then(|rich| rich.html.clone());
        if let Some(html) = own_html.or_else(|| crate::render::to_html(&self.markdown)) {
            content["format"] = "org.matrix.custom.html".into();
            content["formatted_body"] = html.into();
        }
        if self.liveness == Liveness::Live {
            content[LIVE] = json!({});
        }
        if let Some(rich) = self.rich.as_ref().filter(|rich| rich.carried == Carried::InEvent) {
            content[RICH_KEY] = rich.payload.clone();
        }
        content
    }
}

/// Where a message stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Place {
    /// The root of the thread that it belongs to.
    pub thread: Option<OwnedEventId>,
    /// The message that it answers. In a thread without it, the thread's root is named for clients without threads.
    pub reply_to: Option<OwnedEventId>,
}

/// The content of a message's first event.
pub fn first(content: &Value, place: &Place) -> Value {
    let mut content = content.clone();
    let reply = |to: &EventId| json!({"event_id": to});
    match (&place.thread, &place.reply_to) {
        (None, None) => {}
        (None, Some(to)) => content["m.relates_to"] = json!({"m.in_reply_to": reply(to)}),
        (Some(root), to) => {
            content["m.relates_to"] = json!({
                "rel_type": "m.thread",
                "event_id": root,
                "is_falling_back": to.is_none(),
                "m.in_reply_to": reply(to.as_ref().unwrap_or(root)),
            });
        }
    }
    content
}

/// The content of an event that replaces `target`.
///
/// The outer `m.mentions` is empty: everybody named was notified by the first event (Matrix 1.7, "Mentioning the replaced
/// event's users"). Blocks and keys of our own stand in the new content alone: a client that knows them knows edits.
pub fn edit(content: &Value, target: &EventId) -> Value {
    let mut outer = content.clone();
    if let Some(outer) = outer.as_object_mut() {
        outer.retain(|key, _| key != RICH_KEY && !key.starts_with(OWN_KEYS));
    }
    outer["body"] = format!("* {}", content["body"].as_str().unwrap_or_default()).into();
    if let Some(html) = content["formatted_body"].as_str() {
        outer["formatted_body"] = format!("* {html}").into();
    }
    outer["m.mentions"] = json!({});
    outer["m.new_content"] = content.clone();
    outer["m.relates_to"] = json!({"rel_type": "m.replace", "event_id": target});
    outer
}

/// The size of the content as the homeserver will see it, encrypted and as an edit, in bytes.
///
/// Megolm adds a header and a signature (under 200 bytes) and base64 makes 4 of 3; the event around it has ids, hashes
/// and signatures (under 2 KiB).
pub fn sent_size(content: &Value) -> usize {
    const AROUND: usize = 2048;
    const MEGOLM: usize = 200;
    let clear = edit(content, event_id!("$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")).to_string().len();
    (clear + MEGOLM).div_ceil(3) * 4 + AROUND
}

fn mentions(users: &[OwnedUserId]) -> Value {
    if users.is_empty() { json!({}) } else { json!({"user_ids": users}) }
}

#[cfg(test)]
mod tests {
    use ruma::{owned_event_id, owned_user_id};

    use super::*;

    fn draft() -> Text {
        Text {
            markdown: "a **b**".into(),
            mentions: vec![owned_user_id!("@alice:example.org")],
            kind: TextKind::Answer,
            liveness: Liveness::Live,
            rich: None,
        }
    }

    #[test]
    fn the_first_event_and_an_edit_of_a_draft() {
        let content = draft().content();
        let place = Place { thread: None, reply_to: Some(owned_event_id!("$question")) };
        insta::assert_json_snapshot!("first", first(&content, &place));
        insta::assert_json_snapshot!("edit", edit(&content, event_id!("$first")));
    }

    #[test]
    fn in_a_thread_a_reply_is_told_from_a_fall_back() {
        let content = Text::notice("x").content();
        let root = Some(owned_event_id!("$root"));
        let inside = first(&content, &Place { thread: root.clone(), reply_to: None });
        let reply = first(&content, &Place { thread: root, reply_to: Some(owned_event_id!("$q")) });
        insta::assert_json_snapshot!("thread", [&inside["m.relates_to"], &reply["m.relates_to"]]);
    }

    #[test]
    fn plain_text_goes_out_without_html() {
        assert_eq!(
            Text::notice("just words").content(),
            json!({"msgtype": "m.notice", "body": "just words", "m.mentions": {}})
        );
    }

    #[test]
    fn the_size_is_that_of_the_encrypted_edit() {
        let mut text = draft();
        text.markdown = "x".repeat(10_000);
        let size = sent_size(&text.content());
        // Twice the text, and a third more for base64.
        assert!((26_666..30_500).contains(&size), "{size}");
    }
}
