//! Tool calls as the API has them: the conversation written out, and calls put together from their fragments.

use std::collections::HashSet;

use rand::RngExt as _;
use rand::distr::Alphanumeric;
use serde_json::{Value, json};

use super::chunk::Fragment;
use super::{Finish, Message, Request, ToolCall, ToolSpec};

/// Tool calls of one step; what comes after them is dropped.
const MAX_CALLS: usize = 64;
/// The length of the ids that we give: what the strictest servers ask for.
const ID_LENGTH: usize = 9;
/// The longest name of a tool that servers take.
const MAX_NAME: usize = 64;

/// The conversation as the API's `messages`.
pub(super) fn messages(request: &Request) -> Vec<Value> {
    request.messages.iter().map(message).collect()
}

/// The tools on offer as the API's `tools`.
pub(super) fn tools(tools: &[ToolSpec]) -> Vec<Value> {
    let tool = |tool: &ToolSpec| {
        json!({"type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": tool.parameters,
        }})
    };
    tools.iter().map(tool).collect()
}

fn message(message: &Message) -> Value {
    match message {
        Message::System(text) => json!({"role": "system", "content": text}),
        Message::User(text) => json!({"role": "user", "content": text}),
        Message::Assistant { text, calls } if calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Assistant { text, calls } => {
            let calls: Vec<Value> = calls.iter().map(call).collect();
            json!({"role": "assistant", "content": text, "tool_calls": calls})
        }
        Message::ToolResult { id, text, .. } => json!({"role": "tool", "tool_call_id": id, "content": text}),
    }
}

/// Servers refuse a whole conversation for one earlier call that breaks their rules, so a name or arguments that the
/// model got wrong are shown to it in a form that they take.
fn call(call: &ToolCall) -> Value {
    let name: String = call
        .name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .take(MAX_NAME)
        .collect();
    let name = if name.is_empty() { "unknown" } else { &name };
    let arguments = match serde_json::from_str::<Value>(&call.arguments) {
        Ok(Value::Object(_)) => call.arguments.clone(),
        _ => json!({"malformed": call.arguments}).to_string(),
    };
    json!({"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// Puts the tool calls of one step together.
#[derive(Debug)]
pub(super) struct Calls {
    /// Ids that the conversation has already.
    taken: HashSet<String>,
    calls: Vec<Open>,
}

/// A call whose arguments may still grow.
#[derive(Debug, Default)]
struct Open {
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
}

impl Calls {
    /// For the answer to `request`.
    pub(super) fn new(request: &Request) -> Self {
        let calls = request.messages.iter().filter_map(|message| match message {
            Message::Assistant { calls, .. } => Some(calls),
            _ => None,
        });
        Self { taken: calls.flatten().map(|call| call.id.clone()).collect(), calls: Vec::new() }
    }

    /// Takes the next fragment.
    pub(super) fn push(&mut self, fragment: Fragment) {
        let Fragment { index, id, name, arguments } = fragment;
        match self.find(index, id.as_ref(), name.as_ref()) {
            Some(at) => {
                let open = &mut self.calls[at];
                open.id = open.id.take().or(id);
                open.name = open.name.take().or(name);
                open.arguments.push_str(&arguments);
            }
            None if self.calls.len() < MAX_CALLS => self.calls.push(Open { index, id, name, arguments }),
            None => {
                tracing::debug!(limit = MAX_CALLS, "a model's further tool calls in one step were dropped")
            }
        }
    }

    /// The call that a fragment goes on with: by its index, else by its id; one with neither id nor name can only go on
    /// with the last. Some servers write index 0 on every call, which then differ in id or name.
    fn find(&self, index: Option<u64>, id: Option<&String>, name: Option<&String>) -> Option<usize> {
        let differs =
            |ours: &Option<String>, its: Option<&String>| ours.as_ref().zip(its).is_some_and(|(ours, its)| ours != its);
        let at = match (index, id, name) {
            (Some(_), ..) => self.calls.iter().rposition(|open| open.index == index),
            (None, Some(id), _) => self.calls.iter().rposition(|open| open.id.as_ref() == Some(id)),
            (None, None, None) => self.calls.len().checked_sub(1),
            (None, None, Some(_)) => None,
        };
        at.filter(|&at| !differs(&self.calls[at].id, id) && !differs(&self.calls[at].name, name))
    }

    /// One more complete call, from another source than fragments.
    pub(super) fn add(&mut self, name: String, arguments: String) {
        self.calls.push(Open { name: Some(name), arguments, ..Open::default() });
    }

    /// All calls of the step. No arguments at all are `{}`, which some servers mean by it, but never where the answer
    /// was cut off: there they may be missing.
    pub(super) fn finish(mut self, finish: Finish) -> Vec<ToolCall> {
        let calls = std::mem::take(&mut self.calls);
        let complete = |open: Open| {
            let empty = open.arguments.trim().is_empty() && finish == Finish::Stop;
            ToolCall {
                id: self.unique(open.id),
                name: open.name.unwrap_or_default(),
                arguments: if empty { "{}".to_owned() } else { open.arguments },
            }
        };
        calls.into_iter().map(complete).collect()
    }

    /// The model's id where it is new, else one of ours.
    fn unique(&mut self, id: Option<String>) -> String {
        let mut id = id.unwrap_or_else(new_id);
        while !self.taken.insert(id.clone()) {
            id = new_id();
        }
        id
    }
}

fn new_id() -> String {
    rand::rng().sample_iter(Alphanumeric).take(ID_LENGTH).map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn fragment(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Fragment {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Fragment { index, id: owned(id), name: owned(name), arguments: arguments.into() }
    }

    fn decode(fragments: Vec<Fragment>) -> Vec<(String, String)> {
        let mut calls = Calls::new(&testing::conversation());
        fragments.into_iter().for_each(|fragment| calls.push(fragment));
        calls.finish(Finish::Stop).into_iter().map(|call| (call.name, call.arguments)).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect()
    }

    #[test]
    fn the_conversation_is_written_as_the_api_has_it() {
        let request = testing::conversation();
        insta::assert_json_snapshot!(json!({"messages": messages(&request), "tools": tools(&request.tools)}));
    }

    #[test]
    fn fragments_are_put_together_by_index() {
        let calls = decode(vec![
            fragment(Some(0), Some("x"), Some("a"), ""),
            fragment(Some(0), None, None, "{\"n\":"),
            fragment(Some(1), Some("y"), Some("b"), "{}"),
            fragment(Some(0), None, None, "1}"),
        ]);
        assert_eq!(calls, pairs(&[("a", "{\"n\":1}"), ("b", "{}")]));
    }

    #[test]
    fn calls_with_one_index_are_told_apart_by_id_or_name() {
        let by_id = decode(vec![
            fragment(Some(0), Some("x"), Some("a"), "{}"),
            fragment(Some(0), Some("y"), Some("a"), "{\"n\":1}"),
        ]);
        assert_eq!(by_id, pairs(&[("a", "{}"), ("a", "{\"n\":1}")]));
        let by_name = decode(vec![fragment(Some(0), None, Some("a"), "{}"), fragment(Some(0), None, Some("b"), "{}")]);
        assert_eq!(by_name, pairs(&[("a", "{}"), ("b", "{}")]));
    }

    #[test]
    fn fragments_without_index_follow_their_id_or_the_last_call() {
        let calls = decode(vec![
            fragment(None, Some("x"), Some("a"), "{"),
            fragment(None, Some("x"), Some("a"), "}"),
            fragment(None, None, Some("b"), "{\"n\""),
            fragment(None, None, None, ":1}"),
            fragment(None, None, Some("b"), "{}"),
        ]);
        assert_eq!(calls, pairs(&[("a", "{}"), ("b", "{\"n\":1}"), ("b", "{}")]));
    }

    #[test]
    fn a_name_repeated_in_each_fragment_is_taken_once() {
        let calls =
            decode(vec![fragment(Some(0), Some("x"), Some("a"), "{"), fragment(Some(0), Some("x"), Some("a"), "}")]);
        assert_eq!(calls, pairs(&[("a", "{}")]));
    }

    #[test]
    fn missing_arguments_are_an_empty_object_only_when_the_answer_was_not_cut() {
        let arguments = |finish| {
            let mut calls = Calls::new(&testing::conversation());
            calls.push(fragment(Some(0), None, Some("a"), ""));
            calls.finish(finish).into_iter().map(|call| call.arguments).collect::<Vec<_>>()
        };
        assert_eq!(arguments(Finish::Stop), ["{}"]);
        assert_eq!(arguments(Finish::Length), [""]);
    }

    #[test]
    fn ids_are_unique_in_the_conversation() {
        let mut calls = Calls::new(&testing::conversation());
        calls.push(fragment(Some(0), Some("new"), Some("n"), "{}"));
        calls.push(fragment(Some(1), Some("a"), Some("n"), "{}"));
        calls.push(fragment(Some(2), None, Some("n"), "{}"));
        let ids: Vec<String> = calls.finish(Finish::Stop).into_iter().map(|call| call.id).collect();
        assert_eq!(ids[0], "new");
        assert!(ids[1..].iter().all(|id| id.len() == ID_LENGTH), "{ids:?}");
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 3);
    }

    #[test]
    fn the_number_of_calls_is_bounded() {
        let fragments = (0..100).map(|index| fragment(Some(index), None, Some("n"), "{}")).collect();
        assert_eq!(decode(fragments).len(), MAX_CALLS);
    }
}
