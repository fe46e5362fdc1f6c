//! Who drives: a language model behind a small trait.
//!
//! The turn loop speaks in [`Request`]s and reads [`Delta`]s; it never sees an endpoint's JSON. Three layers stand
//! below it:
//!
//! - [`openai`]: a model behind an OpenAI-compatible endpoint. `exchange` is its HTTP, with all limits; `chunk` reads
//!   what servers send; `think` takes a model's thoughts out;
//! - `native` and `constrained`: the two forms in which a model calls tools, as pure encoders and decoders. [`probe`]
//!   finds out which [`Form`] an endpoint understands;
//! - [`chain`]: back-off on one endpoint, then the fallback.
//!
//! [`scripted`] replays a written conversation, for tests and for the demo.
//!
//! A step ends in every case: with [`Delta::Done`] or an error, within the time and size that [`Limits`]
//! sets. No error and no `Debug` output shows a key.

pub mod chain;
mod chunk;
mod constrained;
pub mod context;
mod error;
mod exchange;
#[cfg(test)]
mod faults;
mod form;
mod native;
pub mod openai;
pub mod probe;
pub mod scripted;
#[cfg(test)]
mod testing;
mod think;

pub use self::chain::{Chain, Retry};
pub use self::error::{ModelError, Wait};
pub use self::form::{Form, ResponseFormat, UnknownForm};
pub use self::openai::{Endpoint, Limits, OpenAi};
pub use self::scripted::{Script, Scripted};

/// Words and tool calls of a model, as they arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// More text of the answer. Never empty.
    Text(String),
    /// One complete tool call. Calls come after all text of the step, in the model's order.
    Call(ToolCall),
    /// A new attempt begins: what came so far in this step is void.
    Restart,
    /// The step is complete; always the last item.
    Done {
        /// Why the model stopped.
        finish: Finish,
        /// The tokens that the endpoint counted, where it says so.
        usage: Option<Usage>,
    },
}

/// Why a model stopped writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It was done, or wants its tool calls run.
    Stop,
    /// It reached the limit of tokens or bytes.
    Length,
}

/// Tokens of one request as the endpoint counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Tokens read.
    pub prompt: u64,
    /// Tokens written.
    pub completion: u64,
}

/// One call of a tool, as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's id of the call, or one of ours where it gave none. Unique in one turn.
    pub id: String,
    /// The tool's name, as written: it may be unknown.
    pub name: String,
    /// The arguments, as written: they may be no JSON at all. The turn loop checks them.
    pub arguments: String,
}

/// One request: all that the model is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The conversation, the system prompt first.
    pub messages: Vec<Message>,
    /// The tools on offer, in a stable order.
    pub tools: Vec<ToolSpec>,
}

/// One message of a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The operator's words.
    System(String),
    /// What is perceived: the room's lines.
    User(String),
    /// The model's own earlier step.
    Assistant {
        /// Its text; may be empty when it only called tools.
        text: String,
        /// Its calls.
        calls: Vec<ToolCall>,
    },
    /// What a call led to.
    ToolResult {
        /// The id of the [`ToolCall`].
        id: String,
        /// The tool's name.
        name: String,
        /// The result or the refusal, written for the model.
        text: String,
    },
}

/// A tool on offer.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// `[a-z0-9_]{1,64}`; not `reply`, which is an action of its own in the constrained form.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// The JSON schema of its arguments: an object.
    pub parameters: serde_json::Value,
    /// Ways of calling it that differ in what they take. Where the form of a step is forced each is a branch of its own, so
    /// that a small model can't leave out what its choice needs. Empty where there is one way.
    pub cases: Vec<Case>,
    /// A worked use of it, for small models, which learn by example.
    pub example: Option<Example>,
}

/// One way of calling a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The argument that chooses it.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The other arguments that it takes.
    pub takes: Vec<String>,
    /// Those of them that it needs.
    pub required: Vec<String>,
}

/// A worked use of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// What a person asks.
    pub ask: String,
    /// The arguments of the call: an object.
    pub arguments: serde_json::Map<String, serde_json::Value>,
    /// What the tool says.
    pub result: String,
    /// What the model answers.
    pub reply: String,
}

/// A step of a model. Dropping the stream ends the request at once.
pub type DeltaStream = futures_util::stream::BoxStream<'static, Result<Delta, ModelError>>;

/// A language model.
pub trait Model: Send + Sync {
    /// Starts one step. The stream's last item is [`Delta::Done`] or an error; an error before the first word comes as
    /// an item too, so that a caller has one place to look.
    fn stream(&self, request: Request) -> DeltaStream;

    /// The model's name, for people.
    fn name(&self) -> String;
}
