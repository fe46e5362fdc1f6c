//! A text written as plain text, Markdown and HTML.

use super::{Line, Span, Text};

/// What Markdown may take for markup anywhere in a line.
const ACTIVE: &str = "\\`*_[]<>&~|!";

impl Text {
    /// As plain text, for a message's `body`.
    #[must_use]
    pub fn plain(&self) -> String {
        let inline = |spans: &[Span]| spans.iter().map(plain_span).collect::<String>();
        self.blocks("\n\n", |block| {
            let line = |line: &Line| match line {
                Line::Title(title) => title.clone(),
                Line::Item { label, spans } => format!("{label}: {}", inline(spans)),
                Line::Quote { label, lines } => format!("{label}:\n> {}", lines.join("\n> ")),
                Line::Note(spans) => inline(spans),
            };
            block.iter().map(line).collect::<Vec<_>>().join("\n")
        })
    }

    /// As Markdown (CommonMark), for whoever renders it.
    #[must_use]
    pub fn markdown(&self) -> String {
        let inline = |spans: &[Span]| spans.iter().map(markdown_span).collect::<String>();
        self.blocks("\n\n", |block| {
            let line = |line: &Line| match line {
                Line::Title(title) => format!("**{}**", escape_markdown(title)),
                Line::Item { label, spans } => format!("- {}: {}", escape_markdown(label), inline(spans)),
                Line::Quote { label, lines } => {
                    let lines: Vec<_> = lines.iter().map(|line| escape_line(line)).collect();
                    format!("{}:\n> {}", escape_markdown(label), lines.join("\n> "))
                }
                Line::Note(spans) => inline(spans),
            };
            block.iter().map(line).collect::<Vec<_>>().join("\n")
        })
    }

    /// As the HTML that Matrix allows, for a message's `formatted_body`.
    #[must_use]
    pub fn html(&self) -> String {
        let inline = |spans: &[Span]| spans.iter().map(html_span).collect::<String>();
        self.blocks("", |block| {
            let line = |line: &Line| match line {
                Line::Title(title) => format!("<p><strong>{}</strong></p>", escape_html(title)),
                Line::Item { label, spans } => format!("<li>{}: {}</li>", escape_html(label), inline(spans)),
                Line::Quote { label, lines } => {
                    let lines: Vec<_> = lines.iter().map(|line| escape_html(line)).collect();
                    format!("<p>{}:</p><blockquote><p>{}</p></blockquote>", escape_html(label), lines.join("<br>"))
                }
                Line::Note(spans) => format!("<p>{}</p>", inline(spans)),
            };
            let lines: String = block.iter().map(line).collect();
            if matches!(block, [Line::Item { .. }, ..]) { format!("<ul>{lines}</ul>") } else { lines }
        })
    }

    /// The blocks of the text, each written by `block`: the items are one, any other line is one of its own.
    fn blocks(&self, between: &str, block: impl Fn(&[Line]) -> String) -> String {
        let together = |one: &Line, next: &Line| matches!((one, next), (Line::Item { .. }, Line::Item { .. }));
        self.0.chunk_by(together).map(block).collect::<Vec<_>>().join(between)
    }
}

/// Whether the text of a link says where it leads.
fn says_itself(text: &str, href: &str) -> bool {
    text == href || href.strip_prefix("mailto:") == Some(text)
}

fn plain_span(span: &Span) -> String {
    match span {
        Span::Text(text) => text.clone(),
        Span::Link { text, href } if says_itself(text, href) => text.clone(),
        Span::Link { text, href } => format!("{text} ({href})"),
    }
}

fn markdown_span(span: &Span) -> String {
    match span {
        Span::Text(text) => escape_markdown(text),
        // What stands between the brackets is not searched for entities by all readers.
        Span::Link { text, href } if says_itself(text, href) && !href.contains('&') => format!("<{text}>"),
        Span::Link { text, href } => format!("[{}]({})", escape_markdown(text), href.replace('&', "&amp;")),
    }
}

fn html_span(span: &Span) -> String {
    match span {
        Span::Text(text) => escape_html(text),
        Span::Link { text, href } => format!("<a href=\"{}\">{}</a>", escape_html(href), escape_html(text)),
    }
}

fn escape_markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if ACTIVE.contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Escapes a whole line, of which the start may be markup too: of a heading, a list, a fence, an underline.
fn escape_line(line: &str) -> String {
    let escaped = escape_markdown(line);
    let digits = escaped.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = escaped.split_at_checked(digits).unwrap_or(("", &escaped));
    let is_marker = match rest.chars().next() {
        Some('.' | ')') => digits > 0,
        Some('#' | '+' | '-' | '=' | ':') => digits == 0,
        _ => false,
    };
    if is_marker { format!("{number}\\{rest}") } else { escaped }
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(said: &str) -> Text {
        Text(vec![
            Line::Title(said.to_owned()),
            Line::Item { label: "One".into(), spans: vec![Span::Text(said.to_owned())] },
            Line::Item {
                label: "Two".into(),
                spans: vec![Span::Link { text: said.to_owned(), href: "https://a/?b&c".into() }],
            },
            Line::Quote { label: "Said".into(), lines: vec![said.to_owned(), String::new(), "1. x".into()] },
            Line::Note(vec![Span::Link { text: "a@b.c".into(), href: "mailto:a@b.c".into() }]),
        ])
    }

    #[test]
    fn one_text_in_its_three_ways() {
        let text = text("# *a* <b> [c](d) \"e\" & f");
        insta::assert_snapshot!([text.plain(), text.markdown(), text.html()].join("\n\n-----\n\n"));
    }

    #[test]
    fn the_start_of_a_quoted_line_is_no_markup() {
        let escaped =
            ["# a", "- a", "+ a", "===", "12. a", "1) a", "12 a", ":--", "> a", "a. b", ". a"].map(escape_line);
        assert_eq!(
            escaped,
            ["\\# a", "\\- a", "\\+ a", "\\===", "12\\. a", "1\\) a", "12 a", "\\:--", "\\> a", "a. b", ". a"]
        );
    }
}
