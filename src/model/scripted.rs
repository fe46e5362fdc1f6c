//! A model that plays a written conversation: for tests, for conformance vectors and for a demo without any model.
//!
//! A script is a JSON file, or stands under `script` in one. Each step is one answer of the model:
//!
//! ```json
//! {
//!   "steps": [
//!     {"expect": ["2+2"], "say": "That is 4."},
//!     {"calls": [{"name": "now", "arguments": {"zone": "Asia/Tokyo"}}]},
//!     {"expect_last": ["12:00"], "say": "It is noon in Tokyo.", "word_ms": 80},
//!     {"fail": {"status": 429, "retry_after_ms": 500}},
//!     {"say": "This breaks off", "fail": "cut"}
//!   ],
//!   "otherwise": {"say": "I have nothing more to say."}
//! }
//! ```
//!
//! - `expect`: texts that the model must have been shown, anywhere; `expect_last`: in the last message. Where one is
//!   missing, the model answers with what it expected and what it was shown, and does nothing else.
//! - `say`: the answer's text, word by word, with `word_ms` milliseconds before each.
//! - `calls`: tool calls; `arguments` is an object, or a text for arguments that are no JSON.
//! - `usage`: the tokens that it counts, such as `{"prompt": 120, "completion": 8}`.
//! - `fail`, after what was said: `{"status": 500}` an error of the server; `"cut"` the answer breaks off; `"silence"`
//!   nothing more ever comes; `"endless"` the words are repeated for ever.
//! - `otherwise`: the answer to each further request; by default the last line that the model was shown.

use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::Value;

use super::error::shorten;
use super::{Delta, DeltaStream, Finish, Message, Model, ModelError, Request, ToolCall, Usage};

/// Requests that are kept to be looked at; older ones are forgotten.
const MAX_RECORDED: usize = 1000;
/// Between the words of an endless answer, where the script names no time.
const ENDLESS_WORD: Duration = Duration::from_millis(1);

/// A written conversation.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The answers, in order.
    pub steps: Vec<Step>,
    /// The answer after the last step.
    #[serde(default)]
    pub otherwise: Option<Step>,
}

/// One answer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// Texts that are somewhere in the request.
    pub expect: Vec<String>,
    /// Texts that are in the request's last message.
    pub expect_last: Vec<String>,
    /// The text to say.
    pub say: String,
    /// Milliseconds before each word.
    pub word_ms: u64,
    /// The tools to call.
    pub calls: Vec<Call>,
    /// The tokens that it counts.
    pub usage: Option<Usage>,
    /// How the step goes wrong.
    pub fail: Option<Fail>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool's name.
    pub name: String,
    /// An object, or the raw text.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
}

/// How a step goes wrong.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", untagged, deny_unknown_fields)]
pub enum Fail {
    /// The server answers with an error.
    Status {
        /// The HTTP status.
        status: u16,
        /// How long it asks to wait.
        #[serde(default)]
        retry_after_ms: Option<u64>,
    },
    /// The stream goes wrong.
    Stream(StreamFault),
}

/// How a stream goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamFault {
    /// It breaks off.
    Cut,
    /// Nothing more comes.
    Silence,
    /// It never ends.
    Endless,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

impl FromStr for Script {
    type Err = serde_json::Error;

    /// A script, or a talk that has one (`conformance/turns`).
    fn from_str(json: &str) -> Result<Self, Self::Err> {
        let mut file: Value = serde_json::from_str(json)?;
        let script = file.get_mut("script").map(Value::take);
        serde_json::from_value(script.unwrap_or(file))
    }
}

/// Plays a [`Script`]. Clones share their place in it.
#[derive(Debug, Clone)]
pub struct Scripted {
    script: Arc<Script>,
    progress: Arc<Mutex<Progress>>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Requests answered so far.
    answered: usize,
    /// Tool calls made so far.
    calls: usize,
    requests: VecDeque<Request>,
}

impl Scripted {
    /// At the beginning of the script.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self { script: Arc::new(script), progress: Arc::default() }
    }

    /// The requests so far, oldest first; the last thousand of them.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.progress().requests.iter().cloned().collect()
    }

    /// Requests answered so far; the script is at its end when they are as many as its steps.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.progress().answered
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Nothing is left half done under the lock.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to `request`, its calls numbered.
    fn next(&self, request: Request) -> (Step, Vec<ToolCall>) {
        let mut progress = self.progress();
        let at = progress.answered;
        progress.answered += 1;
        let step = self.script.steps.get(at).or(self.script.otherwise.as_ref());
        let step = match step {
            None => Step { say: echo(&request), ..Step::default() },
            Some(step) => match unmet(step, &request) {
                Some(complaint) => Step { say: format!("Script, step {}: {complaint}", at + 1), ..Step::default() },
                None => step.clone(),
            },
        };
        if progress.requests.len() == MAX_RECORDED {
            progress.requests.pop_front();
        }
        progress.requests.push_back(request);
        let calls = step.calls.iter().map(|call| {
            progress.calls += 1;
            ToolCall {
                id: format!("call_{}", progress.calls),
                name: call.name.clone(),
                arguments: match &call.arguments {
                    Value::String(raw) => raw.clone(),
                    arguments => arguments.to_string(),
                },
            }
        });
        let calls = calls.collect();
        (step, calls)
    }
}

impl Model for Scripted {
    fn stream(&self, request: Request) -> DeltaStream {
        let (step, calls) = self.next(request);
        let deltas = async_stream::try_stream! {
            if let Some(Fail::Status { status, retry_after_ms }) = step.fail {
                Err(ModelError::from_status(status, retry_after_ms.map(Duration::from_millis), "scripted"))?;
            }
            let pause = Duration::from_millis(step.word_ms);
            for word in step.say.split_inclusive(' ') {
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                yield Delta::Text(word.to_owned());
            }
            match step.fail {
                Some(Fail::Stream(StreamFault::Cut)) => Err(ModelError::Cut)?,
                Some(Fail::Stream(StreamFault::Silence)) => std::future::pending().await,
                Some(Fail::Stream(StreamFault::Endless)) => {
                    let say = if step.say.is_empty() { "and so on" } else { &step.say };
                    for word in say.split(' ').filter(|word| !word.is_empty()).cycle() {
                        tokio::time::sleep(pause.max(ENDLESS_WORD)).await;
                        yield Delta::Text(format!(" {word}"));
                    }
                }
                Some(Fail::Status { .. }) | None => {}
            }
            for call in calls {
                yield Delta::Call(call);
            }
            yield Delta::Done { finish: Finish::Stop, usage: step.usage };
        };
        deltas.boxed()
    }

    fn name(&self) -> String {
        "scripted".to_owned()
    }
}

/// What a step expected and was not shown.
fn unmet(step: &Step, request: &Request) -> Option<String> {
    let last = request.messages.last().map(written).unwrap_or_default();
    let missing = step.expect_last.iter().find(|text| !last.contains(text.as_str()));
    if let Some(text) = missing {
        return Some(format!("expected {text:?} in the last message, was shown {:?}", shorten(&last)));
    }
    let shown = |text: &&String| request.messages.iter().any(|message| written(message).contains(text.as_str()));
    let missing = step.expect.iter().find(|text| !shown(text))?;
    Some(format!("expected {missing:?}, was shown at last {:?}", shorten(&last)))
}

/// The last line that the model was shown.
fn echo(request: &Request) -> String {
    let last = request.messages.last().map(written).unwrap_or_default();
    format!("I was shown: {}", last.trim().lines().last().unwrap_or_default())
}

/// A message's text; of the model's own steps the calls too.
fn written(message: &Message) -> String {
    match message {
        Message::System(text) | Message::User(text) | Message::ToolResult { text, .. } => text.clone(),
        Message::Assistant { text, calls } => {
            let calls = calls.iter().map(|call| format!("\n{} {}", call.name, call.arguments));
            std::iter::once(text.clone()).chain(calls).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::testing;
    use super::*;
    use tokio::time::Instant;

    fn scripted(script: &str) -> Scripted {
        Scripted::new(script.parse().unwrap())
    }

    fn done() -> Result<Delta, ModelError> {
        Ok(Delta::Done { finish: Finish::Stop, usage: None })
    }

    fn text(text: &str) -> Result<Delta, ModelError> {
        Ok(Delta::Text(text.into()))
    }

    fn user(text: &str) -> Request {
        Request { messages: vec![Message::System("s".into()), Message::User(text.into())], tools: vec![] }
    }

    #[tokio::test(start_paused = true)]
    async fn steps_are_played_in_order() {
        let model = scripted(
            r#"{"steps": [
                {"expect": ["s"], "expect_last": ["2+2", "?"], "say": "It is 4.", "word_ms": 50},
                {"say": "Hm.", "calls": [{"name": "now"}, {"name": "x", "arguments": {"a": 1}}, {"name": "y", "arguments": "{\"a"}]}
            ]}"#,
        );
        let start = Instant::now();
        let items = testing::items(model.stream(user("2+2 = ?"))).await;
        assert_eq!(items, [text("It "), text("is "), text("4."), done()]);
        assert_eq!(start.elapsed(), Duration::from_millis(150));
        let call = |id: &str, name: &str, arguments: &str| {
            Ok(Delta::Call(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }))
        };
        assert_eq!(
            testing::items(model.stream(user("b"))).await,
            [
                text("Hm."),
                call("call_1", "now", "{}"),
                call("call_2", "x", r#"{"a":1}"#),
                call("call_3", "y", "{\"a"),
                done()
            ]
        );
        assert_eq!(model.requests(), [user("2+2 = ?"), user("b")]);
        assert_eq!(model.answered(), 2);
    }

    #[tokio::test]
    async fn an_expectation_that_is_not_met_is_said() {
        let model = scripted(
            r#"{"steps": [{"expect_last": ["x"], "calls": [{"name": "now"}]}, {"expect": ["y"], "fail": "cut"}]}"#,
        );
        let mut said = Vec::new();
        for _ in 0..2 {
            let items = testing::items(model.stream(user("a"))).await;
            assert_eq!(items.last(), Some(&done()));
            said.push(
                items
                    .into_iter()
                    .filter_map(|item| match item {
                        Ok(Delta::Text(text)) => Some(text),
                        _ => None,
                    })
                    .collect::<String>(),
            );
        }
        assert_eq!(
            said,
            [
                r#"Script, step 1: expected "x" in the last message, was shown "a""#,
                r#"Script, step 2: expected "y", was shown at last "a""#
            ]
        );
    }

    #[tokio::test]
    async fn after_the_last_step_the_answer_is_otherwise_or_an_echo() {
        let model = scripted(r#"{"steps": [], "otherwise": {"say": "No."}}"#);
        for _ in 0..2 {
            assert_eq!(testing::items(model.stream(user("a"))).await, [text("No."), done()]);
        }
        let items = testing::items(Scripted::new(Script::default()).stream(user("a\n[2] hello"))).await;
        assert_eq!(
            items,
            ["I ", "was ", "shown: ", "[2] ", "hello"].map(text).into_iter().chain([done()]).collect::<Vec<_>>()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn every_failure_can_be_played() {
        let model = scripted(
            r#"{"steps": [
                {"fail": {"status": 429, "retry_after_ms": 20}},
                {"say": "Hel", "fail": "cut"},
                {"say": "a b", "fail": "endless"},
                {"say": "a", "fail": "silence"}
            ]}"#,
        );
        let busy = ModelError::RateLimited { retry_after: Some(Duration::from_millis(20)), text: "scripted".into() };
        assert_eq!(testing::items(model.stream(user("a"))).await, [Err(busy)]);
        assert_eq!(testing::items(model.stream(user("a"))).await, [text("Hel"), Err(ModelError::Cut)]);
        let endless: Vec<_> = model.stream(user("a")).take(5).collect().await;
        assert_eq!(endless, [text("a "), text("b"), text(" a"), text(" b"), text(" a")]);
        let mut silence = model.stream(user("a"));
        assert_eq!(silence.next().await, Some(text("a")));
        assert!(tokio::time::timeout(Duration::from_secs(3600), silence.next()).await.is_err());
    }

    #[test]
    fn a_misspelled_script_is_refused() {
        for script in [
            "{}",
            r#"{"steps": [{"says": "Hi"}]}"#,
            r#"{"steps": [{"fail": "explode"}]}"#,
            r#"{"steps": [{"fail": {"status": 500, "x": 1}}]}"#,
            r#"{"steps": [{"calls": [{"arguments": {}}]}]}"#,
        ] {
            assert!(script.parse::<Script>().is_err(), "{script}");
        }
    }

    #[tokio::test]
    async fn the_record_of_requests_is_bounded() {
        let model = Scripted::new(Script::default());
        for number in 0..=MAX_RECORDED {
            drop(model.stream(user(&number.to_string())));
        }
        let requests = model.requests();
        assert_eq!((requests.len(), &requests[0]), (MAX_RECORDED, &user("1")));
    }
}
