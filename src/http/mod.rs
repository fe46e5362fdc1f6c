//! What is told over HTTP: health and figures. And, at an address of its own, what a homeserver pushes ([`push`]).
//!
//! - `/livez`: the process runs;
//! - `/readyz`: it can do its work; 503 with what is wrong, one line each ([`Health::troubles`]);
//! - `/metrics`: its figures, in Prometheus' text format ([`metrics`]).
//!
//! At an address of their own: one-time forms ([`forms`]).

pub mod forms;

pub mod push;

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;

use crate::{
    observe::{
        Health,
        metrics::{self, Exporter},
    },
    store::Store,
};

/// The content type of Prometheus' text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is asked when somebody asks.
#[derive(Clone)]
pub struct Sources {
    /// Whether the agent is well.
    pub health: Health,
    /// What waits to be handled.
    pub store: Store,
    /// How many messages wait to be sent.
    pub unsent: Arc<dyn Fn() -> usize + Send + Sync>,
}

/// An address that is listened on; nobody is answered before [`Endpoint::serve`].
pub struct Endpoint {
    listener: TcpListener,
    exporter: Exporter,
}

impl Endpoint {
    /// Listens on the address.
    ///
    /// # Errors
    /// When it can't be listened on, or figures are kept already in this process.
    pub async fn open(listen: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        Ok(Self { listener, exporter: Exporter::install().map_err(io::Error::other)? })
    }

    /// Tells health and figures, for ever.
    ///
    /// # Errors
    /// When connections can't be taken any more.
    pub async fn serve(self, sources: Sources) -> io::Result<()> {
        let Self { listener, exporter } = self;
        tokio::select! {
            served = axum::serve(listener, router(sources, exporter.clone())) => served,
            () = exporter.upkeep() => Ok(()),
        }
    }
}

pub(crate) fn router(sources: Sources, exporter: Exporter) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(figures))
        .with_state((sources, exporter))
}

async fn ready(State((sources, _)): State<(Sources, Exporter)>) -> (StatusCode, String) {
    let troubles = sources.health.troubles();
    if troubles.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    (StatusCode::SERVICE_UNAVAILABLE, troubles.into_iter().map(|trouble| trouble + "\n").collect())
}

async fn figures(State((sources, exporter)): State<(Sources, Exporter)>) -> impl IntoResponse {
    let inbox = match sources.store.count_waiting().await {
        Ok(waiting) => Some(waiting),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "what waits can't be counted");
            None
        }
    };
    metrics::waiting(sources.health.sync_age(), inbox, (sources.unsent)());
    ([(header::CONTENT_TYPE, TEXT_FORMAT)], exporter.render())
}
