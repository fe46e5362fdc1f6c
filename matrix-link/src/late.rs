//! Late keys: what could not be decrypted waits in the caller's store and is tried again when its key comes.
//!
//! A key comes from its sender, or from the account's key backup: the SDK asks the backup when it fails to decrypt, and here
//! it is asked again from time to time. The SDK does not bring an event again by itself.

use std::{collections::BTreeMap, time::Duration};

use futures_util::StreamExt;
use ruma::OwnedRoomId;
use tokio::time::interval;

use crate::{EventKind, Link, Rooms, Sink, SinkError, Undecrypted};

/// How soon the key backup is asked for what waits. It is asked again after twice the time, and so on.
const BACKUP_EVERY: Duration = Duration::from_secs(10);
/// It is asked for one session no later than after so many times that: within a quarter of an hour.
const BACKUP_UNTIL: u32 = 64;
/// Events that are tried in one go; more wait for the next.
const TRIED_AT_ONCE: u32 = 200;
/// Sessions whose looks are counted; beyond it all counts begin anew.
const MAX_SESSIONS: usize = 4096;

impl Link {
    /// Brings what is decrypted late to `sink`, for ever.
    pub async fn run_late_keys(&self, sink: &dyn Sink) {
        let Some(mut keys) = self.client.encryption().room_keys_received_stream().await else {
            tracing::error!("no encryption: late keys can't be followed");
            return std::future::pending().await;
        };
        let mut waited: BTreeMap<String, u32> = BTreeMap::new();
        let mut tick = interval(BACKUP_EVERY);
        // Keys may have come when nobody was there to try.
        self.try_again(sink, None).await;
        loop {
            tokio::select! {
                received = keys.next() => match received {
                    Some(Ok(received)) => {
                        for key in received {
                            self.try_again(sink, Some(&key.session_id)).await;
                        }
                    }
                    // Some were missed: any may have been among them.
                    Some(Err(_)) => self.try_again(sink, None).await,
                    None => return,
                },
                _ = tick.tick() => self.ask_backup(sink, &mut waited).await,
            }
        }
    }

    async fn try_again(&self, sink: &dyn Sink, session: Option<&str>) {
        for Undecrypted { room, event: id, .. } in waiting(sink, session).await {
            match self.event(&room, &id).await {
                Ok(event) if matches!(event.kind, EventKind::Undecryptable { .. }) => {}
                Ok(event) => {
                    tracing::info!(%room, event = %id, "decrypted late");
                    if let Err(error) = sink.decrypted(&event).await {
                        tracing::error!(error = &error as &dyn std::error::Error, "late event not kept");
                    }
                }
                Err(error) => {
                    tracing::debug!(%room, event = %id, error = &error as &dyn std::error::Error, "late event not fetched");
                }
            }
        }
    }

    /// Asks the backup for the sessions whose time has come; `waited` counts the looks at each.
    async fn ask_backup(&self, sink: &dyn Sink, waited: &mut BTreeMap<String, u32>) {
        if waited.len() >= MAX_SESSIONS {
            waited.clear();
        }
        let sessions: BTreeMap<String, OwnedRoomId> =
            waiting(sink, None).await.into_iter().map(|one| (one.session, one.room)).collect();
        for (session, room) in sessions {
            let looks = waited.entry(session.clone()).or_default();
            *looks = looks.saturating_add(1);
            if *looks > BACKUP_UNTIL || !looks.is_power_of_two() {
                continue;
            }
            match self.client.encryption().backups().download_room_key(&room, &session).await {
                Ok(true) => self.try_again(sink, Some(&session)).await,
                Ok(false) => {}
                Err(error) => tracing::debug!(%room, %error, "no key in the backup"),
            }
        }
    }
}

async fn waiting(sink: &dyn Sink, session: Option<&str>) -> Vec<Undecrypted> {
    sink.undecrypted(session, TRIED_AT_ONCE).await.unwrap_or_else(|error: SinkError| {
        tracing::error!(error = &error as &dyn std::error::Error, "what waits for a key can't be read");
        Vec::new()
    })
}
