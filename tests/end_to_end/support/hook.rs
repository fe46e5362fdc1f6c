//! A server on this machine that a webhook calls: it remembers what it got.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// The server. Ends when it is dropped.
pub struct Hook {
    pub url: String,
    got: Arc<Mutex<Vec<Got>>>,
    task: JoinHandle<()>,
}

/// A request that came.
#[derive(Debug, Clone)]
pub struct Got {
    pub authorization: String,
    pub body: Value,
}

#[derive(Clone)]
struct Wants {
    authorization: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Hook {
    /// Takes requests with this authorization, and refuses others.
    pub async fn start(authorization: &str) -> Self {
        let got = Arc::<Mutex<_>>::default();
        let wants = Wants { authorization: authorization.to_owned(), got: got.clone() };
        let app = Router::new().route("/hooks/connect", post(take)).with_state(wants);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks/connect", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, got, task }
    }

    pub fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn take(State(wants): State<Wants>, headers: HeaderMap, body: Bytes) -> (StatusCode, String) {
    let header = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    wants.got.lock().unwrap().push(Got { authorization: header.clone(), body });
    // A careless server: it says again what it got.
    let status = if header == wants.authorization { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
    (status, format!("you sent {header}"))
}
