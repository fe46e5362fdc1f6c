//! Markdown to the HTML subset of Matrix.
//!
//! The subset: Client-Server API, `m.room.message` msgtypes, "the subset of HTML that clients should
//! support". Raw HTML is shown, never passed through, so that each tag in the output is one that this file
//! wrote.

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

/// How deep elements may nest: the limit that the specification recommends to clients.
const MAX_DEPTH: usize = 100;

/// The most levels that a block needs below its parent: table, tbody, tr, td, and a `<br>` therein.
const BLOCK_LEVELS: usize = 5;

/// The same for an inline element: itself, a `<br>` therein, and the tbody that no event stands for.
const INLINE_LEVELS: usize = 3;

/// The link schemes that the specification allows.
const SCHEMES: [&str; 5] = ["https", "http", "ftp", "mailto", "magnet"];

/// The Markdown that models write: CommonMark with the extensions of GitHub that Matrix can show.
pub(super) const OPTIONS: Options =
    Options::ENABLE_TABLES.union(Options::ENABLE_STRIKETHROUGH).union(Options::ENABLE_TASKLISTS);

/// Renders Markdown as the `formatted_body` of a message.
///
/// `None` where the HTML would say no more than the plain text, so that the event can do without it.
///
/// Every line break of the source is kept, as people in a chat expect. A link that Matrix forbids becomes
/// text with its address in parentheses, an image becomes a link to it.
#[must_use]
pub fn to_html(markdown: &str) -> Option<String> {
    let markdown = without_half_list_marker(markdown);
    let mut writer = Writer::default();
    for event in Parser::new_ext(markdown, OPTIONS) {
        writer.event(event);
    }
    let html = match only_paragraph(&writer.html) {
        Some(inner) => inner.to_owned(),
        None => writer.html,
    };
    let plain = markdown.trim().lines().map(escape).collect::<Vec<_>>().join("<br>");
    (!html.is_empty() && html != plain).then_some(html)
}

/// Cuts off a final `-` on its own line: the list that begins there would, for one moment of the stream, make
/// the line above a heading.
fn without_half_list_marker(markdown: &str) -> &str {
    match markdown.trim_end().strip_suffix('-') {
        Some(before) if before.trim_end_matches(' ').ends_with('\n') => before,
        _ => markdown,
    }
}

/// What stands in the only block, if that is a paragraph: clients expect no `<p>` around a short message.
fn only_paragraph(html: &str) -> Option<&str> {
    html.strip_prefix("<p>")?.strip_suffix("</p>").filter(|inner| !inner.contains("<p>"))
}

/// Writes the parser's events as HTML.
#[derive(Default)]
struct Writer {
    html: String,
    /// Elements open around here.
    depth: usize,
    /// Elements open around here that were left out, as they lie too deep. Inside one, only text is written.
    skipped: usize,
    in_table_head: bool,
    /// Links and images around here, outermost first. Only the outermost can be an `<a>`: anchors don't nest.
    links: Vec<Link>,
}

/// A link or an image whose text is being written.
struct Link {
    address: String,
    kind: LinkKind,
    /// Where its text begins in the output.
    text_at: usize,
}

enum LinkKind {
    /// An `<a>` is open.
    Anchor,
    /// The scheme is not allowed: the address is written out.
    Forbidden,
    /// It stands inside another link: its text is all that is shown.
    Nested,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Code(code) => {
                self.tag("<code>");
                self.text(&code);
                self.tag("</code>");
            }
            // The one tag that models write for want of a Markdown form: a new line in a table's cell.
            Event::InlineHtml(tag) if matches!(&*tag, "<br>" | "<br/>" | "<br />") => self.void("<br>"),
            Event::Html(raw) | Event::InlineHtml(raw) => self.lines(&raw),
            Event::SoftBreak | Event::HardBreak => self.void("<br>"),
            Event::Rule => self.void("<hr>"),
            Event::TaskListMarker(done) => self.html.push_str(if done { "☑ " } else { "☐ " }),
            // The last three belong to extensions that are off.
            Event::Text(text) | Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.text(&text)
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        if self.skipped > 0 || self.depth + levels(&tag) > MAX_DEPTH {
            self.skipped += 1;
            return;
        }
        self.depth += 1;
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.html.push_str("<p>"),
            Tag::Heading { level, .. } => self.html.push_str(&format!("<{level}>")),
            Tag::BlockQuote(_) => self.html.push_str("<blockquote>"),
            Tag::CodeBlock(kind) => self.html.push_str(&match language(&kind) {
                Some(language) => format!("<pre><code class=\"language-{}\">", escape_attribute(language)),
                None => "<pre><code>".to_owned(),
            }),
            Tag::List(None) => self.html.push_str("<ul>"),
            Tag::List(Some(1)) => self.html.push_str("<ol>"),
            Tag::List(Some(start)) => self.html.push_str(&format!("<ol start=\"{start}\">")),
            Tag::Item => self.html.push_str("<li>"),
            Tag::Table(_) => self.html.push_str("<table>"),
            Tag::TableHead => {
                self.in_table_head = true;
                self.html.push_str("<thead><tr>");
            }
            Tag::TableRow => self.html.push_str("<tr>"),
            Tag::TableCell => self.html.push_str(if self.in_table_head { "<th>" } else { "<td>" }),
            Tag::Emphasis => self.html.push_str("<em>"),
            Tag::Strong => self.html.push_str("<strong>"),
            Tag::Strikethrough => self.html.push_str("<del>"),
            Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. } => {
                self.start_link(link_type, &dest_url);
            }
            // Extensions that are off.
            Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        if self.skipped > 0 {
            self.skipped -= 1;
            if !is_inline(tag) && !self.html.ends_with('\n') {
                self.html.push('\n');
            }
            return;
        }
        self.depth -= 1;
        match tag {
            TagEnd::Paragraph => self.html.push_str("</p>"),
            TagEnd::HtmlBlock => {
                self.trim_end("<br>");
                self.html.push_str("</p>");
            }
            TagEnd::Heading(level) => self.html.push_str(&format!("</{level}>")),
            TagEnd::BlockQuote(_) => self.html.push_str("</blockquote>"),
            TagEnd::CodeBlock => {
                self.trim_end("\n");
                self.html.push_str("</code></pre>");
            }
            TagEnd::List(ordered) => self.html.push_str(if ordered { "</ol>" } else { "</ul>" }),
            TagEnd::Item => self.html.push_str("</li>"),
            TagEnd::Table => {
                if !self.trim_end("<tbody>") {
                    self.html.push_str("</tbody>");
                }
                self.html.push_str("</table>");
            }
            TagEnd::TableHead => {
                self.in_table_head = false;
                self.html.push_str("</tr></thead><tbody>");
            }
            TagEnd::TableRow => self.html.push_str("</tr>"),
            TagEnd::TableCell => self.html.push_str(if self.in_table_head { "</th>" } else { "</td>" }),
            TagEnd::Emphasis => self.html.push_str("</em>"),
            TagEnd::Strong => self.html.push_str("</strong>"),
            TagEnd::Strikethrough => self.html.push_str("</del>"),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn start_link(&mut self, link_type: LinkType, address: &str) {
        let address = match link_type {
            LinkType::Email => format!("mailto:{address}"),
            _ => address.to_owned(),
        };
        let kind = if !self.links.is_empty() {
            LinkKind::Nested
        } else if let Some(href) = href(&address) {
            self.html.push_str(&format!("<a href=\"{}\">", escape_attribute(&href)));
            LinkKind::Anchor
        } else {
            LinkKind::Forbidden
        };
        self.links.push(Link { address, kind, text_at: self.html.len() });
    }

    fn end_link(&mut self) {
        let Some(link) = self.links.pop() else { return };
        let address = escape(&link.address);
        let text = self.html.get(link.text_at..).unwrap_or_default();
        match link.kind {
            LinkKind::Anchor if text.is_empty() => self.html.push_str(&format!("{address}</a>")),
            LinkKind::Anchor => self.html.push_str("</a>"),
            LinkKind::Forbidden if text.is_empty() => self.html.push_str(&address),
            LinkKind::Forbidden if text != address && !address.is_empty() => {
                self.html.push_str(&format!(" ({address})"));
            }
            LinkKind::Forbidden | LinkKind::Nested => {}
        }
    }

    fn text(&mut self, text: &str) {
        self.html.push_str(&escape(text));
    }

    fn lines(&mut self, text: &str) {
        for line in text.split_inclusive('\n') {
            self.text(line.trim_end_matches('\n'));
            if line.ends_with('\n') {
                self.void("<br>");
            }
        }
    }

    fn tag(&mut self, tag: &str) {
        if self.skipped == 0 {
            self.html.push_str(tag);
        }
    }

    fn void(&mut self, tag: &str) {
        self.html.push_str(if self.skipped == 0 { tag } else { "\n" });
    }

    /// Whether there was such an end to take off.
    fn trim_end(&mut self, end: &str) -> bool {
        let trimmed = self.html.strip_suffix(end).map(str::len);
        self.html.truncate(trimmed.unwrap_or(self.html.len()));
        trimmed.is_some()
    }
}

/// How many levels must be free for an element to be opened. The parts of a list or table come with the
/// whole.
fn levels(tag: &Tag<'_>) -> usize {
    match tag {
        Tag::Item | Tag::TableHead | Tag::TableRow | Tag::TableCell => 0,
        tag if is_inline(tag.to_end()) => INLINE_LEVELS,
        _ => BLOCK_LEVELS,
    }
}

fn is_inline(tag: TagEnd) -> bool {
    matches!(tag, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image)
}

/// The language of a code block: the first word of its info string, of which `rust,ignore` is a common form.
fn language<'a>(kind: &'a CodeBlockKind<'_>) -> Option<&'a str> {
    match kind {
        CodeBlockKind::Fenced(info) => {
            info.split(|c: char| c.is_whitespace() || c == ',').next().filter(|word| !word.is_empty())
        }
        CodeBlockKind::Indented => None,
    }
}

/// The address with its scheme in lower case, if that is one of [`SCHEMES`]: sanitizers compare them to the
/// letter.
fn href(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once(':')?;
    let scheme = SCHEMES.iter().find(|allowed| allowed.eq_ignore_ascii_case(scheme))?;
    Some(format!("{scheme}:{rest}"))
}

/// Null characters are replaced (CommonMark, section 2.3); carriage returns, which HTML reads as newlines, are
/// left out.
fn escape(text: &str) -> String {
    text.replace('\r', "").replace('\0', "\u{fffd}").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn escape_attribute(text: &str) -> String {
    escape(text).replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;
    use ruma_html::{Html, SanitizerConfig};

    use super::to_html;

    fn show(markdown: &str) -> String {
        let html = to_html(markdown).unwrap_or_else(|| "(plain text)".to_owned());
        format!("{}\n\n=====\n\n{html}", markdown.replace('\r', "␍"))
    }

    /// One snapshot of Markdown and HTML for each answer.
    macro_rules! answers {
        ($($name:ident: $markdown:expr;)*) => {
            $(
                #[test]
                fn $name() {
                    insta::assert_snapshot!(show($markdown));
                }
            )*
        };
    }

    answers! {
        plain_sentence: "The train leaves at 14:05 & arrives at 15:20.";
        plain_lines: "Roses are red,\nviolets are blue.";
        empty: "";
        only_white_space: " \n\t\n ";
        paragraphs: "First of all, yes.\n\nBut *only* if it is **really** needed, not ~~ever~~ always.";
        table: "Prices:\n\n| Fruit | Price |\n|---|---|\n| Apple | 1.20 |\n| Pear | 0.95 |\n\nAll in euros.";
        table_with_alignment_code_and_links: "| Flag | Meaning | Docs |\n|:-----|:-------:|-----:|\n\
            | `-v` | more **words**<br>on stderr | [manual](https://docs.example/v?a=1&b=2) |\n| `a \\| b` | either |";
        table_without_rows_yet: "| a | b |\n|---|---|";
        table_without_delimiter_yet: "Here:\n\n| a | b |\n|--";
        nested_mixed_lists: "1. Prepare\n   - flour\n   - water\n     1. warm\n     2. not hot\n2. Bake\n\nThen:\n\n5. Eat\n6. Rest";
        loose_list: "- One\n\n- Two\n\n  with a second paragraph\n";
        list_that_just_begins: "Three ways:\n-";
        task_list: "- [x] buy milk\n- [ ] call *bob*\n  - [ ] ask about `x`";
        fence_with_language: "Run this:\n\n```rust,no_run\nfn main() {\n    println!(\"<{}> & {}\", 1, 2);\n}\n```\n\nDone.";
        fence_unclosed: "```python\nprint(1)\nif x:\n    pr";
        fence_longer_around_shorter: "````markdown\n```sh\nls\n```\n````\nafter";
        fence_of_tildes: "~~~\na ``` b\n~~~";
        fence_in_list: "1. Install:\n\n   ```sh\n   apt install foo\n     --yes\n   ```\n2. Run it.";
        fence_with_hostile_language: "```a\"><script>alert(1)</script>\nx\n```";
        indented_code: "See:\n\n    let a = 1;\n      let b = 2;\n";
        raw_html_and_script: "Hi <b onclick=\"x()\">bold</b>.\n\n<script>\nalert('x')\n</script>\n\n<div>\n**raw**\n</div>";
        html_comment: "Before <!-- hidden --> after.\n\n<!--\nblock *comment*\n-->";
        forbidden_links: "[click](javascript:alert(1)) or [this](JaVaScRiPt:alert(1)) or <data:text/html,x> or [here](/path) \
            or [room](matrix:r/a:b.example)";
        allowed_links: "<https://a.example/?q=1&r=2>, <bob@example.org>, [upper](HTTPS://a.example \"title\"), \
            [empty](), [](https://b.example), [quote](<https://c.example/\"x>), bare https://d.example";
        reference_link: "See [the guide][1] and [this][none].\n\n[1]: https://a.example/guide";
        images: "![A cat](https://a.example/cat.png) ![](https://a.example/x.png) ![mine](mxc://b.example/abc)\n\n\
            [![build](https://ci.example/badge.svg)](https://ci.example)";
        nested_quotes: "> alice wrote:\n>> bob wrote:\n>> - a\n>> - b\n>\n> I agree.\n\nSo do I.";
        headings: "# One\n## Two `code`\n### Three\n#### Four\n##### Five\n###### Six\n####### Seven\n\nSetext\n======";
        rule_and_hard_breaks: "above  \nright above\\\nmiddle\n\n---\n\nbelow";
        long_line: &format!("**Note:** {}", "a rather long line of words ".repeat(20));
        emoji: "Sure 👍🏽 — **done** 🎉 :tada: 👩‍👩‍👧";
        chinese_and_japanese: "**注意：**今日は*雨*です。\n- 第一\n- 第二";
        right_to_left: "## שלום\n\nمرحبا **بالعالم**: `code` 123.";
        math_with_underscores: "With a_b_c and x_1 * y_1 * z_1 we get $\\frac{a_i}{b_i}$ and 2 < 3 && 4 > 3, so __init__ it.";
        windows_newlines: "Line one\r\nline *two*\r\n\r\n```sh\r\nls\r\n  -la\r\n```\r\n- a\r\n- b\r\n";
        unclosed_emphasis: "This is **very impor\n\nand *this and `code";
        unclosed_link: "See [the guide](https://a.exam";
        html_entities: "&lt;b&gt; &amp; &copy; &nbsp;| &#x41; &unknown; \\*not emphasis\\* AT&T";
        footnotes_are_text: "A claim.[^1]\n\n[^1]: The source.";
    }

    #[test]
    fn nesting_is_cut_at_the_depth_that_matrix_recommends() {
        for text in [
            ">".repeat(10_000) + " deep",
            "- ".repeat(10_000) + "deep",
            "*a ".repeat(5_000) + "deep" + "*".repeat(5_000).as_str(),
        ] {
            let html = to_html(&text).unwrap();
            assert!(html.contains("deep"));
            assert_allowed(&html);
        }
    }

    #[test]
    fn a_table_at_the_last_depth_is_whole_or_text() {
        for depth in 90..100 {
            let prefix = ">".repeat(depth);
            let html = to_html(&format!("{prefix}|`a`|***b***|\n{prefix}|-|-|\n{prefix}|c<br>d|e|")).unwrap();
            assert_allowed(&html);
        }
    }

    /// Matrix's own strict sanitizer finds nothing to repair and nothing to take out.
    #[track_caller]
    fn assert_allowed(html: &str) {
        let parsed = Html::parse(html);
        let written = parsed.to_string();
        // What a serializer may write in another way.
        let canonical = html.replace('\u{a0}', "&nbsp;");
        assert_eq!(written, canonical, "the HTML is not well-formed");
        parsed.sanitize_with(&SanitizerConfig::strict());
        assert_eq!(parsed.to_string(), written, "the HTML is not allowed");
    }

    proptest! {
        #[test]
        fn any_text_becomes_allowed_html(text in any::<String>()) {
            assert_allowed(&to_html(&text).unwrap_or_default());
        }

        #[test]
        fn any_markup_becomes_allowed_html(pieces in prop::collection::vec(piece(), 0..30)) {
            assert_allowed(&to_html(&pieces.concat()).unwrap_or_default());
        }
    }

    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            prop::sample::select(vec![
                "\n",
                "\n\n",
                "  ",
                "    ",
                "\t",
                "\r\n",
                "# ",
                "> ",
                "- ",
                "1. ",
                "7) ",
                "- [ ] ",
                "```",
                "```\n",
                "~~~",
                "`",
                "*",
                "**",
                "_",
                "~~",
                "[",
                "](",
                ")",
                "![",
                "<",
                ">",
                "</",
                "<br>",
                "<script>",
                "<a href=\"javascript:x\">",
                "<!--",
                "-->",
                "https://a.example",
                "javascript:",
                "mailto:a@b",
                "HTTP:",
                "\"",
                "'",
                "&",
                "&lt;",
                "&#0;",
                "&#10;",
                "|",
                "|-|-|\n",
                "| a | b |\n",
                "---",
                "===",
                "\\",
                "[^1]",
                "[a]: https://b\n",
                "word",
                "日本",
                "\u{a0}",
                "\0",
            ])
            .prop_map(str::to_owned),
            "[a-z<>&\"]{1,4}",
        ]
    }
}
