//! Raw event -> [`Event`]: a pure function that takes whatever a homeserver or a peer may write.

use ruma::{EventId, MilliSecondsSinceUnixEpoch, OwnedEventId, OwnedRoomId, OwnedUserId, RoomId, UserId};
use serde_json::Value;

use super::{Event, EventKind, Membership, Message, MessageKind, Protection};

/// An event that lacks what every event has. It is nobody's words and can be dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an event without a valid {0}")]
pub struct ParseError(&'static str);

/// Reads one event of `room` in the client-server format, already decrypted where it was encrypted.
///
/// # Errors
/// When the id, the sender or the time is missing or malformed. A malformed content is no error: the event is then
/// [`EventKind::Other`], since it must still be marked as seen.
pub fn parse(room: &RoomId, raw: &Value, protection: Protection) -> Result<Event, ParseError> {
    let id = event_id(&raw["event_id"]).ok_or(ParseError("event_id"))?;
    let sender = user_id(&raw["sender"]).ok_or(ParseError("sender"))?;
    let sent_at = raw["origin_server_ts"]
        .as_u64()
        .and_then(|ms| ms.try_into().ok())
        .map(MilliSecondsSinceUnixEpoch)
        .ok_or(ParseError("origin_server_ts"))?;
    Ok(Event { room: OwnedRoomId::from(room), id, sender, sent_at, protection, kind: kind(raw) })
}

fn kind(raw: &Value) -> EventKind {
    let event_type = raw["type"].as_str().unwrap_or_default();
    let content = &raw["content"];
    let known = match event_type {
        "m.room.message" => message_or_edit(content),
        "m.reaction" => reaction(content),
        // Room version 11 moved `redacts` into the content.
        "m.room.redaction" => event_id(&content["redacts"])
            .or_else(|| event_id(&raw["redacts"]))
            .map(|target| EventKind::Redaction { target }),
        "m.room.member" => membership(raw),
        "m.room.encrypted" => {
            Some(EventKind::Undecryptable { session: content["session_id"].as_str().map(str::to_owned) })
        }
        _ => None,
    };
    known.unwrap_or_else(|| EventKind::Other { event_type: event_type.to_owned() })
}

fn message_or_edit(content: &Value) -> Option<EventKind> {
    let relation = &content["m.relates_to"];
    if relation["rel_type"] == "m.replace" {
        let target = event_id(&relation["event_id"])?;
        return Some(EventKind::Edit { target, message: message(&content["m.new_content"])? });
    }
    message(content).map(EventKind::Message)
}

fn message(content: &Value) -> Option<Message> {
    let kind = match content["msgtype"].as_str()? {
        "m.text" => MessageKind::Text,
        "m.emote" => MessageKind::Emote,
        "m.notice" => MessageKind::Notice,
        "m.file" | "m.image" | "m.audio" | "m.video" => MessageKind::Media,
        // The first step of a verification, which is no word of anybody.
        "m.key.verification.request" => return None,
        _ => MessageKind::Other,
    };
    let relation = &content["m.relates_to"];
    let thread = (relation["rel_type"] == "m.thread").then(|| event_id(&relation["event_id"])).flatten();
    let falls_back = thread.is_some() && relation["is_falling_back"] == true;
    let reply_to = event_id(&relation["m.in_reply_to"]["event_id"]).filter(|_| !falls_back);
    let body = content["body"].as_str()?;
    let html = (content["format"] == "org.matrix.custom.html")
        .then(|| content["formatted_body"].as_str())
        .flatten()
        .map(str::to_owned);
    let mentions = content
        .get("m.mentions")
        .map(|mentions| mentions["user_ids"].as_array().into_iter().flatten().filter_map(user_id).collect());
    let body = if reply_to.is_some() || falls_back { without_quote(body) } else { body };
    Some(Message { kind, body: body.to_owned(), html, mentions, reply_to, thread, content: content.clone() })
}

fn reaction(content: &Value) -> Option<EventKind> {
    let relation = &content["m.relates_to"];
    let target = event_id(&relation["event_id"])?;
    (relation["rel_type"] == "m.annotation")
        .then(|| EventKind::Reaction { target, key: relation["key"].as_str().unwrap_or_default().to_owned() })
}

fn membership(raw: &Value) -> Option<EventKind> {
    let user = user_id(&raw["state_key"])?;
    let change = match raw["content"]["membership"].as_str()? {
        "join" => Membership::Joined,
        "invite" => Membership::Invited,
        _ => Membership::Left,
    };
    Some(EventKind::Membership { user, change })
}

/// Takes off the quote of the replied-to message (lines that begin with "> ", then an empty line), which clients wrote
/// before Matrix 1.13.
fn without_quote(body: &str) -> &str {
    if !body.starts_with("> <") && !body.starts_with("> * <") {
        return body;
    }
    let mut rest = body;
    while rest.starts_with('>') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest.strip_prefix('\n').unwrap_or(rest)
}

fn event_id(value: &Value) -> Option<OwnedEventId> {
    value.as_str().and_then(|id| EventId::parse(id).ok())
}

fn user_id(value: &Value) -> Option<OwnedUserId> {
    value.as_str().and_then(|id| UserId::parse(id).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use proptest::prelude::*;
    use ruma::{event_id, owned_event_id, owned_user_id, room_id, uint, user_id};
    use serde_json::json;

    use super::*;

    fn parsed(event_type: &str, content: Value) -> EventKind {
        let raw = json!({"type": event_type, "event_id": "$e", "sender": "@alice:example.org",
            "origin_server_ts": 7, "content": content});
        parse(room_id!("!r:example.org"), &raw, Protection::Clear).unwrap().kind
    }

    fn text(content: Value) -> Message {
        match parsed("m.room.message", content) {
            EventKind::Message(message) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_keeps_all_its_parts() {
        let content = json!({"msgtype": "m.text", "body": "hi", "format": "org.matrix.custom.html",
            "formatted_body": "<b>hi</b>", "m.mentions": {"user_ids": ["@bot:example.org", "nonsense"]},
            "dev.example": [1]});
        let raw = json!({"type": "m.room.message", "event_id": "$e", "sender": "@alice:example.org",
            "origin_server_ts": 7, "content": content});
        let event = parse(room_id!("!r:example.org"), &raw, Protection::Clear).unwrap();
        assert_eq!(
            event,
            Event {
                room: room_id!("!r:example.org").to_owned(),
                id: event_id!("$e").to_owned(),
                sender: user_id!("@alice:example.org").to_owned(),
                sent_at: MilliSecondsSinceUnixEpoch(uint!(7)),
                protection: Protection::Clear,
                kind: EventKind::Message(Message {
                    kind: MessageKind::Text,
                    body: "hi".into(),
                    html: Some("<b>hi</b>".into()),
                    mentions: Some(vec![owned_user_id!("@bot:example.org")]),
                    reply_to: None,
                    thread: None,
                    content,
                }),
            }
        );
    }

    #[test]
    fn an_edit_carries_its_new_content_only() {
        let new = json!({"msgtype": "m.text", "body": "right"});
        let kind = parsed(
            "m.room.message",
            json!({"msgtype": "m.text", "body": "* right", "m.new_content": new,
                "m.relates_to": {"rel_type": "m.replace", "event_id": "$first"}}),
        );
        assert_eq!(kind, EventKind::Edit { target: owned_event_id!("$first"), message: text(new) });
    }

    #[test]
    fn an_edit_without_new_content_is_no_message() {
        let kind = parsed(
            "m.room.message",
            json!({"msgtype": "m.text", "body": "* x", "m.relates_to": {"rel_type": "m.replace", "event_id": "$f"}}),
        );
        assert_eq!(kind, EventKind::Other { event_type: "m.room.message".into() });
    }

    #[test]
    fn a_reply_in_a_thread_is_a_reply_and_a_fall_back_is_none() {
        let of = |falling_back: bool| {
            let message = text(json!({"msgtype": "m.text", "body": "x", "m.relates_to": {"rel_type": "m.thread",
                "event_id": "$root", "is_falling_back": falling_back, "m.in_reply_to": {"event_id": "$last"}}}));
            (message.thread, message.reply_to)
        };
        assert_eq!(of(true), (Some(owned_event_id!("$root")), None));
        assert_eq!(of(false), (Some(owned_event_id!("$root")), Some(owned_event_id!("$last"))));
    }

    #[test]
    fn the_quote_of_an_old_client_is_taken_off_a_reply_only() {
        let body = "> <@bob:example.org> first\n> second\n\nmy words\n> mine too";
        let reply = json!({"msgtype": "m.text", "body": body, "m.relates_to": {"m.in_reply_to": {"event_id": "$b"}}});
        assert_eq!(text(reply).body, "my words\n> mine too");
        assert_eq!(text(json!({"msgtype": "m.text", "body": body})).body, body);
    }

    #[test]
    fn both_places_of_a_redaction_are_read() {
        let new = parsed("m.room.redaction", json!({"redacts": "$gone"}));
        let old = json!({"type": "m.room.redaction", "event_id": "$e", "sender": "@alice:example.org",
            "origin_server_ts": 7, "redacts": "$gone", "content": {}});
        let old = parse(room_id!("!r:example.org"), &old, Protection::Clear).unwrap().kind;
        assert_eq!((&new, &old), (&old, &EventKind::Redaction { target: owned_event_id!("$gone") }));
    }

    #[test]
    fn reactions_and_memberships_are_told_from_the_rest() {
        let reaction = json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$e", "key": "🛑"}});
        assert_eq!(
            parsed("m.reaction", reaction),
            EventKind::Reaction { target: owned_event_id!("$e"), key: "🛑".into() }
        );
        let verification = json!({"msgtype": "m.key.verification.request", "body": "wants to verify", "to": "@b:x"});
        assert_eq!(parsed("m.room.message", verification), EventKind::Other { event_type: "m.room.message".into() });
        assert_eq!(
            parsed("m.room.encrypted", json!({"session_id": "s"})),
            EventKind::Undecryptable { session: Some("s".into()) }
        );
        assert_eq!(parsed("m.room.member", json!({})), EventKind::Other { event_type: "m.room.member".into() });
    }

    #[test]
    fn an_event_without_an_id_is_refused() {
        let error = parse(room_id!("!r:example.org"), &json!({}), Protection::Clear).unwrap_err();
        assert_eq!(error.to_string(), "an event without a valid event_id");
    }

    proptest! {
        #[test]
        fn a_quote_is_taken_off_without_a_panic(body in "(> <)?[> \na-zé]{0,40}") {
            prop_assert!(body.ends_with(without_quote(&body)));
        }
    }
}
