//! What holds for any call, and for any card of a call that passes.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::{collections::BTreeSet, time::Duration};

use phone_actions::{Announcement, Answer, CARD_KEY, Card, CardError, CardId, Outcome, check, declares_phone};
use proptest::{prelude::*, sample::select};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde_json::{Map, Number, Value, json};

const ACTIONS: [&str; 16] = [
    "alarm",
    "timer",
    "calendar_event",
    "sms_draft",
    "email_draft",
    "dial",
    "navigate",
    "add_stop",
    "search_nearby",
    "stop_navigation",
    "open_app",
    "open_url",
    "media",
    "torch",
    "settings_panel",
    "automation_intent",
];

const FIELDS: [&str; 29] = [
    "time",
    "label",
    "days",
    "seconds",
    "title",
    "start",
    "end",
    "location",
    "notes",
    "to",
    "cc",
    "subject",
    "body",
    "number",
    "destination",
    "stop",
    "stops",
    "mode",
    "replace_route",
    "query",
    "near",
    "app",
    "url",
    "command",
    "on",
    "panel",
    "name",
    "values",
    "foreign",
];

/// Texts with what Markdown and HTML live on, and with what hides.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,20}",
        "[-*_`#>+=~|!<&;.)(:\\[\\]\\\\ \n\ta1\u{a0}\u{202e}\u{200b}é🗺]{0,30}",
        any::<String>(),
        select(vec!["", " ", "07:30", "mon", "walk", "me", "play", "wifi", "2026-05-01", "https://a.b", "+33 123"])
            .prop_map(str::to_owned),
    ]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-200..200_i32).prop_map(Value::from),
        (-200.0..200.0_f64).prop_map(Value::from),
        any::<f64>().prop_map(|float| Number::from_f64(float).map_or(Value::Null, Value::Number)),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number(), text().prop_map(Value::from)];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let key = prop_oneof![select(vec!["lat", "lon", "query", "name", "action"]).prop_map(str::to_owned), text()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn place() -> impl Strategy<Value = Value> {
    let coordinates = (-90.0..=90.0_f64, -180.0..=180.0_f64);
    (coordinates, "[a-z]{1,8}", json(), 0..4).prop_map(|((lat, lon), name, more, which)| match which {
        0 => json!({"lat": lat, "lon": lon}),
        1 => json!({"lat": lat, "lon": lon, "name": name, "more": more}),
        2 => json!({"lat": more, "lon": lon, "query": name}),
        _ => json!({"name": name, "lat": lat.trunc()}),
    })
}

/// A value that the field may well accept.
fn likely(field: &str) -> BoxedStrategy<Value> {
    let texts = || prop::collection::vec(text(), 1..4).prop_map(|texts| json!(texts));
    match field {
        "time" => (0..24, 0..60).prop_map(|(h, m)| json!(format!("{h:02}:{m:02}"))).boxed(),
        "days" => prop::collection::vec(select(vec!["mon", "fri", "sun"]), 1..5).prop_map(|days| json!(days)).boxed(),
        "seconds" => (1..=86_400).prop_map(Value::from).boxed(),
        "start" | "end" => "[0-9]{4}-[0-9]{2}-[0-9]{2}(T1[0-9]:[0-5][0-9])?".prop_map(Value::from).boxed(),
        "to" | "cc" => texts().boxed(),
        "number" => "[+]?[0-9 ()/#*.-]{3,20}".prop_map(Value::from).boxed(),
        "destination" | "stop" => place().boxed(),
        "stops" => prop::collection::vec(place(), 1..4).prop_map(Value::from).boxed(),
        "mode" => select(vec!["drive", "walk"]).prop_map(Value::from).boxed(),
        "near" => select(vec!["me", "route"]).prop_map(Value::from).boxed(),
        "command" => select(vec!["play", "stop"]).prop_map(Value::from).boxed(),
        "panel" => select(vec!["wifi", "nfc"]).prop_map(Value::from).boxed(),
        "url" => text().prop_map(|rest| json!(format!("https://{rest}"))).boxed(),
        "on" => any::<bool>().prop_map(Value::from).boxed(),
        "values" => prop::collection::btree_map(text(), text(), 1..4).prop_map(|map| json!(map)).boxed(),
        _ => prop_oneof![4 => text().prop_map(Value::from), 1 => json()].boxed(),
    }
}

/// Calls of which many pass.
fn call() -> impl Strategy<Value = Value> {
    let fields: Vec<_> =
        FIELDS.iter().map(|field| prop_oneof![9 => likely(field), 1 => json(), 1 => Just(Value::Null)]).collect();
    (select(ACTIONS.to_vec()), text(), fields).prop_map(|(action, summary, values)| {
        let mut call = Map::from_iter([("action".into(), json!(action)), ("summary".into(), json!(summary))]);
        call.extend(FIELDS.iter().map(|field| (*field).to_owned()).zip(values));
        Value::Object(call)
    })
}

fn card(call: &Value, device: Option<&str>) -> Option<Card> {
    let action = check(call).ok()?;
    match Card::new(CardId::from_bytes([1; 16]), "@a:b", "$q", device, action, Duration::from_secs(120)) {
        Ok(card) => Some(card),
        Err(CardError::TooLarge { .. }) => None,
        Err(CardError::Malformed(fault)) => panic!("{fault} in the card of {call}"),
    }
}

fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64().is_none_or(|number| number.abs() > 9_007_199_254_740_991),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(map) => map.values().any(has_float),
        _ => false,
    }
}

fn read_fields(action: &str) -> BTreeSet<String> {
    let offer = phone_actions::offer(|name| name == action).unwrap();
    offer.schema["properties"].as_object().unwrap().keys().cloned().collect()
}

proptest! {
    #[test]
    fn no_json_makes_anything_panic(value in json()) {
        let _ = check(&value);
        let _ = Card::read(&value);
        for key in [CARD_KEY, "dev.waybread.phone_answer", "dev.waybread.phone", "dev.waybread.capabilities"] {
            let mut with_version = value.clone();
            if let Some(object) = with_version.as_object_mut() {
                object.insert("v".into(), 1.into());
            }
            let content = json!({key: with_version});
            let _ = (Card::read(&content), Answer::read(&content), Announcement::read(&content));
            let _ = declares_phone(&content);
        }
    }

    #[test]
    fn what_passes_has_only_its_own_fields_and_passes_again_unchanged(call in call()) {
        if let Ok(action) = check(&call) {
            let value = action.to_value();
            let fields = read_fields(action.name());
            prop_assert!(value.as_object().unwrap().keys().all(|key| fields.contains(key)), "{}", value);
            prop_assert_eq!(check(&value), Ok(action));
        }
    }

    #[test]
    fn a_card_has_no_float_and_is_read_as_it_was_made(call in call(), paired: bool) {
        if let Some(card) = card(&call, paired.then_some("PHONE")) {
            for content in [card.content(), card.outcome_content("$card", Outcome::Failed, Some("1.5"))] {
                prop_assert!(!has_float(&content), "{}", content);
            }
            let read = Card::read(&card.content()).unwrap().unwrap();
            prop_assert_eq!(&read, &card);
            prop_assert_eq!(read.content(), card.content());
            let closed = Card::read(&card.closed_content(Outcome::Done, None)).unwrap().unwrap();
            prop_assert!(closed.is_update_of(&card));
        }
    }

    #[test]
    fn markdown_says_what_the_plain_text_says_and_links_only_what_the_html_links(call in call(), message in text()) {
        if let Some(card) = card(&call, None) {
            for text in [card.text(None), closed(&card, &message)] {
                let rendered = render(&text.markdown());
                prop_assert_eq!(letters(&rendered.text), letters(&strip_tags(&text.html())), "{}", text.markdown());
                prop_assert_eq!(rendered.links, hrefs(&text.html()), "{}", text.markdown());
                prop_assert_eq!(rendered.strong, 1, "{}", text.markdown());
            }
        }
    }
}

fn closed(card: &Card, message: &str) -> phone_actions::Text {
    let content = card.closed_content(Outcome::Failed, Some(message));
    Card::read(&content).unwrap().unwrap().text(Some(message))
}

#[derive(Default)]
struct Rendered {
    text: String,
    links: Vec<String>,
    strong: usize,
}

/// Reads Markdown and refuses what no card has.
fn render(markdown: &str) -> Rendered {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut rendered = Rendered::default();
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Text(text) => rendered.text.push_str(&text),
            Event::SoftBreak => rendered.text.push('\n'),
            Event::Start(Tag::Link { dest_url, .. }) => rendered.links.push(dest_url.to_string()),
            Event::Start(Tag::Strong) => rendered.strong += 1,
            Event::Start(Tag::Paragraph | Tag::List(None) | Tag::Item | Tag::BlockQuote(None)) => {}
            Event::End(
                TagEnd::Link
                | TagEnd::Strong
                | TagEnd::Paragraph
                | TagEnd::List(false)
                | TagEnd::Item
                | TagEnd::BlockQuote(None),
            ) => {}
            other => panic!("{other:?} in {markdown}"),
        }
    }
    // pulldown-cmark gives the address of <a@b.c> without its scheme.
    for link in &mut rendered.links {
        if link.contains('@') && !link.contains(':') {
            link.insert_str(0, "mailto:");
        }
    }
    rendered
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Takes the tags out of HTML; there must be none but those of a card.
fn strip_tags(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, after) = after.split_once('>').unwrap();
        let name = tag.split(' ').next().unwrap().trim_start_matches('/');
        assert!(["p", "strong", "ul", "li", "blockquote", "br", "a"].contains(&name), "<{tag}> in {html}");
        rest = after;
    }
    text.push_str(rest);
    unescape(&text)
}

fn hrefs(html: &str) -> Vec<String> {
    html.split("<a href=\"").skip(1).map(|rest| unescape(rest.split_once('"').unwrap().0)).collect()
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}
