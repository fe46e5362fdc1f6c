//! Where a Markdown text can be cut, and what a cut there takes.

use std::{collections::BTreeMap, ops::Range};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use super::{html::OPTIONS, sentence::sentence_ends};

/// What may begin a block: with it in front, a part would read as a list, a quote or a heading.
const BLOCK_MARKS: [char; 10] = ['#', '>', '-', '+', '*', '=', '|', '~', '`', ':'];

/// Joins emoji to one.
const JOINER: char = '\u{200d}';

/// The places where a text can be cut, from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Border {
    /// Inside what is seen as one character.
    Cluster,
    Char,
    /// Between words of one link, emphasis or code span, or where a part would read as another kind of block.
    Span,
    Word,
    Sentence,
    /// Between lines, list items or rows.
    Line,
    /// Between blocks.
    Block,
}

/// A code block or table.
pub(super) struct Frame {
    /// What a cut can be mended in: the text below the opening line or header.
    body: Range<usize>,
    /// The whole, with opening line and closing fence.
    pub(super) range: Range<usize>,
    /// What a part that begins inside must repeat: lines without `prefix`.
    pub(super) head: String,
    /// What a part that ends inside must close it with. Empty for all but fences.
    pub(super) closing: String,
    /// What stands before each line on behalf of the lists and quotes around.
    pub(super) prefix: String,
}

/// A text and what the parser found in it.
pub(super) struct Outline<'a> {
    text: &'a str,
    /// In order, without overlap.
    frames: Vec<Frame>,
    /// Links, emphases and code spans, the outermost only. In order, without overlap.
    spans: Vec<Range<usize>>,
}

impl<'a> Outline<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut outline = Self { text, frames: Vec::new(), spans: Vec::new() };
        for (event, range) in Parser::new_ext(text, OPTIONS).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                    outline.frames.push(Frame::fence(text, range));
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                    outline.frames.push(Frame::indented(text, range));
                }
                Event::Start(Tag::Table(_)) => outline.frames.push(Frame::table(text, range)),
                Event::Code(_)
                | Event::Start(
                    Tag::Link { .. } | Tag::Image { .. } | Tag::Emphasis | Tag::Strong | Tag::Strikethrough,
                ) if outline.spans.last().is_none_or(|last| last.end <= range.start) => {
                    outline.spans.push(range);
                }
                _ => {}
            }
        }
        outline
    }

    /// The last border of each kind up to the end of the range, the best kind first.
    pub(super) fn best_borders(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        let mut last = BTreeMap::new();
        for (offset, c) in self.text.get(range.clone()).unwrap_or_default().char_indices() {
            let at = range.start + offset + c.len_utf8();
            last.insert(self.border(at), at);
        }
        last.into_values().rev()
    }

    /// How good it is to cut at `at`.
    fn border(&self, at: usize) -> Border {
        let (before, after) = self.text.split_at(at);
        if before.ends_with(JOINER) || after.starts_with(is_joined) {
            return Border::Cluster;
        }
        let frame = self.frames.get(self.frames.partition_point(|frame| frame.range.end <= at));
        let frame = frame.filter(|frame| frame.range.start < at);
        if frame.is_some_and(|frame| at <= frame.body.start || frame.body.end <= at) {
            // One side would be a fence or table with nothing in it.
            return Border::Char;
        }
        let new_line = before.ends_with('\n');
        let new_word = !before.ends_with(char::is_whitespace) && after.starts_with(char::is_whitespace);
        let span = self.spans.get(self.spans.partition_point(|span| span.end <= at));
        if span.is_some_and(|span| span.start < at) {
            return if new_line || new_word { Border::Span } else { Border::Char };
        }
        if new_line {
            return if frame.is_some() { Border::Line } else { line_border(before, after) };
        }
        let sentence = sentence_ends(self.text, at);
        if !sentence && !new_word {
            return Border::Char;
        }
        let next = after.trim_start();
        if frame.is_none() && next.starts_with(|c: char| BLOCK_MARKS.contains(&c) || c.is_ascii_digit()) {
            return Border::Span;
        }
        if sentence { Border::Sentence } else { Border::Word }
    }

    /// The frame in whose body `at` lies.
    pub(super) fn frame(&self, at: usize) -> Option<&Frame> {
        let next = self.frames.partition_point(|frame| frame.range.end <= at);
        self.frames.get(next).filter(|frame| frame.body.start <= at)
    }
}

impl Frame {
    fn fence(text: &str, range: Range<usize>) -> Self {
        let source = text.get(range.clone()).unwrap_or_default();
        let mark = source.chars().next().unwrap_or('`');
        let closing: String = source.chars().take_while(|c| *c == mark).collect();
        let last = last_line(source);
        let last_marks = last.trim_matches(is_margin);
        let closed = last_marks.len() >= closing.len() && last_marks.chars().all(|c| c == mark);
        let frame = Self::new(text, range, 1);
        let end = if closed { frame.range.end - last.len() } else { frame.range.end };
        Self { body: frame.body.start..end.max(frame.body.start), closing, ..frame }
    }

    fn table(text: &str, range: Range<usize>) -> Self {
        Self::new(text, range, 2)
    }

    /// Goes on by its indentation alone: nothing is repeated or stripped.
    fn indented(text: &str, range: Range<usize>) -> Self {
        let range = line_start(text, range.start)..range.end;
        Self { body: range.clone(), range, head: String::new(), closing: String::new(), prefix: String::new() }
    }

    fn new(text: &str, range: Range<usize>, head_lines: usize) -> Self {
        let before = text.get(line_start(text, range.start)..range.start).unwrap_or_default();
        // A list's mark is as wide as the indentation of the lines below it.
        let prefix: String = before.chars().map(|c| if matches!(c, '>' | '\t') { c } else { ' ' }).collect();
        let mut body = range.clone();
        let mut head = String::new();
        for line in text.get(range.clone()).unwrap_or_default().split_inclusive('\n').take(head_lines) {
            head.push_str(without_common(line, if head.is_empty() { "" } else { &prefix }).trim_end());
            head.push('\n');
            body.start += line.len();
        }
        Self { body, range, head, closing: String::new(), prefix }
    }
}

/// How good it is to cut between two lines outside of fences and tables.
fn line_border(before: &str, after: &str) -> Border {
    // Of many blank lines the last is the border; an indented line belongs to the block above.
    if after.starts_with([' ', '\t', '\r', '\n']) {
        return Border::Line;
    }
    let above = before.strip_suffix('\n').unwrap_or(before);
    if last_line(above.trim_end()).trim_start_matches(is_margin).starts_with('#') {
        // A heading stays with what it heads.
        return Border::Word;
    }
    if last_line(above).trim_matches(is_margin).is_empty() { Border::Block } else { Border::Line }
}

/// What may stand beside the text of a line: white space and the marks of quotes.
fn is_margin(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '>')
}

/// Whether a character is one with the character before it. Not all of Unicode's rules: those for what chats
/// hold, which are accents, emoji variants, skin tones and the tags of flags.
fn is_joined(c: char) -> bool {
    matches!(
        c,
        JOINER
            | '\u{300}'..='\u{36f}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{1f3fb}'..='\u{1f3ff}'
            | '\u{e0020}'..='\u{e007f}'
    )
}

/// The line without what it has in common with the prefix.
pub(super) fn without_common<'a>(line: &'a str, prefix: &str) -> &'a str {
    let common = line.bytes().zip(prefix.bytes()).take_while(|(a, b)| a == b).count();
    line.get(common..).unwrap_or(line)
}

pub(super) fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

fn last_line(text: &str) -> &str {
    text.rsplit('\n').next().unwrap_or(text)
}
