//! Which message is sent next: a pure function of the messages that wait, the budget and the time.
//!
//! Every [`Entry`] is one logical message and holds only its newest wanted content; what was wanted before and never sent
//! is gone, which is how edits merge. An entry has at most one payload under way, and a room at most one post, so the order
//! in a room is that of the posts. An entry is a message of its own, an edit of one that stands there for good, or a
//! reaction ([`Kind`]).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ruma::{EventId, OwnedEventId, OwnedRoomId, OwnedTransactionId, TransactionId};
use serde_json::Value;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Cause, PostError,
    budget::{Budget, Class, Grant},
    content::{Place, edit, first},
};

/// Rooms with a payload under way at once. More wait; nothing is lost by it.
const MAX_UNDER_WAY: usize = 8;

pub(super) type PostId = u64;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message: edited while it is a draft, and finished once.
    Message,
    /// An edit of a message that stands there for good: paced like a draft's, and never skipped for good.
    Edit,
    /// A reaction: goes when nothing else wants to.
    Reaction,
}

impl Kind {
    /// The type of its events.
    pub fn event_type(self) -> &'static str {
        match self {
            Self::Message | Self::Edit => "m.room.message",
            Self::Reaction => "m.reaction",
        }
    }
}

/// One logical message and what is wanted of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub kind: Kind,
    pub room: OwnedRoomId,
    pub place: Place,
    /// Why it is sent.
    pub cause: Option<Cause>,
    /// The newest content that is not yet sent.
    pub wanted: Option<Value>,
    /// Since when there is something that was not sent, whatever has replaced it.
    pub wanted_since: Option<Instant>,
    /// Whether `wanted` is the last one.
    pub last: bool,
    /// The first event, once the homeserver has it; of an edit, the message that it is of.
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
    pub done: Vec<oneshot::Sender<Result<OwnedEventId, PostError>>>,
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
    pub kind: Kind,
    pub room: OwnedRoomId,
    pub cause: Option<Cause>,
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
    /// When messages that stand there for good were edited last, no longer ago than the pace.
    pub edited: BTreeMap<OwnedEventId, Instant>,
}

impl Queue {
    /// The newest edit of this message that still waits, where there is one: what is newer takes its place.
    pub fn waiting_edit(&mut self, event: &EventId) -> Option<&mut Entry> {
        self.posts
            .values_mut()
            .rev()
            .find(|post| post.kind == Kind::Edit && !post.under_way && post.event.as_deref() == Some(event))
    }

    /// Remembers that a message was edited now.
    pub fn edited_now(&mut self, event: &EventId, now: Instant) {
        let pace = self.pace.edit_every;
        self.edited.retain(|_, at| now.saturating_duration_since(*at) < pace);
        self.edited.insert(event.to_owned(), now);
    }

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
        // A room's first post that is to be there goes; its edits wait for all of those, since they may be skipped, and
        // its reactions for those.
        let of = |class: fn(Class) -> bool| working().filter(move |(_, post)| class(post.class()));
        let to_be_there = of(|class| matches!(class, Class::Final | Class::First));
        let others = of(|class| class == Class::Edit).chain(of(|class| class == Class::Reaction));
        // An edit of a message that stands there never overtakes an earlier one of the same message.
        let mut to_be_edited: BTreeSet<&OwnedEventId> = BTreeSet::new();
        for (id, post) in to_be_there.chain(others) {
            let overtakes =
                post.kind == Kind::Edit && post.event.as_ref().is_some_and(|event| !to_be_edited.insert(event));
            if overtakes || busy.contains(&post.room) {
                continue;
            }
            let class = post.class();
            let ready_at = post.ready_at(class, self.pace, &self.edited);
            // What waits for its pace holds up nobody but its own message.
            let held_up = class == Class::Edit && ready_at > now;
            if !held_up {
                busy.insert(&post.room);
            }
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
            kind: Kind::Message,
            room,
            place,
            cause: None,
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
            done: Vec::new(),
        }
    }

    /// An edit of a message that stands there for good.
    pub fn edit_of(event: OwnedEventId, room: OwnedRoomId, now: Instant) -> Self {
        Self { kind: Kind::Edit, event: Some(event), last: true, ..Self::new(room, Place::default(), now) }
    }

    /// A reaction.
    pub fn reaction(room: OwnedRoomId, now: Instant) -> Self {
        Self { kind: Kind::Reaction, last: true, ..Self::new(room, Place::default(), now) }
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
        match self.kind {
            Kind::Edit => return Class::Edit,
            Kind::Reaction => return Class::Reaction,
            Kind::Message => {}
        }
        match (&self.frozen, self.last) {
            (Some(frozen), false) => frozen.class,
            // A last word that waits behind a frozen payload lends it its rank.
            (_, true) => Class::Final,
            (None, false) if self.event.is_none() => Class::First,
            (None, false) => Class::Edit,
        }
    }

    fn ready_at(&self, class: Class, pace: Pace, edited: &BTreeMap<OwnedEventId, Instant>) -> Instant {
        let taken_at = match self.kind {
            Kind::Edit => self.event.as_ref().and_then(|event| edited.get(event)).copied(),
            Kind::Message | Kind::Reaction => self.taken_at,
        };
        match (class, taken_at) {
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
            let class = match self.kind {
                Kind::Edit => Class::Edit,
                Kind::Reaction => Class::Reaction,
                Kind::Message if self.last => Class::Final,
                Kind::Message => class,
            };
            let wanted_since = self.wanted_since.take().unwrap_or(now);
            self.frozen = Some(Frozen { txn: TransactionId::new(), content, class, wanted_since, last: self.last });
            (self.stored, self.failures, self.tried_since) = (false, 0, now);
        }
        self.under_way = true;
        let frozen = self.frozen.clone()?;
        let (kind, room, cause) = (self.kind, self.room.clone(), self.cause.clone());
        Some(Attempt { post: id, kind, room, cause, frozen, grant, stored: self.stored, supersedes })
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
            edited: BTreeMap::new(),
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
    fn edits_of_a_message_that_stands_there_keep_their_order_also_when_one_fails() {
        let now = Instant::now();
        let mut queue = queue(now);
        let event = owned_event_id!("$stands");
        let edit = |body: &str| {
            let mut entry = Entry::edit_of(event.clone(), "!r:x".try_into().unwrap(), now);
            entry.want(json!({"body": body}), now);
            entry
        };
        queue.posts.insert(1, edit("a"));
        assert_eq!(attempt(queue.next(now)).post, 1);
        assert!(queue.waiting_edit(&event).is_none(), "what is under way is not changed");
        queue.posts.insert(2, edit("b"));
        // It fails, and is to be repeated later.
        let failed = queue.posts.get_mut(&1).unwrap();
        (failed.under_way, failed.not_before) = (false, now + Duration::from_secs(1));
        assert_eq!(queue.next(now), Next::At(now + Duration::from_secs(1)), "the newer one does not overtake it");
        queue.waiting_edit(&event).unwrap().want(json!({"body": "c"}), now);
        let later = now + Duration::from_secs(1);
        assert_eq!(attempt(queue.next(later)).frozen.content["m.new_content"], json!({"body": "a"}));
        queue.posts.remove(&1);
        queue.edited_now(&event, later);
        let then = later + Duration::from_millis(2500);
        assert_eq!(queue.next(later), Next::At(then));
        assert_eq!(attempt(queue.next(then)).frozen.content["m.new_content"], json!({"body": "c"}));
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
