//! Between the clients of this process and the homeserver: what a client asks with a token of its own goes on with the
//! appservice's token, as that client's user and device.
//!
//! It listens on loopback, where others of this machine could ask too. So a client's token is random, known to this process
//! alone, and tells who it is; what a caller says itself of user and device is dropped.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{
        HeaderMap, StatusCode,
        header::{ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING},
    },
    response::{IntoResponse, Response},
};
use rand::RngExt as _;
use reqwest::{Client, Url};
use ruma::{DeviceId, OwnedDeviceId, OwnedUserId, UserId};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle};

/// What says as whom a request is made.
const IDENTITY: [&str; 4] = ["user_id", "device_id", "org.matrix.msc3202.device_id", "access_token"];
/// What is asked before anybody is anybody.
const VERSIONS: &str = "/_matrix/client/versions";
/// Hexadecimal digits of a client's token.
const TOKEN_DIGITS: usize = 32;

type Admitted = Arc<RwLock<HashMap<String, (OwnedUserId, OwnedDeviceId)>>>;

/// The proxy. It ends when this is dropped.
pub(super) struct Proxy {
    listens: SocketAddr,
    admitted: Admitted,
    server: JoinHandle<()>,
}

#[derive(Clone)]
struct Onward {
    homeserver: String,
    token: SecretString,
    http: Client,
    admitted: Admitted,
}

impl Proxy {
    pub(super) async fn start(homeserver: String, token: SecretString, http: Client) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (listens, admitted) = (listener.local_addr()?, Admitted::default());
        let onward = Onward { homeserver, token, http, admitted: admitted.clone() };
        let router = Router::new().fallback(forward).with_state(onward);
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the way to the homeserver has ended");
            }
        });
        Ok(Self { listens, admitted, server })
    }

    pub(super) fn address(&self) -> String {
        format!("http://{}", self.listens)
    }

    /// A token for this device; an earlier one of its counts no more.
    pub(super) fn admit(&self, user: &UserId, device: &DeviceId) -> String {
        let mut random = rand::rng();
        let token: String =
            (0..TOKEN_DIGITS).filter_map(|_| char::from_digit(random.random_range(0..16), 16)).collect();
        let mut admitted = self.admitted.write().unwrap_or_else(PoisonError::into_inner);
        admitted.retain(|_, (known, _)| known != user);
        admitted.insert(token.clone(), (user.to_owned(), device.to_owned()));
        token
    }
}

impl Onward {
    /// Who has this token.
    fn device(&self, bearer: &str) -> Option<(OwnedUserId, OwnedDeviceId)> {
        self.admitted.read().unwrap_or_else(PoisonError::into_inner).get(bearer).cloned()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn forward(State(onward): State<Onward>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let bearer = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let device = bearer.and_then(|bearer| onward.device(bearer));
    if device.is_none() && head.uri.path() != VERSIONS {
        return error(StatusCode::FORBIDDEN, "M_FORBIDDEN", "not a client of this process");
    }
    let Ok(mut url) = Url::parse(&format!("{}{}", onward.homeserver, head.uri)) else {
        return error(StatusCode::BAD_REQUEST, "M_UNRECOGNIZED", "no such address");
    };
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(key, _)| !IDENTITY.contains(&&**key))
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    url.set_query(None);
    if !kept.is_empty() {
        url.query_pairs_mut().extend_pairs(kept);
    }
    let has_body = head.headers.contains_key(CONTENT_LENGTH) || head.headers.contains_key(TRANSFER_ENCODING);
    let mut headers = without_hop(head.headers);
    headers.remove(HOST);
    headers.remove(AUTHORIZATION);
    // The answer is not packed for the way inside this machine.
    headers.remove(ACCEPT_ENCODING);
    if let Some((user, device)) = &device {
        url.query_pairs_mut().append_pair("user_id", user.as_str()).append_pair("device_id", device.as_str());
    }
    let mut asked = onward.http.request(head.method, url).headers(headers);
    if device.is_some() {
        asked = asked.bearer_auth(onward.token.expose_secret());
    }
    if has_body {
        asked = asked.body(reqwest::Body::wrap_stream(body.into_data_stream()));
    }
    match asked.send().await {
        Ok(answer) => {
            let (status, headers) = (answer.status(), without_hop(answer.headers().clone()));
            (status, headers, Body::from_stream(answer.bytes_stream())).into_response()
        }
        Err(failed) => {
            tracing::debug!(error = %failed.without_url(), "the homeserver did not answer");
            error(StatusCode::BAD_GATEWAY, "M_UNKNOWN", "the homeserver can't be reached")
        }
    }
}

/// Without what is said of one connection only.
fn without_hop(mut headers: HeaderMap) -> HeaderMap {
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
    headers
}

fn error(status: StatusCode, code: &str, message: &str) -> Response {
    (status, axum::Json(json!({"errcode": code, "error": message}))).into_response()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::{device_id, user_id};

    use super::*;

    /// A homeserver that says what it was asked.
    async fn homeserver() -> String {
        let echo = |request: Request| async move {
            let bearer = request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
            format!("{} {} {}", request.method(), request.uri(), bearer.unwrap_or_default())
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(echo)).await });
        address
    }

    async fn ask(proxy: &Proxy, path: &str, token: &str) -> (u16, String) {
        let answer = Client::new().get(format!("{}{path}", proxy.address())).bearer_auth(token).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    #[tokio::test]
    async fn a_client_of_this_process_acts_as_its_own_device_whatever_it_says() {
        let proxy = Proxy::start(homeserver().await, "secret".into(), Client::new()).await.unwrap();
        let token = proxy.admit(user_id!("@cook:example.org"), device_id!("ONE"));
        let path =
            "/_matrix/client/v3/rooms/%21r%3Ax/messages?dir=b&user_id=%40guide%3Aexample.org&device%5Fid=TWO&limit=5";
        assert_eq!(
            ask(&proxy, path, &token).await,
            (200, "GET /_matrix/client/v3/rooms/%21r%3Ax/messages?dir=b&limit=5&user_id=%40cook%3Aexample.org&device_id=ONE Bearer secret".to_owned())
        );
    }

    #[tokio::test]
    async fn nobody_else_gets_further_than_the_versions_and_never_with_the_appservices_token() {
        let proxy = Proxy::start(homeserver().await, "secret".into(), Client::new()).await.unwrap();
        let old = proxy.admit(user_id!("@cook:example.org"), device_id!("ONE"));
        let new = proxy.admit(user_id!("@cook:example.org"), device_id!("TWO"));
        for token in ["", "secret", "guessed", &old] {
            assert_eq!(ask(&proxy, "/_matrix/client/v3/sync", token).await.0, 403, "{token}");
        }
        assert_eq!(ask(&proxy, "/_matrix/client/v3/sync", &new).await.0, 200);
        let (status, asked) = ask(&proxy, VERSIONS, "guessed").await;
        assert_eq!((status, asked.trim_end()), (200, "GET /_matrix/client/versions"));
    }

    #[tokio::test]
    async fn a_homeserver_that_is_away_is_a_gateways_error() {
        let proxy = Proxy::start("http://127.0.0.1:9".into(), "secret".into(), Client::new()).await.unwrap();
        let token = proxy.admit(user_id!("@cook:example.org"), device_id!("ONE"));
        assert_eq!(ask(&proxy, "/_matrix/client/v3/sync", &token).await.0, 502);
    }
}
