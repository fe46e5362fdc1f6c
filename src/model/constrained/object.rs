//! Reads the JSON object of a step while it is being written, so that a reply can be shown word by word.
//!
//! Only the surface is looked at: where the object ends, its `do`, and the decoded characters of its `text`. It takes a
//! little more than JSON, as small models write it: line breaks and unknown escapes inside strings.

use super::{DO, TEXT};

/// What a character led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The object goes on.
    More,
    /// The object is complete.
    End,
    /// This is no JSON object.
    Broken,
}

/// The reader of one object.
#[derive(Debug, Default)]
pub(super) struct Object {
    at: At,
    /// The string that was read last, or is being read: a key most of all.
    word: String,
    string: JsonString,
    action: Option<String>,
    names_action: bool,
    text: String,
}

#[derive(Debug, Default, Clone, Copy)]
enum At {
    #[default]
    Open,
    /// Before the first key.
    FirstKey,
    /// Before a key that follows a comma.
    NextKey,
    Key,
    Colon,
    Value,
    /// In the string that is the value of `do`.
    Action,
    /// In the string that is the value of `text`.
    Text,
    /// In any other string on the surface.
    Other,
    /// In a number or a literal.
    Bare,
    /// In a list or an object, so deep.
    Deep(usize),
    /// In a string inside of those.
    DeepString(usize),
    /// After a value.
    After,
}

impl Object {
    /// The value of `do`, once it is complete.
    pub(super) fn action(&self) -> Option<&str> {
        self.action.as_deref()
    }

    /// Whether the object has a `do`, complete or not.
    pub(super) fn names_action(&self) -> bool {
        self.names_action
    }

    /// The characters of `text` that have not been taken yet.
    pub(super) fn take_text(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Reads the next character.
    pub(super) fn push(&mut self, c: char) -> Read {
        self.at = match (self.at, c) {
            (At::Open, '{') => At::FirstKey,
            (At::FirstKey, '}') => return Read::End,
            (At::FirstKey | At::NextKey, '"') => {
                self.word.clear();
                At::Key
            }
            (At::Key, c) => match self.string.push(c, &mut self.word) {
                StringRead::More => At::Key,
                StringRead::End => At::Colon,
            },
            (At::Colon, ':') => At::Value,
            (At::Value, '"') => {
                let at = match self.word.as_str() {
                    DO => At::Action,
                    TEXT => At::Text,
                    _ => At::Other,
                };
                self.names_action |= matches!(at, At::Action);
                self.word.clear();
                at
            }
            // A `do` that is no text names no action.
            (At::Value, c) if self.word == DO && !c.is_ascii_whitespace() => return Read::Broken,
            (At::Value, '{' | '[') => At::Deep(1),
            (At::Value, '-' | '0'..='9' | 't' | 'f' | 'n') => At::Bare,
            (At::Action, c) => match self.string.push(c, &mut self.word) {
                StringRead::More => At::Action,
                StringRead::End => {
                    self.action = Some(std::mem::take(&mut self.word));
                    At::After
                }
            },
            (At::Text, c) => match self.string.push(c, &mut self.text) {
                StringRead::More => At::Text,
                StringRead::End => At::After,
            },
            (At::Other, c) => match self.string.push(c, &mut self.word) {
                StringRead::More => At::Other,
                StringRead::End => At::After,
            },
            (At::Deep(depth), '{' | '[') => At::Deep(depth + 1),
            (At::Deep(1), '}' | ']') => At::After,
            (At::Deep(depth), '}' | ']') => At::Deep(depth - 1),
            (At::Deep(depth), '"') => {
                self.word.clear();
                At::DeepString(depth)
            }
            (At::Deep(depth), _) => At::Deep(depth),
            (At::DeepString(depth), c) => match self.string.push(c, &mut self.word) {
                StringRead::More => At::DeepString(depth),
                StringRead::End => At::Deep(depth),
            },
            (At::After | At::Bare, ',') => At::NextKey,
            (At::After | At::Bare, '}') => return Read::End,
            (At::Bare, c) if c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-') => At::Bare,
            (At::Bare, c) if c.is_ascii_whitespace() => At::After,
            (at, c) if c.is_ascii_whitespace() => at,
            _ => return Read::Broken,
        };
        Read::More
    }
}

/// Decodes the inside of a JSON string, one character at a time.
#[derive(Debug, Default)]
struct JsonString {
    escape: Escape,
    /// The first half of a surrogate pair, waiting for its second.
    high: Option<u16>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Escape {
    #[default]
    None,
    Begun,
    Unicode {
        digits: u8,
        value: u16,
    },
}

enum StringRead {
    More,
    End,
}

impl JsonString {
    /// Reads the next character of the string; what it stands for goes to `out`. Ready for another string after
    /// [`StringRead::End`].
    fn push(&mut self, c: char, out: &mut String) -> StringRead {
        match (self.escape, c) {
            (Escape::None, '"') => {
                self.flush(out);
                return StringRead::End;
            }
            (Escape::None, '\\') => self.escape = Escape::Begun,
            (Escape::None, c) => self.character(c, out),
            (Escape::Begun, 'u') => self.escape = Escape::Unicode { digits: 0, value: 0 },
            (Escape::Begun, c) => {
                let meant = match c {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    other => other,
                };
                self.character(meant, out);
            }
            (Escape::Unicode { digits, value }, c) => {
                match c.to_digit(16).and_then(|d| u16::try_from(d).ok()) {
                    Some(digit) => {
                        let value = value << 4 | digit;
                        if digits == 3 {
                            self.unit(value, out);
                        } else {
                            self.escape = Escape::Unicode { digits: digits + 1, value };
                        }
                    }
                    // Too few digits: they are lost, the character counts.
                    None => {
                        self.character(char::REPLACEMENT_CHARACTER, out);
                        return self.push(c, out);
                    }
                }
            }
        }
        StringRead::More
    }

    fn character(&mut self, c: char, out: &mut String) {
        self.escape = Escape::None;
        self.flush(out);
        out.push(c);
    }

    /// One UTF-16 unit of a `\u` escape. A half that has no other half is replaced.
    fn unit(&mut self, unit: u16, out: &mut String) {
        self.escape = Escape::None;
        match (self.high.take(), unit) {
            (Some(high), 0xDC00..=0xDFFF) => out.extend(char::decode_utf16([high, unit]).map(or_replacement)),
            (alone, unit) => {
                out.extend(alone.map(|_| char::REPLACEMENT_CHARACTER));
                if matches!(unit, 0xD800..=0xDBFF) {
                    self.high = Some(unit);
                } else {
                    out.extend(char::decode_utf16([unit]).map(or_replacement));
                }
            }
        }
    }

    fn flush(&mut self, out: &mut String) {
        if self.high.take().is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

fn or_replacement(decoded: Result<char, std::char::DecodeUtf16Error>) -> char {
    decoded.unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The action, the text and what the last character led to.
    fn read(json: &str) -> (Option<String>, String, Read) {
        let mut object = Object::default();
        let mut last = Read::More;
        for c in json.chars() {
            assert_eq!(last, Read::More, "{json} goes on after its end");
            last = object.push(c);
        }
        (object.action().map(str::to_owned), object.take_text(), last)
    }

    #[test]
    fn the_surface_of_an_object_is_read() {
        let cases = [
            ("{}", None, "", Read::End),
            (r#" { "do" : "reply" , "text" : "a" } "#.trim(), Some("reply"), "a", Read::End),
            (r#"{"a":{"do":"x","text":"}]"},"b":[1,"\"]"],"do":"y","c":-1.5e3,"d":null}"#, Some("y"), "", Read::End),
            (r#"{"c":true,"text":"a\n\"\\\/\té"}"#, None, "a\n\"\\/\té", Read::End),
            (r#"{"do":"rep"#, None, "", Read::More),
            (r#"{"do":1"#, None, "", Read::Broken),
            (r#"{"do" "#, None, "", Read::More),
            ("{ x", None, "", Read::Broken),
            (r#"{"a""#, None, "", Read::More),
            (r#"{"a";"#, None, "", Read::Broken),
            (r#"{"a":x"#, None, "", Read::Broken),
            (r#"{"a":1,}"#, None, "", Read::Broken),
            (r#"{"a":1;"#, None, "", Read::Broken),
        ];
        for (json, action, text, last) in cases {
            assert_eq!(read(json), (action.map(str::to_owned), text.to_owned(), last), "{json}");
        }
    }

    #[test]
    fn halves_of_a_surrogate_pair_are_joined_or_replaced() {
        let cases = [
            (r"\ud83d\ude00", "😀"),
            (r"\ud83d!", "\u{fffd}!"),
            (r"\ude00", "\u{fffd}"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
            (r"\ud83dA", "\u{fffd}A"),
            (r"\ud83d\n", "\u{fffd}\n"),
            (r"\ud83d", "\u{fffd}"),
            (r"\u00e", "\u{fffd}"),
            (r"\'", "'"),
        ];
        for (escaped, expected) in cases {
            let (_, text, last) = read(&format!("{{\"text\":\"{escaped}\"}}"));
            assert_eq!((text.as_str(), last), (expected, Read::End), "{escaped}");
        }
    }
}
