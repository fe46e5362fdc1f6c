//! Which message is sent next: a pure function of the messages that wait, the budget and the time.
//!
//! Every [`Entry`] is one logical message and holds only its newest wanted content; what was wanted before and never sent
//! is gone, which is how edits merge. An entry has at most one payload under way, and a room at most one post, so the order
//! in a room is that of the posts.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ruma::{OwnedEventId, OwnedRoomId, OwnedTransactionId, TransactionId};
use serde_json::Value;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Part, PostError,
    budget::{Budget, Class, Grant},
    content::{Place, edit, first},
};

/// Rooms with a payload under way at once. More wait; nothing is lost by it.
const MAX_UNDER_WAY: usize = 8;

pub(super) type PostId = u64;

/// One logical message and what is wanted of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub room: OwnedRoomId,
    pub place: Place,
    /// What it is a part of.
    pub part: Option<Part>,
    /// The newest content that is not yet sent.
    pub wanted: Option<Value>,
    /// Since when there is something that was not sent, whatever has replaced it.
    pub wanted_since: Option<Instant>,
    /// Whether `wanted` is the last one.
    pub last: bool,
    /// The first event, once the homeserver has it.
    pub event: Option<OwnedEventId>,
    /// The payload under way, or to be repeated as it is.
    pub frozen: Option<Frozen>,
    /// Whether the frozen payload is in the store.
    pub stored: bool,
    /// Whether an attempt is running.
    pub under_way: bool,
    /// Not before this.
    pub not_before: Instant,
    /// When the newest payload was taken.
    pub taken_at: Option<Instant>,
    /// Edits sent.
    pub edits: u32,
    /// Attempts at the frozen payload that failed.
    pub failures: u32,
    /// When the frozen payload was first tried.
    pub tried_since: Instant,
    /// Whether a draft was refused for good: then only the last content is tried.
    pub refused: bool,
    /// Told how the last content went.
    pub done: Option<oneshot::Sender<Result<OwnedEventId, PostError>>>,
}

/// A payload with its transaction id: the same at each attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Frozen {
    pub txn: OwnedTransactionId,
    pub content: Value,
    pub class: Class,
    /// Since when its oldest words were wanted.
    pub wanted_since: Instant,
    /// Whether it holds the post's last content.
    pub last: bool,
}

/// An attempt to be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attempt {
    pub post: PostId,
    pub room: OwnedRoomId,
    pub part: Option<Part>,
    pub frozen: Frozen,
    pub grant: Grant,
    /// Whether the payload is in the store already.
    pub stored: bool,
    /// The payload that this one replaces; it will not be tried again.
    pub supersedes: Option<OwnedTransactionId>,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Make this attempt now.
    Attempt(Box<Attempt>),
    /// Look again then, or when something changes.
    At(Instant),
    /// Nothing to do until something changes.
    Idle,
}

/// Pace of the edits of one message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub edit_every: Duration,
    pub max_edits: u32,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub posts: BTreeMap<PostId, Entry>,
    pub budget: Budget,
    pub pace: Pace,
}

impl Queue {
    /// Messages with something to be sent.
    pub fn waiting(&self) -> usize {
        self.posts.values().filter(|post| post.has_work(self.pace)).count()
    }

    /// Chooses the next attempt and marks it as under way.
    pub fn next(&mut self, now: Instant) -> Next {
        let working = || self.posts.iter().filter(|(_, post)| post.has_work(self.pace));
        let mut busy: BTreeSet<&OwnedRoomId> =
            self.posts.values().filter(|post| post.under_way).map(|post| &post.room).collect();
        let mut candidates: Vec<(Class, Instant, PostId)> = Vec::new();
        let mut wake: Option<Instant> = None;
        // A room's first post that is to be there goes; its edits wait for all of those, since they may be skipped.
        let to_be_there = working().filter(|(_, post)| post.class() != Class::Edit);
        let edits = working().filter(|(_, post)| post.class() == Class::Edit);
        for (id, post) in to_be_there.chain(edits) {
            if !busy.insert(&post.room) {
                continue;
            }
            let class = post.class();
            let ready_at = post.ready_at(class, self.pace);
            if ready_at > now {
                wake = Some(wake.map_or(ready_at, |wake| wake.min(ready_at)));
            } else {
                candidates.push((class, post.taken_at.unwrap_or(post.not_before), *id));
            }
        }
        if self.posts.values().filter(|post| post.under_way).count() >= MAX_UNDER_WAY {
            return Next::Idle;
        }
        candidates.sort();
        let Some((class, _, id)) = candidates.first().copied() else {
            return wake.map_or(Next::Idle, Next::At);
        };
        match self.budget.take(class, now) {
            Err(at) => Next::At(wake.map_or(at, |wake| wake.min(at))),
            Ok(grant) => match self.posts.get_mut(&id).and_then(|post| post.attempt(id, grant, now)) {
                Some(attempt) => Next::Attempt(Box::new(attempt)),
                None => Next::Idle,
            },
        }
    }
}

impl Entry {
    /// A message of which nothing is wanted yet.
    pub fn new(room: OwnedRoomId, place: Place, now: Instant) -> Self {
        Self {
            room,
            place,
            part: None,
            wanted: None,
            wanted_since: None,
            last: false,
            event: None,
            frozen: None,
            stored: false,
            under_way: false,
            not_before: now,
            taken_at: None,
            edits: 0,
            failures: 0,
            tried_since: now,
            refused: false,
            done: None,
        }
    }

    /// Wants this content, instead of what was wanted before and never sent.
    pub fn want(&mut self, content: Value, now: Instant) {
        self.wanted = Some(content);
        self.wanted_since.get_or_insert(now);
    }

    fn has_work(&self, pace: Pace) -> bool {
        let may_be_shown = !self.refused && (self.event.is_none() || self.edits < pace.max_edits);
        self.frozen.is_some() || (self.wanted.is_some() && (self.last || may_be_shown))
    }

    fn class(&self) -> Class {
        match (&self.frozen, self.last) {
            (Some(frozen), false) => frozen.class,
            // A last word that waits behind a frozen payload lends it its rank.
            (_, true) => Class::Final,
            (None, false) if self.event.is_none() => Class::First,
            (None, false) => Class::Edit,
        }
    }

    fn ready_at(&self, class: Class, pace: Pace) -> Instant {
        match (class, self.taken_at) {
            (Class::Edit, Some(taken_at)) => self.not_before.max(taken_at + pace.edit_every),
            _ => self.not_before,
        }
    }

    fn attempt(&mut self, id: PostId, grant: Grant, now: Instant) -> Option<Attempt> {
        // An edit that was not taken yields to a newer one; a first event never does: it may be there already.
        let supersedes = match &self.frozen {
            Some(frozen) if frozen.class == Class::Edit && self.wanted.is_some() => self.frozen.take().map(|frozen| {
                self.wanted_since = Some(frozen.wanted_since);
                frozen.txn
            }),
            _ => None,
        };
        if self.frozen.is_none() {
            let wanted = self.wanted.take()?;
            let (class, content) = match &self.event {
                None => (Class::First, first(&wanted, &self.place)),
                Some(event) => (Class::Edit, edit(&wanted, event)),
            };
            let class = if self.last { Class::Final } else { class };
            let wanted_since = self.wanted_since.take().unwrap_or(now);
            self.frozen = Some(Frozen { txn: TransactionId::new(), content, class, wanted_since, last: self.last });
            (self.stored, self.failures, self.tried_since) = (false, 0, now);
        }
        self.under_way = true;
        let frozen = self.frozen.clone()?;
        let (room, part) = (self.room.clone(), self.part.clone());
        Some(Attempt { post: id, room, part, frozen, grant, stored: self.stored, supersedes })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use ruma::owned_event_id;
    use serde_json::json;

    use super::*;

    fn queue(now: Instant) -> Queue {
        Queue {
            posts: BTreeMap::new(),
            budget: Budget::new(100.0, 100, now),
            pace: Pace { edit_every: Duration::from_millis(2500), max_edits: 3 },
        }
    }

    fn post(room: &str, wanted: &str, now: Instant) -> Entry {
        Entry { wanted: Some(json!({"body": wanted})), ..Entry::new(room.try_into().unwrap(), Place::default(), now) }
    }

    fn attempt(next: Next) -> Attempt {
        match next {
            Next::Attempt(attempt) => *attempt,
            other => panic!("{other:?}"),
        }
    }

    fn taken(queue: &mut Queue, id: PostId, now: Instant) {
        let post = queue.posts.get_mut(&id).unwrap();
        post.under_way = false;
        post.frozen = None;
        post.event.get_or_insert(owned_event_id!("$first"));
        post.taken_at = Some(now);
    }

    #[test]
    fn finals_go_before_first_events_and_those_before_edits() {
        let now = Instant::now();
        let mut queue = queue(now);
        queue.posts.insert(1, Entry { event: Some(owned_event_id!("$e")), ..post("!edit:x", "edit", now) });
        queue.posts.insert(2, post("!first:x", "first", now));
        queue.posts.insert(3, Entry { last: true, ..post("!final:x", "final", now) });
        let order: Vec<_> = (0..3).map(|_| attempt(queue.next(now)).post).collect();
        assert_eq!(order, [3, 2, 1]);
        assert_eq!(queue.next(now), Next::Idle);
    }

    #[test]
    fn edits_merge_while_they_wait() {
        let now = Instant::now();
        let mut queue = queue(now);
        queue.posts.insert(1, post("!r:x", "one", now));
        assert_eq!(attempt(queue.next(now)).frozen.content, json!({"body": "one"}));
        taken(&mut queue, 1, now);
        for wanted in ["two", "three"] {
            queue.posts.get_mut(&1).unwrap().wanted = Some(json!({"body": wanted}));
        }
        let later = now + Duration::from_millis(2500);
        assert_eq!(queue.next(now), Next::At(later));
        assert_eq!(attempt(queue.next(later)).frozen.content["m.new_content"], json!({"body": "three"}));
    }

    #[test]
    fn the_last_word_waits_for_no_pace_and_no_count_of_edits() {
        let now = Instant::now();
        let mut queue = queue(now);
        queue.posts.insert(
            1,
            Entry { event: Some(owned_event_id!("$e")), taken_at: Some(now), edits: 3, ..post("!r:x", "edit", now) },
        );
        assert_eq!(queue.next(now), Next::Idle);
        let post = queue.posts.get_mut(&1).unwrap();
        (post.wanted, post.last) = (Some(json!({"body": "last"})), true);
        assert!(attempt(queue.next(now)).frozen.last);
    }

    #[test]
    fn a_rooms_posts_go_in_order() {
        let now = Instant::now();
        let mut queue = queue(now);
        queue.posts.insert(1, post("!r:x", "one", now));
        queue.posts.insert(2, Entry { last: true, ..post("!r:x", "two", now) });
        assert_eq!(attempt(queue.next(now)).post, 1);
        assert_eq!(queue.next(now), Next::Idle);
        taken(&mut queue, 1, now);
        assert_eq!(attempt(queue.next(now)).post, 2);
    }

    #[test]
    fn an_edit_that_waits_for_its_pace_holds_up_nothing_else_in_its_room() {
        let now = Instant::now();
        let mut queue = queue(now);
        let streaming = Entry { event: Some(owned_event_id!("$e")), taken_at: Some(now), ..post("!r:x", "edit", now) };
        queue.posts.insert(1, streaming);
        queue.posts.insert(2, Entry { last: true, ..post("!r:x", "final", now) });
        assert_eq!(attempt(queue.next(now)).post, 2);
    }

    #[test]
    fn a_failed_first_event_is_repeated_as_it_was_and_a_failed_edit_yields_to_a_newer_one() {
        let now = Instant::now();
        let mut queue = queue(now);
        queue.posts.insert(1, post("!r:x", "one", now));
        let tried = attempt(queue.next(now)).frozen;
        let post = queue.posts.get_mut(&1).unwrap();
        (post.under_way, post.stored, post.wanted) = (false, true, Some(json!({"body": "two"})));
        let again = attempt(queue.next(now));
        assert_eq!((again.frozen, again.stored, again.supersedes), (tried, true, None));
        taken(&mut queue, 1, now - Duration::from_secs(60));

        let edited = attempt(queue.next(now)).frozen;
        let later = now + Duration::from_secs(1);
        let post = queue.posts.get_mut(&1).unwrap();
        post.under_way = false;
        post.want(json!({"body": "three"}), later);
        let newer = attempt(queue.next(later));
        assert_eq!(newer.frozen.content["m.new_content"], json!({"body": "three"}));
        assert_ne!(newer.frozen.txn, edited.txn);
        // The room has not seen the older words either.
        assert_eq!(newer.frozen.wanted_since, edited.wanted_since);
        assert_eq!(newer.supersedes, Some(edited.txn));
    }

    #[test]
    fn no_more_rooms_are_under_way_than_allowed() {
        let now = Instant::now();
        let mut queue = queue(now);
        for id in 0..10 {
            queue.posts.insert(id, post(&format!("!r{id}:x"), "x", now));
        }
        let sent = std::iter::from_fn(|| matches!(queue.next(now), Next::Attempt(_)).then_some(())).count();
        assert_eq!(sent, MAX_UNDER_WAY);
    }
}
