//! `sources`: the links that an answer rests on.

use crate::markdown;
use crate::rules::Rule::{Line, List, Object, Text, Web};
use crate::rules::{LINE, Shape, TEXT, optional, required};
use crate::view::{View, join};

/// The most sources.
const MAX_SOURCES: usize = 30;

pub(super) static SHAPE: Shape =
    Shape::new(&[optional("title", Line(LINE)), required("sources", List(1, MAX_SOURCES, &Object(&SOURCE)))]);

pub(super) static SOURCE: Shape =
    Shape::new(&[required("url", Web), optional("title", Line(LINE)), optional("text", Text(TEXT))]);

pub(super) fn text(block: View<'_>) -> String {
    let sources = block.objects("sources").zip(1..).map(|(source, number)| {
        let source = join(": ", [link(source), source.line("text")])?;
        Some(format!("{number}. {source}"))
    });
    join("\n", [block.bold("title")].into_iter().chain(sources)).unwrap_or_default()
}

/// What a block links to, under its title or else its address.
fn link(source: View<'_>) -> Option<String> {
    match (source.line("title"), source.address("url")) {
        (Some(title), Some(url)) => Some(markdown::link(&title, url)),
        (title, _) => title.or_else(|| source.link("url")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine, markdown_of};

    #[test]
    fn a_source_is_on_the_web() {
        let sources = |url| json!({"type": "sources", "sources": [{"url": url}]});
        is_fine(&sources("https://example.org/a_b"));
        for url in ["javascript:alert(1)", "mxc://example.org/a", "geo:1,2", "example.org"] {
            let expected =
                format!("blocks[0].sources[0].url sources: expected an http or https address, found \"{url}\"");
            assert_eq!(fault_of(&sources(url)), expected);
        }
    }

    #[test]
    fn a_title_cannot_end_its_link() {
        let source = json!({"title": "a](https://evil.example)", "url": "https://example.org"});
        let text = markdown_of(&json!({"type": "sources", "sources": [source]}));
        assert_eq!(text, "1. [a\\](https://evil.example)](https://example.org)");
    }
}
