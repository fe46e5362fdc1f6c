//! What is told over HTTP: health.
//!
//! - `/livez`: the process runs;
//! - `/readyz`: it receives; 503 with the reason when it has not heard from the homeserver for too long.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::{net::TcpListener, time::Instant};

/// A quiet sync answers every 30 s; after three that did not, something is wrong.
const SILENT_FOR: Duration = Duration::from_secs(90);

/// How the agent is. A handle: clones share it.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<Option<Instant>>>);

impl Health {
    /// Nothing was heard yet.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// The homeserver has answered a sync, and the answer is kept.
    pub fn synced(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Why the agent does not receive; None when it does.
    fn trouble(&self) -> Option<String> {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Some("not synced yet".to_owned()),
            Some(at) if at.elapsed() > SILENT_FOR => Some(format!("not synced for {} s", at.elapsed().as_secs())),
            Some(_) => None,
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

/// Tells health for ever; for ever silent without an address.
///
/// # Errors
/// When the address can't be listened on.
pub async fn serve(listen: Option<SocketAddr>, health: Health) -> std::io::Result<()> {
    let Some(listen) = listen else { return std::future::pending().await };
    axum::serve(TcpListener::bind(listen).await?, router(health)).await
}

fn router(health: Health) -> Router {
    Router::new().route("/livez", get(|| async { "ok" })).route("/readyz", get(ready)).with_state(health)
}

async fn ready(State(health): State<Health>) -> (StatusCode, String) {
    match health.trouble() {
        None => (StatusCode::OK, "ok".to_owned()),
        Some(trouble) => (StatusCode::SERVICE_UNAVAILABLE, trouble),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_agent_is_ready_while_it_hears_from_the_homeserver() {
        let health = Health::new();
        assert_eq!(health.trouble().as_deref(), Some("not synced yet"));
        health.synced();
        tokio::time::advance(SILENT_FOR).await;
        assert_eq!(health.trouble(), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(health.trouble().as_deref(), Some("not synced for 91 s"));
    }
}
