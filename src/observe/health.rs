//! Whether the agent is well: a few facts, and what follows from them.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use matrix_link::SyncState;
use ruma::{EventId, OwnedEventId};
use tokio::time::Instant;

/// A quiet sync answers every 30 s; after three that did not, something is wrong.
const SILENT_FOR: Duration = Duration::from_secs(90);
/// So many calls of the model in a row failed, over so long a time: it is dead. One question that meets a short pause of
/// its server makes as many failures, in less time; if nobody asks for hours after it, that says nothing more.
const DEAD_AFTER: u32 = 4;
const DEAD_FOR: Duration = Duration::from_secs(60);
/// So many events that came within this time can't be read: keys are missing.
const TOO_MANY_UNDECRYPTABLE: usize = 5;
const RECENT: Duration = Duration::from_secs(600);
/// Undecryptable events that are remembered; the newest count.
const MAX_UNDECRYPTABLE: usize = 100;

/// How the agent is. A handle: clones share it.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
struct Facts {
    synced_at: Option<Instant>,
    sync_degraded: bool,
    model: Option<Failing>,
    /// Oldest first.
    undecryptable: VecDeque<(OwnedEventId, Instant)>,
}

/// The model's failures since its last answer.
#[derive(Debug, Clone, Copy)]
struct Failing {
    calls: u32,
    since: Instant,
    last: Instant,
}

impl Health {
    /// Nothing was heard yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The homeserver has answered a sync, and the answer is kept.
    pub fn synced(&self) {
        self.facts().synced_at = Some(Instant::now());
    }

    /// How the sync loop stands.
    pub fn sync_state(&self, state: SyncState) {
        self.facts().sync_degraded = state == SyncState::Degraded;
    }

    /// A model has brought an answer to its end.
    pub fn model_answered(&self) {
        self.facts().model = None;
    }

    /// A call of a model has failed.
    pub fn model_failed(&self) {
        let mut facts = self.facts();
        let now = Instant::now();
        let failing = facts.model.get_or_insert(Failing { calls: 0, since: now, last: now });
        (failing.calls, failing.last) = (failing.calls.saturating_add(1), now);
    }

    /// An event came for which there is no key.
    pub fn undecryptable(&self, event: &EventId) {
        let mut facts = self.facts();
        if facts.undecryptable.iter().any(|(known, _)| known == event) {
            return;
        }
        if facts.undecryptable.len() >= MAX_UNDECRYPTABLE {
            facts.undecryptable.pop_front();
        }
        facts.undecryptable.push_back((event.to_owned(), Instant::now()));
    }

    /// The key of such an event came after all.
    pub fn decrypted(&self, event: &EventId) {
        self.facts().undecryptable.retain(|(known, _)| known != event);
    }

    /// How long ago the homeserver has last answered a sync.
    pub fn sync_age(&self) -> Option<Duration> {
        self.facts().synced_at.map(|at| at.elapsed())
    }

    /// What is wrong, one line each; nothing when the agent is ready.
    pub fn troubles(&self) -> Vec<String> {
        let facts = self.facts();
        let sync = match facts.synced_at.map(|at| at.elapsed()) {
            None => Some("not synced yet".to_owned()),
            Some(age) if age > SILENT_FOR || facts.sync_degraded => Some(format!("not synced for {} s", age.as_secs())),
            Some(_) => None,
        };
        let is_dead = |model: &Failing| model.calls >= DEAD_AFTER && model.last - model.since >= DEAD_FOR;
        let model = facts.model.filter(is_dead).map(|Failing { calls, since, .. }| {
            format!("the last {calls} calls of the model failed, for {} s", since.elapsed().as_secs())
        });
        let unread = facts.undecryptable.iter().filter(|(_, at)| at.elapsed() <= RECENT).count();
        let keys = (unread >= TOO_MANY_UNDECRYPTABLE)
            .then(|| format!("{unread} events of the last {} minutes can't be decrypted", RECENT.as_secs() / 60));
        [sync, model, keys].into_iter().flatten().collect()
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::time::advance;

    use super::*;

    fn event(number: usize) -> OwnedEventId {
        EventId::parse(format!("$event{number}")).unwrap()
    }

    fn synced() -> Health {
        let health = Health::new();
        health.synced();
        health
    }

    #[tokio::test(start_paused = true)]
    async fn the_agent_is_ready_while_it_hears_from_the_homeserver() {
        let health = Health::new();
        assert_eq!((health.troubles(), health.sync_age()), (vec!["not synced yet".to_owned()], None));
        health.synced();
        advance(SILENT_FOR).await;
        assert_eq!((health.troubles(), health.sync_age()), (vec![], Some(SILENT_FOR)));
        advance(Duration::from_secs(1)).await;
        assert_eq!(health.troubles(), ["not synced for 91 s"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_is_dead_after_failures_in_a_row_over_some_time_and_until_it_answers() {
        let health = synced();
        for _ in 0..DEAD_AFTER {
            health.model_failed();
        }
        advance(DEAD_FOR).await;
        assert_eq!(health.troubles(), [""; 0]);
        health.model_failed();
        assert_eq!(health.troubles(), ["the last 5 calls of the model failed, for 60 s"]);
        health.model_answered();
        assert_eq!(health.troubles(), [""; 0]);
        health.model_failed();
        advance(DEAD_FOR).await;
        health.synced();
        health.model_failed();
        assert_eq!(health.troubles(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn five_recent_events_that_stay_undecryptable_are_a_trouble() {
        let health = synced();
        for number in [1, 2, 3, 3, 4] {
            health.undecryptable(&event(number));
        }
        assert_eq!(health.troubles(), [""; 0]);
        health.undecryptable(&event(5));
        assert_eq!(health.troubles(), ["5 events of the last 10 minutes can't be decrypted"]);
        health.decrypted(&event(2));
        assert_eq!(health.troubles(), [""; 0]);
        health.undecryptable(&event(6));
        assert_eq!(health.troubles().len(), 1);
        advance(RECENT + Duration::from_secs(1)).await;
        health.synced();
        assert_eq!(health.troubles(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_undecryptable_events_are_remembered_than_allowed() {
        let health = synced();
        for number in 0..3 * MAX_UNDECRYPTABLE {
            health.undecryptable(&event(number));
        }
        assert_eq!(health.facts().undecryptable.len(), MAX_UNDECRYPTABLE);
        assert_eq!(health.troubles(), ["100 events of the last 10 minutes can't be decrypted"]);
    }
}
