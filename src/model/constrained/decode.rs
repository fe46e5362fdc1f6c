//! Reads a step that is one JSON object, and what small models write in its place when nothing forces them.

use serde_json::{Map, Value};

use super::object::{Object, Read};
use super::union::is_nested;
use super::{ARGS, DO, REPLY};
use crate::model::{Finish, ToolSpec};

/// Places in an answer that are tried as the beginning of the object.
const MAX_BEGINNINGS: usize = 16;

/// Decodes one step.
///
/// A reply's text comes out as it arrives; all else at the end. An object counts when it has a `do`; text before it is
/// dropped. An answer without any such object is a reply as it stands.
#[derive(Debug)]
pub(in crate::model) struct Decoder {
    /// Tools that have an argument called `args` beside `do`.
    args_is_an_argument: Vec<String>,
    raw: String,
    /// Where the search for an object goes on, or where the object at hand was read to.
    read_to: usize,
    beginnings: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No object yet.
    Searching,
    /// In the object that begins there.
    Reading { start: usize, object: Object },
    /// Behind the object, or behind the part of it that could be read.
    Read { start: usize, object: Object, complete: bool },
    /// There is no object, as far as anybody looked.
    Plain,
}

/// What is known at the end of a step only.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::model) enum Last {
    /// Nothing more.
    Nothing,
    /// The rest of the answer's text.
    Text(String),
    /// A tool call.
    Call {
        /// The tool's name; it may be unknown.
        name: String,
        /// The arguments; as the model wrote them where they are no object.
        arguments: String,
    },
}

impl Decoder {
    /// For an answer to a request with these tools.
    pub(in crate::model) fn new(tools: &[ToolSpec]) -> Self {
        let has_args = |tool: &&ToolSpec| {
            !is_nested(tool) && tool.parameters.get("properties").is_some_and(|all| all.get(ARGS).is_some())
        };
        Self {
            args_is_an_argument: tools.iter().filter(has_args).map(|tool| tool.name.clone()).collect(),
            raw: String::new(),
            read_to: 0,
            beginnings: 0,
            state: State::Searching,
        }
    }

    /// Takes the next piece of the answer and gives what it adds to the reply's text; it may be empty.
    pub(in crate::model) fn push(&mut self, text: &str) -> String {
        self.raw.push_str(text);
        self.read();
        match &mut self.state {
            State::Reading { object, .. } | State::Read { object, .. } if object.action() == Some(REPLY) => {
                object.take_text()
            }
            _ => String::new(),
        }
    }

    fn read(&mut self) {
        loop {
            match &mut self.state {
                State::Searching if self.beginnings == MAX_BEGINNINGS => self.state = State::Plain,
                State::Searching => {
                    let Some(offset) = self.raw[self.read_to..].find('{') else {
                        self.read_to = self.raw.len();
                        return;
                    };
                    self.beginnings += 1;
                    self.read_to += offset;
                    self.state = State::Reading { start: self.read_to, object: Object::default() };
                }
                State::Reading { start, object } => {
                    let start = *start;
                    let mut end = None;
                    for (at, c) in self.raw[self.read_to..].char_indices() {
                        let read = object.push(c);
                        if read != Read::More {
                            let width = if read == Read::End { c.len_utf8() } else { 0 };
                            end = Some((self.read_to + at + width, read == Read::End));
                            break;
                        }
                    }
                    let Some((end, complete)) = end else {
                        self.read_to = self.raw.len();
                        return;
                    };
                    if object.action().is_some() {
                        let object = std::mem::take(object);
                        self.read_to = end;
                        self.state = State::Read { start, object, complete };
                    } else {
                        self.read_to = start + 1;
                        self.state = State::Searching;
                    }
                }
                State::Read { .. } | State::Plain => return,
            }
        }
    }

    /// The answer has ended.
    pub(in crate::model) fn finish(self, finish: Finish) -> Last {
        match self.state {
            State::Searching | State::Plain => text(self.raw),
            State::Read { object, start, complete } => match object.action() {
                None | Some(REPLY) => Last::Nothing,
                Some(name) => {
                    let fields = if complete {
                        parse(&self.raw[start..self.read_to])
                    } else {
                        // Between the last value and a closing code fence only the brace can be missing.
                        let fenced = self.raw[self.read_to..].starts_with("```");
                        unclosed(&self.raw[start..self.read_to], finish).filter(|_| fenced)
                    };
                    call(name, fields, &self.raw[start..], &self.args_is_an_argument)
                }
            },
            State::Reading { mut object, start } => match object.action() {
                Some(REPLY) => Last::Nothing,
                Some(name) => {
                    let written = &self.raw[start..];
                    call(name, unclosed(written, finish), written, &self.args_is_an_argument)
                }
                // The beginning of an action is nothing to show.
                None if object.names_action() => Last::Nothing,
                None => {
                    let held = object.take_text();
                    text(if held.is_empty() { self.raw } else { held })
                }
            },
        }
    }
}

fn text(text: String) -> Last {
    if text.is_empty() { Last::Nothing } else { Last::Text(text) }
}

fn parse(json: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(json).ok()
}

/// An object whose closing brace was forgotten. Where the answer was cut off, its last value may be half, and nothing
/// is added.
fn unclosed(json: &str, finish: Finish) -> Option<Map<String, Value>> {
    if finish == Finish::Stop { parse(&format!("{json}}}")) } else { None }
}

fn call(name: &str, fields: Option<Map<String, Value>>, written: &str, args_is_an_argument: &[String]) -> Last {
    let arguments = match fields {
        None => written.trim().to_owned(),
        Some(mut fields) => {
            fields.remove(DO);
            let wrapped = fields.len() == 1 && !args_is_an_argument.iter().any(|tool| tool == name);
            match fields.get(ARGS) {
                Some(args @ Value::Object(_)) if wrapped => args.to_string(),
                _ => Value::Object(fields).to_string(),
            }
        }
    };
    Last::Call { name: name.to_owned(), arguments }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::super::super::testing::{chunked, tools};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn decode(chunks: &[&str], finish: Finish) -> (String, Last) {
        let mut decoder = Decoder::new(&tools());
        let streamed = chunks.iter().map(|chunk| decoder.push(chunk)).collect();
        (streamed, decoder.finish(finish))
    }

    fn stopped(answer: &str) -> (String, Last) {
        decode(&[answer], Finish::Stop)
    }

    fn called(name: &str, arguments: &str) -> (String, Last) {
        (String::new(), Last::Call { name: name.into(), arguments: arguments.into() })
    }

    fn replied(text: &str) -> (String, Last) {
        (text.to_owned(), Last::Nothing)
    }

    fn plain(text: &str) -> (String, Last) {
        (String::new(), Last::Text(text.to_owned()))
    }

    #[test]
    fn actions_are_read_in_many_spellings() {
        let cases = [
            (r#"{"do":"reply","text":"Hi"}"#, replied("Hi")),
            (r#"{"text":"Hi","do":"reply"}"#, replied("Hi")),
            (r#"{"do":"reply","text":"Hi""#, replied("Hi")),
            (r#"{"do":"reply"}"#, replied("")),
            ("```json\n{\"do\":\"reply\",\"text\":\"Hi\"}\n```", replied("Hi")),
            ("Sure! {\"do\":\"reply\",\"text\":\"Hi\"} Anything else?", replied("Hi")),
            (r#"{"do":"now"}"#, called("now", "{}")),
            (r#"{"zone":"UTC","do":"now"}"#, called("now", r#"{"zone":"UTC"}"#)),
            (r#"{"do":"now","zone":"UTC""#, called("now", r#"{"zone":"UTC"}"#)),
            ("```\n{\"do\":\"now\",\"zone\":\"UTC\"\n```", called("now", r#"{"zone":"UTC"}"#)),
            (r#"{"do":"now","args":{"zone":"UTC"}}"#, called("now", r#"{"zone":"UTC"}"#)),
            (r#"{"do":"fly","to":{"the":["moon"]}}"#, called("fly", r#"{"to":{"the":["moon"]}}"#)),
            (r#"{"action":{"do":"now"}}"#, called("now", "{}")),
            ("fn main() { x(); } {\"do\":\"now\"}", called("now", "{}")),
        ];
        for (answer, expected) in cases {
            assert_eq!(stopped(answer), expected, "{answer}");
        }
    }

    #[test]
    fn an_answer_without_an_action_is_a_reply_as_it_stands() {
        for answer in ["Hello", " Hello\n", "fn main() { x(); }", r#"{"a":1}"#, r#"{"do":5}"#, "{\"a\":", "{{{"] {
            assert_eq!(stopped(answer), plain(answer), "{answer}");
        }
        assert_eq!(stopped(""), replied(""));
    }

    #[test]
    fn broken_arguments_are_handed_on_as_they_were_written() {
        let broken = [
            r#"{"do":"now","zone":"UTC"#,
            r#"{"do":"now" zone:"UTC"}"#,
            r#"{"do":"now", zone:"UTC"}"#,
            "{\"do\":\"now\",\"zone\":\"a\nb\"}",
            r#"{"do":"now","zone":{"a":[1}}"#,
        ];
        for answer in broken {
            let (_, last) = stopped(answer);
            assert_eq!(last, Last::Call { name: "now".into(), arguments: answer.into() });
            assert!(serde_json::from_str::<Value>(answer).is_err(), "{answer}");
        }
    }

    #[test]
    fn an_answer_cut_off_is_never_completed() {
        let cases = [
            (r#"{"do":"reply","text":"Hal"#, replied("Hal")),
            (r#"{"text":"Hal"#, plain("Hal")),
            (r#"{"do":"rep"#, replied("")),
            (r#"{"do":"alarm","at":1"#, called("alarm", r#"{"do":"alarm","at":1"#)),
            (r#"{"do":"alarm""#, called("alarm", r#"{"do":"alarm""#)),
        ];
        for (answer, expected) in cases {
            assert_eq!(decode(&[answer], Finish::Length), expected, "{answer}");
        }
    }

    #[test]
    fn an_argument_called_args_is_an_argument() {
        let tool = ToolSpec {
            name: "run".into(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": {"args": {"type": "object"}}}),
            cases: Vec::new(),
            example: None,
        };
        let mut decoder = Decoder::new(&[tool]);
        decoder.push(r#"{"do":"run","args":{"a":1}}"#);
        let arguments = r#"{"args":{"a":1}}"#.to_owned();
        assert_eq!(decoder.finish(Finish::Stop), Last::Call { name: "run".into(), arguments });
    }

    #[test]
    fn text_streams_once_the_action_is_known() {
        let mut decoder = Decoder::new(&[]);
        let chunks = ["{\"text\":\"a", "b\\", "n\",\"do\":\"rep", "ly\"", ",\"x\":1}", " "];
        let streamed: Vec<String> = chunks.iter().map(|chunk| decoder.push(chunk)).collect();
        assert_eq!(streamed, ["", "", "", "ab\n", "", ""]);
        let mut decoder = Decoder::new(&[]);
        let chunks = ["{\"do\":\"reply\",\"te", "xt\":\"a", "b\\ud83d", "\\u", "de00", "\"}"];
        let streamed: Vec<String> = chunks.iter().map(|chunk| decoder.push(chunk)).collect();
        assert_eq!(streamed, ["", "a", "b", "", "😀", ""]);
    }

    #[test]
    fn the_search_for_an_object_is_bounded() {
        let answer = r#"{"a":"#.repeat(20_000);
        assert_eq!(stopped(&answer), plain(&answer));
        let answer = format!("{}{}", "{ ".repeat(MAX_BEGINNINGS), r#"{"do":"now"}"#);
        assert_eq!(stopped(&answer), plain(&answer));
    }

    /// `text` as a JSON string, each character escaped in the way that `ways` picks.
    fn escape(text: &str, ways: &[u8]) -> String {
        let mut out = String::from("\"");
        for (at, c) in text.chars().enumerate() {
            let way = ways.get(at % ways.len().max(1)).copied().unwrap_or_default();
            if way % 3 == 0 {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
            } else {
                let quoted = serde_json::to_string(&c).unwrap();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
        }
        out.push('"');
        out
    }

    proptest! {
        #[test]
        fn a_reply_in_any_chunks_is_its_decoded_text(
            text in any::<String>(), ways in prop::collection::vec(any::<u8>(), 0..9), swapped in any::<bool>(),
            space in "[ \n\t]{0,2}", cuts in prop::collection::vec(0usize..400, 0..40)
        ) {
            let (action, text_field) = (r#""do":"reply""#, format!("\"text\":{space}{}", escape(&text, &ways)));
            let answer = if swapped {
                format!("{space}{{{text_field}{space},{space}{action}}}{space}")
            } else {
                format!("{space}{{{space}{action},{text_field}}}")
            };
            let decoded: Value = serde_json::from_str(&answer).unwrap();
            prop_assert_eq!(&decoded["text"], &Value::from(text.as_str()));
            prop_assert_eq!(decode(&chunked(&answer, &cuts), Finish::Stop), replied(&text));
        }

        #[test]
        fn any_arguments_in_any_chunks_come_out_whole(
            zone in any::<String>(), number in any::<i64>(), cuts in prop::collection::vec(0usize..200, 0..20)
        ) {
            let arguments = json!({"zone": zone, "list": [number, {"deep": zone}]});
            let mut object = arguments.clone();
            object["do"] = "now".into();
            let (streamed, last) = decode(&chunked(&object.to_string(), &cuts), Finish::Stop);
            prop_assert_eq!(streamed, "");
            let Last::Call { name, arguments: read } = last else { panic!("{last:?}") };
            prop_assert_eq!((name.as_str(), serde_json::from_str::<Value>(&read).unwrap()), ("now", arguments));
        }

        #[test]
        fn nothing_makes_it_panic(answer in r#"[{}\[\]":,\\u0-9a-f do`]{0,40}"#, cuts in prop::collection::vec(0usize..40, 0..8)) {
            let whole = decode(&[&answer], Finish::Stop);
            prop_assert_eq!(decode(&chunked(&answer, &cuts), Finish::Stop), whole);
        }
    }
}
