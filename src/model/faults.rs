//! What goes wrong between us and a server, played by a real one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::json;

use super::testing::{self, Bit, Reply, Server, ask, done, said, stopped, text};
use super::{Delta, Endpoint, Finish, Form, Model as _, ModelError, OpenAi, Wait};

#[tokio::test]
async fn the_end_is_the_finish_or_the_mark_and_else_the_answer_is_cut() {
    let bits = |bits: Vec<Bit>| Reply { bits, ..Reply::stream(&[]) };
    let finished = bits(vec![Bit::event(&said("a")), Bit::event(&stopped("stop"))]);
    assert_eq!(ask(finished, Form::Native).await, [text("a"), done(Finish::Stop)]);
    let marked = bits(vec![Bit::event(&said("a")), Bit::event("[DONE]")]);
    assert_eq!(ask(marked, Form::Native).await, [text("a"), done(Finish::Stop)]);
    let closed = bits(vec![Bit::event(&said("a"))]);
    assert_eq!(ask(closed, Form::Native).await, [text("a"), Err(ModelError::Cut)]);
    let broken = bits(vec![Bit::event(&said("a")), Bit::Break]);
    assert_eq!(ask(broken, Form::Native).await, [text("a"), Err(ModelError::Cut)]);
    let broken_late = bits(vec![Bit::event(&said("a")), Bit::event(&stopped("length")), Bit::Break]);
    assert_eq!(ask(broken_late, Form::Native).await, [text("a"), done(Finish::Length)]);
    assert_eq!(ask(bits(vec![]), Form::Native).await, [Err(ModelError::Cut)]);
}

#[tokio::test]
async fn malformed_chunks_are_an_error() {
    for junk in ["{\"choices\":[", "<html>"] {
        let items = ask(Reply::stream(&[&said("a"), junk]), Form::Native).await;
        assert_eq!(items[0], text("a"));
        assert!(matches!(items[1..], [Err(ModelError::Malformed(_))]), "{items:?}");
    }
    let reply = Reply { bits: vec![Bit::Bytes(b"data: \xff\xfe\n\n".to_vec())], ..Reply::stream(&[]) };
    let items = ask(reply, Form::Native).await;
    assert!(matches!(items[..], [Err(ModelError::Malformed(_))]), "{items:?}");
}

#[tokio::test]
async fn an_error_inside_the_stream_ends_it() {
    let error = json!({"error": {"message": "upstream is gone", "code": 502}}).to_string();
    let items = ask(Reply::stream(&[&said("a"), &error]), Form::Native).await;
    let error = ModelError::Server { status: 502, retry_after: None, text: "upstream is gone".into() };
    assert_eq!(items, [text("a"), Err(error)]);
}

#[tokio::test]
async fn statuses_become_errors_with_the_wait_that_is_asked_for() {
    let busy = Reply { headers: vec![("retry-after", "3")], ..Reply::error(429, "slow") };
    assert_eq!(
        ask(busy, Form::Native).await,
        [Err(ModelError::RateLimited { retry_after: Some(Duration::from_secs(3)), text: "slow".into() })]
    );
    let busy = Reply { headers: vec![("retry-after-ms", "30")], ..Reply::error(503, "") };
    assert_eq!(
        ask(busy, Form::Native).await,
        [Err(ModelError::Server { status: 503, retry_after: Some(Duration::from_millis(30)), text: "no text".into() })]
    );
    let redirect = Reply { headers: vec![("location", "/elsewhere")], ..Reply::error(302, "") };
    assert_eq!(ask(redirect, Form::Native).await, [Err(ModelError::Refused { status: 302, text: "no text".into() })]);
}

#[tokio::test]
async fn a_wrong_key_is_sent_and_never_shown() {
    let key = "sk-very-secret";
    for reply in [
        Reply::error(401, &json!({"error": {"message": format!("wrong key {key}")}}).to_string()),
        Reply::stream(&[&json!({"error": {"message": format!("wrong key {key}"), "code": 401}}).to_string()]),
    ] {
        let server = Server::start(move |_| reply.clone()).await;
        let endpoint = Endpoint { key: Some(key.into()), ..server.endpoint() };
        let model = OpenAi::new(endpoint, Form::Native).unwrap();
        assert!(!format!("{model:?}").contains(key));
        let items = testing::items(model.stream(testing::conversation())).await;
        assert_eq!(items, [Err(ModelError::Refused { status: 401, text: "wrong key [key]".into() })]);
        assert_eq!(server.seen()[0].authorization.as_deref(), Some("Bearer sk-very-secret"));
    }
}

#[tokio::test]
async fn silence_runs_into_the_limits() {
    let bits = |bits: Vec<Bit>| Reply { bits, ..Reply::stream(&[]) };
    let role = json!({"choices": [{"delta": {"role": "assistant"}}]}).to_string();
    for silent in [
        Reply { hang: true, ..Reply::stream(&[]) },
        bits(vec![Bit::Hang]),
        bits(vec![Bit::event(&role), Bit::Hang]),
        bits(vec![Bit::Comments]),
    ] {
        assert_eq!(ask(silent, Form::Native).await, [Err(ModelError::Timeout { what: Wait::FirstToken })]);
    }
    let idle = Err(ModelError::Timeout { what: Wait::Idle });
    assert_eq!(ask(bits(vec![Bit::event(&said("a")), Bit::Hang]), Form::Native).await, [text("a"), idle]);
    let finished = bits(vec![Bit::event(&said("a")), Bit::event(&stopped("stop")), Bit::Hang]);
    assert_eq!(ask(finished, Form::Native).await, [text("a"), done(Finish::Stop)]);
    let body = Reply { bits: vec![Bit::Bytes(b"half".to_vec()), Bit::Hang], ..Reply::error(500, "") };
    let error = ModelError::Server { status: 500, retry_after: None, text: "half".into() };
    assert_eq!(ask(body, Form::Native).await, [Err(error)]);
}

#[tokio::test]
async fn an_endless_answer_is_cut_off_at_its_limit() {
    let endless = |data: String| Reply { bits: vec![Bit::Endless(format!("data: {data}\n\n"))], ..Reply::stream(&[]) };
    let limit = testing::LIMITS.max_reply_bytes;
    let items = ask(endless(said("äb ")), Form::Native).await;
    assert_eq!(items, [text(&"äb ".repeat(limit / 4)), done(Finish::Length)]);
    let thought = json!({"choices": [{"delta": {"reasoning": "hm, "}}]}).to_string();
    assert_eq!(ask(endless(thought), Form::Native).await, [done(Finish::Length)]);
    let arguments = json!({"index": 0, "function": {"name": "now", "arguments": "{\"a\":"}});
    let calls = json!({"choices": [{"delta": {"tool_calls": [arguments]}}]}).to_string();
    let items = ask(endless(calls), Form::Native).await;
    assert!(
        matches!(&items[..], [Ok(Delta::Call(call)), end]
        if call.arguments.len() <= limit && *end == done(Finish::Length)),
        "{items:?}"
    );
    for nothing in ["data: x", "{", " ", ": waiting\n\n"] {
        let reply = Reply { bits: vec![Bit::Endless(nothing.repeat(1000))], ..Reply::stream(&[]) };
        let too_large = ModelError::Malformed("the answer is too large".into());
        assert_eq!(ask(reply, Form::Native).await, [Err(too_large)], "{nothing}");
    }
}

#[tokio::test]
async fn one_large_text_is_cut_between_characters() {
    let limit = testing::LIMITS.max_reply_bytes;
    let items = ask(Reply::stream(&[&said(&format!("a{}", "ä".repeat(limit))), &stopped("stop")]), Form::Native);
    assert_eq!(items.await, [text(&format!("a{}", "ä".repeat(limit / 2 - 1))), done(Finish::Length)]);
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_told_from_one_that_cannot_be() {
    let server = Server::start(|_| Reply::stream(&[])).await;
    let closed = Endpoint { url: "http://127.0.0.1:1/v1".into(), ..server.endpoint() };
    let items = testing::items(OpenAi::new(closed, Form::Native).unwrap().stream(testing::conversation())).await;
    assert!(matches!(items[..], [Err(ModelError::Unreachable(_))]), "{items:?}");
    let bad_url = Endpoint { url: "not an address".into(), ..server.endpoint() };
    assert!(matches!(OpenAi::new(bad_url, Form::Native), Err(ModelError::Endpoint(_))));
    let bad_key = Endpoint { key: Some("line\nbreak".into()), ..server.endpoint() };
    let error = OpenAi::new(bad_key, Form::Native).unwrap_err();
    assert_eq!(error, ModelError::Endpoint("the key has characters that can't be sent".into()));
}
