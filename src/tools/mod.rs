//! What the model can do besides talking. One file per tool.
//!
//! A call passes three gates in [`Toolbox::begin`], and nothing of a broken call ever runs: the tool exists, the arguments
//! are JSON, the tool's [`Tool::check`] accepts them. A refusal goes back to the model, which may try again.

mod now;
mod origin;
mod refusal;

use std::{fmt, future::ready, sync::Arc};

use async_trait::async_trait;
use futures_util::{FutureExt, future::BoxFuture};
use serde_json::Value;

pub use now::Now;
pub use origin::Origin;
pub use refusal::Refusal;

use crate::{
    model::{ToolCall, ToolSpec},
    observe::metrics,
};

/// The longest result that the model is shown, in bytes; the rest is cut with a word.
const MAX_RESULT: usize = 16 * 1024;

/// A tool.
#[async_trait]
pub trait Tool: Send + Sync {
    /// How it is offered.
    fn spec(&self) -> ToolSpec;

    /// The tool's whole check of its arguments: its JSON schema, unless the tool has a contract of its own, which then
    /// decides alone.
    ///
    /// # Errors
    /// What is wrong, written for the model.
    fn check(&self, arguments: &Value) -> Result<(), String> {
        check_schema(&self.spec().parameters, arguments)
    }

    /// Does it, with arguments that [`Tool::check`] has accepted, in a turn of this origin. The calls of a step are begun in
    /// their order, each when the one before has returned.
    async fn run(&self, arguments: Value, origin: &Origin) -> Run;
}

/// How far a call has come when its tool returns.
pub enum Run {
    /// It is done.
    Done(Output),
    /// It has begun, and what comes behind it need not wait for its end.
    Begun(BoxFuture<'static, Output>),
    /// It has asked a person: the turn's working time does not run until they have answered.
    Asks(BoxFuture<'static, Output>),
}

/// A call that has begun.
pub struct Begun {
    /// What it leads to.
    pub output: BoxFuture<'static, Output>,
    /// Whether the turn's working time runs meanwhile.
    pub time: WorkingTime,
}

/// Whether a turn's working time runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkingTime {
    /// It does.
    Runs,
    /// It stands still: a person is awaited.
    Stands,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self::Done(output)
    }
}

/// What a call led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The result or the refusal, written for the model.
    pub text: String,
    /// What of it tells whether the call led to anything new: clocks and counters left out.
    pub essence: String,
    /// Whether the tool did anything.
    pub outcome: Outcome,
}

/// Whether a tool did anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did.
    Ran,
    /// It would not, and said why.
    Refused,
}

impl Output {
    /// A result all of which matters.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { essence: text.clone(), text, outcome: Outcome::Ran }
    }

    /// A refusal: what is wrong, written for the model.
    pub fn refusal(reason: impl fmt::Display) -> Self {
        Self::refused(format!("Error: {reason}"))
    }

    /// A refusal in a contract's own words.
    pub fn refused(text: impl Into<String>) -> Self {
        Self { outcome: Outcome::Refused, ..Self::new(text) }
    }
}

/// The tools of a conversation.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Vec<Arc<dyn Tool>>,
}

impl Toolbox {
    /// A box with these tools, offered in this order.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self { tools }
    }

    /// What the model is offered.
    pub fn offer(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec()).collect()
    }

    /// The same tools, and behind them others that are of one conversation alone.
    #[must_use]
    pub fn with(&self, more: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self { tools: self.tools.iter().cloned().chain(more).collect() }
    }

    /// Checks a call and begins it in a turn of this origin. Whatever happens is an [`Output`] for the model.
    pub async fn begin(&self, call: &ToolCall, origin: &Origin) -> Begun {
        let (tool, run) = match self.checked(call) {
            // A name that no tool has may quote anything that the model has read.
            Err(refusal) => (self.find(&call.name).map(|tool| tool.spec().name), Output::refusal(refusal).into()),
            Ok((tool, arguments)) => (Some(call.name.clone()), tool.run(arguments, origin).await),
        };
        let (output, time) = match run {
            Run::Done(output) => (ready(output).boxed(), WorkingTime::Runs),
            Run::Begun(output) => (output, WorkingTime::Runs),
            Run::Asks(output) => (output, WorkingTime::Stands),
        };
        Begun { output: noted(tool, output), time }
    }

    fn checked(&self, call: &ToolCall) -> Result<(&dyn Tool, Value), String> {
        let tool = self.find(&call.name).ok_or_else(|| {
            let names: Vec<_> = self.tools.iter().map(|tool| tool.spec().name).collect();
            format!("there is no tool {:?}; the tools are: {}", call.name, names.join(", "))
        })?;
        // Some endpoints send nothing at all for a call without arguments.
        let text = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        let arguments: Value = serde_json::from_str(text)
            .map_err(|error| format!("the arguments are not valid JSON ({error}); call again with one JSON object"))?;
        tool.check(&arguments)?;
        Ok((tool, arguments))
    }

    fn find(&self, name: &str) -> Option<&dyn Tool> {
        self.tools.iter().map(AsRef::as_ref).find(|tool| tool.spec().name == name)
    }
}

/// Checks arguments against a JSON schema.
///
/// # Errors
/// The first thing that is wrong, and where.
pub fn check_schema(schema: &Value, arguments: &Value) -> Result<(), String> {
    let validator =
        jsonschema::validator_for(schema).map_err(|error| format!("the tool's own schema is broken: {error}"))?;
    validator.validate(arguments).map_err(|error| match error.instance_path().to_string() {
        path if path.is_empty() => format!("wrong arguments: {error}"),
        path => format!("wrong arguments at {path}: {error}"),
    })
}

/// The same output, cut, and noted when it is there.
fn noted(tool: Option<String>, output: BoxFuture<'static, Output>) -> BoxFuture<'static, Output> {
    output
        .map(move |output| {
            match (output.outcome, &tool) {
                (Outcome::Ran, Some(tool)) => {
                    tracing::info!(tool, "tool call");
                    metrics::tool_ran(tool);
                }
                // The refusal may quote anything that the model has read.
                (Outcome::Refused, _) | (Outcome::Ran, None) => {
                    tracing::info!(tool, "tool call refused");
                    metrics::tool_refused(tool.as_deref());
                }
            }
            cut(output)
        })
        .boxed()
}

fn cut(mut output: Output) -> Output {
    if output.text.len() > MAX_RESULT {
        output.text.truncate(output.text.floor_char_boundary(MAX_RESULT));
        output.text.push_str("\n(cut: the result is longer)");
    }
    output
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Echo;

    #[async_trait]
    impl Tool for Echo {
        fn spec(&self) -> ToolSpec {
            ToolSpec {
                name: "echo".into(),
                description: "Says it again.".into(),
                parameters: json!({"type": "object", "properties": {"text": {"type": "string"}},
                    "required": ["text"], "additionalProperties": false}),
                cases: Vec::new(),
                example: None,
            }
        }

        async fn run(&self, arguments: Value, _origin: &Origin) -> Run {
            Output::new(arguments["text"].as_str().unwrap_or_default()).into()
        }
    }

    async fn called(name: &str, arguments: &str) -> String {
        let call = ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() };
        let origin = Origin::Unattended { why: "a test".into() };
        Toolbox::new(vec![Arc::new(Echo)]).begin(&call, &origin).await.output.await.text
    }

    #[tokio::test]
    async fn a_broken_call_goes_back_to_the_model_and_never_runs() {
        assert_eq!(called("echo", r#"{"text": "hi"}"#).await, "hi");
        let refusals = [
            called("ecko", "{}").await,
            called("echo", r#"{"text": "#).await,
            called("echo", "").await,
            called("echo", r#"{"text": 7}"#).await,
            called("echo", r#"{"text": "a", "more": 1}"#).await,
            called("echo", r#""text""#).await,
        ];
        insta::assert_snapshot!(refusals.join("\n"));
    }

    #[tokio::test]
    async fn a_long_result_is_cut_on_a_character() {
        let text = "é".repeat(MAX_RESULT);
        let shown = called("echo", &json!({ "text": text }).to_string()).await;
        assert!(shown.len() < MAX_RESULT + 40 && shown.ends_with("(cut: the result is longer)"));
    }
}
