//! The way in: what was received is on disk before the sync position is, and is handled once, in order.
//!
//! [`Inbox`] is the link's [`Sink`]. [`Inbox::run`] takes what waits, oldest first, and gives each event to the hub; an
//! event that the hub could not take (the store failed) is brought again, and none overtakes it.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use matrix_link::{Batch, Sink, SinkError};
use tokio::sync::Notify;

use crate::{conversation::Hub, store::Store};

/// The wait after the store failed doubles from the first to the second.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// The way in. A handle: clones share it.
#[derive(Clone)]
pub struct Inbox {
    store: Store,
    arrived: Arc<Notify>,
    max_queued: u32,
}

impl Inbox {
    /// An inbox that takes at most `max_queued` events into memory at once.
    pub fn new(store: Store, max_queued: usize) -> Self {
        Self { store, arrived: Arc::default(), max_queued: u32::try_from(max_queued).unwrap_or(u32::MAX) }
    }

    /// Hands what arrived to the hub, for ever.
    pub async fn run(&self, hub: &mut Hub) {
        let mut done = 0;
        let mut retry = RETRY_FIRST;
        loop {
            match self.hand_over(hub, &mut done).await {
                Ok(0) => self.arrived.notified().await,
                Ok(_) => retry = RETRY_FIRST,
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, wait = ?retry, "event not handled");
                    tokio::time::sleep(retry).await;
                    retry = (retry * 2).min(RETRY_MAX);
                }
            }
        }
    }

    async fn hand_over(&self, hub: &mut Hub, done: &mut i64) -> Result<usize, crate::store::StoreError> {
        let waiting = self.store.waiting(*done, self.max_queued).await?;
        for received in &waiting {
            hub.handle(&received.event).await?;
            self.store.handled(received.seq).await?;
            *done = received.seq;
        }
        Ok(waiting.len())
    }
}

#[async_trait]
impl Sink for Inbox {
    async fn commit(&self, batch: &Batch) -> Result<(), SinkError> {
        self.store.receive(batch).await.map_err(|error| SinkError(Box::new(error)))?;
        self.arrived.notify_one();
        Ok(())
    }
}
