//! Questions with choices in an answer: `[ask: ✅ deploy | ❌ skip]`.
//!
//! The paragraph with such a marker becomes a message of its own, with a button and a reaction for each choice; in its text
//! the marker reads `✅ deploy · ❌ skip`. A marker is never posted raw: one that does not parse becomes its choices with
//! ` · ` between them. Without a marker the end of the last paragraph counts where it asks in one of a few strict shapes
//! ("✅ to deploy, ❌ to skip", "react ✅", "👍/👎?", "👍 or 👎"). Code is left alone.

const OPEN: &str = "[ask:";
/// Choices of one question.
const MIN_CHOICES: usize = 2;
const MAX_CHOICES: usize = 4;
/// Signs below U+1F000 that are drawn as pictures by themselves (Unicode's `Emoji_Presentation`).
const PICTURES: &str = "⌚⌛⏩⏪⏫⏬⏰⏳◽◾☔☕♈♉♊♋♌♍♎♏♐♑♒♓♿⚓⚡⚪⚫⚽⚾⛄⛅⛎⛔⛪⛲⛳⛵⛺⛽✅✊✋✨❌❎❓❔❕❗➕➖➗➰➿⬛⬜⭐⭕";
const BETWEEN: &str = " · ";

/// A part of an answer that is a message of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its Markdown, without a marker.
    pub text: String,
    /// What it asks.
    pub ask: Option<Ask>,
}

/// A question with choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The choices, in their order.
    pub choices: Vec<Choice>,
    /// How they are shown.
    pub shown: Shown,
}

/// How the choices of a question are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// As buttons, and as reactions for those whose client draws none.
    Buttons,
    /// As reactions alone: the text has no words for buttons.
    Reactions,
}

/// A choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The emoji that stands for it.
    pub key: String,
    /// What it says; may be empty.
    pub label: String,
}

/// The messages that an answer becomes: one for each paragraph that asks, and one for what stands between them.
pub fn pieces(text: &str) -> Vec<Piece> {
    if !text.contains(OPEN) {
        let ask = in_words(text);
        return if text.trim().is_empty() { Vec::new() } else { vec![Piece { text: text.to_owned(), ask }] };
    }
    let mut pieces: Vec<Piece> = Vec::new();
    let mut plain: Vec<String> = Vec::new();
    let mut asked = false;
    for paragraph in paragraphs(text) {
        match paragraph {
            Paragraph::Code(code) => plain.push(code.to_owned()),
            Paragraph::Words(words) => match without_markers(words) {
                (words, None) if words.trim().is_empty() => {}
                (words, None) => plain.push(words),
                (words, Some(ask)) => {
                    asked = true;
                    flush(&mut pieces, &mut plain);
                    pieces.push(Piece { text: words, ask: Some(ask) });
                }
            },
        }
    }
    flush(&mut pieces, &mut plain);
    if !asked && let Some(last) = pieces.last_mut() {
        last.ask = in_words(&last.text);
    }
    pieces
}

/// An answer that is still being written: without markers, and without the beginning of one.
pub fn without_asks(text: &str) -> String {
    let text = match text.rfind('[') {
        Some(at) if OPEN.starts_with(&text[at..]) || (text[at..].starts_with(OPEN) && !text[at..].contains(']')) => {
            text[..at].trim_end()
        }
        _ => text,
    };
    if !text.contains(OPEN) {
        return text.to_owned();
    }
    let words = paragraphs(text).into_iter().map(|paragraph| match paragraph {
        Paragraph::Code(code) => code.to_owned(),
        Paragraph::Words(text) => without_markers(text).0,
    });
    words.collect::<Vec<_>>().join("\n\n")
}

fn flush(pieces: &mut Vec<Piece>, plain: &mut Vec<String>) {
    let text = std::mem::take(plain).join("\n\n");
    if !text.trim().is_empty() {
        pieces.push(Piece { text, ask: None });
    }
}

enum Paragraph<'a> {
    Words(&'a str),
    /// A fence with all that is in it.
    Code(&'a str),
}

/// The paragraphs of a text; a fenced block is one, whatever it holds.
fn paragraphs(text: &str) -> Vec<Paragraph<'_>> {
    let mut paragraphs = Vec::new();
    let mut fence: Option<&str> = None;
    let (mut begin, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        let marks = &bare[..bare.len() - bare.trim_start_matches(['`', '~']).len()];
        match fence {
            Some(open) if marks.starts_with(open) && bare == marks => {
                fence = None;
                push(&mut paragraphs, Paragraph::Code, &text[begin..at + line.len()]);
                begin = at + line.len();
            }
            Some(_) => {}
            None if marks.len() >= 3 => {
                push(&mut paragraphs, Paragraph::Words, &text[begin..at]);
                (fence, begin) = (Some(marks), at);
            }
            None if bare.is_empty() => {
                push(&mut paragraphs, Paragraph::Words, &text[begin..at]);
                begin = at + line.len();
            }
            None => {}
        }
        at += line.len();
    }
    let rest = if fence.is_some() { Paragraph::Code } else { Paragraph::Words };
    push(&mut paragraphs, rest, &text[begin..]);
    paragraphs
}

fn push<'a>(paragraphs: &mut Vec<Paragraph<'a>>, kind: fn(&'a str) -> Paragraph<'a>, text: &'a str) {
    let text = text.trim_matches('\n').trim_end();
    if !text.trim().is_empty() {
        paragraphs.push(kind(text));
    }
}

/// A paragraph with its markers as words, and the question of the first of them that is one.
fn without_markers(paragraph: &str) -> (String, Option<Ask>) {
    let mut text = String::new();
    let mut ask = None;
    let mut rest = paragraph;
    while let Some(at) = rest.find(OPEN) {
        let (before, behind) = (&rest[..at], &rest[at + OPEN.len()..]);
        text.push_str(before);
        if in_code(&text) {
            text.push_str(OPEN);
            rest = behind;
            continue;
        }
        // One that is never closed, as where an answer was cut off, ends with its paragraph.
        let (written, after, closed) = match behind.split_once(']') {
            Some((written, after)) => (written, after, true),
            None => (behind, "", false),
        };
        let words: Vec<_> = written.split('|').map(str::trim).filter(|one| !one.is_empty()).collect();
        text.push_str(&words.join(BETWEEN));
        if ask.is_none() && closed {
            ask = choices(written).map(|choices| Ask { choices, shown: Shown::Buttons });
        }
        rest = after;
    }
    text.push_str(rest);
    (text, ask)
}

/// Whether a text ends inside a code span.
fn in_code(before: &str) -> bool {
    before.matches('`').count() % 2 == 1
}

fn choices(written: &str) -> Option<Vec<Choice>> {
    let choices: Vec<_> = written.split('|').map(choice).collect::<Option<_>>()?;
    ((MIN_CHOICES..=MAX_CHOICES).contains(&choices.len()) && are_different(&choices)).then_some(choices)
}

fn are_different(choices: &[Choice]) -> bool {
    choices.iter().enumerate().all(|(index, one)| choices[..index].iter().all(|other| other.key != one.key))
}

/// An emoji, and a label behind it.
fn choice(written: &str) -> Option<Choice> {
    let written = written.trim();
    let (key, label) = written.split_once(char::is_whitespace).unwrap_or((written, ""));
    is_emoji(key).then(|| Choice { key: key.to_owned(), label: label.trim().to_owned() })
}

/// Whether a word is one emoji or a short run of them: no letters, and something that is drawn.
fn is_emoji(word: &str) -> bool {
    const MOST: usize = 12;
    // Below U+1F000 most signs are text unless a variation selector makes a picture of them.
    let picture = word.contains('\u{fe0f}');
    let drawn = |c: char| {
        PICTURES.contains(c)
            || matches!(u32::from(c), 0x1F000..=0x1FAFF)
            || (picture
                && matches!(
                    u32::from(c),
                    0x203C | 0x2049 | 0x20E3 | 0x2122 | 0x2139 | 0x2190..=0x2BFF | 0x3030 | 0x303D | 0x3297 | 0x3299
                ))
    };
    let joins = |c: char| matches!(u32::from(c), 0x200D | 0xFE0E | 0xFE0F | 0xE0020..=0xE007F);
    // A keycap is a digit, # or * that 0x20E3 makes a picture of.
    let keycap = word.contains('\u{20e3}');
    word.chars().count() <= MOST
        && word.chars().any(drawn)
        && word.chars().all(|c| drawn(c) || joins(c) || (keycap && (c.is_ascii_digit() || c == '#' || c == '*')))
}

/// The question at the very end of a text, in one of the strict shapes.
fn in_words(text: &str) -> Option<Ask> {
    let last = text.rsplit("\n\n").next()?.trim_end();
    if last.ends_with('`') || last.lines().any(|line| line.trim_start().starts_with("```")) {
        return None;
    }
    let last = last.lines().last()?.trim_end_matches(['.', '!', '?', ' ']);
    named(last).or_else(|| bare(last))
}

/// "✅ to deploy, ❌ to skip" at the end of a line.
fn named(line: &str) -> Option<Ask> {
    // From the back: each choice begins at an emoji that has "to" behind it.
    let mut choices = Vec::new();
    let mut rest = line;
    while choices.len() < MAX_CHOICES - 1 {
        let Some(at) = rest.rfind(" to ") else { break };
        let label = rest[at + " to ".len()..].trim();
        let before = rest[..at].trim_end();
        let begin = before.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let key = before[begin..].trim_start_matches(['(', ':']);
        if !is_emoji(key) || label.is_empty() || label.split_whitespace().count() > 6 {
            break;
        }
        choices.push(Choice { key: key.to_owned(), label: label.to_owned() });
        rest = before[..begin].trim_end();
        match ["or", "and"].iter().find_map(|word| rest.strip_suffix(word)) {
            Some(shorter) => rest = shorter.trim_end().trim_end_matches(',').trim_end(),
            None => match rest.strip_suffix(',').or(rest.strip_suffix(';')) {
                Some(shorter) => rest = shorter.trim_end(),
                None => break,
            },
        }
    }
    choices.reverse();
    (choices.len() >= MIN_CHOICES && are_different(&choices)).then_some(Ask { choices, shown: Shown::Buttons })
}

/// "react ✅", "👍/👎", "👍 or 👎" at the end of a line.
fn bare(line: &str) -> Option<Ask> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let keys: Vec<&str> = match words.as_slice() {
        [.., one, or, other] if or.eq_ignore_ascii_case("or") => vec![one, other],
        [.., pair] if pair.contains('/') => pair.split('/').collect(),
        [.., react, one] if react.trim_end_matches("with").eq_ignore_ascii_case("react") => vec![one],
        [.., react, with, one] if react.eq_ignore_ascii_case("react") && with.eq_ignore_ascii_case("with") => vec![one],
        _ => return None,
    };
    let choices: Vec<_> = keys.iter().map(|key| Choice { key: (*key).to_owned(), label: String::new() }).collect();
    let all_emoji = choices.iter().all(|one| is_emoji(&one.key));
    (all_emoji && choices.len() < MAX_CHOICES && are_different(&choices))
        .then_some(Ask { choices, shown: Shown::Reactions })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn choice(key: &str, label: &str) -> Choice {
        Choice { key: key.to_owned(), label: label.to_owned() }
    }

    fn plain(text: &str) -> Piece {
        Piece { text: text.to_owned(), ask: None }
    }

    fn asks(text: &str, shown: Shown, choices: &[Choice]) -> Piece {
        Piece { text: text.to_owned(), ask: Some(Ask { choices: choices.to_vec(), shown }) }
    }

    #[test]
    fn a_paragraph_with_a_marker_is_a_message_of_its_own() {
        assert_eq!(
            pieces("All is ready.\n\nShall I? [ask: ✅ deploy | ❌ skip]\n\nTake your time."),
            [
                plain("All is ready."),
                asks("Shall I? ✅ deploy · ❌ skip", Shown::Buttons, &[choice("✅", "deploy"), choice("❌", "skip")]),
                plain("Take your time."),
            ]
        );
        assert_eq!(
            pieces("[ask: 1️⃣ | 2️⃣ the second]"),
            [asks("1️⃣ · 2️⃣ the second", Shown::Buttons, &[choice("1️⃣", ""), choice("2️⃣", "the second")])]
        );
    }

    #[test]
    fn a_marker_that_does_not_parse_is_words_and_code_is_left_alone() {
        for (written, text) in [
            ("[ask: yes | no]", "yes · no"),
            ("[ask: ✅ one]", "✅ one"),
            ("[ask: ✅ a | ✅ b]", "✅ a · ✅ b"),
            ("[ask: 1️⃣ | 2️⃣ | 3️⃣ | 4️⃣ | 5️⃣]", "1️⃣ · 2️⃣ · 3️⃣ · 4️⃣ · 5️⃣"),
            ("Well? [ask: ✅ a | ❌ b", "Well? ✅ a · ❌ b"),
            ("Write `[ask: ✅ a | ❌ b]` for it", "Write `[ask: ✅ a | ❌ b]` for it"),
            ("Press ↑ to go up, ↓ to go down.", "Press ↑ to go up, ↓ to go down."),
            ("Use ←/→", "Use ←/→"),
            ("[ask: ← a | → b]", "← a · → b"),
        ] {
            assert_eq!(pieces(written), [plain(text)], "{written}");
        }
        let code = "```\n[ask: ✅ a | ❌ b]\n\nstill code\n```";
        assert_eq!(pieces(code), [plain(code)]);
    }

    #[test]
    fn of_two_markers_in_a_paragraph_the_first_asks() {
        assert_eq!(
            pieces("[ask: ✅ a | ❌ b] [ask: 👍 c | 👎 d]"),
            [asks("✅ a · ❌ b 👍 c · 👎 d", Shown::Buttons, &[choice("✅", "a"), choice("❌", "b")])]
        );
    }

    #[test]
    fn without_a_marker_the_end_of_the_last_paragraph_asks_in_strict_shapes() {
        let two = [choice("✅", "deploy"), choice("❌", "skip")];
        for (text, shown, choices) in [
            ("Ready. ✅ to deploy, ❌ to skip", Shown::Buttons, &two[..]),
            ("Ready: ✅ to deploy or ❌ to skip.", Shown::Buttons, &two),
            ("If so, react ✅", Shown::Reactions, &[choice("✅", "")]),
            ("Do you agree? 👍/👎?", Shown::Reactions, &[choice("👍", ""), choice("👎", "")]),
            ("Do you agree, 👍 or 👎", Shown::Reactions, &[choice("👍", ""), choice("👎", "")]),
        ] {
            assert_eq!(pieces(text), [asks(text, shown, choices)], "{text}");
        }
        for text in ["✅ to deploy, ❌ to skip.\n\nBut not now.", "I went to a, or to b", "this and/or that", "👍"]
        {
            assert!(pieces(text).iter().all(|piece| piece.ask.is_none()), "{text}");
        }
    }

    #[test]
    fn a_draft_shows_no_marker_and_no_beginning_of_one() {
        for (written, shown) in [
            ("Shall I? [ask: ✅ a | ❌ b]", "Shall I? ✅ a · ❌ b"),
            ("Shall I? [ask: ✅ a |", "Shall I?"),
            ("Shall I? [as", "Shall I?"),
            ("A list [1", "A list [1"),
            ("[ask: ✅ a | ❌ b] and [link](x", "✅ a · ❌ b and [link](x"),
        ] {
            assert_eq!(without_asks(written), shown, "{written}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_its_pieces(text in "(\\[ask:|\\]|\\||✅|❌| to |react|or|/|`{3}|\n|\n\n|[a-z ✔️]){0,40}") {
            let pieces = pieces(&text);
            prop_assert!(pieces.iter().all(|piece| !piece.text.trim().is_empty()));
            let letters = |text: &str| text.replace(OPEN, "").chars().filter(|c| c.is_alphabetic()).collect::<String>();
            let said: String = pieces.iter().map(|piece| letters(&piece.text)).collect();
            prop_assert_eq!(said, letters(&text), "no word is lost");
            without_asks(&text);
        }
    }
}
