//! Is this message for the agent? A pure function.

use matrix_link::{Message, MessageKind};
use ruma::UserId;

/// What is known of the message's surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts<'a> {
    /// The agent.
    pub own: &'a UserId,
    /// The room is direct (by `m.direct`).
    pub direct: bool,
    /// It replies to a message of the agent.
    pub reply_to_own: bool,
    /// It stands in a thread that the agent takes part in.
    pub in_own_thread: bool,
}

/// Why a message is for the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// All messages of a direct room are.
    Direct,
    /// It names the agent.
    Mention,
    /// It answers the agent.
    Reply,
    /// The agent takes part in the thread.
    Thread,
}

/// Why the message is for the agent; None when it is not. A notice never is: bots write notices, and two bots that answer
/// each other never end. Nor is a message of a kind that we don't know, such as a request to verify a device.
pub(super) fn addressed(message: &Message, facts: Facts<'_>) -> Option<Reason> {
    if matches!(message.kind, MessageKind::Notice | MessageKind::Other) {
        None
    } else if facts.direct {
        Some(Reason::Direct)
    } else if mentions(message, facts.own) {
        Some(Reason::Mention)
    } else if facts.reply_to_own {
        Some(Reason::Reply)
    } else if facts.in_own_thread {
        Some(Reason::Thread)
    } else {
        None
    }
}

/// `m.mentions` decides where the client sends it; else a pill's link; else the full id in the text.
fn mentions(message: &Message, own: &UserId) -> bool {
    if let Some(mentioned) = message.mentions_user(own) {
        return mentioned;
    }
    message.html.as_deref().is_some_and(|html| has_pill(html, own)) || names(&message.body, own)
}

/// Whether the HTML links to the user: `https://matrix.to/#/@user:server` or `matrix:u/user:server`.
fn has_pill(html: &str, own: &UserId) -> bool {
    let id = own.as_str();
    html.split("href=").skip(1).any(|rest| {
        let quote = rest.chars().next().filter(|first| ['"', '\''].contains(first));
        let link = quote.and_then(|quote| rest[1..].split(quote).next()).unwrap_or_default();
        let target = link
            .strip_prefix("https://matrix.to/#/")
            .map(|target| target.replace("%40", "@").replace("%3A", ":"))
            .or_else(|| link.strip_prefix("matrix:u/").map(|target| format!("@{target}")));
        target.is_some_and(|target| target.split('?').next() == Some(id))
    })
}

/// Whether the text has the full user id on word borders.
fn names(text: &str, own: &UserId) -> bool {
    let id = own.as_str();
    text.match_indices(id).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut after = text[at + id.len()..].chars();
        let (next, further) = (after.next(), after.next());
        let border_before = before.is_none_or(|c| !c.is_alphanumeric() && !"/#@._=-".contains(c));
        let border_after = match next {
            None => true,
            // A full stop or a colon ends the name, unless a server name goes on behind it.
            Some('.' | ':') => further.is_none_or(|c| !c.is_alphanumeric()),
            Some(c) => !c.is_alphanumeric() && !"_-/".contains(c),
        };
        border_before && border_after
    })
}

/// The text without a leading mention of the agent, for commands: `@bot:server: !help` is `!help`.
pub(super) fn without_mention<'a>(text: &'a str, own: &UserId, name: &str) -> &'a str {
    let text = text.trim();
    let rest = [own.as_str(), name, own.localpart()]
        .into_iter()
        .find_map(|mention| text.strip_prefix('@').unwrap_or(text).strip_prefix(mention.trim_start_matches('@')));
    match rest {
        Some(rest) if rest.starts_with([':', ',', ' ', '!']) => rest.trim_start_matches([':', ',', ' ']),
        _ => text,
    }
}

/// Whether a message is nothing but a stop word.
pub(super) fn is_stop_word(text: &str) -> bool {
    let word = text.trim().trim_end_matches(['!', '.']).trim();
    ["stop", "🛑"].iter().any(|stop| word.eq_ignore_ascii_case(stop))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use matrix_link::{EventKind, Protection, parse};
    use proptest::prelude::*;
    use ruma::{room_id, user_id};
    use serde_json::{Value, json};

    use super::*;

    const OWN: &str = "@bot:example.org";

    fn message(content: Value) -> Message {
        let raw = json!({"type": "m.room.message", "event_id": "$e", "sender": "@alice:example.org",
            "origin_server_ts": 1, "content": content});
        match parse(room_id!("!r:example.org"), &raw, Protection::Clear).unwrap().kind {
            EventKind::Message(message) => message,
            other => panic!("{other:?}"),
        }
    }

    fn text(body: &str) -> Message {
        message(json!({"msgtype": "m.text", "body": body}))
    }

    fn pill(html: &str) -> Message {
        message(json!({"msgtype": "m.text", "body": "Bot: hi", "format": "org.matrix.custom.html",
            "formatted_body": html}))
    }

    fn in_group(message: &Message) -> Option<Reason> {
        let own = UserId::parse(OWN).unwrap();
        addressed(message, Facts { own: &own, direct: false, reply_to_own: false, in_own_thread: false })
    }

    #[test]
    fn each_surrounding_is_a_reason_and_none_is_none() {
        let facts =
            Facts { own: user_id!("@bot:example.org"), direct: false, reply_to_own: false, in_own_thread: false };
        let hi = text("hi");
        assert_eq!(addressed(&hi, facts), None);
        assert_eq!(addressed(&hi, Facts { direct: true, ..facts }), Some(Reason::Direct));
        assert_eq!(addressed(&hi, Facts { reply_to_own: true, ..facts }), Some(Reason::Reply));
        assert_eq!(addressed(&hi, Facts { in_own_thread: true, ..facts }), Some(Reason::Thread));
    }

    #[test]
    fn a_notice_is_never_for_the_agent() {
        let facts = Facts { own: user_id!("@bot:example.org"), direct: true, reply_to_own: true, in_own_thread: true };
        let notice = message(json!({"msgtype": "m.notice", "body": OWN, "m.mentions": {"user_ids": [OWN]}}));
        assert_eq!(addressed(&notice, facts), None);
    }

    #[test]
    fn m_mentions_decides_alone_where_it_is_there() {
        let named = json!({"msgtype": "m.text", "body": "hi", "m.mentions": {"user_ids": [OWN]}});
        let only_text = json!({"msgtype": "m.text", "body": OWN, "m.mentions": {}});
        assert_eq!(in_group(&message(named)), Some(Reason::Mention));
        assert_eq!(in_group(&message(only_text)), None);
    }

    #[test]
    fn a_pill_is_known_by_its_link_and_not_by_its_name() {
        for link in [
            "https://matrix.to/#/@bot:example.org",
            "https://matrix.to/#/%40bot%3Aexample.org",
            "https://matrix.to/#/@bot:example.org?via=example.org",
            "matrix:u/bot:example.org",
            "matrix:u/bot:example.org?action=chat",
        ] {
            assert_eq!(in_group(&pill(&format!("<a href=\"{link}\">Bot</a>: hi"))), Some(Reason::Mention), "{link}");
        }
        for link in ["https://matrix.to/#/@bot:example.org.evil", "https://example.org/@bot:example.org", ""] {
            assert_eq!(in_group(&pill(&format!("<a href='{link}'>{OWN}</a>"))), None, "{link}");
        }
    }

    #[test]
    fn a_name_in_the_text_counts_on_word_borders_only() {
        for body in ["@bot:example.org hi", "hi @bot:example.org.", "(@bot:example.org)", "@bot:example.org: hi"] {
            assert_eq!(in_group(&text(body)), Some(Reason::Mention), "{body}");
        }
        for body in [
            "https://matrix.to/#/@bot:example.org",
            "@bot:example.organic",
            "@bot:example.org.uk",
            "@bot:example.org:8448",
            "x@bot:example.org",
            "bot: hi",
        ] {
            assert_eq!(in_group(&text(body)), None, "{body}");
        }
    }

    #[test]
    fn a_leading_mention_is_taken_off_for_commands() {
        let own = user_id!("@bot:example.org");
        for text in ["!help", "@bot:example.org: !help", "Waybread, !help", "@Waybread !help", "bot: !help"] {
            assert_eq!(without_mention(text, own, "Waybread"), "!help", "{text}");
        }
        assert_eq!(without_mention("bottom line", own, "Waybread"), "bottom line");
    }

    #[test]
    fn a_stop_word_stands_alone() {
        for text in ["stop", "Stop!", " STOP. ", "🛑"] {
            assert!(is_stop_word(text), "{text}");
        }
        for text in ["stop it", "don't stop", "stopp", ""] {
            assert!(!is_stop_word(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_gate(body in "\\PC{0,60}", html in "(<a href=)?[\"']?\\PC{0,60}") {
            let message = message(json!({"msgtype": "m.text", "body": body, "format": "org.matrix.custom.html",
                "formatted_body": html}));
            in_group(&message);
            without_mention(&body, user_id!("@bot:example.org"), "Waybread");
        }
    }
}
