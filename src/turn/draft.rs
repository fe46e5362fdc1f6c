//! The answer while it is being written: one message, edited.
//!
//! Nothing is posted before there is something worth reading, since the first event is the one that notifies. The text of
//! earlier steps stays; the text of the running step can be taken back, when its attempt failed or its prompt changed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use mxblocks::{MAX_LABEL, RICH_VERSION};
use ruma::{OwnedEventId, OwnedRoomId, OwnedUserId, UserId};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    config::Switch,
    outbox::{Answer, Carried, Liveness, Outbox, Place, Post, PostError, Rich, Text, TextKind, sent_size},
    render::{Ask, Choice, Piece, Shown, first_sentence_ends, pieces, split, without_asks},
};

/// A model that writes this and nothing else wants to say nothing.
pub const NO_REPLY: &str = "[no reply]";

/// More text is handed to the outbox no more often than this: it is rendered each time, and edits are further apart anyway.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// Whether the transcript remembers an answer. What failed is no example for later ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    Remembered,
    Forgotten,
}

/// Where a draft goes and how it behaves.
#[derive(Debug, Clone)]
pub struct DraftSettings {
    /// The message that is answered; none where nobody asked.
    pub origin: Option<OwnedEventId>,
    /// The room.
    pub room: OwnedRoomId,
    /// Where in it.
    pub place: Place,
    /// Whom it mentions.
    pub mentions: Vec<OwnedUserId>,
    /// Whom it mentions too where its text names them by their full user id.
    pub agents: Arc<BTreeSet<OwnedUserId>>,
    /// Text that has waited this long is shown, sentence or not.
    pub first_after: Duration,
    /// The largest event as sent, in bytes.
    pub max_event_bytes: usize,
    /// Whether a question with choices gets buttons.
    pub buttons: Switch,
    /// Whether it gets reactions to press.
    pub seeds: Switch,
}

/// The answer while it is being written.
pub(super) struct Draft {
    outbox: Outbox,
    settings: DraftSettings,
    post: Post,
    settled: String,
    step: String,
    /// What was shown last.
    shown: String,
    /// Since when there is text that was not shown.
    unshown_since: Option<Instant>,
}

/// A draft's last words, as they were posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finished {
    /// What the transcript remembers; empty where that is nothing.
    pub text: String,
    /// The events; more than one where it had to be split.
    pub events: Vec<OwnedEventId>,
}

impl Draft {
    pub(super) fn new(outbox: Outbox, post: Post, settings: DraftSettings) -> Self {
        Self {
            outbox,
            settings,
            post,
            settled: String::new(),
            step: String::new(),
            shown: String::new(),
            unshown_since: None,
        }
    }

    /// More text of the running step.
    pub(super) fn push(&mut self, text: &str) {
        self.step.push_str(text);
        self.unshown_since.get_or_insert_with(Instant::now);
        let first = !self.post.is_begun() && (!self.settled.is_empty() || first_sentence_ends(&self.step));
        if first || self.due().is_some_and(|due| due <= Instant::now()) {
            self.show();
        }
    }

    /// When text that nobody sees yet must be shown.
    pub(super) fn due(&self) -> Option<Instant> {
        let wait = if self.post.is_begun() { SHOW_EVERY } else { self.settings.first_after };
        self.unshown_since.map(|since| since + wait)
    }

    /// Shows what there is.
    pub(super) fn show(&mut self) {
        self.unshown_since = None;
        let nothing_to_say = NO_REPLY.starts_with(self.step.trim());
        let text = if nothing_to_say { self.settled.clone() } else { self.text() };
        if text.is_empty() {
            return;
        }
        let part = self.parts(&without_asks(&text)).into_iter().next().unwrap_or_default();
        if part.is_empty() {
            return;
        }
        // A draft that has outgrown its event stands as it is until the rest follows at the end.
        if part == self.shown {
            return;
        }
        self.shown.clone_from(&part);
        self.post.show(&self.event_text(part, Liveness::Live));
    }

    /// Takes the running step's text back.
    pub(super) fn restart_step(&mut self) {
        self.step.clear();
    }

    /// The running step is over: its text stays, unless it is [`NO_REPLY`], and is given back.
    pub(super) fn end_step(&mut self) -> String {
        if self.step.trim() != NO_REPLY {
            self.settled = self.text();
        }
        std::mem::take(&mut self.step).trim().to_owned()
    }

    /// Whether anything of it was shown.
    pub(super) fn is_begun(&self) -> bool {
        self.post.is_begun()
    }

    /// All text so far.
    pub(super) fn text(&self) -> String {
        match (self.settled.trim(), self.step.trim()) {
            ("", step) => step.to_owned(),
            (settled, "") => settled.to_owned(),
            (settled, step) => format!("{settled}\n\n{step}"),
        }
    }

    /// Delivers the whole, with a mark at the end where it broke off, as one message or several.
    pub(super) async fn finish(self, mark: Option<&str>, memory: Memory) -> Result<Finished, PostError> {
        let said = self.text();
        let text = match (said.is_empty(), mark) {
            (_, None) => said.clone(),
            (true, Some(mark)) => mark.to_owned(),
            (false, Some(mark)) => format!("{}\n\n*{mark}*", closed(&said)),
        };
        // A mark alone is a service's word.
        let parts =
            if said.is_empty() && !self.post.is_begun() { vec![Text::notice(text)] } else { self.messages(&text) };
        let answer = Answer {
            origin: self.settings.origin.clone(),
            room: self.settings.room.clone(),
            place: self.settings.place.clone(),
            parts,
            // Without the mark: it is ours, and a model that reads it as its own words writes it again.
            remembered: Some(said).filter(|said| memory == Memory::Remembered && !said.is_empty()),
        };
        let events = self.outbox.deliver(self.post, &answer).await?;
        Ok(Finished { text: answer.remembered.unwrap_or_default(), events })
    }

    /// Ends without a word, where none was shown.
    pub(super) fn discard(self) {
        drop(self.post);
    }

    /// The messages that the answer becomes: a question with choices is one of its own, and what is too long is split. The
    /// first one alone names the person.
    fn messages(&self, text: &str) -> Vec<Text> {
        let mut messages = Vec::new();
        let pieces = match self.settings.buttons {
            Switch::On => pieces(text),
            Switch::Off => vec![Piece { text: without_asks(text), ask: None }],
        };
        for Piece { text, ask } in pieces {
            let mut parts: Vec<_> =
                self.parts(&text).into_iter().map(|part| self.event_text(part, Liveness::Finished)).collect();
            if let (Some(last), Some(ask)) = (parts.last_mut(), ask) {
                last.rich = Some(buttons(&ask, self.settings.seeds));
            }
            messages.extend(parts);
        }
        if messages.is_empty() {
            messages.push(self.event_text(text.to_owned(), Liveness::Finished));
        }
        for further in messages.iter_mut().skip(1) {
            further.mentions.clear();
        }
        messages
    }

    fn parts(&self, text: &str) -> Vec<String> {
        let fits = |part: &str| {
            sent_size(&self.event_text(part.to_owned(), Liveness::Live).content()) <= self.settings.max_event_bytes
        };
        split(text, fits)
    }

    fn event_text(&self, markdown: String, liveness: Liveness) -> Text {
        let mut mentions = self.settings.mentions.clone();
        for agent in named(&markdown, &self.settings.agents) {
            if !mentions.contains(agent) {
                mentions.push(agent.clone());
            }
        }
        Text { markdown, mentions, kind: TextKind::Answer, liveness, rich: None }
    }
}

/// Those whose full user ids stand in a text.
fn named<'a>(text: &'a str, agents: &'a BTreeSet<OwnedUserId>) -> impl Iterator<Item = &'a OwnedUserId> {
    let is_of_id = |c: char| c.is_ascii_alphanumeric() || "@:._=-/+".contains(c);
    text.split(move |c| !is_of_id(c)).filter(|word| word.starts_with('@')).filter_map(|word| {
        let user = UserId::parse(word.trim_end_matches(['.', ':'])).ok()?;
        agents.get(&user)
    })
}

/// The blocks of a question with choices.
fn buttons(ask: &Ask, seeds: Switch) -> Rich {
    let button = |choice: &Choice| {
        let label = if choice.label.is_empty() { &choice.key } else { &choice.label };
        let label = label.chars().take(MAX_LABEL).collect::<String>();
        json!({"label": label, "action": {"type": "react", "key": choice.key}})
    };
    let buttons: Vec<_> = ask.choices.iter().map(button).collect();
    Rich {
        payload: json!({"v": RICH_VERSION, "blocks": [{"type": "buttons", "buttons": buttons}]}),
        html: None,
        carried: match ask.shown {
            Shown::Buttons => Carried::InEvent,
            Shown::Reactions => Carried::Unseen,
        },
        seeds: match seeds {
            Switch::On => ask.choices.iter().map(|choice| choice.key.clone()).collect(),
            Switch::Off => Vec::new(),
        },
    }
}

/// Text that broke off inside a fence gets its end, so that what follows is no code.
fn closed(text: &str) -> String {
    let mut open: Option<&str> = None;
    for line in text.lines().map(str::trim_start) {
        let fence = &line[..line.len() - line.trim_start_matches(['`', '~']).len()];
        match open {
            None if fence.len() >= 3 => open = Some(fence),
            Some(opened) if fence.starts_with(opened) && line.trim_end() == fence => open = None,
            _ => {}
        }
    }
    open.map_or_else(|| text.to_owned(), |fence| format!("{text}\n{fence}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ruma::{OwnedUserId, owned_user_id};

    use super::{closed, named};

    #[test]
    fn an_agent_is_named_by_its_full_user_id() {
        let agents = BTreeSet::from([owned_user_id!("@cook:example.org"), owned_user_id!("@guide:example.org")]);
        let of = |text| named(text, &agents).map(OwnedUserId::to_string).collect::<Vec<_>>();
        for text in ["@cook:example.org: soup?", "Ask (`@cook:example.org`).", "So, @cook:example.org."] {
            assert_eq!(of(text), ["@cook:example.org"], "{text}");
        }
        for text in ["cook", "@cook", "@cook:example.organic", "@alice:example.org", "x@cook:example.org"] {
            assert_eq!(of(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn an_open_fence_gets_its_end_and_a_closed_one_none() {
        assert_eq!(closed("a\n```rust\nlet x"), "a\n```rust\nlet x\n```");
        assert_eq!(closed("````\n```\nstill code"), "````\n```\nstill code\n````");
        assert_eq!(closed("```\ncode\n```\ntext"), "```\ncode\n```\ntext");
        assert_eq!(closed("~~~\n```"), "~~~\n```\n~~~");
    }
}
