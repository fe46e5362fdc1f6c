//! Where the homeserver pushes to the appservice: the application service API.
//!
//! - `PUT /_matrix/app/v1/transactions/{id}`: what has happened; 200 when it is on disk;
//! - `GET /_matrix/app/v1/users/{user}`: whether there is such a user, who is made at that moment;
//! - `GET /_matrix/app/v1/rooms/{alias}`: no room is made by its alias;
//! - `POST /_matrix/app/v1/ping`: whether we are there.
//!
//! Nothing is read of a request before its token is known to be the homeserver's; of what it pushes, no more than a homeserver
//! sends.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use axum::{
    Json, Router,
    body::{Bytes, to_bytes},
    extract::{Path, Query, Request, State},
    http::{StatusCode, Uri, header::AUTHORIZATION},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use secrecy::{ExposeSecret, SecretString};
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use serde_json::{Value, json, value::RawValue};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;

use crate::config::Switch;

/// The largest body that is read. A homeserver sends at most 100 events of 64 KiB at once.
const MAX_BODY: usize = 16 << 20;
/// Events of a transaction, at most.
const MAX_EVENTS: usize = 20_000;

/// Takes what the homeserver pushes.
#[async_trait]
pub trait Push: Send + Sync + 'static {
    /// Takes in a transaction; it is on disk when this says so. One that was taken in before is not taken in again.
    ///
    /// # Errors
    /// When it was not taken in: the homeserver will send it again.
    async fn transaction(&self, id: String, events: Vec<Box<RawValue>>) -> Result<(), PushError>;

    /// Whether there is such a user, who is made where it is not.
    ///
    /// # Errors
    /// When that could not be done.
    async fn user(&self, user: &str) -> Result<bool, PushError>;
}

/// What was pushed could not be taken.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PushError(pub Box<dyn std::error::Error + Send + Sync>);

/// How the homeserver is known.
#[derive(Debug, Clone)]
pub struct Guard {
    /// Its token.
    pub token: SecretString,
    /// Whether that may stand in the address too.
    pub in_address: Switch,
}

/// An address that is listened on; nobody is answered before [`PushEndpoint::serve`].
pub struct PushEndpoint(TcpListener);

impl PushEndpoint {
    /// Listens on the address.
    ///
    /// # Errors
    /// When it can't be listened on.
    pub async fn open(listen: SocketAddr) -> io::Result<Self> {
        Ok(Self(TcpListener::bind(listen).await?))
    }

    /// Takes what is pushed with the homeserver's token, for ever.
    ///
    /// # Errors
    /// When connections can't be taken any more.
    pub async fn serve(self, guard: Guard, push: Arc<dyn Push>) -> io::Result<()> {
        axum::serve(self.0, router(guard, push)).await
    }

    /// Answers the homeserver's pings and takes nothing in, for ever: it keeps what it has to push.
    ///
    /// # Errors
    /// When connections can't be taken any more.
    pub async fn serve_pings(self, guard: Guard) -> io::Result<()> {
        axum::serve(self.0, guarded(pings(), guard)).await
    }
}

fn router(guard: Guard, push: Arc<dyn Push>) -> Router {
    let routes = pings()
        .route("/_matrix/app/v1/transactions/{id}", put(transaction))
        .route("/_matrix/app/v1/users/{user}", get(user))
        .route("/_matrix/app/v1/rooms/{alias}", get(|| async { Refusal::NoRoom }));
    guarded(routes.with_state(push), guard)
}

fn pings<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/_matrix/app/v1/ping", post(|| async { Json(json!({})) }))
}

/// With an answer for whatever else is asked, and for the homeserver alone.
fn guarded(routes: Router, guard: Guard) -> Router {
    routes
        .fallback(|| async { Refusal::NoSuchAddress })
        .method_not_allowed_fallback(|| async { Refusal::NoSuchMethod })
        .layer(middleware::from_fn_with_state(guard, of_the_homeserver))
}

/// Lets nobody through but the homeserver.
async fn of_the_homeserver(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let bearer = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let token = match bearer {
        Some(bearer) => Some(bearer.to_owned()),
        None if guard.in_address == Switch::On => token_in(request.uri()),
        None => None,
    };
    match token {
        None => Refusal::NoToken.into_response(),
        // In a time that does not tell how much of it is right.
        Some(token) if bool::from(token.as_bytes().ct_eq(guard.token.expose_secret().as_bytes())) => {
            next.run(request).await
        }
        Some(_) => Refusal::WrongToken.into_response(),
    }
}

fn token_in(address: &Uri) -> Option<String> {
    #[derive(Deserialize)]
    struct Asked {
        access_token: String,
    }
    Query::<Asked>::try_from_uri(address).ok().map(|Query(asked)| asked.access_token)
}

async fn transaction(
    State(push): State<Arc<dyn Push>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<Value>, Refusal> {
    let body = to_bytes(request.into_body(), MAX_BODY).await.map_err(|_| Refusal::TooLarge)?;
    let events = events(&body)?;
    // In a task of its own: a homeserver that hangs up meanwhile ends only this answer.
    let taken = tokio::spawn(async move { push.transaction(id, events).await });
    match taken.await {
        Ok(Ok(())) => Ok(Json(json!({}))),
        Ok(Err(error)) => Err(Refusal::failed(&error)),
        Err(error) => Err(Refusal::failed(&error)),
    }
}

/// What else a transaction may have is not for us, and not built; nor is an event before its turn.
#[derive(Deserialize)]
struct Transaction {
    events: Events,
}

struct Events(Vec<Box<RawValue>>);

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Events;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX_EVENTS} events")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Events, A::Error> {
                let mut events = Vec::new();
                while let Some(event) = list.next_element()? {
                    if events.len() == MAX_EVENTS {
                        return Err(de::Error::invalid_length(events.len() + 1, &self));
                    }
                    events.push(event);
                }
                Ok(Events(events))
            }
        }
        deserializer.deserialize_seq(Visit)
    }
}

fn events(body: &Bytes) -> Result<Vec<Box<RawValue>>, Refusal> {
    match serde_json::from_slice(body) {
        Ok(Transaction { events: Events(events) }) => Ok(events),
        Err(error) if error.is_data() => Err(Refusal::NoEvents),
        Err(_) => Err(Refusal::NoJson),
    }
}

async fn user(State(push): State<Arc<dyn Push>>, Path(user): Path<String>) -> Result<Json<Value>, Refusal> {
    match push.user(&user).await {
        Ok(true) => Ok(Json(json!({}))),
        Ok(false) => Err(Refusal::NoUser),
        Err(error) => Err(Refusal::failed(&error)),
    }
}

/// Why a request is not answered with 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    NoToken,
    WrongToken,
    NoJson,
    NoEvents,
    TooLarge,
    NoUser,
    NoRoom,
    NoSuchAddress,
    NoSuchMethod,
    Failed,
}

impl Refusal {
    /// Something of ours; what, is for the log.
    fn failed(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error, "what the homeserver pushes is not taken");
        Self::Failed
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, code, message) = match self {
            Self::NoToken => (StatusCode::UNAUTHORIZED, "M_MISSING_TOKEN", "no token"),
            Self::WrongToken => (StatusCode::FORBIDDEN, "M_FORBIDDEN", "not the homeserver's token"),
            Self::NoJson => (StatusCode::BAD_REQUEST, "M_NOT_JSON", "no JSON"),
            Self::NoEvents => (StatusCode::BAD_REQUEST, "M_BAD_JSON", "no list of events, or too many"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "M_TOO_LARGE", "larger than any transaction"),
            Self::NoUser => (StatusCode::NOT_FOUND, "M_NOT_FOUND", "no such user"),
            Self::NoRoom => (StatusCode::NOT_FOUND, "M_NOT_FOUND", "no such room"),
            Self::NoSuchAddress => (StatusCode::NOT_FOUND, "M_UNRECOGNIZED", "no such address"),
            Self::NoSuchMethod => (StatusCode::METHOD_NOT_ALLOWED, "M_UNRECOGNIZED", "no such method"),
            Self::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "M_UNKNOWN", "not taken: to be sent again"),
        };
        (status, Json(json!({"errcode": code, "error": message}))).into_response()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;

    use reqwest::{Client, Method};

    use super::*;

    /// Remembers what was pushed; fails at the transaction "broken".
    #[derive(Default)]
    struct Pushed(Mutex<Vec<(String, usize)>>);

    #[async_trait]
    impl Push for Pushed {
        async fn transaction(&self, id: String, events: Vec<Box<RawValue>>) -> Result<(), PushError> {
            if id == "broken" {
                return Err(PushError("no disk".into()));
            }
            self.0.lock().unwrap().push((id, events.len()));
            Ok(())
        }

        async fn user(&self, user: &str) -> Result<bool, PushError> {
            Ok(user == "@cook:example.org")
        }
    }

    async fn endpoint() -> (String, Arc<Pushed>) {
        endpoint_with(Switch::Off).await
    }

    async fn endpoint_with(in_address: Switch) -> (String, Arc<Pushed>) {
        let endpoint = PushEndpoint::open("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = format!("http://{}/_matrix/app/v1", endpoint.0.local_addr().unwrap());
        let pushed = Arc::new(Pushed::default());
        tokio::spawn(endpoint.serve(Guard { token: "secret".into(), in_address }, pushed.clone()));
        (address, pushed)
    }

    async fn ask(method: Method, url: String, token: Option<&str>, body: impl Into<reqwest::Body>) -> (u16, Value) {
        let mut request = Client::new().request(method, url).body(body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    #[tokio::test]
    async fn what_is_hostile_or_wrong_gets_the_right_status_and_is_not_taken() {
        let (address, pushed) = endpoint().await;
        let transaction = format!("{address}/transactions/1");
        let whole = r#"{"events": []}"#;
        for (method, url, token, body, status, code) in [
            (Method::PUT, &transaction, None, whole, 401, "M_MISSING_TOKEN"),
            (Method::PUT, &transaction, Some("wrong"), whole, 403, "M_FORBIDDEN"),
            (Method::PUT, &transaction, Some("secre"), whole, 403, "M_FORBIDDEN"),
            (Method::PUT, &format!("{transaction}?access_token=secret"), None, whole, 401, "M_MISSING_TOKEN"),
            (Method::PUT, &transaction, Some("secret"), "{", 400, "M_NOT_JSON"),
            (Method::PUT, &transaction, Some("secret"), r#"{"event": []}"#, 400, "M_BAD_JSON"),
            (Method::PUT, &transaction, Some("secret"), r#"{"events": {}}"#, 400, "M_BAD_JSON"),
            (Method::POST, &transaction, Some("secret"), whole, 405, "M_UNRECOGNIZED"),
            (Method::PUT, &format!("{address}/transactions/broken"), Some("secret"), whole, 500, "M_UNKNOWN"),
            (Method::GET, &format!("{address}/users/@nobody:example.org"), Some("secret"), "", 404, "M_NOT_FOUND"),
            (Method::GET, &format!("{address}/rooms/%23room:example.org"), Some("secret"), "", 404, "M_NOT_FOUND"),
            (Method::GET, &format!("{address}/thirdparty/user"), Some("secret"), "", 404, "M_UNRECOGNIZED"),
            (Method::GET, &format!("{address}/thirdparty/user"), None, "", 401, "M_MISSING_TOKEN"),
        ] {
            let (answered, body) = ask(method.clone(), url.clone(), token, body).await;
            assert_eq!((answered, body["errcode"].as_str()), (status, Some(code)), "{method} {url}");
        }
        assert_eq!(*pushed.0.lock().unwrap(), []);
    }

    #[tokio::test]
    async fn a_token_in_the_address_counts_where_the_operator_says_so() {
        let (address, pushed) = endpoint_with(Switch::On).await;
        let url = format!("{address}/transactions/1?access_token=");
        for (url, bearer, status) in [
            (format!("{url}wrong"), None, 403),
            (format!("{url}secret"), Some("wrong"), 403),
            (format!("{address}/transactions/1"), None, 401),
            (format!("{url}secret"), None, 200),
        ] {
            assert_eq!(ask(Method::PUT, url.clone(), bearer, r#"{"events": []}"#).await.0, status, "{url}");
        }
        assert_eq!(*pushed.0.lock().unwrap(), [("1".to_owned(), 0)]);
    }

    #[tokio::test]
    async fn a_body_of_any_size_costs_no_more_than_the_largest_that_is_read() {
        let (address, pushed) = endpoint().await;
        let url = format!("{address}/transactions/1");
        for token in ["secret", "wrong"] {
            // The answer may come before the whole is sent: then the connection ends.
            let sent = Client::new().put(&url).bearer_auth(token).body(vec![b' '; 100 << 20]).send().await;
            if let Ok(answer) = sent {
                assert_eq!(answer.status(), if token == "secret" { 413 } else { 403 });
            }
        }
        assert_eq!(*pushed.0.lock().unwrap(), []);
    }

    #[tokio::test]
    async fn what_the_homeserver_pushes_and_asks_is_answered() {
        let (address, pushed) = endpoint().await;
        let many = json!({"events": vec![json!({"type": 5}); 10_000], "ephemeral": 1}).to_string();
        for (method, path, body) in [
            (Method::POST, "ping", "{}".to_owned()),
            (Method::GET, "users/%40cook%3Aexample.org", String::new()),
            (Method::PUT, "transactions/1", many),
        ] {
            assert_eq!(ask(method, format!("{address}/{path}"), Some("secret"), body).await, (200, json!({})));
        }
        assert_eq!(*pushed.0.lock().unwrap(), [("1".to_owned(), 10_000)]);
        let too_many = json!({"events": vec![0; MAX_EVENTS + 1]}).to_string();
        let (status, answer) = ask(Method::PUT, format!("{address}/transactions/2"), Some("secret"), too_many).await;
        assert_eq!((status, answer["errcode"].as_str()), (400, Some("M_BAD_JSON")));
    }
}
