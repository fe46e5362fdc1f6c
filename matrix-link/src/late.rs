//! Late keys: what could not be decrypted waits in the caller's store and is tried again when its key comes.
//!
//! A key comes from its sender, or from the account's key backup: the SDK asks the backup when it fails to decrypt, and here
//! it is asked again from time to time. The SDK does not bring an event again by itself.

use std::{collections::BTreeMap, time::Duration};

use futures_util::StreamExt;
use ruma::OwnedRoomId;
use tokio::time::interval;

use crate::{EventKind, Link, Rooms, Sink, SinkError, Undecrypted};

/// How often the key backup is asked for what still waits.
const BACKUP_EVERY: Duration = Duration::from_secs(60);
/// How often it is asked for one session, at most.
const BACKUP_TRIES: u32 = 10;
/// Events that are tried in one go; more wait for the next.
const TRIED_AT_ONCE: u32 = 200;
/// Sessions whose tries are remembered; beyond it all counts begin anew.
const MAX_SESSIONS: usize = 4096;

impl Link {
    /// Brings what is decrypted late to `sink`, for ever.
    pub async fn run_late_keys(&self, sink: &dyn Sink) {
        let Some(mut keys) = self.client.encryption().room_keys_received_stream().await else {
            tracing::error!("no encryption: late keys can't be followed");
            return std::future::pending().await;
        };
        let mut tries: BTreeMap<String, u32> = BTreeMap::new();
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
                _ = tick.tick() => self.ask_backup(sink, &mut tries).await,
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

    async fn ask_backup(&self, sink: &dyn Sink, tries: &mut BTreeMap<String, u32>) {
        if tries.len() >= MAX_SESSIONS {
            tries.clear();
        }
        let sessions: BTreeMap<String, OwnedRoomId> =
            waiting(sink, None).await.into_iter().map(|one| (one.session, one.room)).collect();
        for (session, room) in sessions {
            let tried = tries.entry(session.clone()).or_default();
            if *tried >= BACKUP_TRIES {
                continue;
            }
            *tried += 1;
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
