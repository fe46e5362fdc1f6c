//! A scripted OpenAI-compatible server: plays [`Step`]s over real HTTP and remembers what it was shown.

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use waybread::model::scripted::{Call, Fail, Step, StreamFault};

/// The server. Ends when it is dropped.
pub struct ModelServer {
    address: SocketAddr,
    state: Arc<Mutex<Played>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Played {
    steps: VecDeque<Step>,
    /// What is played when the steps are at their end: the question, so many milliseconds a word.
    echo_word_ms: Option<u64>,
    requests: Vec<Value>,
    /// When each request came.
    asked_at: Vec<Instant>,
}

/// A step that says something, a word every `word_ms`.
pub fn say(text: &str, word_ms: u64) -> Step {
    Step { say: text.to_owned(), word_ms, ..Step::default() }
}

/// A step that calls a tool.
pub fn calls(name: &str, arguments: Value) -> Step {
    Step { calls: vec![Call { name: name.to_owned(), arguments }], ..Step::default() }
}

/// A step that goes wrong, after some words.
pub fn fail(text: &str, fail: Fail) -> Step {
    Step { say: text.to_owned(), fail: Some(fail), ..Step::default() }
}

impl ModelServer {
    pub async fn start(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::play(Played { steps: steps.into_iter().collect(), ..Played::default() }).await
    }

    /// Answers each question with its own words, several times.
    pub async fn echo(word_ms: u64) -> Self {
        Self::play(Played { echo_word_ms: Some(word_ms), ..Played::default() }).await
    }

    async fn play(played: Played) -> Self {
        let state = Arc::new(Mutex::new(played));
        let app = Router::new().route("/v1/chat/completions", post(answer)).with_state(state.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, state, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// More steps to play.
    pub fn add(&self, steps: impl IntoIterator<Item = Step>) {
        self.state.lock().unwrap().steps.extend(steps);
    }

    /// Waits until it was asked `times` times.
    pub async fn asked(&self, times: usize) {
        while self.shown().len() < times {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// When each request so far came.
    pub fn asked_at(&self) -> Vec<Instant> {
        self.state.lock().unwrap().asked_at.clone()
    }

    /// Each request so far, whole.
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.iter().map(Value::to_string).collect()
    }

    /// The `messages` of each request so far, as one text each.
    pub fn shown(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.iter().map(|request| request["messages"].to_string()).collect()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(state): State<Arc<Mutex<Played>>>, Json(request): Json<Value>) -> Response {
    let asked_at = Instant::now();
    let step = {
        let mut played = state.lock().unwrap();
        let last = request["messages"].as_array().and_then(|all| all.last()?["content"].as_str().map(str::to_owned));
        played.requests.push(request);
        played.asked_at.push(asked_at);
        let echo = |word_ms| say(&format!("You said {}. ", last.unwrap_or_default()).repeat(10), word_ms);
        played.steps.pop_front().or_else(|| played.echo_word_ms.map(echo))
    };
    let Some(step) = step else {
        return (StatusCode::IM_A_TEAPOT, "the script is at its end").into_response();
    };
    if let Some(Fail::Status { status, retry_after_ms }) = step.fail {
        let status = StatusCode::from_u16(status).unwrap();
        let seconds = retry_after_ms.unwrap_or(0).div_ceil(1000).to_string();
        return (status, [("retry-after", seconds)], "scripted failure").into_response();
    }
    let chunks = words(&step).chain(stream::iter(call_chunks(&step))).chain(end(&step));
    let body = chunks.map(|chunk| Ok::<_, Infallible>(Bytes::from(chunk)));
    ([("content-type", "text/event-stream")], Body::from_stream(body)).into_response()
}

fn words(step: &Step) -> impl Stream<Item = String> + use<> {
    let wait = Duration::from_millis(step.word_ms);
    let words: Vec<String> = step.say.split_inclusive(' ').map(str::to_owned).collect();
    stream::iter(words).then(move |word| async move {
        // A sleep of nothing takes a millisecond.
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        chunk(&json!({"delta": {"content": word}, "index": 0}))
    })
}

fn call_chunks(step: &Step) -> Vec<String> {
    let call = |(index, call): (usize, &Call)| {
        let arguments = match &call.arguments {
            Value::String(raw) => raw.clone(),
            object => object.to_string(),
        };
        let function = json!({"name": call.name, "arguments": arguments});
        let call = json!({"index": index, "id": format!("call{index}"), "type": "function", "function": function});
        chunk(&json!({"delta": {"tool_calls": [call]}, "index": 0}))
    };
    step.calls.iter().enumerate().map(call).collect()
}

fn end(step: &Step) -> stream::BoxStream<'static, String> {
    match &step.fail {
        None | Some(Fail::Status { .. }) => {
            let reason = if step.calls.is_empty() { "stop" } else { "tool_calls" };
            let last = chunk(&json!({"delta": {}, "index": 0, "finish_reason": reason}));
            stream::iter([last, "data: [DONE]\n\n".to_owned()]).boxed()
        }
        Some(Fail::Stream(StreamFault::Cut)) => stream::empty().boxed(),
        Some(Fail::Stream(StreamFault::Silence)) => stream::pending().boxed(),
        Some(Fail::Stream(StreamFault::Endless)) => stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Some((chunk(&json!({"delta": {"content": "and on and on "}, "index": 0})), ()))
        })
        .boxed(),
    }
}

fn chunk(choice: &Value) -> String {
    format!("data: {}\n\n", json!({"id": "x", "object": "chat.completion.chunk", "choices": [choice]}))
}
