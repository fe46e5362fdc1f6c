//! A client as plain as can be: no encryption, no store. How fast it sees an event is the homeserver's own sync delay.

use std::{collections::HashMap, time::Instant};

use ruma::{EventId, OwnedEventId};
use serde_json::Value;
use tokio::{sync::watch, task::JoinHandle};

use crate::support::{Account, Homeserver};

/// The client. Ends when it is dropped.
pub struct Observer {
    seen: watch::Receiver<HashMap<OwnedEventId, Instant>>,
    task: JoinHandle<()>,
}

impl Observer {
    /// Observes all rooms of an account from now on.
    pub async fn start(homeserver: &Homeserver, account: &Account) -> Self {
        let client = reqwest::Client::new();
        let url = format!("{}/_matrix/client/v3/sync?", homeserver.url);
        let token = account.token.clone();
        let sync = async move |query: &str| -> Value {
            client.get(format!("{url}{query}")).bearer_auth(&token).send().await.unwrap().json().await.unwrap()
        };
        let mut answer = sync("timeout=0").await;
        let (keep, seen) = watch::channel(HashMap::new());
        let task = tokio::spawn(async move {
            loop {
                let since = answer["next_batch"].as_str().unwrap().to_owned();
                answer = sync(&format!("timeout=30000&since={since}")).await;
                let now = Instant::now();
                keep.send_modify(|seen| seen.extend(events(&answer).map(|id| (id, now))));
            }
        });
        Self { seen, task }
    }

    /// When it saw an event.
    pub async fn saw(&self, id: &EventId) -> Instant {
        self.seen.clone().wait_for(|seen| seen.contains_key(id)).await.unwrap()[id]
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn events(answer: &Value) -> impl Iterator<Item = OwnedEventId> {
    let rooms = answer["rooms"]["join"].as_object().into_iter().flat_map(|rooms| rooms.values());
    let events = rooms.filter_map(|room| room["timeline"]["events"].as_array()).flatten();
    events.filter_map(|event| event["event_id"].as_str()?.try_into().ok())
}
