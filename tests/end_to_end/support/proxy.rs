//! A proxy in front of the homeserver that loses, delays and refuses what a test tells it to.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::Homeserver;

/// How long a test waits for its trouble to happen.
const WAIT: Duration = Duration::from_secs(60);

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It never reaches the homeserver, and there is no answer.
    Swallow,
    /// The homeserver does it, and its answer is lost: the connection breaks off.
    LoseAnswer,
    /// The homeserver does it, and its answer never comes.
    HoldAnswer,
    /// Refused by the rate limit, for so many milliseconds.
    Limit(u64),
    /// Refused for good: we are not in the room.
    Forbid,
    /// A broken gateway.
    BadGateway,
    /// The session's token has ended.
    SoftLogout,
    /// It takes so many milliseconds longer.
    Slow(u64),
    /// Its answer comes at once, and the homeserver gets it when there is peace.
    Postpone,
}

/// Which requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// `PUT .../send/...`.
    Send,
    /// `GET .../sync`.
    Sync,
    /// `GET .../messages`: the past of a room.
    Messages,
    /// `PUT .../sendToDevice/...`: keys above all.
    ToDevice,
    /// `POST .../refresh`.
    Refresh,
    /// `POST .../login`.
    Login,
    /// `GET .../whoami`.
    WhoAmI,
    /// All.
    All,
}

struct Rule {
    which: Which,
    /// Requests of that kind that pass before.
    skip: usize,
    /// Requests of that kind that it happens to.
    times: usize,
    trouble: Trouble,
}

/// The proxy. Ends when it is dropped.
pub struct Proxy {
    /// The homeserver behind it, to be used through it.
    pub homeserver: Homeserver,
    state: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    target: String,
    http: reqwest::Client,
    rules: Mutex<Vec<Rule>>,
    postponed: Mutex<Vec<Request>>,
    happened: watch::Sender<usize>,
}

impl Proxy {
    pub async fn start(homeserver: &Homeserver) -> Self {
        let state = Arc::new(Shared {
            target: homeserver.url.clone(),
            http: reqwest::Client::new(),
            rules: Mutex::default(),
            postponed: Mutex::default(),
            happened: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(pass).with_state(state.clone());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { homeserver: homeserver.at(url), state, task }
    }

    /// Lets something happen to `times` requests of a kind, after `skip` that pass.
    pub fn trouble(&self, which: Which, skip: usize, times: usize, trouble: Trouble) {
        self.state.rules.lock().unwrap().push(Rule { which, skip, times, trouble });
    }

    /// Nothing happens any more.
    pub fn peace(&self) {
        self.state.rules.lock().unwrap().clear();
    }

    /// Nothing happens any more, and what was postponed is done now, in its order.
    pub async fn catch_up(&self) {
        self.peace();
        let postponed = std::mem::take(&mut *self.state.postponed.lock().unwrap());
        for request in postponed {
            assert!(forward(&self.state, request).await.status().is_success());
        }
    }

    /// Waits until trouble has happened `times` times in all.
    pub async fn happened(&self, times: usize) {
        let mut happened = self.state.happened.subscribe();
        let waited = timeout(WAIT, happened.wait_for(|happened| *happened >= times)).await;
        waited.unwrap_or_else(|_| panic!("trouble did not happen {times} times")).unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn trouble(&self, request: &Request) -> Option<Trouble> {
        let path = request.uri().path();
        let mut rules = self.rules.lock().unwrap();
        for rule in rules.iter_mut() {
            let meant = match rule.which {
                Which::Send => request.method() == "PUT" && path.contains("/send/"),
                Which::Sync => path.ends_with("/sync"),
                Which::Messages => path.ends_with("/messages"),
                Which::ToDevice => path.contains("/sendToDevice/"),
                Which::Refresh => path.ends_with("/refresh"),
                Which::Login => path.ends_with("/login"),
                Which::WhoAmI => path.ends_with("/whoami"),
                Which::All => true,
            };
            if !meant || rule.times == 0 {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            rule.times -= 1;
            return Some(rule.trouble);
        }
        None
    }
}

async fn pass(State(state): State<Arc<Shared>>, request: Request) -> Response {
    let trouble = state.trouble(&request);
    let happened = || state.happened.send_modify(|happened| *happened += 1);
    match trouble {
        Some(Trouble::Swallow) => {
            happened();
            std::future::pending().await
        }
        Some(Trouble::Limit(retry_after_ms)) => {
            happened();
            let body = json!({"errcode": "M_LIMIT_EXCEEDED", "error": "slow down", "retry_after_ms": retry_after_ms});
            (StatusCode::TOO_MANY_REQUESTS, axum::Json(body)).into_response()
        }
        Some(Trouble::Forbid) => {
            happened();
            let body = json!({"errcode": "M_FORBIDDEN", "error": "not in the room"});
            (StatusCode::FORBIDDEN, axum::Json(body)).into_response()
        }
        Some(Trouble::BadGateway) => {
            happened();
            (StatusCode::BAD_GATEWAY, "the gateway is broken").into_response()
        }
        Some(Trouble::SoftLogout) => {
            happened();
            let body = json!({"errcode": "M_UNKNOWN_TOKEN", "error": "it has ended", "soft_logout": true});
            (StatusCode::UNAUTHORIZED, axum::Json(body)).into_response()
        }
        Some(Trouble::Slow(ms)) => {
            happened();
            sleep(Duration::from_millis(ms)).await;
            forward(&state, request).await
        }
        Some(Trouble::Postpone) => {
            state.postponed.lock().unwrap().push(request);
            happened();
            axum::Json(json!({})).into_response()
        }
        Some(Trouble::HoldAnswer) => {
            forward(&state, request).await;
            happened();
            std::future::pending().await
        }
        Some(Trouble::LoseAnswer) => {
            forward(&state, request).await;
            happened();
            // A body that fails at once: the connection breaks off in the middle of the answer.
            let broken = futures_util::stream::once(async { Err::<Vec<u8>, _>(std::io::Error::other("lost")) });
            Response::new(Body::from_stream(broken))
        }
        None => forward(&state, request).await,
    }
}

async fn forward(state: &Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let url = format!("{}{}", state.target, parts.uri.path_and_query().unwrap());
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let mut headers = parts.headers;
    headers.remove("host");
    headers.remove("content-length");
    match state.http.request(parts.method, url).headers(headers).body(body).send().await {
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
        Ok(answer) => {
            let status = answer.status();
            let mut headers = answer.headers().clone();
            headers.remove("transfer-encoding");
            headers.remove("content-length");
            headers.remove("connection");
            let body = answer.bytes().await.unwrap_or_default();
            (status, headers, body).into_response()
        }
    }
}
