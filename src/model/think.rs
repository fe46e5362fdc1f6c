//! Takes a model's thinking out of its answer: `<think>…</think>` at the very start.
//!
//! Whatever the chunks, the text that comes out is the same; text without the tag passes untouched.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Filters one answer.
#[derive(Debug, Default)]
pub(super) struct Think {
    state: State,
    /// What can't be judged yet: at most white space and a beginning of a tag.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum State {
    /// Only white space and a part of [`OPEN`] so far.
    #[default]
    Start,
    /// Behind [`OPEN`].
    Thinking,
    /// Behind [`CLOSE`]: the white space before the answer is no part of it.
    Gap,
    /// In the answer.
    Answer,
}

impl Think {
    /// Takes the next piece of the answer and gives what of it is for others; it may be empty.
    pub(super) fn push(&mut self, text: &str) -> String {
        if self.state == State::Answer {
            return text.to_owned();
        }
        self.held.push_str(text);
        loop {
            match self.state {
                State::Start => {
                    let begun = self.held.trim_start();
                    if let Some(thought) = begun.strip_prefix(OPEN) {
                        self.held = thought.to_owned();
                        self.state = State::Thinking;
                    } else if OPEN.starts_with(begun) {
                        return String::new();
                    } else {
                        self.state = State::Answer;
                    }
                }
                State::Thinking => {
                    let Some((_, rest)) = self.held.split_once(CLOSE) else {
                        // Only the beginning of the closing tag matters from here on.
                        let keep = self.held.len().saturating_sub(CLOSE.len() - 1);
                        self.held.drain(..self.held.floor_char_boundary(keep));
                        return String::new();
                    };
                    self.held = rest.to_owned();
                    self.state = State::Gap;
                }
                State::Gap => {
                    self.held = self.held.trim_start().to_owned();
                    if self.held.is_empty() {
                        return String::new();
                    }
                    self.state = State::Answer;
                }
                State::Answer => return std::mem::take(&mut self.held),
            }
        }
    }

    /// The answer has ended: what was held as a possible tag was none.
    pub(super) fn finish(self) -> String {
        if self.state == State::Start { self.held } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::chunked;
    use super::*;
    use proptest::prelude::*;

    fn strip(chunks: &[&str]) -> String {
        let mut think = Think::default();
        let mut answer: String = chunks.iter().map(|chunk| think.push(chunk)).collect();
        answer.push_str(&think.finish());
        answer
    }

    #[test]
    fn thinking_at_the_start_is_taken_out() {
        let cases = [
            ("<think>hm</think>\n\nHello", "Hello"),
            (" \n<think></think>Hello </think>", "Hello </think>"),
            ("<think>never closed", ""),
            ("<think>closed</think>  ", ""),
            ("Hello <think>no</think>", "Hello <think>no</think>"),
            ("  Hello", "  Hello"),
            ("<thin", "<thin"),
            ("<thing>", "<thing>"),
            ("", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(strip(&[text]), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_answer(
            gap in "[ \n]{0,2}", thought in "[a-z</>ü]{0,12}", answer in "\\PC{0,12}", cuts in prop::collection::vec(0usize..60, 0..8)
        ) {
            prop_assume!(!thought.contains(CLOSE));
            let text = format!("{gap}<think>{thought}</think>{gap}{answer}");
            prop_assert_eq!(strip(&chunked(&text, &cuts)), answer.trim_start());
        }

        #[test]
        fn text_without_thinking_passes_untouched(
            text in "[ \n<think>a]{0,12}", cuts in prop::collection::vec(0usize..12, 0..8)
        ) {
            prop_assume!(!text.trim_start().starts_with(OPEN));
            prop_assert_eq!(strip(&chunked(&text, &cuts)), text);
        }
    }
}
