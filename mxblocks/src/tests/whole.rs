//! Payloads as wholes: versions, counts, ids, size, unknown blocks, and what is built rather than parsed.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::testing::parse;
use crate::{Action, Block, Button, MAX_PAYLOAD, Math, Rich, StreamState, Style};

fn fault(payload: &Value) -> String {
    Rich::parse(&payload.to_string()).unwrap_err()
}

fn ticker() -> Value {
    json!({"type": "ticker", "symbol": "ABC", "price": 1})
}

#[test]
fn the_published_examples_are_valid() {
    for block in [
        json!({"type": "ticker", "symbol": "ABC", "price": 1.5, "change": -0.25, "series": [1, 1.25, 1.5]}),
        json!({"type": "table", "columns": ["a"], "rows": [["1"]]}),
        json!({"type": "math", "tex": "x^2"}),
        json!({"type": "weather", "location": "Oslo", "temp": -3, "unit": "C", "condition": "Snow", "high": 0, "low": -6}),
        json!({"type": "buttons", "buttons": [{"label": "Go", "style": "primary", "action": {"type": "react", "key": "🚀"}}]}),
        json!({"type": "stream", "id": "a", "url": "https://example.org/stream/a", "state": "live"}),
    ] {
        assert_eq!(parse(&block).err(), None, "{block}");
    }
}

#[test]
fn what_is_no_payload_is_refused() {
    assert!(Rich::parse("{").unwrap_err().starts_with("the payload is no JSON: "));
    assert_eq!(Rich::parse("[]").unwrap_err(), "expected an object with v and blocks");
    assert_eq!(fault(&json!({"v": 1})), "needs blocks, a list of 1 to 8 objects");
    assert_eq!(fault(&json!({"v": 1, "blocks": {}})), "blocks: expected a list of blocks");
    assert_eq!(fault(&json!({"v": 1, "blocks": []})), "blocks: expected 1 to 8 blocks, found 0");
    assert_eq!(fault(&json!({"v": 1, "blocks": vec![ticker(); 9]})), "blocks: expected 1 to 8 blocks, found 9");
    assert_eq!(fault(&json!({"v": 2, "blocks": [ticker()]})), "v: expected 1");
    assert_eq!(fault(&json!({"v": "1", "blocks": [ticker()]})), "v: expected 1");
}

#[test]
fn a_payload_without_version_has_the_known_one() {
    let rich = Rich::parse(&json!({"blocks": [ticker()]}).to_string()).unwrap();
    assert_eq!(serde_json::to_value(rich).unwrap(), json!({"v": 1, "blocks": [ticker()]}));
}

#[test]
fn what_is_not_known_of_a_display_block_is_kept() {
    let block = json!({"type": "ticker", "symbol": "ABC", "price": 1, "mood": {"face": [1.5, "x"]}, "v": 1});
    let kept = json!({"type": "ticker", "symbol": "ABC", "price": 1, "mood": {"face": ["1.5", "x"]}, "v": 1});
    assert_eq!(serde_json::to_value(parse(&block).unwrap()).unwrap()["blocks"][0], kept);
}

#[test]
fn an_unknown_block_loads_and_goes_out_only_with_a_fallback() {
    for block in [json!({"type": "hologram", "beam": 3}), json!({"type": "ticker", "v": 2}), json!({"a": 1}), json!(5)]
    {
        let payload = json!({"v": 1, "blocks": [block]});
        let rich: Rich = serde_json::from_value(payload.clone()).unwrap();
        assert!(matches!(rich.blocks[0], Block::Unknown(_)));
        assert!(rich.validate().is_err());
        assert_eq!(serde_json::to_value(&rich).unwrap(), payload);
    }
    let types = "buttons, chips, table, chart, sources, card, cards, progress, details, code, diff, countdown, event, \
                 place, ticker, weather, tracker, math, gallery, form, file, stream";
    let blocks = |block| fault(&json!({"v": 1, "blocks": [block]}));
    assert_eq!(blocks(json!({"type": "wether"})), format!("blocks[0] wether: unknown type, expected one of {types}"));
    assert_eq!(blocks(json!({"location": "Oslo"})), format!("blocks[0]: needs type, one of {types}"));
    assert_eq!(blocks(json!("weather")), "blocks[0]: expected an object with a type");
    let newer = "blocks[0].v weather: expected 1, the newest known version, or a fallback";
    assert_eq!(blocks(json!({"type": "weather", "v": 2})), newer);
    assert_eq!(blocks(json!({"type": "weather", "v": "1"})), "blocks[0].v weather: expected 1");

    let rich = parse(&json!({"type": "hologram", "fallback": "A *cube*", "size": 1.5})).unwrap();
    assert_eq!(rich.markdown(), "A \\*cube\\*");
    assert_eq!(serde_json::to_value(&rich).unwrap()["blocks"][0]["size"], json!("1.5"));
}

#[test]
fn an_id_is_used_once_in_a_message() {
    let action = json!({"type": "react", "key": "✅"});
    let buttons = json!({"type": "buttons", "buttons": [{"id": "go", "label": "Go", "action": action}]});
    let card = json!({"type": "card", "title": "Lamp", "actions": [{"id": "go", "label": "Go", "action": action}]});
    let form = json!({"type": "form", "id": "go", "fields": [{"id": "a", "label": "A", "type": "text"}]});
    for (second, kind) in [(&buttons, "buttons"), (&card, "card"), (&form, "form")] {
        let expected = format!("blocks[1] {kind}: expected another id: \"go\" is used twice in the message");
        assert_eq!(fault(&json!({"v": 1, "blocks": [buttons, second]})), expected);
    }
    let twice = json!({"type": "buttons", "buttons": [buttons["buttons"][0], buttons["buttons"][0]]});
    assert!(parse(&twice).unwrap_err().starts_with("blocks[0] buttons: expected another id"));
}

#[test]
fn a_payload_is_at_most_32_kib() {
    let code = |length: usize| json!({"type": "code", "code": "x".repeat(length)});
    let payload = |last| json!({"v": 1, "blocks": [code(16_000), code(16_000), code(last)]});
    let frame = payload(1).to_string().len() - 1;
    assert!(Rich::parse(&payload(MAX_PAYLOAD - frame).to_string()).is_ok());
    let expected = "the payload is too large: 32769 bytes, at most 32768";
    assert_eq!(fault(&payload(MAX_PAYLOAD - frame + 1)), expected);
}

#[test]
fn what_was_built_with_a_float_does_not_pass() {
    let Value::Object(map) = json!({"type": "ticker", "symbol": "ABC", "price": 1, "extra": [2.5]}) else { return };
    let mut rich = Rich { v: 1, blocks: vec![Block::Display(map)] };
    let expected = "blocks[0].extra[0] ticker: 2.5 is a float, which Matrix refuses; write it as a string";
    assert_eq!(rich.validate().unwrap_err(), expected);
    rich.canonicalize().unwrap();
    assert_eq!(rich.validate(), Ok(()));
}

#[test]
fn a_built_button_is_checked_like_a_parsed_one() {
    let go = Button::react("Go", Style::Primary, "🚀").with_id("go");
    let why = Button::send("Why?", Style::Default, "Why should we?");
    let rich = Rich::buttons(vec![go.clone(), why.clone()]);
    assert_eq!(rich.validate(), Ok(()));
    assert_eq!(
        serde_json::to_value(&rich).unwrap(),
        json!({"v": 1, "blocks": [{"type": "buttons", "buttons": [
            {"id": "go", "label": "Go", "style": "primary", "action": {"type": "react", "key": "🚀"}},
            {"label": "Why?", "action": {"type": "send", "body": "Why should we?"}}
        ]}]})
    );
    assert_eq!(rich.blocks[0].actions(), [go, why]);
    assert_eq!(rich.blocks[0].prompt_ids(), ["go"]);
    let nameless = Rich::buttons(vec![Button::react(" ", Style::Default, "🚀")]);
    assert!(nameless.validate().unwrap_err().starts_with("blocks[0].buttons[0] buttons: needs label"));
}

#[test]
fn a_cards_actions_can_be_clicked_too() {
    let action = |id: &str| json!({"id": id, "label": "Buy", "action": {"type": "send", "body": "Buy"}});
    let cards = json!({"type": "cards", "cards": [
        {"title": "A", "actions": [action("a")]},
        {"title": "B", "actions": [action("b"), {"label": "broken"}]}
    ]});
    let block: Block = serde_json::from_value(cards).unwrap();
    assert_eq!(block.prompt_ids(), ["a", "b"]);
    assert_eq!(block.actions()[0].action, Action::Send { body: "Buy".to_owned() });
}

#[test]
fn a_formula_is_found_alone_or_among_others() {
    let alone = Rich::math("x^2", false);
    assert_eq!(alone.validate(), Ok(()));
    assert_eq!(alone.math_only(), Some(Math { tex: "x^2".to_owned(), display: false, caption: None }));
    let both = Rich::parse(&json!({"v": 1, "blocks": [ticker(), {"type": "math", "tex": "y"}]}).to_string()).unwrap();
    assert_eq!((both.math_only(), both.find_math()), (None, Some(("y", true))));
    assert_eq!(parse(&ticker()).unwrap().find_math(), None);
}

#[test]
fn a_streams_state_is_read_even_if_it_is_not_known() {
    let live = Rich::stream("a1", Some("https://example.org/a1"), StreamState::Live);
    assert_eq!(live.validate(), Ok(()));
    assert_eq!(live.blocks[0].stream_state(), Some(StreamState::Live));
    assert_eq!(Rich::stream("a1", None, StreamState::Done).validate(), Ok(()));
    let paused: Block = serde_json::from_value(json!({"type": "stream", "id": "a1", "state": "paused"})).unwrap();
    assert_eq!(paused.stream_state(), Some(StreamState::Unknown));
    assert_eq!(parse(&ticker()).unwrap().blocks[0].stream_state(), None);
}
