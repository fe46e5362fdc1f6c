//! What is kept no longer than it is needed.

use std::time::Duration;

use super::{Store, StoreError, inbox::now};

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// What was received and sent.
    pub events: Duration,
    /// What was said.
    pub transcript: Duration,
}

impl Store {
    /// Forgets what is older than it is kept; what waits to be handled or sent stays. Gives the number of things forgotten.
    ///
    /// A forgotten event that comes again would count as new: the homeserver sends none that is older than the position.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn forget_old(&self, retention: Retention) -> Result<u64, StoreError> {
        let before = |kept: Duration| now().saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
        let mut transaction = self.pool.begin().await?;
        let mut forgotten = 0;
        for (query, time) in [
            ("DELETE FROM inbox WHERE agent = ? AND handled_at < ?", before(retention.events)),
            ("DELETE FROM outbox WHERE agent = ? AND settled_at < ?", before(retention.events)),
            ("DELETE FROM answer WHERE agent = ? AND decided_at < ?", before(retention.events)),
            // The row with the highest handle stays, without its words: no handle is given twice.
            (
                "UPDATE transcript SET text = NULL WHERE agent = ? AND sent_at < ? AND text IS NOT NULL",
                before(retention.transcript),
            ),
        ] {
            let done = sqlx::query(query).bind(self.agent()).bind(time).execute(&mut *transaction).await?;
            forgotten += done.rows_affected();
        }
        transaction.commit().await?;
        Ok(forgotten)
    }
}
