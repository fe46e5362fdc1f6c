//! Pieces of Markdown that show text from outside as it is.
//!
//! What a block says may hold anything: stars, pipes, tags, fences. Here it is escaped, but only where Markdown would
//! take it for its own, since the same text is also read without being rendered.

/// Text on one line, to be read literally.
pub(crate) fn line(text: &str) -> String {
    escaped(&spaced(text), Place::Line)
}

/// Text for a table's cell.
pub(crate) fn cell(text: &str) -> String {
    escaped(&spaced(text), Place::Cell)
}

/// Text that keeps its line breaks; more than one empty line is none better.
pub(crate) fn paragraphs(text: &str) -> String {
    let mut out = String::new();
    for line in plain_lines(text).lines().map(spaced) {
        // None at the beginning, no two in a row.
        if line.is_empty() && (out.is_empty() || out.ends_with("\n\n")) {
            continue;
        }
        out.push_str(&escaped(&line, Place::Line));
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// Whether a person sees nothing of a text.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(is_space)
}

/// Words with one space between them.
fn spaced(text: &str) -> String {
    text.split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

/// A title or a name.
pub(crate) fn bold(line: &str) -> String {
    format!("**{line}**")
}

/// A link. The address must be one that `is_web` or `is_geo` has seen.
pub(crate) fn link(line: &str, address: &str) -> String {
    if address.contains(['(', ')']) { format!("[{line}](<{address}>)") } else { format!("[{line}]({address})") }
}

/// Text in a fence that is longer than any run of backticks in it.
pub(crate) fn fence(language: &str, text: &str) -> String {
    let text = plain_lines(text);
    let text = text.trim_end_matches('\n');
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}{language}\n{text}\n{fence}")
}

/// Markdown of the author's own as a quote, which ends whatever is open in it. Its tags are shown, not obeyed.
pub(crate) fn quote(markdown: &str) -> String {
    let text = plain_lines(markdown.trim());
    let mut fences = Fences::of(&text);
    let lines = text.lines().map(|line| match line {
        "" => ">".to_owned(),
        line if fences.hold(line) => format!("> {line}"),
        line => format!("> {}", without_tags(line)),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A line of Markdown in which no tag and no entity begins.
fn without_tags(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let (_, after) = rest.split_at(c.len_utf8());
        // What a backslash has escaped already stays as it is.
        let escaped = after.chars().next().filter(|next| c == '\\' && next.is_ascii_punctuation());
        if begins_tag_or_entity(c, after) {
            out.push('\\');
        }
        out.push(c);
        out.extend(escaped);
        rest = after.split_at(escaped.map_or(0, char::len_utf8)).1;
    }
    out
}

/// Tells which lines of a text are code between fences, where nothing is escaped.
///
/// Only where that is beyond doubt: if any fence stands in a list, in a quote or is indented, no line counts as code,
/// and a tag in it is shown with a backslash.
struct Fences {
    are_plain: bool,
    /// The fence that is open: its character and how many of it.
    open: Option<(char, usize)>,
}

impl Fences {
    fn of(text: &str) -> Self {
        let is_fence = |line: &str| line.starts_with("```") || line.starts_with("~~~");
        let is_inner = |c: char| c.is_whitespace() || c.is_ascii_digit() || ">-+*.)".contains(c);
        let are_plain = text.lines().all(|line| is_fence(line) || !is_fence(line.trim_start_matches(is_inner)));
        Self { are_plain, open: None }
    }

    /// Whether the next line belongs to fenced code, the fences included.
    fn hold(&mut self, line: &str) -> bool {
        let first = line.chars().next().filter(|c| self.are_plain && "`~".contains(*c));
        let length = first.map_or(0, |c| line.len() - line.trim_start_matches(c).len());
        let rest = line.split_at(length).1;
        match (self.open, first) {
            (None, Some(c)) if length >= 3 && !(c == '`' && rest.contains('`')) => {
                self.open = Some((c, length));
                // What stands behind the fence is read like other text.
                false
            }
            (None, _) => false,
            (Some((c, least)), first) => {
                if first == Some(c) && length >= least && rest.trim().is_empty() {
                    self.open = None;
                }
                true
            }
        }
    }
}

/// TeX between dollars: on lines of its own, or within a line.
pub(crate) fn tex(tex: &str, display: bool) -> String {
    let mut source = String::new();
    let mut before = ' ';
    for c in tex.trim().chars() {
        match c {
            // An empty line would end the formula.
            '\n' if source.ends_with('\n') => {}
            '$' if before != '\\' => source.push_str("\\$"),
            // A space means nothing in a formula, and no tag begins with one.
            c if before == '<' && begins_tag_or_entity('<', c.encode_utf8(&mut [0; 4])) => source.extend([' ', c]),
            c if c.is_control() && c != '\n' => source.push(' '),
            c => source.push(c),
        }
        before = if before == '\\' && c == '\\' { ' ' } else { c };
    }
    if display { format!("$$\n{source}\n$$") } else { format!("${}$", source.replace('\n', " ")) }
}

/// Without carriage returns; any other control character is a space.
fn plain_lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), " ")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Line,
    /// Where a pipe ends the cell.
    Cell,
}

fn escaped(line: &str, place: Place) -> String {
    let mut out = String::with_capacity(line.len() + 8);
    let marker = block_marker(line);
    let mut before = None;
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let at = line.len() - rest.len();
        let (_, after) = rest.split_at(c.len_utf8());
        if marker == Some(at) || is_special(before, c, after) || (place == Place::Cell && c == '|') {
            out.push('\\');
        }
        out.push(c);
        before = Some(c);
        rest = after;
    }
    out
}

/// Where the character stands that would make a line a heading, a quote, a list item or a rule.
fn block_marker(line: &str) -> Option<usize> {
    let ends_marker = |rest: &str| rest.is_empty() || rest.starts_with(' ');
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let is_marker = match line.chars().next()? {
        '>' => true,
        '#' => ends_marker(line.trim_start_matches('#')),
        '-' | '+' | '*' if ends_marker(line.get(1..)?) => true,
        // A rule, the line under a heading, or that under a table's head.
        '-' | '=' | '_' | '*' | '|' | ':' => line.chars().all(|c| "-=_*|: ".contains(c)),
        '0'..='9' => {
            let rest = line.get(digits..)?;
            return (rest.starts_with(['.', ')']) && ends_marker(rest.get(1..)?)).then_some(digits);
        }
        _ => false,
    };
    is_marker.then_some(0)
}

/// Whether Markdown would take a character within a line for its own.
fn is_special(before: Option<char>, c: char, after: &str) -> bool {
    let next = after.chars().next();
    // Nothing is known of what stands before and behind the text.
    let is_space = |c: Option<char>| c.is_some_and(is_space);
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    match c {
        '`' | '[' | ']' => true,
        '\\' => next.is_none_or(|next| next.is_ascii_punctuation()),
        '*' => !(is_space(before) && is_space(next)),
        '_' => !(is_space(before) && is_space(next) || is_word(before) && is_word(next)),
        // Before a word it can't end what another one began: "~5 to ~6 km".
        '~' => !(before.is_none_or(char::is_whitespace) && is_word(next)),
        c => begins_tag_or_entity(c, after),
    }
}

fn begins_tag_or_entity(c: char, after: &str) -> bool {
    match c {
        '<' => after.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')),
        '&' => after
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '#')
            .is_some_and(|end| end > 0 && after.split_at(end).1.starts_with(';')),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in [
            "snake_case_name",
            "3 * 4 = 12",
            "~5 to ~6 km",
            "a < b & c > d",
            "-3",
            "#tag",
            "C:\\Users",
            "5-6",
            "1.5",
            "R&D, more",
        ] {
            assert_eq!(line(text), text);
        }
    }

    #[test]
    fn what_markdown_would_take_for_its_own_is_escaped() {
        for (text, expected) in [
            ("**a**", "\\*\\*a\\*\\*"),
            ("_a_", "\\_a\\_"),
            ("~~a~~", "\\~\\~a\\~\\~"),
            ("`a`", "\\`a\\`"),
            ("[a](https://b.example)", "\\[a\\](https://b.example)"),
            ("<b>a</b>", "\\<b>a\\</b>"),
            ("<!-- a", "\\<!-- a"),
            ("&lt; &#60;", "\\&lt; \\&#60;"),
            ("# a", "\\# a"),
            ("> a", "\\> a"),
            ("- a", "\\- a"),
            ("*", "\\*"),
            ("12. a", "12\\. a"),
            ("--- | ---", "\\--- | ---"),
            ("===", "\\==="),
            ("\\*", "\\\\\\*"),
            ("a\n# b", "a # b"),
            ("a\u{0}b", "a b"),
        ] {
            assert_eq!(line(text), expected);
        }
    }

    #[test]
    fn a_pipe_is_escaped_in_a_cell_only() {
        assert_eq!((line("a|b"), cell("a|b\nc")), ("a|b".to_owned(), "a\\|b c".to_owned()));
    }

    #[test]
    fn paragraphs_keep_their_lines_and_lose_their_indentation() {
        assert_eq!(paragraphs("\n a\n    b\n\n\n\n- c\n"), "a\nb\n\n\\- c");
    }

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fence("rust", "a\r\n"), "```rust\na\n```");
        assert_eq!(fence("", "```\na\n````"), "`````\n```\na\n````\n`````");
    }

    #[test]
    fn a_quote_shows_tags_and_ends_with_its_text() {
        assert_eq!(quote("**a** <b> &amp; c\n\n- d"), "> **a** \\<b> \\&amp; c\n>\n> - d");
        assert_eq!(quote("\\<b> \\\\<b>"), "> \\<b> \\\\\\<b>");
    }

    #[test]
    fn a_quote_leaves_code_alone_where_it_is_code_beyond_doubt() {
        assert_eq!(quote("```\n<b>\n``` \n<i>"), "> ```\n> <b>\n> ``` \n> \\<i>");
        assert_eq!(quote("~~~ <x>\n```\n<b>\n~~~~\n<i>"), "> ~~~ \\<x>\n> ```\n> <b>\n> ~~~~\n> \\<i>");
        assert_eq!(quote("```a`\n<b>"), "> ```a`\n> \\<b>");
        for doubtful in ["- ```\n```\n<b>", "  ```\n```\n<b>", "1. ```\n```\n<b>", "> ~~~\n```\n<b>"] {
            assert!(quote(doubtful).ends_with("\n> \\<b>"), "{doubtful}");
        }
    }

    #[test]
    fn tex_cannot_leave_its_dollars() {
        assert_eq!(tex("a\n\n\nb", true), "$$\na\nb\n$$");
        assert_eq!(tex("a\nb", false), "$a b$");
        assert_eq!(tex("$$ <b> \\$ \\\\$", false), "$\\$\\$ < b> \\$ \\\\\\$$");
    }

    #[test]
    fn an_address_with_parentheses_stands_in_angle_brackets() {
        assert_eq!(link("a", "https://b.example/c"), "[a](https://b.example/c)");
        assert_eq!(link("a", "https://b.example/(c"), "[a](<https://b.example/(c>)");
    }
}
