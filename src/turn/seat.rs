//! A turn's place among those that may run at once (`turn.max_concurrent`).
//!
//! It is given back while a person is awaited, or a few people who take their time would keep everybody else from being
//! answered.

use tokio::sync::{Semaphore, SemaphorePermit};

/// The place. Free again when it is dropped.
#[must_use = "the place is free again when this is dropped"]
pub struct Seat<'a> {
    places: &'a Semaphore,
    permit: Option<SemaphorePermit<'a>>,
}

impl<'a> Seat<'a> {
    /// Waits for a place; none where there will be no more.
    pub async fn take(places: &'a Semaphore) -> Option<Self> {
        Some(Self { places, permit: Some(places.acquire().await.ok()?) })
    }

    pub(super) fn give_back(&mut self) {
        self.permit = None;
    }

    /// Waits for a place again.
    pub(super) async fn retake(&mut self) {
        self.permit = self.places.acquire().await.ok();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn a_place_that_is_given_back_is_free_for_others_and_waited_for_again() {
        let places = Semaphore::new(1);
        let mut seat = Seat::take(&places).await.unwrap();
        assert_eq!(places.available_permits(), 0);
        seat.give_back();
        let other = Seat::take(&places).await.unwrap();
        tokio::select! {
            biased;
            () = seat.retake() => panic!("there is one place"),
            () = tokio::task::yield_now() => {}
        }
        drop(other);
        seat.retake().await;
        assert_eq!(places.available_permits(), 0);
        drop(seat);
        assert_eq!(places.available_permits(), 1);
    }
}
