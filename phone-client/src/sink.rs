//! Where the sync's batches go: into a channel, or nowhere. A phone remembers nothing of what was said.

use std::collections::BTreeSet;

use async_trait::async_trait;
use matrix_link::{Batch, Event, Sink, SinkError, Undecrypted};
use ruma::{OwnedEventId, RoomId};
use tokio::sync::mpsc;

/// Batches that wait to be looked at; the sync waits for a place.
const MAX_BATCHES: usize = 64;

/// What the sync brings.
pub(crate) type Received = mpsc::Receiver<Batch>;

/// Into a channel.
pub(crate) struct ToChannel(mpsc::Sender<Batch>);

impl ToChannel {
    pub(crate) fn new() -> (Self, Received) {
        let (sender, received) = mpsc::channel(MAX_BATCHES);
        (Self(sender), received)
    }
}

/// Nowhere: for a sync that only verification needs.
pub(crate) struct Discard;

#[async_trait]
impl Sink for ToChannel {
    async fn commit(&self, batch: &Batch) -> Result<(), SinkError> {
        self.0.send(batch.clone()).await.map_err(|error| SinkError(Box::new(error)))
    }

    async fn kept(&self, _: &RoomId, _: &[OwnedEventId]) -> Result<Option<BTreeSet<OwnedEventId>>, SinkError> {
        Ok(None)
    }

    async fn undecrypted(&self, _: Option<&str>, _: u32) -> Result<Vec<Undecrypted>, SinkError> {
        Ok(Vec::new())
    }

    async fn decrypted(&self, _: &Event) -> Result<(), SinkError> {
        Ok(())
    }
}

#[async_trait]
impl Sink for Discard {
    async fn commit(&self, _: &Batch) -> Result<(), SinkError> {
        Ok(())
    }

    async fn kept(&self, _: &RoomId, _: &[OwnedEventId]) -> Result<Option<BTreeSet<OwnedEventId>>, SinkError> {
        Ok(None)
    }

    async fn undecrypted(&self, _: Option<&str>, _: u32) -> Result<Vec<Undecrypted>, SinkError> {
        Ok(Vec::new())
    }

    async fn decrypted(&self, _: &Event) -> Result<(), SinkError> {
        Ok(())
    }
}
