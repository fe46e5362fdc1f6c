//! Cutting a text that is too long for one event.
//!
//! Each part reads as Markdown of its own: a fence that is cut is closed and opened again, a table that is
//! cut repeats its header, and what comes out of the middle of a list is moved to the left, since its
//! indentation would make it a code block. Nothing else is added and nothing but white space at the seams is
//! lost.

use super::outline::{Frame, Outline, line_start, without_common};

/// The first guess at how many bytes fit. The search doubles it, so that no look costs more than a part or
/// two.
const FIRST_STEP: usize = 1024;

/// The most bytes of quote marks that a part repeats: a line may hold nothing else.
const MAX_QUOTE_MARKS: usize = 32;

/// Cuts Markdown into parts that each satisfy `fits`, at the best borders there are.
///
/// Best is between blocks, then between lines, list items and rows, then sentences, words and at last
/// characters.
///
/// `fits` must be monotone: what is shorter than a fitting text fits. A text that fits comes back as it is,
/// an empty one as no part. Where not even one character fits, it makes a part all the same.
#[must_use]
pub fn split(markdown: &str, fits: impl Fn(&str) -> bool) -> Vec<String> {
    if markdown.is_empty() {
        return Vec::new();
    }
    if fits(markdown) {
        return vec![markdown.to_owned()];
    }
    let text = markdown.trim_end();
    let splitter = Splitter { text, outline: Outline::new(text), fits };
    let mut parts = Vec::new();
    let mut at = splitter.skip_blank(0);
    while at < text.len() {
        let (part, end) = splitter
            .cut(at, Seams::Mended)
            .or_else(|| splitter.cut(at, Seams::Bare))
            .unwrap_or_else(|| splitter.cut_one_char(at));
        if !part.trim().is_empty() {
            parts.push(part);
        }
        at = splitter.skip_blank(end);
    }
    parts
}

struct Splitter<'a, F> {
    text: &'a str,
    outline: Outline<'a>,
    fits: F,
}

/// What happens to a fence, table or quote that is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seams {
    /// It goes on in the next part as what it was.
    Mended,
    /// Nothing is repeated: for marks and headers so long that they would leave no room for the text.
    Bare,
}

/// How a part begins.
#[derive(Default)]
struct Start<'a> {
    /// What is written before the text.
    opening: String,
    /// What is taken from each line, to lift it out of the list around.
    strip: &'a str,
    /// What the part begins inside.
    frame: Option<&'a Frame>,
}

impl<F: Fn(&str) -> bool> Splitter<'_, F> {
    /// The next part and where it ends; none if nothing fits, or less than what would be repeated for it.
    fn cut(&self, at: usize, seams: Seams) -> Option<(String, usize)> {
        let reach = self.reach(at, seams)?;
        if reach == self.text.len() {
            return Some((self.part(at, reach, seams), reach));
        }
        let start = self.start(at, seams);
        let goes_on = start.frame.is_none_or(|frame| reach < frame.range.end);
        if goes_on && reach - at < start.opening.len() {
            return None;
        }
        // An earlier end can make a longer part, by a fence's closing line: hence the check.
        self.outline
            .best_borders(at..reach)
            .map(|end| (self.part(at, end, seams), end))
            .find(|(part, _)| (self.fits)(part))
    }

    fn cut_one_char(&self, at: usize) -> (String, usize) {
        let end = self.text.ceil_char_boundary(at + 1);
        (self.part(at, end, Seams::Bare), end)
    }

    /// The farthest end whose part fits, by doubling and halving.
    fn reach(&self, at: usize, seams: Seams) -> Option<usize> {
        let mut good = at;
        let mut step = FIRST_STEP;
        let mut bad = loop {
            let end = self.text.ceil_char_boundary(at + step);
            if !(self.fits)(&self.part(at, end, seams)) {
                break end;
            }
            if end == self.text.len() {
                return Some(end);
            }
            good = end;
            step *= 2;
        };
        loop {
            let half = self.text.floor_char_boundary(good + (bad - good) / 2);
            let middle = half.max(self.text.ceil_char_boundary(good + 1));
            if middle >= bad {
                return (good > at).then_some(good);
            }
            if (self.fits)(&self.part(at, middle, seams)) {
                good = middle;
            } else {
                bad = middle;
            }
        }
    }

    fn part(&self, at: usize, end: usize, seams: Seams) -> String {
        let Start { opening: mut part, mut strip, frame } = self.start(at, seams);
        let mut line_at = at;
        for line in self.text.get(at..end).unwrap_or_default().split_inclusive('\n') {
            let whole = line_at > at || self.begins_line(at);
            if whole && frame.is_some_and(|frame| line_at < frame.range.end) {
                part.push_str(without_common(line, strip));
            } else if let Some(inner) = line.strip_prefix(strip).filter(|_| whole) {
                part.push_str(inner);
            } else {
                part.push_str(line);
                if whole && !line.trim().is_empty() {
                    // The list is over.
                    strip = "";
                }
            }
            line_at += line.len();
        }
        part.truncate(part.trim_end().len());
        match self.outline.frame(end) {
            Some(frame) if seams == Seams::Mended && !frame.closing.is_empty() => {
                part + "\n" + without_common(&frame.prefix, strip) + frame.closing.as_str()
            }
            _ => part,
        }
    }

    fn start(&self, at: usize, seams: Seams) -> Start<'_> {
        let frame = self.outline.frame(at);
        match frame {
            _ if seams == Seams::Bare => Start::default(),
            // A quote's lines carry its marks along, so it goes on as a quote.
            Some(Frame { head, prefix, .. }) if prefix.contains('>') => {
                let mut opening: String = head.split_inclusive('\n').flat_map(|line| [prefix.as_str(), line]).collect();
                if !self.begins_line(at) {
                    opening.push_str(prefix);
                }
                Start { opening, strip: "", frame }
            }
            Some(Frame { head, prefix, .. }) => Start { opening: head.clone(), strip: prefix, frame },
            None if self.begins_line(at) => {
                let line = self.text.get(at..).unwrap_or_default();
                let indent = line.len() - line.trim_start().len();
                Start { strip: line.get(..indent).unwrap_or_default(), ..Start::default() }
            }
            None => Start { opening: self.quote_marks(at), ..Start::default() },
        }
    }

    /// The marks of the quotes around, which the line has before `at`.
    fn quote_marks(&self, at: usize) -> String {
        let line = self.text.get(line_start(self.text, at)..at).unwrap_or_default();
        let marks = line.chars().take(MAX_QUOTE_MARKS).take_while(|c| matches!(c, '>' | ' '));
        Some(marks.collect::<String>()).filter(|marks| marks.contains('>')).unwrap_or_default()
    }

    /// The first position from `at` with something to show, or the start of its line.
    fn skip_blank(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        let blank = rest.get(..rest.len() - rest.trim_start().len()).unwrap_or_default();
        match blank.rfind('\n') {
            Some(newline) => at + newline + 1,
            None if self.begins_line(at) => at,
            None => at + blank.len(),
        }
    }

    fn begins_line(&self, at: usize) -> bool {
        self.text.get(..at).is_some_and(|before| before.is_empty() || before.ends_with('\n'))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::cell::Cell;

    use proptest::prelude::*;

    use super::split;

    fn split_at(limit: usize, markdown: &str) -> Vec<String> {
        split(markdown, |part| part.len() <= limit)
    }

    #[test]
    fn empty_text_makes_no_part() {
        assert_eq!(split_at(10, ""), Vec::<String>::new());
    }

    #[test]
    fn fitting_text_comes_back_unchanged() {
        assert_eq!(split_at(10, " \na  \n"), [" \na  \n"]);
    }

    #[test]
    fn blocks_are_cut_apart_first() {
        let text = "One.\n\nTwo is longer. It has two sentences.\n\nThree.";
        assert_eq!(split_at(42, text), ["One.\n\nTwo is longer. It has two sentences.", "Three."]);
        assert_eq!(split_at(38, text), ["One.", "Two is longer. It has two sentences.", "Three."]);
    }

    #[test]
    fn a_heading_stays_with_what_it_heads() {
        assert_eq!(split_at(20, "First text.\n\n# Next\n\nMore text."), ["First text.", "# Next\n\nMore text."]);
    }

    #[test]
    fn list_items_are_cut_apart_before_sentences() {
        assert_eq!(
            split_at(30, "- One. Two.\n- Three. Four.\n- Five. Six."),
            ["- One. Two.\n- Three. Four.", "- Five. Six."]
        );
    }

    #[test]
    fn items_of_an_inner_list_do_not_become_code() {
        assert_eq!(
            split_at(28, "1. Outer\n    - inner one\n    - inner two\n    - inner three\n2. Outer"),
            ["1. Outer\n    - inner one", "- inner two\n- inner three", "2. Outer"]
        );
    }

    #[test]
    fn sentences_are_cut_apart_before_words() {
        assert_eq!(split_at(24, "One sentence. And one more sentence."), ["One sentence.", "And one more sentence."]);
        assert_eq!(split_at(30, "今日は雨です。明日は晴れです。"), ["今日は雨です。", "明日は晴れです。"]);
    }

    #[test]
    fn words_are_cut_apart_before_characters() {
        assert_eq!(split_at(9, "alpha beta gamma"), ["alpha", "beta", "gamma"]);
        assert_eq!(split_at(4, "abcdefghij"), ["abcd", "efgh", "ij"]);
    }

    #[test]
    fn a_link_is_not_cut_while_there_is_another_place() {
        assert_eq!(
            split_at(36, "See also [the long guide](https://a.example)."),
            ["See also", "[the long guide](https://a.example)."]
        );
    }

    #[test]
    fn a_part_does_not_begin_like_a_list() {
        assert_eq!(split_at(13, "it was in 1998 and so on"), ["it was", "in 1998 and", "so on"]);
    }

    #[test]
    fn characters_are_not_torn() {
        assert_eq!(split_at(5, "äöüé"), ["äö", "üé"]);
        assert_eq!(split_at(12, "👍🏽👍🏽"), ["👍🏽", "👍🏽"]);
    }

    #[test]
    fn what_can_never_fit_is_still_returned() {
        assert_eq!(split("añ b", |_| false), ["a", "ñ", "b"]);
    }

    #[test]
    fn a_cut_fence_is_closed_and_reopened_with_its_language() {
        assert_eq!(
            split_at(34, "Code:\n\n~~~~rust ignore\none();\ntwo();\n\n    three();\n~~~~\n\nEnd."),
            ["Code:", "~~~~rust ignore\none();\ntwo();\n~~~~", "~~~~rust ignore\n    three();\n~~~~", "End."]
        );
    }

    #[test]
    fn a_fence_that_never_ends_is_cut_like_another() {
        assert_eq!(split_at(17, "```\none\ntwo\nthree\nfour"), ["```\none\ntwo\n```", "```\nthree\nfour"]);
    }

    #[test]
    fn a_fence_cut_in_a_list_is_lifted_out_of_it() {
        let text = "1. Run:\n\n   ```sh\n   make\n     all\n   make install\n   ```\n\n   Then wait.\n2. Done.";
        assert_eq!(
            split_at(38, text),
            ["1. Run:\n\n   ```sh\n   make\n   ```", "```sh\n  all\nmake install\n```", "Then wait.\n2. Done."]
        );
    }

    #[test]
    fn a_fence_cut_in_a_quote_stays_in_it() {
        assert_eq!(
            split_at(32, "> ```sh\n> make all\n> make install\n> ```"),
            ["> ```sh\n> make all\n> ```", "> ```sh\n> make install\n> ```"]
        );
    }

    #[test]
    fn a_quote_cut_between_sentences_stays_one() {
        assert_eq!(split_at(20, "> One sentence. Two sentences."), ["> One sentence.", "> Two sentences."]);
    }

    #[test]
    fn a_cut_table_repeats_its_header() {
        let head = "| a | b |\n|---|--:|\n";
        let text = format!("{head}| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n\nEnd.");
        assert_eq!(split_at(40, &text), [format!("{head}| 1 | 2 |\n| 3 | 4 |"), format!("{head}| 5 | 6 |\n\nEnd.")]);
    }

    #[test]
    fn a_header_that_leaves_no_room_is_not_repeated() {
        let text = "| a long head | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |";
        assert_eq!(visible(&split_at(31, text).concat()), visible(text));
    }

    #[test]
    fn windows_newlines_are_borders_too() {
        assert_eq!(split_at(12, "One.\r\n\r\nTwo.\r\nThree."), ["One.", "Two.\r\nThree."]);
    }

    #[test]
    fn a_long_text_is_looked_at_a_bounded_number_of_times() {
        let shapes =
            ["word ", "x", "*", "\n", "a\n\n", "> ", "- a\n", "`a` ", "A b. ", "| a |\n|---|\n| 1 |\n", "```\na\n"];
        for shape in shapes {
            let text = shape.repeat((1 << 17) / shape.len());
            let seen = Cell::new(0);
            let parts = split(&text, |part| {
                seen.set(seen.get() + part.len());
                part.len() <= 1 << 12
            });
            assert!(parts.iter().all(|part| part.len() <= 1 << 12), "{shape:?}");
            assert!(seen.get() <= 40 * text.len(), "{shape:?}: {} times", seen.get() / text.len());
        }
    }

    fn visible(text: &str) -> String {
        text.chars().filter(|c| !c.is_whitespace()).collect()
    }

    fn is_subsequence(inner: &str, outer: &str) -> bool {
        let mut outer = outer.chars();
        inner.chars().all(|c| outer.any(|o| o == c))
    }

    /// Pieces of Markdown in an order that makes sense now and then.
    fn markdown() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("```rust\n"),
            Just("```\n"),
            Just("~~~\n"),
            Just("| a | b |\n|---|---|\n"),
            Just("| 1 | 2 |\n"),
            Just("- item\n"),
            Just("  1. inner\n"),
            Just("> quote "),
            Just("# Head\n"),
            Just("\n"),
            Just("\n\n"),
            Just("A sentence. "),
            Just("[a link](https://a.example) "),
            Just("**bold words** "),
            Just("`code` "),
            Just("    indented\n"),
            Just("日本語。"),
            Just("👩🏽‍💻"),
            Just("\r\n"),
            Just("\t"),
            Just("<b>"),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn every_part_fits_and_shows_something(text in markdown(), limit in 4usize..200) {
            for part in split_at(limit, &text) {
                prop_assert!(part.len() <= limit || part.chars().count() == 1, "{part:?}");
                prop_assert!(!part.trim().is_empty() || text.len() <= limit);
            }
        }

        #[test]
        fn nothing_is_lost_and_only_heads_are_repeated(text in markdown(), limit in 4usize..200) {
            let parts = split_at(limit, &text);
            let (before, after) = (visible(&text), visible(&parts.concat()));
            prop_assert!(is_subsequence(&before, &after), "{parts:#?}");
            for c in before.chars().filter(|c| !"`~rust|ab->".contains(*c)) {
                prop_assert_eq!(before.matches(c).count(), after.matches(c).count(), "{:?} in {:#?}", c, &parts);
            }
        }

        #[test]
        fn plain_text_is_only_cut(text in "[a-z .!\n]{0,200}", limit in 1usize..50) {
            prop_assert_eq!(visible(&split_at(limit, &text).concat()), visible(&text));
        }

        #[test]
        fn any_text_at_all_comes_through(text in any::<String>(), limit in 1usize..50) {
            prop_assert!(is_subsequence(&visible(&text), &visible(&split_at(limit, &text).concat())));
        }
    }
}
