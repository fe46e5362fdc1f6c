//! What holds for any JSON, and for blocks that are right or nearly so, made from the rules themselves.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::{Union, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Map, Number, Value, json};

use crate::blocks::CATALOGUE;
use crate::rules::{Need, Rule, Shape};
use crate::{MAX_PAYLOAD, MAX_SAFE_INT, Rich, canonical_content, canonicalize, has_float};

/// Text with all that JSON, Markdown and the rules could stumble over.
fn text() -> BoxedStrategy<String> {
    const PIECES: [&str; 18] = [
        "\n", "|", "```", "**", "<b>", "&amp;", "$$", "](", "\\", "\u{0}", "é", "🚀", "- ", "1. ", "#", ">", "a_b", " ",
    ];
    prop_oneof![
        vec(prop_oneof![select(&PIECES[..]).prop_map(str::to_owned), "[a-z0-9 ]{1,6}"], 0..8)
            .prop_map(|parts| parts.concat()),
        ".{0,20}",
    ]
    .boxed()
}

fn number() -> BoxedStrategy<Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000..1000_i64).prop_map(Value::from),
        any::<f64>().prop_map(|float| Number::from_f64(float).map_or(Value::Null, Value::Number)),
        (-1000..1000_i64).prop_map(|n| json!(n as f64 / 8.0)),
    ]
    .boxed()
}

fn any_json() -> BoxedStrategy<Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number(), text().prop_map(Value::from)];
    const NAMES: [&str; 11] =
        ["type", "v", "blocks", "buttons", "rows", "columns", "id", "label", "action", "url", "x"];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(prop_oneof![select(&NAMES[..]).prop_map(str::to_owned), text()], inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .boxed()
}

/// A value as a rule wants it.
fn right(rule: &'static Rule) -> BoxedStrategy<Value> {
    let word = || "[A-Za-z0-9]{1,12}".prop_map(Value::from);
    let numbers = || {
        prop_oneof![
            (-MAX_SAFE_INT..=MAX_SAFE_INT).prop_map(Value::from),
            (-99_999..99_999_i64).prop_map(|n| json!(n as f64 / 100.0)),
            "-?[0-9]{1,5}(\\.[0-9]{1,3})?".prop_map(Value::from),
        ]
    };
    match rule {
        Rule::Line(max) | Rule::LineOr(max, _) if *max >= 200 => "[^\\p{Cc}]{1,30}".prop_map(Value::from).boxed(),
        Rule::Text(max) if *max >= 200 => text().prop_map(Value::from).boxed(),
        Rule::Line(_) | Rule::LineOr(..) | Rule::Text(_) | Rule::Key(_) | Rule::Id => word().boxed(),
        Rule::Number => numbers().boxed(),
        Rule::Cell(_) => prop_oneof![numbers(), word()].boxed(),
        Rule::Integer(min, max) => (*min..=*max).prop_map(Value::from).boxed(),
        Rule::Flag => any::<bool>().prop_map(Value::from).boxed(),
        Rule::OneOf(names) => select(*names).prop_map(Value::from).boxed(),
        Rule::Web | Rule::Https | Rule::WebOrGeo => {
            "https://[a-z]{1,9}\\.example(/[a-z_()]{0,9})?".prop_map(Value::from).boxed()
        }
        Rule::Mxc => "mxc://[a-z]{1,9}\\.example/[A-Za-z0-9_-]{1,9}".prop_map(Value::from).boxed(),
        Rule::Time | Rule::When => {
            prop_oneof![Just(json!("2026-03-01T18:30:00+01:00")), (0..4_000_000_000_000_i64).prop_map(Value::from)]
                .boxed()
        }
        Rule::Object(shape) => object(shape).prop_map(Value::Object).boxed(),
        Rule::List(min, max, item) => vec(nearly(item), *min..=(*max).min(*min + 3)).prop_map(Value::from).boxed(),
        // The rows of a table, right for those that have so many columns.
        Rule::Own(..) => {
            let cell = prop_oneof![numbers(), text().prop_map(Value::from)];
            (1..4_usize)
                .prop_flat_map(move |columns| vec(vec(cell.clone(), columns), 1..4))
                .prop_map(|rows| json!(rows))
                .boxed()
        }
    }
}

/// Mostly right, now and then anything.
fn nearly(rule: &'static Rule) -> BoxedStrategy<Value> {
    Union::new_weighted(vec![(40, right(rule)), (1, any_json())]).boxed()
}

/// An object with its required fields and some of the others.
fn object(shape: &'static Shape) -> BoxedStrategy<Map<String, Value>> {
    let fields: Vec<_> = shape
        .fields
        .iter()
        .map(|field| {
            let chance = if field.need == Need::Required { 0.98 } else { 0.4 };
            (Just(field.name.to_owned()), proptest::option::weighted(chance, nearly(&field.rule)))
        })
        .collect();
    fields.prop_map(|fields| fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()).boxed()
}

fn block(kind: &'static crate::blocks::Type) -> BoxedStrategy<Value> {
    object(kind.shape)
        .prop_map(|mut map| {
            map.insert("type".to_owned(), Value::from(kind.name));
            Value::Object(map)
        })
        .boxed()
}

fn payload() -> BoxedStrategy<Value> {
    let blocks = Union::new(CATALOGUE.iter().map(block));
    prop_oneof![
        4 => vec(blocks, 1..4).prop_map(|blocks| json!({"v": 1, "blocks": blocks})),
        1 => vec(any_json(), 0..4).prop_map(|blocks| json!({"v": 1, "blocks": blocks})),
        1 => any_json(),
    ]
    .boxed()
}

/// Does all that can be done with a payload, valid or not.
fn exercise(rich: &mut Rich) {
    let before = rich.validate();
    let text = rich.markdown();
    assert!(rich.missing_from("").len() >= rich.missing_from(&text).len());
    black_box((rich.math_only(), rich.find_math()));
    for block in &rich.blocks {
        black_box((block.kind(), block.actions(), block.prompt_ids(), block.stream_state()));
    }
    if before.is_ok() {
        assert_eq!(rich.canonicalize(), Ok(()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_text_makes_reading_panic(text in prop_oneof![text(), any_json().prop_map(|json| json.to_string())]) {
        if let Ok(mut rich) = Rich::parse(&text) {
            exercise(&mut rich);
        }
    }

    #[test]
    fn no_json_makes_anything_panic(value in payload()) {
        if let Ok(mut rich) = serde_json::from_value::<Rich>(value) {
            exercise(&mut rich);
        }
    }

    #[test]
    fn what_passes_goes_out_canonical_and_comes_back_the_same(value in payload()) {
        if let Ok(rich) = Rich::parse(&value.to_string()) {
            let json = serde_json::to_string(&rich).unwrap();
            let blocks: usize = rich.blocks.iter().map(|block| block.check().unwrap()).sum();
            prop_assert_eq!(blocks + rich.blocks.len() - 1 + r#"{"v":1,"blocks":[]}"#.len(), json.len());
            prop_assert!(json.len() <= MAX_PAYLOAD);
            prop_assert!(!has_float(&serde_json::from_str(&json).unwrap()), "{json}");
            prop_assert_eq!(rich.validate(), Ok(()));
            prop_assert_eq!(&Rich::parse(&json).unwrap(), &rich);
            prop_assert_eq!(&serde_json::from_str::<Rich>(&json).unwrap(), &rich);
        }
    }

    #[test]
    fn a_text_that_was_made_of_the_blocks_says_them(value in payload()) {
        if let Ok(rich) = Rich::parse(&value.to_string()) {
            prop_assert_eq!(rich.missing_from(&rich.markdown()), Vec::<String>::new(), "{}", rich.markdown());
        }
    }

    #[test]
    fn a_canonical_value_has_no_float_and_stays(mut value in any_json()) {
        if canonicalize(&mut value).is_ok() {
            prop_assert!(!has_float(&value));
            prop_assert_eq!(canonical_content(value.clone()), value);
        }
    }
}

/// Else the properties above would be about refused payloads only.
#[test]
fn blocks_made_from_the_rules_are_valid_often_enough() {
    let mut runner = TestRunner::deterministic();
    for kind in &CATALOGUE {
        let strategy = block(kind);
        let is_valid = |value: &Value| Rich::parse(&json!({"v": 1, "blocks": [value]}).to_string()).is_ok();
        let valid = (0..100).filter(|_| is_valid(&strategy.new_tree(&mut runner).unwrap().current())).count();
        assert!(valid >= 5, "{}: only {valid} of 100", kind.name);
    }
}
