//! A proxy between the agent and the homeserver that notes each request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Bytes, to_bytes},
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::support::Homeserver;

/// A request that has its answer.
#[derive(Debug, Clone)]
pub struct Passed {
    /// What was asked for, in one word of the path: `sync`, `send`, `typing`.
    pub kind: String,
    pub answered: Instant,
    /// How long the homeserver took.
    pub took: Duration,
}

/// The proxy. Ends when it is dropped.
pub struct Meter {
    /// The homeserver behind it, to be used through it.
    pub homeserver: Homeserver,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    target: String,
    http: reqwest::Client,
    passed: watch::Sender<Vec<Passed>>,
}

impl Meter {
    pub async fn start(homeserver: &Homeserver) -> Self {
        let (target, http) = (homeserver.url.clone(), reqwest::Client::new());
        let shared = Arc::new(Shared { target, http, passed: watch::Sender::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(pass).with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { homeserver: homeserver.at(url), shared, task }
    }

    /// Waits until a request of a kind has passed since the last [`Meter::take`].
    pub async fn has_passed(&self, kind: &str) {
        let mut passed = self.shared.passed.subscribe();
        passed.wait_for(|passed| passed.iter().any(|one| one.kind == kind)).await.unwrap();
    }

    /// What has passed since the last call, in the order of the answers.
    pub fn take(&self) -> Vec<Passed> {
        self.shared.passed.send_replace(Vec::new())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let kind = kind(request.uri().path());
    let begun = Instant::now();
    let answer = forward(&shared, request).await;
    let answered = Instant::now();
    shared.passed.send_modify(|passed| passed.push(Passed { kind, answered, took: answered - begun }));
    match answer {
        Some(answer) => answer.into_response(),
        None => StatusCode::BAD_GATEWAY.into_response(),
    }
}

async fn forward(shared: &Shared, request: Request) -> Option<(StatusCode, [(&'static str, String); 1], Bytes)> {
    let (parts, body) = request.into_parts();
    let url = format!("{}{}", shared.target, parts.uri.path_and_query()?);
    let body = to_bytes(body, usize::MAX).await.ok()?;
    let mut headers = parts.headers;
    headers.remove("host");
    headers.remove("content-length");
    let answer = shared.http.request(parts.method, url).headers(headers).body(body).send().await.ok()?;
    let content_type = answer.headers().get("content-type").and_then(|value| value.to_str().ok());
    let headers = [("content-type", content_type.unwrap_or("application/json").to_owned())];
    Some((answer.status(), headers, answer.bytes().await.ok()?))
}

/// `/_matrix/client/v3/rooms/ROOM/KIND/...` or `/_matrix/client/v3/KIND/...`.
fn kind(path: &str) -> String {
    let mut parts = path.split('/').skip_while(|part| *part != "client").skip(2);
    match parts.next() {
        Some("rooms") => parts.nth(1),
        other => other,
    }
    .unwrap_or(path)
    .to_owned()
}
