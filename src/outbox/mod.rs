//! The way out: every event that we send goes through here.
//!
//! A [`Post`] is one logical message. Its owner says what should stand there now ([`Post::show`]) and at last what stands
//! there for good ([`Post::finish`]); the outbox moves the homeserver towards it, as fast as the account's budget and the
//! pace of edits allow. Invariants:
//!
//! - a payload is in the store with its transaction id before it is sent, and is repeated with the same one;
//! - edits merge while they wait and may be skipped; a last content is always delivered, or its owner is told why not;
//! - in a room, posts go in the order in which they were made;
//! - what an earlier run left unsettled goes out first, with the same transaction ids;
//! - an [`Answer`] is kept as a whole before its first part is finished, and what an earlier run has sent of it is taken up.
//!
//! `queue` chooses what is next, `budget` says whether it may go, `content` writes the events.

mod answer;
mod budget;
mod content;
mod queue;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use matrix_link::{Outgoing, Payload, SendError, Sender};
use ruma::{EventId, OwnedEventId, OwnedRoomId, RoomId};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, oneshot, watch},
    time::{Instant, sleep_until},
};

pub use answer::{Answer, Earlier};
pub(crate) use content::edit;
pub use content::{Carried, Liveness, Place, Rich, Text, TextKind, sent_size};

use crate::{
    config,
    observe::metrics,
    store::{Cause, NewPayload, Store},
};
use budget::Budget;
use queue::{Attempt, Entry, Frozen, Kind, Next, Pace, PostId, Queue};

/// The wait after a failed attempt doubles from the first to the second.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The way out. A handle: clones share the queue.
#[derive(Clone)]
pub struct Outbox(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    next_id: Mutex<PostId>,
    changed: Notify,
    /// Rooms with events of an earlier run that are not settled yet, and how many; none before they were looked up.
    left: watch::Sender<Option<BTreeMap<OwnedRoomId, usize>>>,
    sender: Arc<dyn Sender>,
    store: Store,
    give_up_after: Duration,
}

/// One logical message. It must be finished: a draft that is dropped would stay marked as live for ever.
#[must_use = "a message must be finished"]
pub struct Post {
    outbox: Outbox,
    id: PostId,
    finished: bool,
}

/// Tells which event a message became.
#[derive(Clone)]
pub struct PostEvent {
    outbox: Outbox,
    id: PostId,
}

/// Why a last content was not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The homeserver says no: not in the room, no right to speak there, too large.
    #[error("the homeserver refused the message: {0}")]
    Refused(String),
    /// It could not be reached for too long.
    #[error("the homeserver could not be reached for too long")]
    GivenUp,
    /// The process is ending; a frozen payload goes out at the next start.
    #[error("the outbox has ended")]
    Ended,
}

impl Outbox {
    /// An outbox; nothing is sent before [`Outbox::run`].
    pub fn new(sender: Arc<dyn Sender>, store: Store, limits: &config::Outbox, draft: &config::Draft) -> Self {
        let queue = Queue {
            posts: BTreeMap::new(),
            budget: Budget::new(limits.events_per_second, limits.burst, Instant::now()),
            pace: Pace { edit_every: draft.edit_every, max_edits: draft.max_edits },
            edited: BTreeMap::new(),
        };
        Self(Arc::new(Shared {
            queue: Mutex::new(queue),
            next_id: Mutex::new(0),
            changed: Notify::new(),
            left: watch::Sender::new(None),
            sender,
            store,
            give_up_after: limits.give_up_after,
        }))
    }

    /// A new message; nothing stands there before it is shown or finished.
    pub fn post(&self, room: OwnedRoomId, place: Place) -> Post {
        self.insert_post(Entry::new(room, place, Instant::now()))
    }

    /// Sends a whole message, and gives its event when the homeserver has it.
    ///
    /// It is on its way from the call on, whether the future is awaited or not.
    ///
    /// # Errors
    /// See [`PostError`].
    pub fn send(
        &self,
        room: OwnedRoomId,
        place: Place,
        content: Value,
        cause: Option<Cause>,
    ) -> impl Future<Output = Result<OwnedEventId, PostError>> + use<> {
        self.insert_post(Entry { cause, ..Entry::new(room, place, Instant::now()) }).finish_with(content)
    }

    /// Edits a message that stands there for good, no faster than the pace of edits allows: what is wanted while an edit
    /// waits takes its place, and is answered together with it. Gives the edited message.
    ///
    /// It is on its way from the call on, whether the future is awaited or not.
    ///
    /// # Errors
    /// See [`PostError`].
    pub fn edit(
        &self,
        room: OwnedRoomId,
        event: OwnedEventId,
        content: Value,
    ) -> impl Future<Output = Result<OwnedEventId, PostError>> + use<> {
        let (done, result) = oneshot::channel();
        let now = Instant::now();
        let mut next_id = self.0.next_id.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queue = self.queue();
        if let Some(waiting) = queue.waiting_edit(&event) {
            waiting.want(content, now);
            waiting.done.push(done);
        } else {
            let mut entry = Entry { done: vec![done], ..Entry::edit_of(event, room, now) };
            entry.want(content, now);
            *next_id += 1;
            queue.posts.insert(*next_id, entry);
        }
        drop((queue, next_id));
        self.0.changed.notify_one();
        async move { result.await.unwrap_or(Err(PostError::Ended)) }
    }

    /// Sets the reactions that a message stands with.
    pub fn seed(&self, room: &RoomId, event: &EventId, text: &Text) {
        for key in text.rich.iter().flat_map(|rich| &rich.seeds) {
            self.react(room.to_owned(), event, key);
        }
    }

    /// Reacts to an event, when there is nothing more important to be sent. That it could not is only worth a log line.
    pub fn react(&self, room: OwnedRoomId, event: &EventId, key: &str) {
        let now = Instant::now();
        let relation = json!({"rel_type": "m.annotation", "event_id": event, "key": key});
        let mut entry = Entry::reaction(room, now);
        entry.want(json!({ "m.relates_to": relation }), now);
        self.insert(entry);
    }

    fn insert_post(&self, entry: Entry) -> Post {
        Post { id: self.insert(entry), outbox: self.clone(), finished: false }
    }

    /// Waits until what an earlier run left unsettled in a room is settled: from then on it is known what stands there.
    pub async fn taken_up(&self, room: &RoomId) {
        let mut left = self.0.left.subscribe();
        // The sender lives as long as we do.
        let _ = left.wait_for(|left| left.as_ref().is_some_and(|left| !left.contains_key(room))).await;
    }

    /// Messages with something to be sent.
    pub fn waiting(&self) -> usize {
        self.queue().waiting()
    }

    /// Sends for ever.
    pub async fn run(&self) {
        self.take_up_unsettled().await;
        loop {
            let next = self.queue().next(Instant::now());
            match next {
                Next::Attempt(attempt) => {
                    let outbox = self.clone();
                    tokio::spawn(async move { outbox.attempt(*attempt).await });
                }
                Next::At(at) => {
                    tokio::select! {
                        () = sleep_until(at) => {}
                        () = self.0.changed.notified() => {}
                    }
                }
                Next::Idle => self.0.changed.notified().await,
            }
        }
    }

    async fn take_up_unsettled(&self) {
        let mut retry = RETRY_FIRST;
        let unsettled = loop {
            match self.0.store.unsettled().await {
                Ok(unsettled) => break unsettled,
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, wait = ?retry, "unsettled events can't be read");
                    tokio::time::sleep(retry).await;
                    retry = (retry * 2).min(RETRY_MAX);
                }
            }
        };
        let mut left: BTreeMap<OwnedRoomId, usize> = BTreeMap::new();
        for outgoing in &unsettled {
            *left.entry(outgoing.room.clone()).or_default() += 1;
        }
        self.0.left.send_replace(Some(left));
        for Outgoing { room, txn, payload } in unsettled {
            let Payload::Event { event_type, content } = payload else { continue };
            let kind = if event_type == Kind::Reaction.event_type() { Kind::Reaction } else { Kind::Message };
            tracing::info!(%room, %txn, "event of an earlier run is sent again");
            let (done, settled) = oneshot::channel();
            let (class, wanted_since) = (budget::Class::Final, Instant::now());
            let frozen = Frozen { txn, content, class, wanted_since, last: true };
            self.insert(Entry {
                kind,
                frozen: Some(frozen),
                stored: true,
                last: true,
                done: vec![done],
                ..Entry::new(room.clone(), Place::default(), Instant::now())
            });
            let outbox = self.clone();
            tokio::spawn(async move {
                let _ = settled.await;
                outbox.0.left.send_modify(|left| {
                    if let Some(left) = left
                        && let Some(count) = left.get_mut(&room)
                    {
                        *count -= 1;
                        if *count == 0 {
                            left.remove(&room);
                        }
                    }
                });
            });
        }
    }

    async fn attempt(&self, attempt: Attempt) {
        let Attempt { room, frozen, supersedes, stored, .. } = &attempt;
        if let Some(txn) = supersedes {
            self.settled(txn, None).await;
        }
        let outgoing = Outgoing {
            room: room.clone(),
            txn: frozen.txn.clone(),
            payload: Payload::Event {
                event_type: attempt.kind.event_type().to_owned(),
                content: frozen.content.clone(),
            },
        };
        let payload = NewPayload { outgoing: &outgoing, cause: attempt.cause.as_ref(), is_last: frozen.last };
        if !stored && let Err(error) = self.0.store.freeze(payload).await {
            tracing::error!(error = &error as &dyn std::error::Error, %room, "payload not kept, so not sent");
            self.failed(&attempt, None, true);
            return;
        }
        match self.0.sender.send(&outgoing).await {
            Ok(event) => {
                self.settled(&frozen.txn, Some(&event)).await;
                self.sent(&attempt, event);
            }
            Err(error) => {
                let over = !error.retryable() || self.is_overdue(&attempt);
                if over {
                    tracing::error!(error = &error as &dyn std::error::Error, %room, "event given up");
                    self.settled(&frozen.txn, None).await;
                } else {
                    tracing::debug!(error = &error as &dyn std::error::Error, %room, "event not taken yet");
                }
                self.failed(&attempt, Some(error), !over);
            }
        }
    }

    async fn settled(&self, txn: &ruma::TransactionId, event: Option<&ruma::EventId>) {
        if let Err(error) = self.0.store.settle(txn, event).await {
            // It goes out once more at the next start, with the same id: the homeserver makes no second event of it.
            tracing::error!(error = &error as &dyn std::error::Error, %txn, "event not settled");
        }
    }

    fn is_overdue(&self, attempt: &Attempt) -> bool {
        self.queue().posts.get(&attempt.post).is_none_or(|entry| entry.tried_since.elapsed() >= self.0.give_up_after)
    }

    fn sent(&self, attempt: &Attempt, event: OwnedEventId) {
        let now = Instant::now();
        let mut queue = self.queue();
        queue.budget.accepted(attempt.grant, now);
        if let (Kind::Edit, Some(target)) =
            (attempt.kind, queue.posts.get(&attempt.post).and_then(|one| one.event.clone()))
        {
            queue.edited_now(&target, now);
        }
        if let Some(entry) = queue.posts.get_mut(&attempt.post) {
            if entry.event.is_some() {
                entry.edits += 1;
                metrics::edit_lag(now - attempt.frozen.wanted_since);
            }
            let first = entry.event.get_or_insert(event).clone();
            entry.taken_at = Some(now);
            entry.frozen = None;
            entry.under_way = false;
            if attempt.frozen.last {
                end(&mut queue, attempt.post, Ok(first));
            }
        }
        drop(queue);
        self.0.changed.notify_one();
    }

    fn failed(&self, attempt: &Attempt, error: Option<SendError>, again: bool) {
        let now = Instant::now();
        let mut queue = self.queue();
        if let Some(SendError::RateLimited { retry_after }) = &error {
            metrics::rate_limited();
            queue.budget.refused(attempt.grant, *retry_after, now);
        }
        if let Some(entry) = queue.posts.get_mut(&attempt.post) {
            entry.under_way = false;
            entry.stored = error.is_some();
            if again {
                if !matches!(error, Some(SendError::RateLimited { .. })) {
                    let wait = RETRY_FIRST.saturating_mul(1 << entry.failures.min(10)).min(RETRY_MAX);
                    entry.not_before = now + wait;
                    entry.failures += 1;
                }
            } else {
                entry.frozen = None;
                entry.refused = true;
                if attempt.frozen.last {
                    let reason = match error {
                        Some(error) if !error.retryable() => PostError::Refused(error.to_string()),
                        _ => PostError::GivenUp,
                    };
                    end(&mut queue, attempt.post, Err(reason));
                }
            }
        }
        drop(queue);
        self.0.changed.notify_one();
    }

    fn insert(&self, entry: Entry) -> PostId {
        let mut next_id = self.0.next_id.lock().unwrap_or_else(PoisonError::into_inner);
        *next_id += 1;
        self.queue().posts.insert(*next_id, entry);
        self.0.changed.notify_one();
        *next_id
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Post {
    /// What should stand there now, until the next word. Never waits; may be skipped.
    pub fn show(&self, text: &Text) {
        if let Some(entry) = self.outbox.queue().posts.get_mut(&self.id) {
            entry.want(text.content(), Instant::now());
        }
        self.outbox.0.changed.notify_one();
    }

    /// A look at the message's first event, from elsewhere.
    pub fn first_event(&self) -> PostEvent {
        PostEvent { outbox: self.outbox.clone(), id: self.id }
    }

    /// Whether anything was shown.
    pub fn is_begun(&self) -> bool {
        self.outbox
            .queue()
            .posts
            .get(&self.id)
            .is_some_and(|entry| entry.event.is_some() || entry.frozen.is_some() || entry.wanted.is_some())
    }

    /// What stands there for good. Gives the message's first event when the homeserver has it.
    ///
    /// The content is on its way from the call on, whether the future is awaited or not.
    ///
    /// # Errors
    /// See [`PostError`].
    pub fn finish(self, text: &Text) -> impl Future<Output = Result<OwnedEventId, PostError>> + use<> {
        self.finish_with(text.content())
    }

    fn finish_with(mut self, content: Value) -> impl Future<Output = Result<OwnedEventId, PostError>> + use<> {
        self.finished = true;
        let (done, result) = oneshot::channel();
        if let Some(entry) = self.outbox.queue().posts.get_mut(&self.id) {
            entry.want(content, Instant::now());
            entry.last = true;
            entry.done.push(done);
        }
        self.outbox.0.changed.notify_one();
        async move { result.await.unwrap_or(Err(PostError::Ended)) }
    }
}

impl PostEvent {
    /// The message's first event, once the homeserver has it; None again when the message is finished.
    pub fn get(&self) -> Option<OwnedEventId> {
        self.outbox.queue().posts.get(&self.id).and_then(|entry| entry.event.clone())
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing was shown, or the process ends: there is nothing to make right.
            self.outbox.queue().posts.remove(&self.id);
        }
    }
}

fn end(queue: &mut Queue, id: PostId, result: Result<OwnedEventId, PostError>) {
    for done in queue.posts.remove(&id).map(|entry| entry.done).unwrap_or_default() {
        // Nobody waits for it: then nobody needs to know.
        let _ = done.send(result.clone());
    }
}
