//! A turn can't run away: circles are seen and broken.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    model::{Message, ToolCall},
    tools::Output,
};

/// Sees when the model is in the same situation again, or does the same with the same outcome.
#[derive(Debug)]
pub(super) struct LoopBreaker {
    seen: HashMap<u64, u32>,
    hints_left: u32,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Something new: go on.
    New,
    /// Tell the model that it goes round in circles.
    Hint,
    /// It has been told often enough.
    Stop,
}

impl LoopBreaker {
    pub(super) fn new(hints: u32) -> Self {
        Self { seen: HashMap::new(), hints_left: hints }
    }

    /// A call and what it led to, clocks left out.
    pub(super) fn call(&mut self, call: &ToolCall, output: &Output) -> Verdict {
        let arguments = serde_json::from_str::<serde_json::Value>(&call.arguments)
            .map_or_else(|_| call.arguments.clone(), |arguments| arguments.to_string());
        self.note(("call", &call.name, arguments, &output.essence))
    }

    /// What the model is shown. Results of tools are left out: [`Self::call`] judges them without their clocks.
    pub(super) fn situation(&mut self, messages: &[Message]) -> Verdict {
        let shown: Vec<_> = messages
            .iter()
            .map(|message| match message {
                Message::System(text) | Message::User(text) => text.as_str(),
                Message::Assistant { text, .. } => text.as_str(),
                Message::ToolResult { name, .. } => name.as_str(),
            })
            .collect();
        self.note(("situation", messages.len(), shown))
    }

    fn note(&mut self, what: impl Hash) -> Verdict {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        let times = self.seen.entry(hasher.finish()).or_default();
        *times += 1;
        if *times == 1 {
            return Verdict::New;
        }
        match self.hints_left.checked_sub(1) {
            Some(left) => {
                self.hints_left = left;
                Verdict::Hint
            }
            None => Verdict::Stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> ToolCall {
        ToolCall { id: "any".into(), name: "now".into(), arguments: arguments.into() }
    }

    fn output(text: &str) -> Output {
        Output { essence: "the time in UTC".into(), ..Output::new(text) }
    }

    #[test]
    fn the_same_call_is_hinted_at_twice_and_then_stopped_however_it_is_written() {
        let mut breaker = LoopBreaker::new(2);
        let verdicts = [r#"{"zone":"UTC"}"#, r#"{ "zone": "UTC" }"#, r#"{"zone":"UTC"}"#, r#"{"zone":"UTC"}"#]
            .map(|arguments| breaker.call(&call(arguments), &output("12:00")));
        assert_eq!(verdicts, [Verdict::New, Verdict::Hint, Verdict::Hint, Verdict::Stop]);
    }

    #[test]
    fn a_clock_that_moves_on_is_no_news_and_another_argument_is() {
        let mut breaker = LoopBreaker::new(2);
        assert_eq!(breaker.call(&call("{}"), &output("12:00")), Verdict::New);
        assert_eq!(breaker.call(&call("{}"), &output("12:01")), Verdict::Hint);
        assert_eq!(breaker.call(&call(r#"{"zone":"UTC"}"#), &output("12:01")), Verdict::New);
    }

    #[test]
    fn repeats_count_even_when_other_things_happen_in_between() {
        let mut breaker = LoopBreaker::new(1);
        let one = [Message::User("one".into())];
        let two = [Message::User("two".into())];
        let verdicts = [&one, &two, &one, &two].map(|messages| breaker.situation(messages));
        assert_eq!(verdicts, [Verdict::New, Verdict::New, Verdict::Hint, Verdict::Stop]);
    }
}
