//! Finds out how an endpoint and its model call tools.
//!
//! A verdict rests on answers. An endpoint that can't be asked (unreachable, silent, busy, wrong key, still loading)
//! gives an error and no verdict, so that a bad moment is never remembered as a property of the model.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::chunk::Part;
use super::constrained::Forced;
use super::think::Think;
use super::{Delta, Endpoint, Form, Message, Model as _, ModelError, OpenAi, Request, ResponseFormat, ToolSpec, Wait};

/// A probe takes no longer.
pub const MAX_TIME: Duration = Duration::from_secs(300);
/// The most that the model may write in an answer to the probe, in tokens. Thoughts count.
const REPLY_TOKENS: u32 = 512;
/// Native calls that must come out well, of as many.
const NATIVE_CALLS: usize = 2;
/// Attempts at one question when the server fails with 500 or 501, which mean both "not in this form" and "not now".
const ATTEMPTS: usize = 2;

/// The form of tool calls for this endpoint: native where its model calls a tool when told to, else constrained.
///
/// # Errors
///
/// Where the endpoint can't be asked.
pub async fn form(endpoint: &Endpoint) -> Result<Form, ModelError> {
    bounded(async {
        if calls_natively(endpoint).await? {
            return Ok(Form::Native);
        }
        forced_format(endpoint).await.map(Form::Constrained)
    })
    .await
}

/// The `response_format` that this endpoint follows.
///
/// # Errors
///
/// Where the endpoint can't be asked.
pub async fn response_format(endpoint: &Endpoint) -> Result<ResponseFormat, ModelError> {
    bounded(forced_format(endpoint)).await
}

async fn bounded<T>(probe: impl Future<Output = Result<T, ModelError>>) -> Result<T, ModelError> {
    tokio::time::timeout(MAX_TIME, probe).await.unwrap_or(Err(ModelError::Timeout { what: Wait::Probe }))
}

async fn calls_natively(endpoint: &Endpoint) -> Result<bool, ModelError> {
    let model = model(endpoint, Form::Native)?;
    let request = Request {
        messages: vec![Message::User("Call the tool `echo` with the value 7.".to_owned())],
        tools: vec![echo()],
    };
    for _ in 0..NATIVE_CALLS {
        let answer = ask(|| async {
            let deltas: Vec<_> = model.stream(request.clone()).collect().await;
            deltas.into_iter().collect::<Result<Vec<Delta>, _>>()
        });
        let called = answer.await?.is_some_and(|deltas| deltas.iter().any(is_echo_of_seven));
        if !called {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_echo_of_seven(delta: &Delta) -> bool {
    let Delta::Call(call) = delta else { return false };
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    call.name == "echo" && arguments["value"] == 7
}

/// The first way in which an answer keeps to a schema that it was not told of otherwise.
async fn forced_format(endpoint: &Endpoint) -> Result<ResponseFormat, ModelError> {
    let tools = [echo()];
    for format in [ResponseFormat::JsonSchema, ResponseFormat::JsonObject] {
        let Some(forced) = Forced::new(format, &tools) else { continue };
        let answer = ask(|| answer(endpoint, format, &tools)).await?;
        if answer.is_some_and(|answer| keeps_to(&forced, &answer)) {
            return Ok(format);
        }
    }
    // All these refusals may have had another reason: the plain question must have an answer.
    answer(endpoint, ResponseFormat::Free, &tools).await?;
    Ok(ResponseFormat::Free)
}

fn keeps_to(forced: &Forced<'_>, answer: &str) -> bool {
    let schema = serde_json::to_value(forced.schema()).unwrap_or_default();
    let validator = jsonschema::validator_for(&schema);
    let answer = serde_json::from_str::<Value>(answer);
    validator.is_ok_and(|validator| answer.is_ok_and(|answer| validator.is_valid(&answer)))
}

/// The whole text of an answer whose form is left to `response_format`.
async fn answer(endpoint: &Endpoint, format: ResponseFormat, tools: &[ToolSpec]) -> Result<String, ModelError> {
    let model = model(endpoint, Form::Constrained(format))?;
    let request = Request {
        // Some servers want the word JSON to be in the request.
        messages: vec![Message::User("Say hello. Answer in JSON.".to_owned())],
        tools: tools.to_vec(),
    };
    let mut parts = std::pin::pin!(model.unexplained(&request));
    let mut text = String::new();
    let mut think = Think::default();
    while let Some(part) = parts.next().await {
        if let Part::Text(more) = part? {
            text.push_str(&think.push(&more));
        }
    }
    Ok(text)
}

/// The answer to a question; `None` where the server does not take this form of it.
async fn ask<T, F: Future<Output = Result<T, ModelError>>>(question: impl Fn() -> F) -> Result<Option<T>, ModelError> {
    for _ in 0..ATTEMPTS {
        match question().await {
            Ok(answer) => return Ok(Some(answer)),
            Err(ModelError::Server { status: 500 | 501, .. } | ModelError::Cut | ModelError::Malformed(_)) => {}
            Err(ModelError::Refused { status, text }) if !matches!(status, 401 | 403) => {
                tracing::debug!(status, text, "the endpoint does not take this form of tool calls");
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn model(endpoint: &Endpoint, form: Form) -> Result<OpenAi, ModelError> {
    OpenAi::new(Endpoint { temperature: 0.0, reply_tokens: REPLY_TOKENS, ..endpoint.clone() }, form)
}

/// A tool that does no harm.
fn echo() -> ToolSpec {
    ToolSpec {
        name: "echo".to_owned(),
        description: "Gives back the value.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"value": {"type": "integer"}},
            "required": ["value"],
            "additionalProperties": false,
        }),
        cases: Vec::new(),
        example: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::testing::{Reply, Server};
    use super::*;

    fn said(text: &str) -> Reply {
        Reply::stream(&[&json!({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}).to_string()])
    }

    fn called(arguments: &Value) -> Reply {
        let call = json!({"index": 0, "id": "x", "function": {"name": "echo", "arguments": arguments}});
        Reply::stream(&[
            &json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}).to_string()
        ])
    }

    /// The verdict on a server that answers by `kind`: "tools", "json_schema", "json_object" or "free".
    async fn probe(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> (Result<Form, ModelError>, usize) {
        let server = Server::start(move |body| {
            let format = body["response_format"]["type"].as_str().unwrap_or("free");
            answer(if body["tools"].is_array() { "tools" } else { format })
        })
        .await;
        let verdict = form(&server.endpoint()).await;
        (verdict, server.seen().len())
    }

    #[tokio::test]
    async fn two_calls_of_two_are_native() {
        let verdict = probe(|_| called(&json!("{\"value\": 7}"))).await;
        assert_eq!(verdict, (Ok(Form::Native), 2));
    }

    #[tokio::test]
    async fn a_call_written_into_the_text_is_not_native() {
        let verdict = probe(|kind| match kind {
            "tools" => said(r#"{"name": "echo", "arguments": {"value": 7}}"#),
            "json_schema" => said(r#"{"do":"reply","text":"hello"}"#),
            _ => Reply::error(500, "?"),
        });
        assert_eq!(verdict.await, (Ok(Form::Constrained(ResponseFormat::JsonSchema)), 2));
    }

    #[tokio::test]
    async fn one_bad_call_of_two_is_not_native() {
        let first = std::sync::atomic::AtomicBool::new(true);
        let verdict = probe(move |kind| match kind {
            "tools" if first.swap(false, std::sync::atomic::Ordering::SeqCst) => called(&json!({"value": 7})),
            "tools" => called(&json!("{value: 7}")),
            _ => said(r#"{"do":"echo","value":1}"#),
        });
        assert_eq!(verdict.await, (Ok(Form::Constrained(ResponseFormat::JsonSchema)), 3));
    }

    #[tokio::test]
    async fn a_refused_spelling_leads_to_the_other_one() {
        let verdict = probe(|kind| match kind {
            "tools" => Reply::error(400, "no tools here"),
            "json_schema" => Reply::error(500, "Input should be 'text' or 'json_object'"),
            _ => said("<think>hm</think>\n{\"do\":\"reply\",\"text\":\"hello\"}"),
        });
        assert_eq!(verdict.await, (Ok(Form::Constrained(ResponseFormat::JsonObject)), 4));
    }

    #[tokio::test]
    async fn a_format_that_is_taken_and_not_followed_counts_as_free() {
        let verdict = probe(|_| said(r#"{"greeting":"hello"}"#)).await;
        assert_eq!(verdict, (Ok(Form::Constrained(ResponseFormat::Free)), 4));
    }

    #[tokio::test]
    async fn an_endpoint_that_cannot_be_asked_gives_no_verdict() {
        let cases = [(401, 1), (403, 1), (429, 1), (503, 1), (404, 4), (500, 7)];
        for (status, requests) in cases {
            let (verdict, seen) = probe(move |_| Reply::error(status, "no")).await;
            let error = ModelError::from_status(status, None, "no");
            assert_eq!((verdict, seen), (Err(error), requests), "{status}");
        }
        let server = Server::start(|_| Reply::error(500, "")).await;
        let endpoint = Endpoint { url: "http://127.0.0.1:1/v1".into(), ..server.endpoint() };
        assert!(matches!(form(&endpoint).await, Err(ModelError::Unreachable(_))));
        assert!(matches!(response_format(&endpoint).await, Err(ModelError::Unreachable(_))));
    }
}
