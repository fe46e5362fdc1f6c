//! The tools in a room, and what people do with what they post.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    config::Switch,
    testing::{ALICE, BOB, BOT, DIRECT, GROUP, House, Incoming},
};

fn table(cell: Value) -> Value {
    json!({"v": 1, "blocks": [{"type": "table", "columns": ["price"], "rows": [[cell]]}]})
}

fn buttons() -> Value {
    json!({"v": 1, "blocks": [{"type": "buttons", "buttons": [
        {"id": "go", "label": "Start", "action": {"type": "react", "key": "🚀"}},
        {"id": "no", "label": "Not now", "action": {"type": "send", "body": "not now"}},
    ]}]})
}

fn send(payload: Value, fallback: &str) -> Value {
    json!({"calls": [{"name": "rich_send", "arguments": {"payload": payload, "fallback": fallback}}]})
}

fn edit(event: &str, payload: Value, fallback: &str) -> Value {
    json!({"name": "rich_edit", "arguments": {"event_id": event, "payload": payload, "fallback": fallback}})
}

fn no_reply() -> Value {
    json!({"say": "[no reply]"})
}

#[tokio::test(start_paused = true)]
async fn a_message_with_blocks_carries_them_without_a_float_beside_the_whole_text() {
    let house = House::with_tools(json!({"steps": [send(table(json!(62.99)), "Price: **62.99**"), no_reply()]})).await;
    house.ask(ALICE, DIRECT, "the price?").await;
    insta::assert_json_snapshot!(house.server.contents());
    assert!(house.shown(1).contains("Sent as [2] ($sent1)."), "{}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn five_edits_at_once_are_two_on_the_wire_and_five_answers() {
    let edits: Vec<_> = (1..=5).map(|n| edit("[2]", table(json!(n)), &format!("price {n}"))).collect();
    let house =
        House::with_tools(json!({"steps": [send(table(json!(0)), "price 0"), {"calls": edits}, no_reply()]})).await;
    house.ask(ALICE, DIRECT, "watch the price").await;
    let sent = house.server.sent();
    let bodies: Vec<_> = sent.iter().map(|sent| sent.content["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["price 0", "* price 1", "* price 5"]);
    assert!(sent[2].at - sent[1].at >= Duration::from_millis(2500), "{sent:#?}");
    assert_eq!(sent[2].content["m.new_content"]["com.ianm.mtrix"], table(json!(5)));
    assert_eq!(sent[2].content.get("com.ianm.mtrix"), None);
    assert_eq!(sent[2].content["m.mentions"], json!({}));
    assert_eq!(house.shown(2).matches("Edited [2].").count(), 5, "{}", house.shown(2));
    assert_eq!(house.room(DIRECT), ["price 5"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_agents_own_messages_can_be_edited() {
    let to = |event: &str| edit(event, table(json!(1)), "x");
    let house = House::with_tools(json!({"steps": [
        {"calls": [to("[1]"), to("[7]"), to("$unknown"), to("nonsense")]}, {"say": "I can't."},
    ]}))
    .await;
    house.ask(ALICE, DIRECT, "edit what I said").await;
    let shown = house.shown(1);
    for refusal in [
        "somebody else's; only your own can be edited",
        "event_id: there is no message [7] there",
        "the homeserver does not give that message",
        "event id",
    ] {
        assert!(shown.contains(refusal), "{refusal}: {shown}");
    }
    assert_eq!(house.room(DIRECT), ["I can't."]);
}

#[tokio::test(start_paused = true)]
async fn an_edit_works_in_a_later_turn_and_is_what_the_model_remembers() {
    let house = House::with_tools(json!({"steps": [
        send(table(json!(1)), "one"), no_reply(),
        {"calls": [edit("[2]", table(json!(2)), "two")]}, no_reply(),
        {"say": "Yes."},
    ]}))
    .await;
    house.ask(ALICE, DIRECT, "begin").await;
    house.ask(ALICE, DIRECT, "go on").await;
    assert!(house.shown(2).contains("(Messages of yours with blocks: [2] \"one\".)"), "{}", house.shown(2));
    house.ask(ALICE, DIRECT, "done?").await;
    assert_eq!(house.room(DIRECT), ["two", "Yes."]);
    assert!(house.shown(4).contains("assistant: two"), "{}", house.shown(4));
}

#[tokio::test(start_paused = true)]
async fn a_late_edit_reaches_a_message_that_only_the_homeserver_knows_and_its_buttons_work() {
    let script = json!({"steps": [
        {"calls": [edit("$waybread1", buttons(), "Start? 🚀"), edit("$alice2", table(json!(1)), "x")]},
        no_reply(),
        {"say": "Off we go."},
    ]});
    let house = House::with_tools(script).await;
    // Of an earlier life: not in the store, and not brought again.
    let own = house.server.keep(house.event(Incoming::message(BOT, DIRECT, "Wait for it.")));
    house.server.keep(house.event(Incoming::message(ALICE, DIRECT, "somebody else's")));
    house.ask(ALICE, DIRECT, "are we ready?").await;
    let content = house.server.contents().remove(0);
    assert_eq!(content["m.relates_to"], json!({"rel_type": "m.replace", "event_id": own}));
    assert_eq!(content["m.new_content"]["body"], "Start? 🚀");
    let shown = house.shown(1);
    assert!(shown.contains("Edited $waybread1.") && shown.contains("only your own can be edited"), "{shown}");
    house.receive(Incoming::reaction(ALICE, DIRECT, &own, "🚀")).await;
    house.quiet().await;
    assert!(house.shown(2).contains("(pressed \"Start\" on your message)"), "{}", house.shown(2));
}

#[tokio::test(start_paused = true)]
async fn a_message_says_in_its_text_what_its_blocks_say_where_the_operator_wants_that() {
    let script = json!({"steps": [send(table(json!(62.99)), "The price:"), no_reply()]});
    let house = House::with(script.clone(), |setup| {
        setup.offer_tools();
        setup.config.rich.complete_text = Switch::On;
    })
    .await;
    house.ask(ALICE, DIRECT, "the price?").await;
    let content = house.server.contents().remove(0);
    let body = content["body"].as_str().unwrap();
    assert!(body.starts_with("The price:\n\n") && body.contains("62.99"), "{body}");
    assert!(content["formatted_body"].as_str().unwrap().contains("62.99"), "{content}");

    let house = House::with_tools(script).await;
    house.ask(ALICE, DIRECT, "the price?").await;
    assert_eq!(house.room(DIRECT), ["The price:"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_is_edited_no_more_often_than_it_may_be() {
    let script = json!({"steps": [
        send(table(json!(0)), "0"),
        {"calls": [edit("[2]", table(json!(1)), "1")]}, {"calls": [edit("[2]", table(json!(2)), "2")]},
        {"calls": [edit("[2]", table(json!(3)), "3")]}, no_reply(),
    ]});
    let house = House::with(script, |setup| {
        setup.offer_tools();
        setup.config.rich.max_edits = 2;
    })
    .await;
    house.ask(ALICE, DIRECT, "count").await;
    assert!(house.shown(4).contains("send a new one with rich_send"), "{}", house.shown(4));
    assert_eq!(house.room(DIRECT), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn replies_and_threads_land_where_they_are_meant_to() {
    let script = json!({"steps": [
        {"calls": [
            {"name": "rich_send", "arguments": {"payload": table(json!(1)), "fallback": "a reply", "reply_to": "[1]"}},
            {"name": "rich_send", "arguments": {"payload": table(json!(2)), "fallback": "in a thread", "thread": 1}},
        ]},
        no_reply(),
    ]});
    let house = House::with_tools(script).await;
    let question = house.receive(Incoming::message(ALICE, GROUP, "show both").mention()).await;
    house.quiet().await;
    let relations: Vec<_> = house.server.contents().iter().map(|content| content["m.relates_to"].clone()).collect();
    assert_eq!(
        relations,
        [
            json!({"m.in_reply_to": {"event_id": question}}),
            json!({"rel_type": "m.thread", "event_id": question, "is_falling_back": true,
                "m.in_reply_to": {"event_id": question}}),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn another_room_is_posted_to_where_the_operator_and_both_rooms_allow_it() {
    let to_group = json!({"calls": [{"name": "rich_send", "arguments":
        {"payload": table(json!(1)), "fallback": "for all", "room": GROUP}}]});
    let script = json!({"steps": [to_group, no_reply()]});
    let house = House::with(script.clone(), |setup| {
        setup.offer_tools();
        setup.config.rich.rooms = vec![GROUP.try_into().unwrap()];
    })
    .await;
    house.ask(ALICE, DIRECT, "tell the group").await;
    assert_eq!(house.room(GROUP), ["for all"]);

    let house = House::with_tools(script).await;
    house.ask(ALICE, DIRECT, "tell the group").await;
    assert!(house.shown(1).contains("is none that you may post to"), "{}", house.shown(1));
    assert_eq!(house.room(GROUP), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_button_is_seeded_and_its_reaction_starts_a_turn() {
    let house =
        House::with_tools(json!({"steps": [send(buttons(), "Start? 🚀"), no_reply(), {"say": "Off we go."}]})).await;
    house.ask(ALICE, DIRECT, "ready?").await;
    let message = house.server.message(DIRECT, 0);
    let seed = house.server.contents().pop().unwrap();
    assert_eq!(seed, json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": message, "key": "🚀"}}));
    house.receive(Incoming::reaction(BOB, DIRECT, &message, "🎉")).await;
    house.receive(Incoming::reaction(ALICE, DIRECT, &message, "🚀")).await;
    house.quiet().await;
    assert!(
        house.shown(2).contains("alice (reply to you): (pressed \"Start\" on your message [2])"),
        "{}",
        house.shown(2)
    );
    assert_eq!(house.requests(), 3);
    assert_eq!(house.room(DIRECT), ["Start? 🚀", "Off we go."]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_a_click_has_sent_says_what_was_pressed_even_in_a_group() {
    let script = json!({"steps": [send(buttons(), "Start?"), no_reply(), {"say": "Then not."}]});
    let house = House::with_tools(script).await;
    house.receive(Incoming::message(ALICE, GROUP, "ready?").mention()).await;
    house.quiet().await;
    house.receive(Incoming::message(BOB, GROUP, "not now").with("com.ianm.mtrix.used", json!({"id": "no"}))).await;
    house.quiet().await;
    assert!(house.shown(2).contains("(pressed \"Not now\" on your message [2])"), "{}", house.shown(2));
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_turn_that_is_begun_anew_posts_nothing_twice() {
    let script = json!({"steps": [
        send(table(json!(1)), "one"), {"fail": "silence"},
    ]});
    let house = House::with_tools(script).await;
    let question = house.say(ALICE, DIRECT, "the price?").await;
    house.until("the message stands there", |house| house.room(DIRECT) == ["one"]).await;
    let again = json!({"steps": [send(table(json!(1)), "one"), no_reply()]});
    let (server, store) = (house.server.clone(), house.store.clone());
    drop(house);
    let house = House::with(again, |setup| {
        setup.offer_tools();
        (setup.server, setup.store) = (server, store);
    })
    .await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["one"]);
    assert!(house.shown(1).contains("It stands there already, as [2]"), "{question}: {}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn a_formula_alone_is_read_everywhere() {
    let math = json!({"v": 1, "blocks": [{"type": "math", "tex": "a<b"}]});
    let house = House::with_tools(json!({"steps": [send(math, ""), no_reply()]})).await;
    house.ask(ALICE, DIRECT, "write it").await;
    let content = house.server.contents().remove(0);
    assert_eq!(content["body"], "a<b");
    assert_eq!(content["formatted_body"], "<div data-mx-maths=\"a&lt;b\"><code>a&lt;b</code></div>");
}

#[tokio::test(start_paused = true)]
async fn a_file_in_an_encrypted_room_needs_its_encrypted_form() {
    let file = json!({"v": 1, "blocks": [{"type": "file", "name": "a.txt", "url": "mxc://example.org/abc"}]});
    let house = House::with_tools(json!({"steps": [send(file, "a file"), {"say": "No."}]})).await;
    house.ask(ALICE, DIRECT, "send it").await;
    assert!(house.shown(1).contains("blocks[0].url: this room is encrypted"), "{}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn a_forms_answer_comes_back_with_its_values() {
    let form = json!({"v": 1, "blocks": [{"type": "form", "id": "order", "title": "Tea", "fields": [
        {"id": "kind", "label": "Which?", "type": "text"}, {"id": "cups", "label": "Cups", "type": "number"},
    ]}]});
    let house = House::with_tools(
        json!({"steps": [send(form, "Which tea, how many cups?"), no_reply(), {"say": "Two cups."}]}),
    )
    .await;
    house.receive(Incoming::message(ALICE, GROUP, "tea!").mention()).await;
    house.quiet().await;
    let used = json!({"id": "order", "values": {"kind": "green", "cups": 2}});
    house.receive(Incoming::message(BOB, GROUP, "green, 2").with("com.talaagent.mxblocks.used", used)).await;
    house.quiet().await;
    let shown = house.shown(2);
    assert!(shown.contains("(pressed \"order\" on your message [2])\ncups: 2\nkind: green"), "{shown}");
    assert_eq!(house.room(GROUP).last().unwrap(), "Two cups.");
}

#[test]
fn each_blocks_text_reads_well_as_html() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mxblocks/fixtures");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let written = |file: &PathBuf| {
        let payload = format!("{{\"v\": 1, \"blocks\": [{}]}}", fs::read_to_string(file).unwrap());
        let rich = mxblocks::Rich::parse(&payload).unwrap();
        let text = rich.markdown();
        let html = crate::render::to_html(&text).unwrap_or_else(|| format!("(no HTML) {text}"));
        format!("## {}\n{html}", file.file_stem().unwrap().to_string_lossy())
    };
    let all: Vec<_> = files.iter().map(written).collect();
    assert!(all.len() >= mxblocks::DISPLAY_TYPES.len());
    insta::assert_snapshot!(all.join("\n\n"));
}
