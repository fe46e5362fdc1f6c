//! How each type of block reads as text, one full example each, and when a text says it already.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;

use serde_json::{Value, json};

use crate::Rich;
use crate::blocks::CATALOGUE;

fn fixture(kind: &str) -> Rich {
    let path = format!("{}/fixtures/{kind}.json", env!("CARGO_MANIFEST_DIR"));
    let block: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    Rich::parse(&json!({"v": 1, "blocks": [block]}).to_string()).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

#[test]
fn each_type_as_markdown() {
    for kind in &CATALOGUE {
        insta::assert_snapshot!(kind.name, fixture(kind.name).markdown());
    }
}

#[test]
fn a_text_that_is_the_blocks_own_says_it() {
    for kind in &CATALOGUE {
        let rich = fixture(kind.name);
        assert_eq!(rich.missing_from(&rich.markdown()), Vec::<String>::new(), "{}", kind.name);
    }
}

#[test]
fn a_text_that_only_announces_a_block_does_not_say_it() {
    for kind in CATALOGUE.iter().filter(|kind| kind.name != "stream") {
        let rich = fixture(kind.name);
        assert_eq!(rich.missing_from("Here it is, see below."), [rich.markdown()], "{}", kind.name);
    }
}

#[test]
fn words_may_be_in_any_order_and_numbers_in_groups() {
    let table = fixture("table");
    let said = "Stock on Monday: 1,299 of Bolt M6 (note: A|B shelf), 0.5 washers left, Nut M6: 40. Part of the list.";
    assert_eq!(table.missing_from(said), Vec::<String>::new());
    assert_eq!(table.missing_from("Stock on Monday: Bolt M6, Washer, Nut M6.").len(), 1);
}

#[test]
fn a_time_is_said_by_the_time_of_day() {
    let flight = fixture("event");
    let said =
        "Flight ABC 123 leaves at 18:30 from gate 7, arrives 20:00. Window seat: https://example.org/flights/123";
    assert_eq!(flight.missing_from(said), Vec::<String>::new());
    assert_eq!(flight.missing_from("Flight ABC 123 from gate 7.").len(), 1);
}

#[test]
fn words_of_scripts_without_spaces_are_found_within_a_text() {
    let block = json!({"type": "weather", "location": "北京", "temp": 3, "condition": "多云"});
    let rich = Rich::parse(&json!({"v": 1, "blocks": [block]}).to_string()).unwrap();
    assert_eq!(rich.missing_from("今天北京多云，3 度"), Vec::<String>::new());
    assert_eq!(rich.missing_from("今天上海多云，3 度").len(), 1);
}
