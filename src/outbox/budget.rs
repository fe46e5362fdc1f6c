//! The account's send budget: one token bucket, learned from what the homeserver says.
//!
//! A homeserver limits an ordinary account (Synapse by default: 10 events at once, then 0.2 a second) and does not tell
//! the limits. So the bucket starts at the defaults and learns: a refusal (429) empties it for the time named, and when
//! it is empty an edit may try all the same from time to time; if the homeserver takes it, the rate was too low.
//! A refused edit costs nothing: it is replaced by a later one. Finals are never used to try.

use std::time::Duration;

use tokio::time::Instant;

/// The rate is never learned beyond these, in events a second.
const MAX_RATE: f64 = 20.0;
const MIN_RATE: f64 = 0.02;
/// What is left of the rate after a refusal in spite of a token.
const SLOWER: f64 = 0.75;
/// After a try that was refused the next waits this long, doubling up to the second.
const PROBE_FIRST: Duration = Duration::from_secs(600);
const PROBE_MAX: Duration = Duration::from_secs(6 * 3600);
/// The wait after a refusal that names none.
const REFUSED_WAIT: Duration = Duration::from_secs(5);

/// What may be sent now.
#[derive(Debug)]
pub(super) struct Budget {
    rate: f64,
    burst: f64,
    tokens: f64,
    filled_at: Instant,
    blocked_until: Instant,
    probe_at: Instant,
    probe_wait: Duration,
}

/// What asks for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// The last word on a message: may take the last token.
    Final,
    /// A message's first event: leaves a token for a final.
    First,
    /// An edit: leaves a token for a final, and may be used to try.
    Edit,
    /// A reaction: leaves a token for a final.
    Reaction,
}

/// Why an event may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the budget learns from how it went"]
pub(super) enum Grant {
    /// The bucket had a token.
    Token,
    /// It had none; this is a try whether the homeserver allows more.
    Probe,
}

impl Budget {
    pub(super) fn new(rate: f64, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self { rate, burst, tokens: burst, filled_at: now, blocked_until: now, probe_at: now, probe_wait: PROBE_FIRST }
    }

    /// Takes a token, or says when it is worth asking again.
    pub(super) fn take(&mut self, class: Class, now: Instant) -> Result<Grant, Instant> {
        if now < self.blocked_until {
            return Err(self.blocked_until);
        }
        self.fill(now);
        let kept = match class {
            Class::Final => 0.0,
            Class::First | Class::Edit | Class::Reaction if self.burst < 2.0 => 0.0,
            Class::First | Class::Edit | Class::Reaction => 1.0,
        };
        if self.tokens >= kept + 1.0 {
            self.tokens -= 1.0;
            return Ok(Grant::Token);
        }
        if class == Class::Edit && now >= self.probe_at {
            // A try says something only when the homeserver's bucket is believed to be empty: what is kept goes first.
            if self.tokens >= 1.0 {
                self.tokens -= 1.0;
                return Ok(Grant::Token);
            }
            self.probe_at = now + self.probe_wait;
            return Ok(Grant::Probe);
        }
        let full_at = now + Duration::from_secs_f64((kept + 1.0 - self.tokens) / self.rate);
        Err(if class == Class::Edit { full_at.min(self.probe_at) } else { full_at })
    }

    /// The homeserver took an event. A try that it took shows that the rate is higher than believed.
    pub(super) fn accepted(&mut self, grant: Grant, now: Instant) {
        if grant == Grant::Probe {
            self.rate = (self.rate * 2.0).min(MAX_RATE);
            self.probe_at = now;
        }
    }

    /// The homeserver refused an event. One that had a token shows that the rate is lower than believed.
    pub(super) fn refused(&mut self, grant: Grant, retry_after: Option<Duration>, now: Instant) {
        // Several that were under way at one moment are refused together: that is one lesson.
        let is_news = now >= self.blocked_until;
        self.blocked_until = now + retry_after.unwrap_or(REFUSED_WAIT);
        self.tokens = 1.0;
        self.filled_at = self.blocked_until;
        match grant {
            Grant::Token if is_news => self.rate = (self.rate * SLOWER).max(MIN_RATE),
            Grant::Token => {}
            Grant::Probe => {
                self.probe_at = now + self.probe_wait;
                self.probe_wait = (self.probe_wait * 2).min(PROBE_MAX);
            }
        }
    }

    fn fill(&mut self, now: Instant) {
        let gained = now.saturating_duration_since(self.filled_at).as_secs_f64() * self.rate;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.filled_at = self.filled_at.max(now);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Takes all that others than finals get.
    fn drained(now: Instant) -> Budget {
        let mut budget = Budget::new(0.2, 10, now);
        for _ in 0..9 {
            assert_eq!(budget.take(Class::First, now), Ok(Grant::Token));
        }
        budget
    }

    #[test]
    fn a_place_is_kept_for_a_final() {
        let now = Instant::now();
        let mut budget = drained(now);
        assert_eq!(budget.take(Class::First, now), Err(now + seconds(5.0)));
        assert_eq!(budget.take(Class::Final, now), Ok(Grant::Token));
        assert_eq!(budget.take(Class::Final, now), Err(now + seconds(5.0)));
    }

    #[test]
    fn a_refusal_is_waited_out_and_then_a_final_goes_first() {
        let now = Instant::now();
        let mut budget = drained(now);
        budget.refused(Grant::Token, Some(seconds(4.0)), now);
        assert_eq!(budget.take(Class::Final, now), Err(now + seconds(4.0)));
        let later = now + seconds(4.0);
        assert!(budget.take(Class::First, later).is_err());
        assert_eq!(budget.take(Class::Final, later), Ok(Grant::Token));
    }

    #[test]
    fn a_generous_server_is_found_out_by_edits_alone() {
        let mut now = Instant::now();
        let mut budget = drained(now);
        let mut sent = 0;
        for _ in 0..40 {
            now += seconds(2.5);
            if let Ok(grant) = budget.take(Class::Edit, now) {
                budget.accepted(grant, now);
                sent += 1;
            }
        }
        assert_eq!(sent, 40);
        assert!(budget.rate >= 0.4, "rate {}", budget.rate);
    }

    #[test]
    fn a_strict_server_refuses_one_try_and_is_left_alone_for_ten_minutes() {
        let start = Instant::now();
        let mut budget = drained(start);
        // The token that is kept for finals is no try yet.
        assert_eq!(budget.take(Class::Edit, start), Ok(Grant::Token));
        let grant = budget.take(Class::Edit, start).unwrap();
        assert_eq!(grant, Grant::Probe);
        budget.refused(grant, Some(seconds(5.0)), start);
        for second in 5..600 {
            let grant = budget.take(Class::Edit, start + seconds(f64::from(second)));
            assert_ne!(grant, Ok(Grant::Probe), "at {second} s");
        }
        assert_eq!(budget.rate, 0.2);
    }
}
