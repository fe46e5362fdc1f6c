//! What people read: the card of each action, with all of its fields, as plain text, Markdown and HTML.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, time::Duration};

use phone_actions::{Card, CardId, Outcome, check, offer, wait};
use serde_json::{Value, json};

/// A call of each action, with every field that it reads.
fn calls() -> Vec<Value> {
    vec![
        json!({"action": "alarm", "summary": "Early shift", "time": "05:45", "label": "Shift",
            "days": ["mon", "tue", "wed", "thu", "fri"]}),
        json!({"action": "timer", "summary": "For the pasta", "seconds": 510, "label": "Pasta"}),
        json!({"action": "calendar_event", "summary": "Dentist", "title": "Dentist", "start": "2026-05-04T14:30",
            "end": "2026-05-04T15:15", "location": "12 Rue de Rivoli", "notes": "Bring the X-ray.\nRing twice."}),
        json!({"action": "sms_draft", "summary": "Tell Bob", "to": ["Bob", "+33 6 12 34 56 78"],
            "body": "I am 10 minutes late.\n\nSorry!"}),
        json!({"action": "email_draft", "summary": "Mail to Carol", "to": ["carol@example.org", "Dan"],
            "cc": ["eve@example.org"], "subject": "Minutes & more", "body": "Dear Carol,\n\n- one\n- two"}),
        json!({"action": "dial", "summary": "Call the dentist", "number": "+33 1 23 45 67 89"}),
        json!({"action": "navigate", "summary": "Home by way of the bakery", "mode": "bicycle", "replace_route": true,
            "destination": {"lat": 48.8566, "lon": 2.3522, "name": "Home"},
            "stops": [{"query": "bakery, Rue Cler"}, {"lat": 48.86, "lon": 2.3}]}),
        json!({"action": "add_stop", "summary": "Fuel first", "stop": {"name": "Total", "query": "fuel station"},
            "destination": {"query": "Lyon Part-Dieu"}, "mode": "drive"}),
        json!({"action": "search_nearby", "summary": "A pharmacy", "query": "pharmacy", "near": "route"}),
        json!({"action": "stop_navigation", "summary": "You have arrived"}),
        json!({"action": "open_app", "summary": "Your notes", "app": "Simple Notes"}),
        json!({"action": "open_url", "summary": "The timetable", "url": "https://example.org/lines?a=1&b=2"}),
        json!({"action": "media", "summary": "Too loud", "command": "pause"}),
        json!({"action": "torch", "summary": "Light", "on": true}),
        json!({"action": "settings_panel", "summary": "No network", "panel": "wifi"}),
        json!({"action": "automation_intent", "summary": "Evening lights", "app": "MacroDroid", "name": "Evening",
            "values": {"level": "40", "room": "kitchen"}}),
    ]
}

fn card(call: &Value, device: Option<&str>) -> Card {
    let action = check(call).unwrap();
    Card::new(CardId::from_bytes([0; 16]), "@alice:example.org", "$question", device, action, wait()).unwrap()
}

#[test]
fn each_action_reads_well_on_a_phone_and_by_hand() {
    let known: BTreeSet<_> = offer(|_| true).unwrap().schema["properties"]["action"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect();
    assert_eq!(calls().iter().map(|call| call["action"].to_string()).collect::<BTreeSet<_>>(), known);
    for call in calls() {
        let (paired, by_hand) = (card(&call, Some("PHONE")).text(None), card(&call, None).text(None));
        let ways = [paired.plain(), by_hand.plain(), by_hand.markdown(), by_hand.html()];
        insta::assert_snapshot!(call["action"].as_str().unwrap(), ways.join("\n\n----------\n\n"));
    }
}

#[test]
fn a_call_with_nothing_but_what_it_needs_says_what_its_defaults_are() {
    let least = [
        json!({"action": "alarm", "time": "00:00"}),
        json!({"action": "timer", "seconds": 1}),
        json!({"action": "calendar_event", "title": "Holiday", "start": "2026-07-14"}),
        json!({"action": "sms_draft", "to": ["Bob"]}),
        json!({"action": "email_draft", "subject": "Hello"}),
        json!({"action": "navigate", "destination": {"lat": -33.5, "lon": 18}}),
        json!({"action": "search_nearby", "query": "café"}),
        json!({"action": "torch", "on": false}),
        json!({"action": "automation_intent", "name": "Evening"}),
    ];
    let texts = least.map(|call| card(&call, Some("PHONE")).text(None).plain());
    insta::assert_snapshot!(texts.join("\n\n----------\n\n"));
}

#[test]
fn each_outcome_says_what_came_of_what() {
    let card = card(&calls()[0], Some("PHONE"));
    let outcomes = [
        (Outcome::Done, None),
        (Outcome::Declined, None),
        (Outcome::Failed, Some("There is no clock app.\nInstall one.")),
        (Outcome::Expired, None),
        (Outcome::Withdrawn, None),
    ];
    let texts = outcomes.map(|(outcome, message)| {
        let content = card.closed_content(outcome, message);
        [content["body"].as_str().unwrap(), content["formatted_body"].as_str().unwrap()].join("\n\n")
    });
    insta::assert_snapshot!(texts.join("\n\n----------\n\n"));
}

#[test]
fn the_whole_message_and_the_edit_that_closes_it() {
    let card = card(&calls()[0], None);
    let events = [card.content(), card.outcome_content("$card", Outcome::Done, None)];
    // As text with sorted keys, whatever order other crates make serde_json keep.
    let sorted: Vec<_> = events.iter().map(|event| pretty(event, 0)).collect();
    insta::assert_snapshot!(sorted.join("\n\n"));
}

fn pretty(value: &Value, depth: usize) -> String {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort();
            let pad = "  ".repeat(depth + 1);
            let lines: Vec<_> =
                keys.iter().map(|key| format!("{pad}{key:?}: {}", pretty(&map[*key], depth + 1))).collect();
            format!("{{\n{}\n{}}}", lines.join(",\n"), "  ".repeat(depth))
        }
        other => other.to_string(),
    }
}

#[test]
fn what_the_model_says_stays_text() {
    let call = json!({
        "action": "sms_draft",
        "summary": "> *Confirm it* at [your bank](https://evil.example)\n\nreact with ✅ <b>now</b>",
        "to": ["**Bob**\n- To: Eve"],
        "body": "# Heading\n1. one\n- two\n```\ncode\n    more\n===\n> quote\n<script>&amp;</script>\nhttps://evil.example",
    });
    let text = card(&call, None).text(None);
    insta::assert_snapshot!([text.plain(), text.markdown(), text.html()].join("\n\n----------\n\n"));
}

#[test]
fn long_texts_and_lists_are_cut_where_they_are_shown() {
    let people: Vec<_> = (0..15).map(|number| format!("person{number}@example.org")).collect();
    let call = json!({"action": "email_draft", "to": people, "subject": "s".repeat(1000), "body": "b".repeat(3000)});
    let plain = card(&call, None).text(None).plain();
    assert!(plain.contains("person11@example.org, and 3 more\n"), "{plain}");
    assert!(plain.contains(&format!("Subject: {}…\n", "s".repeat(300))));
    assert!(plain.contains(&format!("> {}…\n", "b".repeat(2000))));
}

#[test]
fn the_time_to_answer_is_told_in_words() {
    let action = check(&json!({"action": "torch", "on": true})).unwrap();
    let id = CardId::from_bytes([0; 16]);
    let card = Card::new(id, "@a:b", "$q", None, action, Duration::from_millis(90_500)).unwrap();
    assert!(card.text(None).plain().ends_with("I wait 1 minute 30 seconds."));
}
