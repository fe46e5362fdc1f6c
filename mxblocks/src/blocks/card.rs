//! `card` and `cards`: one or a few products, listings, orders.

use super::media::IMAGE;
use super::prompts::{BUTTON, labels};
use crate::rules::Rule::{Cell, Line, List, Number, Object, Text, Web};
use crate::rules::{LINE, SHORT, Shape, TEXT, aside, optional, required};
use crate::view::{View, join};

/// The most cards of one block.
const MAX_CARDS: usize = 10;

/// The most facts of one card.
const MAX_FACTS: usize = 20;

/// The most actions of one card.
const MAX_ACTIONS: usize = 6;

pub(crate) static CARD: Shape = Shape::new(&[
    required("title", Line(LINE)),
    optional("subtitle", Line(LINE)),
    optional("text", Text(TEXT)),
    aside("image", Object(&IMAGE)),
    optional("price", Number),
    optional("currency", Line(SHORT)),
    optional("facts", List(0, MAX_FACTS, &Object(&FACT))),
    optional("url", Web),
    optional("actions", List(0, MAX_ACTIONS, &Object(&BUTTON))),
]);

pub(crate) static CARDS: Shape =
    Shape::new(&[optional("title", Line(LINE)), required("cards", List(1, MAX_CARDS, &Object(&CARD)))]);

pub(super) static FACT: Shape = Shape::new(&[required("label", Line(LINE)), required("value", Cell(LINE))]);

pub(super) fn text(card: View<'_>) -> String {
    let title = join(" · ", [card.bold("title"), card.line("subtitle")]);
    let price = join(" ", [card.line("price"), card.line("currency")]);
    let facts = card.objects("facts").map(|fact| {
        let fact = join(": ", [fact.line("label"), fact.line("value")])?;
        Some(format!("- {fact}"))
    });
    let facts = join("\n", facts);
    let head = join("\n", [title, price, card.paragraphs("text")]);
    let foot = join("\n", [card.link("url"), labels(card, "actions")]);
    join("\n\n", [join("\n", [head, facts]), foot]).unwrap_or_default()
}

pub(super) fn texts(block: View<'_>) -> String {
    let cards = block.objects("cards").map(|card| Some(text(card)));
    join("\n\n", [block.bold("title")].into_iter().chain(cards)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{fault_of, is_fine};

    #[test]
    fn a_card_needs_its_title_only() {
        is_fine(&json!({"type": "card", "title": "Lamp"}));
        for (card, expected) in [
            (
                json!({"type": "card", "price": 5}),
                " card: needs title (takes title, subtitle?, text?, image?, price?, currency?, facts?, url?, actions?)",
            ),
            (
                json!({"type": "card", "title": "Lamp", "price": "€5"}),
                ".price card: expected a whole number or a decimal string such as \"62.99\", found \"€5\"",
            ),
            (
                json!({"type": "card", "title": "Lamp", "url": "javascript:buy()"}),
                ".url card: expected an http or https address, found \"javascript:buy()\"",
            ),
            (
                json!({"type": "card", "title": "Lamp", "image": {"url": "https://example.org/a.png"}}),
                ".image.url card: expected the mxc:// address of an upload, found \"https://example.org/a.png\"",
            ),
            (
                json!({"type": "card", "title": "Lamp", "facts": [{"label": "Power", "value": true}]}),
                ".facts[0].value card: expected a number or one line of at most 200 characters, found true",
            ),
            (
                json!({"type": "card", "title": "Lamp", "actions": [{"label": "Buy"}]}),
                ".actions[0] card: needs action (takes id?, label, style?, action)",
            ),
        ] {
            assert_eq!(fault_of(&card), format!("blocks[0]{expected}"));
        }
    }

    #[test]
    fn each_of_several_cards_is_checked_as_one() {
        is_fine(&json!({"type": "cards", "cards": [{"title": "A"}, {"title": "B", "price": 1.5}]}));
        let fault = fault_of(&json!({"type": "cards", "cards": [{"title": "A"}, {}]}));
        assert!(fault.starts_with("blocks[0].cards[1] cards: needs title (takes "), "{fault}");
    }
}
