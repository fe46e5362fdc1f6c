//! What is shown of a text from outside: all that can be seen of it, up to a length.

use serde_json::Value;

/// The most characters of a value on one line.
const MAX_LINE: usize = 300;

/// The most characters of a text of several lines, and the most lines.
const MAX_BLOCK: usize = 2000;
const MAX_LINES: usize = 60;

/// The most items of a list.
pub(super) const MAX_LISTED: usize = 12;

/// What is shown of a text of which nothing can be seen.
const NOTHING: &str = "(nothing to see)";

/// The text on one line.
pub(super) fn line(text: &str) -> String {
    let seen: String = text.chars().filter(|c| !is_hidden(*c)).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<_> = seen.split_whitespace().collect();
    match words.join(" ") {
        empty if empty.is_empty() => NOTHING.to_owned(),
        words => shorten(&words, MAX_LINE),
    }
}

/// The text in its lines, without blank ones at its ends.
pub(super) fn block(text: &str) -> Vec<String> {
    let seen: String = text.chars().filter(|c| *c == '\n' || !(is_hidden(*c) || c.is_control())).collect();
    let lines: Vec<_> = seen.trim().lines().map(str::trim).collect();
    let mut shown: Vec<_> = shorten(&lines.join("\n"), MAX_BLOCK).lines().take(MAX_LINES).map(str::to_owned).collect();
    if lines.len() > MAX_LINES {
        shown.push("…".to_owned());
    }
    if shown.is_empty() {
        shown.push(NOTHING.to_owned());
    }
    shown
}

/// A text as it is, anything else as JSON.
pub(super) fn json(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Whether a character changes what others look like, or stands where nothing seems to stand. Joiners are kept: emoji
/// and several scripts need them.
pub(super) fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_of_what_can_be_seen() {
        assert_eq!(line(" a\n\tb\u{2028}c\u{0} d "), "a b c d");
        assert_eq!(line("evil\u{202e}knab"), "evilknab");
        assert_eq!(line("👩\u{200d}🚀"), "👩\u{200d}🚀");
        assert_eq!(line("\u{200b}"), NOTHING);
        assert_eq!(line(&"é".repeat(300)), "é".repeat(300));
        assert_eq!(line(&"é".repeat(301)), format!("{}…", "é".repeat(300)));
    }

    #[test]
    fn a_block_keeps_its_lines_and_ends_in_time() {
        assert_eq!(block("\n a\r\n\n  b \u{7} \n"), ["a", "", "b"]);
        assert_eq!(block("\u{200b}\n"), [NOTHING]);
        assert_eq!(block(&"x\n".repeat(100)).len(), MAX_LINES + 1);
        assert_eq!(block(&"x".repeat(3000)), [format!("{}…", "x".repeat(MAX_BLOCK))]);
    }
}
