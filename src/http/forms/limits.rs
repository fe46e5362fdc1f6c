//! How often an address may ask: a bucket each, so that guessing leads nowhere and others are not held up by it.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Addresses that are remembered; beyond it those with a full bucket go first, then all.
const MAX_ADDRESSES: usize = 10_000;
/// What a wrong address costs, in requests: guessing is slower than looking.
const WRONG: f64 = 5.0;

/// The buckets of all addresses.
pub(super) struct Visits {
    burst: f64,
    per_second: f64,
    buckets: Mutex<HashMap<IpAddr, (f64, Instant)>>,
}

impl Visits {
    pub(super) fn new(burst: f64, per_second: f64) -> Self {
        Self { burst, per_second, buckets: Mutex::default() }
    }

    /// Whether the address may ask now.
    pub(super) fn admit(&self, address: IpAddr) -> bool {
        self.take(address, 1.0)
    }

    /// It has asked for what is not there.
    pub(super) fn wrong(&self, address: IpAddr) {
        self.take(address, WRONG);
    }

    fn take(&self, address: IpAddr, cost: f64) -> bool {
        let address = network(address);
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_ADDRESSES && !buckets.contains_key(&address) {
            let full = Duration::from_secs_f64(self.burst / self.per_second);
            buckets.retain(|_, (_, at)| now.duration_since(*at) < full);
            if buckets.len() >= MAX_ADDRESSES {
                buckets.clear();
            }
        }
        let (left, at) = buckets.entry(address).or_insert((self.burst, now));
        *left = (*left + now.duration_since(*at).as_secs_f64() * self.per_second).min(self.burst);
        *at = now;
        let may = *left >= cost.min(1.0);
        *left = (*left - cost).max(0.0);
        may
    }
}

/// Whoever has one IPv6 address has a whole network of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_that_guesses_is_slowed_down_and_others_are_not() {
        let visits = Visits::new(10.0, 1.0);
        let (guesser, other) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert!(visits.admit(guesser));
        visits.wrong(guesser);
        assert!(visits.admit(guesser));
        visits.wrong(guesser);
        assert!(!visits.admit(guesser));
        assert!(visits.admit(other));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(visits.admit(guesser));
    }

    #[test]
    fn one_network_has_one_bucket() {
        let visits = Visits::new(1.0, 0.001);
        assert!(visits.admit("2001:db8::1".parse().unwrap()));
        assert!(!visits.admit("2001:db8::2".parse().unwrap()));
        assert!(visits.admit("2001:db8:0:1::1".parse().unwrap()));
        assert!(visits.admit("192.0.2.1".parse().unwrap()));
        assert!(!visits.admit("::ffff:192.0.2.1".parse().unwrap()));
    }
}
