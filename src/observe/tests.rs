//! What is told of a turn from outside, and what the log says of it.

#![allow(clippy::unwrap_used)]

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use super::metrics::testing::{figures, local};
use crate::{
    http::{Sources, router},
    testing::{ALICE, Answer, DIRECT, House, Incoming, at_once},
};

/// Asks as Prometheus does; gives the head and the body.
async fn get(router: axum::Router, path: &str) -> (String, String) {
    at_once(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        server.abort();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    })
    .await
}

fn sources(house: &House) -> Sources {
    let outbox = house.outbox.clone();
    Sources { health: house.health.clone(), store: house.store.clone(), unsent: Arc::new(move || outbox.waiting()) }
}

#[tokio::test(start_paused = true)]
async fn the_figures_of_a_turn_that_is_limited_and_whose_model_fails_once() {
    let (recorder, exporter) = local();
    let _local = ::metrics::set_default_local_recorder(&recorder);
    let house = House::new(json!({"steps": [
        {"fail": {"status": 429, "retry_after_ms": 2000}},
        {"calls": [{"name": "now", "arguments": {"zone": "Asia/Tokyo"}}, {"name": "odd"}], "usage": {"prompt": 100, "completion": 10}},
        {"say": "It is half past nine. That is in the morning.", "word_ms": 1000, "usage": {"prompt": 150, "completion": 12}},
    ]}))
    .await;
    house.health.synced();
    house.server.answer([Answer::Take, Answer::Limit(3)]);
    house.ask(ALICE, DIRECT, "What time is it in Tokyo?").await;
    house.receive(Incoming::message(ALICE, DIRECT, "Stop.").clear()).await;
    let (head, body) = get(router(sources(&house), exporter), "/metrics").await;
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/plain; version=0.0.4"), "{head}");
    insta::assert_snapshot!(figures(&body));
}

#[tokio::test(start_paused = true)]
async fn a_degraded_agent_says_why() {
    let (_, exporter) = local();
    let house = House::new(json!({"steps": [], "otherwise": {"fail": {"status": 503}}})).await;
    let router = router(sources(&house), exporter);
    let (head, body) = get(router.clone(), "/readyz").await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert_eq!(body, "not synced yet\n");
    house.health.synced();
    let (head, body) = get(router.clone(), "/readyz").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, "ok\n");
    house.ask(ALICE, DIRECT, "Hello?").await;
    house.pass(std::time::Duration::from_secs(60)).await;
    house.ask(ALICE, DIRECT, "And now?").await;
    house.health.synced();
    let (_, body) = get(router, "/readyz").await;
    assert!(body.starts_with("the last 8 calls of the model failed, for "), "{body}");
}

/// Keeps what is written to it.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn capture(filter: &str) -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .json()
        .with_current_span(false)
        .with_writer(log.clone())
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}

#[tokio::test(start_paused = true)]
async fn no_line_of_the_log_holds_anybodys_words() {
    let (log, _guard) = capture("off,waybread=trace,matrix_link=trace");
    let house = House::new(json!({"steps": [
        {"calls": [{"name": "now", "arguments": {"zone": "Zanzibar"}}, {"name": "zanzibar"}]},
        {"say": "It is Zanzibar. I am ", "word_ms": 800, "fail": "cut"},
        {"say": "It is Zanzibar. I am sure of Zanzibar.", "word_ms": 800},
    ]}))
    .await;
    house.server.answer([Answer::Take, Answer::Fail, Answer::Limit(2)]);
    house.ask(ALICE, DIRECT, "Where is Zanzibar?").await;
    house.receive(Incoming::message(ALICE, DIRECT, "In clear: Zanzibar.").clear()).await;
    house.ask(ALICE, DIRECT, "!model zanzibar").await;
    let lines = log.lines();
    let text: String = lines.iter().map(|line| line.to_string().to_lowercase()).collect();
    for message in ["tool call refused", "a model's step failed", "event not taken yet", "turn ended", "does not count"]
    {
        assert!(text.contains(message), "{message:?} is not in {text}");
    }
    assert!(!text.contains("zanzibar"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn every_line_in_a_turn_names_its_room_turn_and_event_at_any_level() {
    for (filter, message) in [("info", "turn ended"), ("warn", "turn failed")] {
        let (log, _guard) = capture(filter);
        let house = House::new(json!({"steps": [{"fail": {"status": 401}}]})).await;
        let event = house.ask(ALICE, DIRECT, "Hello?").await;
        let lines = log.lines();
        let line = lines.iter().find(|line| line["fields"]["message"] == message).unwrap();
        let span = &line["spans"][0];
        assert_eq!((&span["name"], &span["room"], &span["event"]), (&json!("turn"), &json!(DIRECT), &json!(event)));
        assert_eq!(span["turn"].as_str().unwrap().len(), 8);
    }
}
