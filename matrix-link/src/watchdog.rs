//! The watchdog of the sync loop: says when a round has made no progress for too long, and how the loop stands.
//!
//! A round that fails is begun anew after a wait that doubles; one that is stuck is dropped first. Neither ends the loop,
//! except that after [`STUCK_MAX`] stuck rounds in a row the caller opens the session anew: then the fault may be on this
//! side.

use std::time::Duration;

use tokio::sync::watch;

/// The wait after a failed round doubles from the first to the second.
pub(crate) const RETRY_FIRST: Duration = Duration::from_secs(1);
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long the homeserver holds a sync open when nothing happens, at most.
const LONG_POLL_MAX: Duration = Duration::from_secs(30);
/// A round may take the long poll, as long again for its requests, and as long again as a margin.
const PARTS: u32 = 3;
/// A round's limit where the caller sets none.
pub(crate) const ROUND_LIMIT: Duration = Duration::from_secs(90);
/// The first round brings all rooms, so it may take so many times longer.
const FIRST_ROUND: u32 = 5;
/// Rounds in a row without success after which the loop counts as degraded.
const DEGRADED_AFTER: u32 = 3;
/// Stuck rounds in a row after which the loop ends.
const STUCK_MAX: u32 = 10;

/// How the sync loop stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncState {
    /// No round has come to an end yet.
    Starting,
    /// The last round came to an end, or the few since then did not.
    Live,
    /// Several rounds in a row have failed or were stuck: nothing is received. The loop goes on trying.
    Degraded,
}

/// Too many rounds in a row were stuck.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stuck;

/// Watches the rounds of one loop.
pub(crate) struct Watchdog<'a> {
    state: &'a watch::Sender<SyncState>,
    limit: Duration,
    begun: bool,
    failed: u32,
    stuck: u32,
}

impl<'a> Watchdog<'a> {
    pub(crate) fn new(state: &'a watch::Sender<SyncState>, limit: Duration) -> Self {
        Self { state, limit, begun: false, failed: 0, stuck: 0 }
    }

    /// How long the homeserver may hold a round open.
    pub(crate) fn long_poll(&self) -> Duration {
        LONG_POLL_MAX.min(self.limit / PARTS)
    }

    /// How long the next round may take.
    pub(crate) fn limit(&self) -> Duration {
        if self.begun { self.limit } else { self.limit * FIRST_ROUND }
    }

    pub(crate) fn succeeded(&mut self) {
        (self.begun, self.failed, self.stuck) = (true, 0, 0);
        if self.state.send_replace(SyncState::Live) == SyncState::Degraded {
            tracing::info!("sync works again");
        }
    }

    /// The wait before the next round.
    #[must_use]
    pub(crate) fn failed(&mut self) -> Duration {
        self.stuck = 0;
        self.count()
    }

    /// The same for a round that was stuck.
    pub(crate) fn stuck(&mut self) -> Result<Duration, Stuck> {
        self.stuck += 1;
        let wait = self.count();
        if self.stuck < STUCK_MAX { Ok(wait) } else { Err(Stuck) }
    }

    fn count(&mut self) -> Duration {
        let wait = RETRY_FIRST.saturating_mul(2_u32.saturating_pow(self.failed)).min(RETRY_MAX);
        self.failed = self.failed.saturating_add(1);
        if self.failed >= DEGRADED_AFTER && self.state.send_replace(SyncState::Degraded) != SyncState::Degraded {
            tracing::error!(rounds = self.failed, "sync is degraded: nothing is received");
        }
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_that_fail_degrade_the_loop_until_one_succeeds() {
        let state = watch::Sender::new(SyncState::Starting);
        let mut watchdog = Watchdog::new(&state, ROUND_LIMIT);
        watchdog.succeeded();
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push((watchdog.failed().as_secs(), *state.borrow()));
        }
        use SyncState::{Degraded, Live};
        assert_eq!(seen, [(1, Live), (2, Live), (4, Degraded), (8, Degraded)]);
        watchdog.succeeded();
        assert_eq!((watchdog.failed().as_secs(), *state.borrow()), (1, Live));
    }

    #[test]
    fn the_wait_and_the_stuck_rounds_in_a_row_are_bounded() {
        let state = watch::Sender::new(SyncState::Starting);
        let mut watchdog = Watchdog::new(&state, ROUND_LIMIT);
        for _ in 0..100 {
            assert!(watchdog.failed() <= RETRY_MAX);
        }
        let ended = (1..=100).find(|_| watchdog.stuck().is_err());
        assert_eq!(ended, Some(STUCK_MAX));
    }

    #[test]
    fn the_first_round_has_more_time_and_a_long_poll_fits_into_each() {
        let state = watch::Sender::new(SyncState::Starting);
        let mut watchdog = Watchdog::new(&state, Duration::from_secs(6));
        assert_eq!(watchdog.limit(), Duration::from_secs(30));
        watchdog.succeeded();
        assert_eq!((watchdog.limit(), watchdog.long_poll()), (Duration::from_secs(6), Duration::from_secs(2)));
        assert_eq!(Watchdog::new(&state, ROUND_LIMIT).long_poll(), LONG_POLL_MAX);
    }
}
