//! The listener: each connection with its bounds, so that slow and many ones cost little.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::extract::Request;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};
use tower::ServiceExt as _;

use super::{Forms, routes};

/// Connections at once.
const MAX_CONNECTIONS: usize = 256;
/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(10);
/// How long a connection may live.
const CONNECTION: Duration = Duration::from_secs(120);
/// The wait after a connection could not be taken.
const RETRY: Duration = Duration::from_millis(200);

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Listens on the address, and serves for ever. Gives where it listens.
pub(super) async fn begin(forms: Forms, listen: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(run(forms, listener));
    Ok(bound)
}

async fn run(forms: Forms, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let router = routes::router(forms);
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection for a form can't be taken");
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        let service = router.clone().map_request(move |mut request: Request<_>| {
            request.extensions_mut().insert(Peer(peer));
            request
        });
        tokio::spawn(async move {
            let served = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
            // How a browser ends its connection is nobody's concern.
            let _ = timeout(CONNECTION, served).await;
            drop(place);
        });
    }
}
