//! The way in: what was received is on disk before the sync position is, and is handled once, in order.
//!
//! [`Inbox`] is the link's [`Sink`]. [`Inbox::run`] takes what waits, oldest first, and gives each event to the hub; an
//! event that the hub could not take (the store failed) is brought again, and none overtakes it. An event is handled when
//! its [`Receipt`] says so: for a question that is when its answer stands in the room. What was not handled comes again
//! after a restart.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use matrix_link::{Batch, Event, Sink, SinkError, Undecrypted};
use ruma::{OwnedEventId, RoomId};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep_until},
};

use crate::{
    conversation::{Arrival, Hub, Receipt},
    store::{Received, Store, StoreError},
};

/// The wait after the store failed doubles from the first to the second.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// How often the clock is looked at, at least: it may be set while we sleep.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// The way in. A handle: clones share it.
#[derive(Clone)]
pub struct Inbox {
    store: Store,
    arrived: Arc<Notify>,
    max_queued: u32,
    /// The newest event that this run was not there for.
    backlog_until: Arc<OnceLock<i64>>,
}

impl Inbox {
    /// An inbox that takes at most `max_queued` events into memory at once.
    pub fn new(store: Store, max_queued: usize) -> Self {
        Self {
            store,
            arrived: Arc::default(),
            max_queued: u32::try_from(max_queued).unwrap_or(u32::MAX),
            backlog_until: Arc::default(),
        }
    }

    /// The same inbox, for an agent that was spoken to before it was opened: nothing counts as backlog by having come with
    /// the first round of sync.
    #[must_use]
    pub fn without_backlog(self) -> Self {
        self.backlog_until.get_or_init(|| 0);
        self
    }

    /// Something is in the store that did not come by this way.
    pub fn arrived(&self) {
        self.arrived.notify_one();
    }

    /// Hands what arrived to the hub, for ever.
    pub async fn run(&self, hub: &mut Hub) {
        // As many as there are events in memory: each acknowledges once.
        let (acknowledge, acknowledged) = mpsc::unbounded_channel();
        tokio::join!(self.hand_over(hub, acknowledge), self.mark_handled(acknowledged));
    }

    async fn hand_over(&self, hub: &mut Hub, acknowledge: mpsc::UnboundedSender<i64>) {
        let mut handed_over = 0;
        let mut retry = RETRY_FIRST;
        let mut laters_at = Instant::now();
        loop {
            if laters_at <= Instant::now() {
                let next = match hub.begin_due().await {
                    Ok(next) => next.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN),
                    Err(error) => {
                        tracing::error!(error = &error as &dyn std::error::Error, "turns for later can't be begun");
                        RETRY_MAX
                    }
                };
                laters_at = Instant::now() + next;
            }
            match self.hand_over_some(hub, &mut handed_over, &acknowledge).await {
                Ok(0) => tokio::select! {
                    () = self.arrived.notified() => {}
                    () = hub.laters_changed() => laters_at = Instant::now(),
                    () = sleep_until(laters_at) => {}
                },
                Ok(_) => retry = RETRY_FIRST,
                Err(error) => wait(&mut retry, &error).await,
            }
        }
    }

    async fn hand_over_some(
        &self,
        hub: &mut Hub,
        handed_over: &mut i64,
        acknowledge: &mpsc::UnboundedSender<i64>,
    ) -> Result<usize, StoreError> {
        let waiting = self.store.waiting(*handed_over, self.max_queued).await?;
        for Received { seq, event, answered } in &waiting {
            let (seq, acknowledge) = (*seq, acknowledge.clone());
            // Nobody hears it when the process ends: then the event comes again at the next start.
            let receipt = Receipt::new(move || {
                let _ = acknowledge.send(seq);
            });
            let arrival = match self.backlog_until.get() {
                _ if *answered => Arrival::Answered,
                Some(until) if seq > *until => Arrival::Live,
                _ => Arrival::Backlog,
            };
            hub.handle(event, arrival, receipt).await?;
            *handed_over = seq;
        }
        Ok(waiting.len())
    }

    async fn mark_handled(&self, mut acknowledged: mpsc::UnboundedReceiver<i64>) {
        let mut retry = RETRY_FIRST;
        while let Some(seq) = acknowledged.recv().await {
            while let Err(error) = self.store.handled(seq).await {
                wait(&mut retry, &error).await;
            }
            retry = RETRY_FIRST;
        }
    }
}

async fn wait(retry: &mut Duration, error: &StoreError) {
    tracing::error!(error = error as &dyn std::error::Error, wait = ?retry, "the store failed");
    tokio::time::sleep(*retry).await;
    *retry = (*retry * 2).min(RETRY_MAX);
}

#[async_trait]
impl Sink for Inbox {
    async fn commit(&self, batch: &Batch) -> Result<(), SinkError> {
        self.store.receive(batch).await.map_err(failed)?;
        if self.backlog_until.get().is_none() {
            let newest = self.store.newest_received().await.map_err(failed)?;
            self.backlog_until.get_or_init(|| newest);
        }
        self.arrived.notify_one();
        Ok(())
    }

    async fn kept(&self, room: &RoomId, events: &[OwnedEventId]) -> Result<Option<BTreeSet<OwnedEventId>>, SinkError> {
        self.store.kept(room, events).await.map_err(failed)
    }

    async fn undecrypted(&self, session: Option<&str>, limit: u32) -> Result<Vec<Undecrypted>, SinkError> {
        self.store.undecrypted(session, limit).await.map_err(failed)
    }

    async fn decrypted(&self, event: &Event) -> Result<(), SinkError> {
        self.store.decrypted(event).await.map_err(failed)?;
        self.arrived.notify_one();
        Ok(())
    }
}

fn failed(error: StoreError) -> SinkError {
    SinkError(Box::new(error))
}
