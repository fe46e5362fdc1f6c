//! How much a server lets its model read and write, where it says so. There is no standard for it, so the servers' own
//! ways are tried.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Url;
use serde_json::Value;

use super::{Endpoint, Form, OpenAi};

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most that is read of an answer: a provider's list of models is long.
const MAX_BYTES: usize = 4 << 20;

/// Reads the size out of one server's answer, for the model of that name.
type Read = fn(&Value, &str) -> Option<u64>;
/// What is asked, from the address with `/v1/` at its end. What really runs comes before what is possible.
const QUESTIONS: [(&str, Read); 3] = [("../props", llama_server), ("../api/ps", ollama), ("models", listed)];

/// The context in tokens that the endpoint's server gives its model; `None` where it does not say.
///
/// Ollama says it while the model is loaded, so this is best asked after a first answer.
pub async fn told(endpoint: &Endpoint) -> Option<u64> {
    let model = OpenAi::new(endpoint.clone(), Form::Native).ok()?;
    let base = Url::parse(&format!("{}/", endpoint.url.trim_end_matches('/'))).ok()?;
    for (path, read) in QUESTIONS {
        let answer = tokio::time::timeout(TIMEOUT, fetch(&model, base.join(path).ok()?)).await.ok().flatten();
        if let Some(size) = answer.and_then(|answer| read(&answer, &endpoint.name)) {
            return Some(size);
        }
    }
    None
}

async fn fetch(model: &OpenAi, url: Url) -> Option<Value> {
    let answer = model.get(url).send().await.ok()?.error_for_status().ok()?;
    let mut bytes = Vec::new();
    let mut parts = answer.bytes_stream();
    while let Some(part) = parts.next().await {
        bytes.extend_from_slice(&part.ok()?);
        if bytes.len() > MAX_BYTES {
            return None;
        }
    }
    serde_json::from_slice(&bytes).ok()
}

/// llama-server's `/props`: one model a server.
fn llama_server(answer: &Value, _: &str) -> Option<u64> {
    answer["default_generation_settings"]["n_ctx"].as_u64()
}

/// Ollama's `/api/ps`: the models that are loaded. A name without a tag means `:latest`.
fn ollama(answer: &Value, name: &str) -> Option<u64> {
    let latest = format!("{name}:latest");
    let is_it = |model: &&Value| model["name"].as_str().is_some_and(|it| it == name || it == latest);
    answer["models"].as_array()?.iter().find(is_it)?["context_length"].as_u64()
}

/// The list of models, to which vLLM (`max_model_len`), OpenRouter (`context_length`) and Groq (`context_window`) add it.
fn listed(answer: &Value, name: &str) -> Option<u64> {
    let model = answer["data"].as_array()?.iter().find(|model| model["id"] == name)?;
    ["max_model_len", "context_length", "context_window"].iter().find_map(|key| model[key].as_u64())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use axum::{Json, Router, routing::get};
    use serde_json::json;

    use super::*;
    use crate::model::testing::LIMITS;

    async fn told_by(path: &str, answer: Value) -> Option<u64> {
        let app = Router::new().route(path, get(|| async { Json(answer) }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, app).await });
        let endpoint =
            Endpoint { url, name: "m".into(), key: None, temperature: 0.0, reply_tokens: 16, limits: LIMITS };
        let size = told(&endpoint).await;
        server.abort();
        size
    }

    #[tokio::test]
    async fn each_server_is_asked_in_its_own_way() {
        let cases = [
            ("/props", json!({"default_generation_settings": {"n_ctx": 4096}})),
            ("/api/ps", json!({"models": [{"name": "other"}, {"name": "m:latest", "context_length": 4096}]})),
            ("/v1/models", json!({"data": [{"id": "other"}, {"id": "m", "max_model_len": 4096}]})),
            ("/v1/models", json!({"data": [{"id": "m", "context_length": 4096}]})),
            ("/v1/models", json!({"data": [{"id": "m", "context_window": 4096}]})),
        ];
        for (path, answer) in cases {
            assert_eq!(told_by(path, answer.clone()).await, Some(4096), "{path} {answer}");
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_say_it_is_not_guessed_at() {
        let cases = [
            ("/nothing", json!(null)),
            ("/props", json!("odd")),
            ("/api/ps", json!({"models": [{"name": "other", "context_length": 1}]})),
            ("/v1/models", json!({"data": [{"id": "m"}, {"id": "other", "context_length": 1}]})),
        ];
        for (path, answer) in cases {
            assert_eq!(told_by(path, answer.clone()).await, None, "{path} {answer}");
        }
    }
}
