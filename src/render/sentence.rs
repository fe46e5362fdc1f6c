//! Where a sentence ends.

/// Marks that end a sentence when a space follows: Latin, Greek, Arabic, Urdu, Devanagari, Armenian,
/// Ethiopic, Khmer and Burmese.
const SPACED_ENDS: [char; 13] = ['.', '!', '?', '…', ';', '؟', '۔', '।', '॥', '։', '።', '។', '။'];

/// Marks of scripts that write no space after a sentence.
const UNSPACED_ENDS: [char; 5] = ['。', '！', '？', '｡', '．'];

/// What may stand between a sentence's mark and the space: quotes, brackets, the end of an emphasis.
const CLOSERS: [char; 14] = ['"', '\'', ')', ']', '*', '_', '”', '’', '»', '」', '』', '）', '】', '》'];

/// How many of them can follow one mark. Without a bound, a line of asterisks would take quadratic time.
const MAX_CLOSERS: usize = 8;

/// Words that are written with a full stop in the middle of a sentence. Single letters (`e.g.`, `z. B.`) are
/// known without a list.
const ABBREVIATIONS: [&str; 12] = ["approx", "bzw", "ca", "cf", "dr", "fig", "mr", "mrs", "ms", "prof", "st", "vs"];

/// The letters and digits that make a line worth showing.
const MIN_LINE: usize = 4;

/// Whether a growing text holds a first finished sentence or line: a draft that is worth its first event.
///
/// Once true, it stays true however the text goes on.
#[must_use]
pub fn first_sentence_ends(text: &str) -> bool {
    let mut line_at = 0;
    text.contains(UNSPACED_ENDS)
        || text.match_indices(char::is_whitespace).any(|(at, space)| {
            let line = text.get(line_at..at).unwrap_or_default();
            if space == "\n" {
                line_at = at + 1;
            }
            space == "\n" && is_worth_showing(line) || sentence_ends(text, at)
        })
}

/// Whether a finished line says something by itself. The first line of a fence or a table does not.
fn is_worth_showing(line: &str) -> bool {
    let line = line.trim_start();
    !["```", "~~~", "|"].iter().any(|opening| line.starts_with(opening))
        && line.chars().filter(|c| c.is_alphanumeric()).nth(MIN_LINE - 1).is_some()
}

/// Whether a sentence ends right before the character at `at`.
pub(super) fn sentence_ends(text: &str, at: usize) -> bool {
    let (before, after) = text.split_at(at);
    let Some(next) = after.chars().next() else { return false };
    // Most characters are ruled out here, at the price of one look at each side.
    if !before.ends_with(|c| is_end(c) || CLOSERS.contains(&c)) {
        return false;
    }
    let closers = before.chars().rev().take(MAX_CLOSERS).take_while(|c| CLOSERS.contains(c));
    let sentence = before.get(..before.len() - closers.map(char::len_utf8).sum::<usize>()).unwrap_or_default();
    if sentence.ends_with(UNSPACED_ENDS) {
        return !CLOSERS.contains(&next) && !is_end(next);
    }
    if !next.is_whitespace() || !sentence.ends_with(SPACED_ENDS) {
        return false;
    }
    match sentence.strip_suffix('.') {
        Some(sentence) => !is_abbreviation(sentence) && !is_list_number(sentence),
        None => true,
    }
}

fn is_end(c: char) -> bool {
    SPACED_ENDS.contains(&c) || UNSPACED_ENDS.contains(&c)
}

/// Whether the last word is one that a full stop only shortens.
fn is_abbreviation(text: &str) -> bool {
    let start = text.rfind(|c: char| !c.is_alphabetic()).map_or(0, |at| text.ceil_char_boundary(at + 1));
    let word = text.get(start..).unwrap_or_default();
    word.chars().count() == 1 || ABBREVIATIONS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// Whether the last word is a number with nothing but marks before it on its line, as in `1. First`.
fn is_list_number(text: &str) -> bool {
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    before.len() < text.len() && !before.chars().rev().take_while(|c| *c != '\n').any(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::first_sentence_ends;

    #[test]
    fn a_finished_sentence_is_seen_in_many_scripts() {
        for text in [
            "It rains. ",
            "Does it? Yes",
            "Stop! ",
            "Well… ",
            "He said \"no.\" Then",
            "**Done.** ",
            "今日は雨です。",
            "「はい。」と",
            "真的吗？是",
            "هل تمطر؟ نعم",
            "वर्षा हो रही है। हाँ",
            "In 2024. Then",
            "Wait... what",
        ] {
            assert!(first_sentence_ends(text), "{text:?}");
        }
    }

    #[test]
    fn a_finished_line_is_seen() {
        for text in ["# Weather\n", "- rain today\n", "Some words\r\n", "```rust\nlet x = 1;\n"] {
            assert!(first_sentence_ends(text), "{text:?}");
        }
    }

    #[test]
    fn what_may_go_on_is_no_end() {
        for text in [
            "",
            " \n\n",
            "It rains",
            "It rains.",
            "Pi is 3.14 or",
            "Pi is 3.",
            "1. First",
            "- 2. First",
            "**1.** First",
            "For example, e.g. this",
            "z. B. dies",
            "Ask Dr. Who",
            "See example.org for",
            "```rust\n",
            "| a long | table header |\n",
            "# A\n",
            "「はい",
        ] {
            assert!(!first_sentence_ends(text), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn once_seen_it_stays(text in "[a-c1.。!?\"\n |`*-]{0,40}", more in any::<String>()) {
            if first_sentence_ends(&text) {
                prop_assert!(first_sentence_ends(&(text + more.as_str())));
            }
        }
    }
}
