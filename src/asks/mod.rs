//! Pending questions: bound to a message, answered by one person, under a deadline.
//!
//! The one mechanism under everything that a person is asked. A question is in the store before it is posted; its verdict
//! is given once, by whoever comes first: the person, the deadline, or the agent that takes it back. It outlives the
//! process: whoever waits for it after a restart waits for the rest of its time.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::sync::broadcast::{self, Receiver, error::RecvError};

use crate::{
    clock::Clock,
    store::{Ask, Store, StoreError},
};

/// The wait after the store failed.
const RETRY: Duration = Duration::from_secs(2);
/// Changes that one who waits may be behind; who is further behind looks the question up again.
const CHANGES: usize = 1024;

/// The questions of an agent. A handle: clones share them.
#[derive(Clone)]
pub struct Asks(Arc<Parts>);

struct Parts {
    store: Store,
    clock: Arc<dyn Clock>,
    /// The ids of questions that were closed or prolonged.
    changed: broadcast::Sender<Arc<str>>,
}

impl Asks {
    /// The questions in a store.
    pub fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Parts { store, clock, changed: broadcast::Sender::new(CHANGES) }))
    }

    /// The questions in another store. Whoever changes one of these or those wakes who waits for it.
    #[must_use]
    pub fn of(&self, store: Store) -> Self {
        Self(Arc::new(Parts { store, clock: self.0.clock.clone(), changed: self.0.changed.clone() }))
    }

    /// Waits for what comes of a question. At its deadline it is closed with `expired`.
    pub async fn verdict(&self, id: &str, expired: &Value) -> Value {
        loop {
            match self.verdict_once(id, expired).await {
                Ok(Some(verdict)) => return verdict,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "a question can't be read");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// One look, and a wait until it is worth another.
    async fn verdict_once(&self, id: &str, expired: &Value) -> Result<Option<Value>, StoreError> {
        // From here on: what is closed between the look and the wait is not missed.
        let mut changed = self.0.changed.subscribe();
        let Some(ask) = self.0.store.ask_by_id(id).await? else { return Ok(Some(expired.clone())) };
        if let Some(verdict) = ask.verdict {
            return Ok(Some(verdict));
        }
        let left = self.0.clock.now().duration_until(ask.expires_at);
        if left.is_zero() || left.is_negative() {
            self.close(id, expired).await?;
            return Ok(None);
        }
        tokio::select! {
            () = concerned(&mut changed, id) => {}
            () = tokio::time::sleep(left.unsigned_abs()) => {}
        }
        Ok(None)
    }

    /// Gives a question its verdict, if it has none. Says whether it was this one.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn close(&self, id: &str, verdict: &Value) -> Result<bool, StoreError> {
        let closed = self.0.store.close_ask(id, verdict).await?;
        self.changed(id);
        Ok(closed)
    }

    /// Keeps a question open for at least so long from now.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn prolong(&self, ask: &Ask, by: Duration) -> Result<(), StoreError> {
        let until = self.0.clock.now().saturating_add(by).unwrap_or(ask.expires_at);
        self.0.store.prolong_ask(&ask.id, until).await?;
        self.changed(&ask.id);
        Ok(())
    }

    /// Wakes whoever waits for a question that the store has closed along with something else.
    pub fn changed(&self, id: &str) {
        // Without a receiver nobody waits.
        let _ = self.0.changed.send(id.into());
    }
}

/// Waits until a question may have changed.
async fn concerned(changed: &mut Receiver<Arc<str>>, id: &str) {
    loop {
        match changed.recv().await {
            Ok(one) if *one != *id => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
