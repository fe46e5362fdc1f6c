//! Helpers of this folder's tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use serde_json::{Map, Value, json};

use super::{
    Delta, DeltaStream, Endpoint, Example, Finish, Form, Limits, Message, Model as _, ModelError, OpenAi, Request,
    ToolCall, ToolSpec,
};

/// Short limits, for a real socket knows no paused clock.
pub(super) const LIMITS: Limits = Limits {
    connect: Duration::from_millis(500),
    first_token: Duration::from_millis(500),
    idle: Duration::from_millis(300),
    max_reply_bytes: 1000,
};

/// Cuts `text` at the given places, rounded down to characters.
pub(super) fn chunked<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let mut cuts: Vec<usize> = cuts.iter().map(|&cut| text.floor_char_boundary(cut)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

/// All items of a step. A step that does not end within ten seconds fails the test.
pub(super) async fn items(stream: DeltaStream) -> Vec<Result<Delta, ModelError>> {
    tokio::time::timeout(Duration::from_secs(10), stream.collect()).await.expect("the step ends")
}

/// The tools that most tests offer.
pub(super) fn tools() -> Vec<ToolSpec> {
    let example = Example {
        ask: "What time is it in Tokyo?".into(),
        arguments: Map::from_iter([("zone".into(), "Asia/Tokyo".into())]),
        result: "In Asia/Tokyo it is 09:30.".into(),
        reply: "It is 09:30 in Tokyo.".into(),
    };
    vec![
        ToolSpec {
            name: "now".into(),
            description: "The date and time. Use it whenever the time matters.".into(),
            parameters: json!({"type": "object", "properties": {"zone": {"type": "string"}}}),
            cases: Vec::new(),
            example: Some(example),
        },
        ToolSpec {
            name: "alarm".into(),
            description: "Sets an alarm.".into(),
            parameters: json!({
                "type": "object",
                "properties": {"at": {"type": "string"}, "days": {"type": "array", "items": {"$ref": "#/$defs/day"}}},
                "required": ["at"],
                "additionalProperties": false,
                "$defs": {"day": {"enum": ["mon", "tue"]}}
            }),
            cases: Vec::new(),
            example: None,
        },
    ]
}

/// A conversation with each kind of message.
pub(super) fn conversation() -> Request {
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    let result =
        |id: &str, name: &str, text: &str| Message::ToolResult { id: id.into(), name: name.into(), text: text.into() };
    Request {
        messages: vec![
            Message::System("You are Waybread.".into()),
            Message::User("[1] alice: hello".into()),
            Message::Assistant { text: "Hi \"alice\"!".into(), calls: vec![] },
            Message::User("[2] alice: time? and wake me".into()),
            Message::Assistant {
                text: "Let me see.".into(),
                calls: vec![call("a", "now", r#"{"zone":"UTC"}"#), call("b", "ala rm", r#"{"at":"06:3"#)],
            },
            result("a", "now", "12:00"),
            result("b", "ala rm", "no such tool"),
            Message::User("[3] alice: please".into()),
        ],
        tools: tools(),
    }
}

/// A real HTTP server on loopback that plays answers.
pub(super) struct Server {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

/// A request that came.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) authorization: Option<String>,
}

/// What the server answers.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) bits: Vec<Bit>,
    /// Not even a status comes.
    pub(super) hang: bool,
}

/// A piece of a body.
#[derive(Debug, Clone)]
pub(super) enum Bit {
    Bytes(Vec<u8>),
    /// Nothing more comes.
    Hang,
    /// The connection breaks.
    Break,
    /// The same, for ever and as fast as it goes.
    Endless(String),
    /// Comments that keep the connection open, for ever.
    Comments,
}

impl Bit {
    pub(super) fn event(data: &str) -> Self {
        Self::Bytes(format!("data: {data}\n\n").into_bytes())
    }
}

impl Reply {
    /// These events and the end mark.
    pub(super) fn stream(events: &[&str]) -> Self {
        let bits = events.iter().chain(&["[DONE]"]).map(|data| Bit::event(data)).collect();
        Self { status: 200, headers: vec![], bits, hang: false }
    }

    /// Each byte by itself.
    pub(super) fn bytewise(body: &str) -> Self {
        Self { bits: body.bytes().map(|byte| Bit::Bytes(vec![byte])).collect(), ..Self::stream(&[]) }
    }

    pub(super) fn error(status: u16, body: &str) -> Self {
        Self { status, bits: vec![Bit::Bytes(body.into())], ..Self::stream(&[]) }
    }

    async fn play(self) -> Response {
        if self.hang {
            std::future::pending::<()>().await;
        }
        let body = async_stream::stream! {
            for bit in self.bits {
                match bit {
                    Bit::Bytes(bytes) => yield Ok(bytes),
                    Bit::Hang => std::future::pending().await,
                    Bit::Break => yield Err(std::io::Error::other("broken")),
                    Bit::Comments => loop {
                        yield Ok(b": waiting\n\n".to_vec());
                        tokio::time::sleep(LIMITS.idle / 10).await;
                    },
                    Bit::Endless(text) => loop {
                        yield Ok(text.clone().into_bytes());
                        tokio::task::yield_now().await;
                    },
                }
                // What stands is sent before the next piece.
                tokio::task::yield_now().await;
            }
        };
        let mut response = Body::from_stream(body).into_response();
        *response.status_mut() = self.status.try_into().unwrap();
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        response
    }
}

impl Server {
    pub(super) async fn start(answer: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, record) = (Arc::new(answer), Arc::clone(&seen));
        let handler = move |headers: HeaderMap, axum::Json(body): axum::Json<Value>| {
            let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
            record.lock().unwrap().push(Seen { authorization });
            let reply = answer(&body);
            async move { reply.play().await }
        };
        let router = axum::Router::new().route("/v1/chat/completions", axum::routing::post(handler));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, seen, task }
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint {
            url: self.url.clone(),
            name: "test".into(),
            key: None,
            temperature: 0.5,
            reply_tokens: 100,
            limits: LIMITS,
        }
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a step gave.
pub(super) type Items = Vec<Result<Delta, ModelError>>;

pub(super) fn text(text: &str) -> Result<Delta, ModelError> {
    Ok(Delta::Text(text.into()))
}

pub(super) fn call(id: &str, name: &str, arguments: &str) -> Result<Delta, ModelError> {
    Ok(Delta::Call(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }))
}

pub(super) fn done(finish: Finish) -> Result<Delta, ModelError> {
    Ok(Delta::Done { finish, usage: None })
}

/// Consecutive texts joined: how a server's bytes are cut on the way is no matter.
pub(super) fn joined(items: Items) -> Items {
    let mut joined = Items::new();
    for item in items {
        match (joined.last_mut(), item) {
            (Some(Ok(Delta::Text(text))), Ok(Delta::Text(more))) => text.push_str(&more),
            (_, item) => joined.push(item),
        }
    }
    joined
}

pub(super) async fn ask(reply: Reply, form: Form) -> Items {
    let server = Server::start(move |_| reply.clone()).await;
    let model = OpenAi::new(server.endpoint(), form).unwrap();
    joined(items(model.stream(conversation())).await)
}

pub(super) fn said(text: &str) -> String {
    json!({"choices": [{"delta": {"content": text}}]}).to_string()
}

pub(super) fn stopped(reason: &str) -> String {
    json!({"choices": [{"delta": {}, "finish_reason": reason}]}).to_string()
}
