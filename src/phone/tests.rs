//! The tool in a room: who is offered it, who may answer, and what becomes of the card.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::HashMap, time::Duration};

use phone_actions::{ANSWER_KEY, CARD_KEY, PHONE_KEY};
use ruma::OwnedEventId;
use serde_json::{Value, json};

use crate::testing::{ALICE, BOB, DIRECT, GROUP, House, Incoming};

fn alarm() -> Value {
    json!({"calls": [{"name": "phone_action", "arguments": {"action": "alarm", "time": "07:30", "summary": "Wake up"}}]})
}

fn torch() -> Value {
    json!({"calls": [{"name": "phone_action", "arguments": {"action": "torch", "on": true}}]})
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A house where alice has said that she writes from her phone.
async fn by_hand(script: Value) -> House {
    let house = House::new(script).await;
    house.say(ALICE, DIRECT, "!phone here").await;
    house
}

/// A house to which alice's phone client has announced itself, from the device that all her messages come from.
async fn paired(script: Value) -> House {
    let house = House::new(script).await;
    house
        .receive(Incoming::message(ALICE, DIRECT, "a phone").notice().with(
            PHONE_KEY,
            json!({"v": 1, "device": "DEVICE", "chat_devices": ["ELEMENT"], "actions": ["alarm", "torch"]}),
        ))
        .await;
    house
}

/// Asks for an alarm, and gives the card.
async fn card(house: &House) -> (OwnedEventId, Value) {
    house.say(ALICE, DIRECT, "wake me at half past seven").await;
    house.until("a card is there", |house| house.server.contents().iter().any(|one| one.get(CARD_KEY).is_some())).await;
    let sent = house.server.sent();
    let card = sent.iter().find(|sent| sent.content.get(CARD_KEY).is_some()).unwrap();
    (card.id.clone(), card.content.clone())
}

fn answer(card: &OwnedEventId, content: &Value, said: Value) -> Incoming {
    let mut key = json!({"v": 1, "id": content[CARD_KEY]["id"]});
    key.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
    Incoming::message(ALICE, DIRECT, "an answer").notice().reply_to(card).with(ANSWER_KEY, key)
}

/// The state of the card as it stands in the room, and the body.
fn state(house: &House, card: &OwnedEventId) -> (String, String) {
    let contents = house.server.contents();
    let edits = contents.iter().filter(|one| one["m.relates_to"]["event_id"] == card.as_str());
    let last = edits.filter_map(|one| one.get("m.new_content")).next_back().expect("the card is closed");
    (last[CARD_KEY]["state"].as_str().unwrap().to_owned(), last["body"].as_str().unwrap().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_card_is_done_by_hand_and_a_reaction_says_so() {
    let house = by_hand(json!({"steps": [alarm(), {"say": "It is set."}]})).await;
    let (event, mut content) = card(&house).await;
    content[CARD_KEY]["id"] = "[id]".into();
    insta::assert_json_snapshot!("card", content);
    house.receive(Incoming::reaction(BOB, DIRECT, &event, "✅")).await;
    house.pass(seconds(10)).await;
    assert_eq!(house.requests(), 1, "nobody else's answer counts");
    house.receive(Incoming::reaction(ALICE, DIRECT, &event, "👍")).await;
    house.quiet().await;
    house.pass(seconds(5)).await;
    assert_eq!(state(&house, &event).0, "done");
    assert!(house.shown(1).contains("phone_action, call_1: Done"), "{}", house.shown(1));
    assert_eq!(house.room(DIRECT).last().unwrap(), "It is set.");
}

#[tokio::test(start_paused = true)]
async fn words_answer_a_card_that_is_done_by_hand() {
    for (words, closed, shown) in [
        ("Done.", "done", "Done"),
        ("no", "declined", "declined"),
        ("It says there is no clock app", "failed", "It says there is no clock app"),
    ] {
        let house = by_hand(json!({"steps": [alarm(), {"say": "I see."}]})).await;
        let (event, _) = card(&house).await;
        house.receive(Incoming::message(ALICE, DIRECT, words).reply_to(&event)).await;
        house.quiet().await;
        house.pass(seconds(5)).await;
        assert_eq!(state(&house, &event).0, closed, "{words}");
        assert!(house.shown(1).contains(shown), "{words}: {}", house.shown(1));
        assert_eq!(house.requests(), 2, "{words}: the reply is no question");
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_card_goes_away_and_a_late_one_is_an_ordinary_message() {
    let house = by_hand(json!({"steps": [alarm(), {"say": "Never mind."}, {"say": "Too late."}]})).await;
    let (event, _) = card(&house).await;
    house.pass(seconds(119)).await;
    assert_eq!(house.requests(), 1);
    house.quiet().await;
    house.pass(seconds(5)).await;
    assert_eq!(state(&house, &event).0, "expired");
    house.receive(Incoming::message(ALICE, DIRECT, "done").reply_to(&event)).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT).last().unwrap(), "Too late.");
}

#[tokio::test(start_paused = true)]
async fn only_the_paired_phone_says_done_and_a_no_counts_from_anywhere() {
    let house = paired(json!({"steps": [alarm(), {"say": "It is set."}, torch(), {"say": "Not then."}]})).await;
    let (event, content) = card(&house).await;
    assert_eq!(content[CARD_KEY]["device"], "DEVICE");
    house.receive(Incoming::reaction(ALICE, DIRECT, &event, "✅")).await;
    house.receive(answer(&event, &content, json!({"status": "done"})).device("ELEMENT")).await;
    house.pass(seconds(10)).await;
    assert_eq!(house.requests(), 1, "neither a reaction nor another device says done");
    house.receive(answer(&event, &content, json!({"status": "done", "message": "Alarm set"}))).await;
    house.receive(answer(&event, &content, json!({"status": "failed"}))).await;
    house.quiet().await;
    house.pass(seconds(5)).await;
    assert_eq!(state(&house, &event).0, "done");
    assert!(house.shown(1).contains("Alarm set"), "{}", house.shown(1));

    house.pass(seconds(60)).await;
    house.say(ALICE, DIRECT, "light").await;
    house
        .until("another card", |house| {
            house
                .server
                .contents()
                .iter()
                .filter(|one| one.get(CARD_KEY).is_some() && one.get("m.new_content").is_none())
                .count()
                == 2
        })
        .await;
    let second = house.server.sent().into_iter().rfind(|sent| sent.content.get(CARD_KEY).is_some()).unwrap();
    house.receive(Incoming::reaction(ALICE, DIRECT, &second.id, "❌")).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT).last().unwrap(), "Not then.");
}

#[tokio::test(start_paused = true)]
async fn a_phone_that_has_begun_gets_its_time_and_its_silence_ends_it() {
    let house = paired(json!({"steps": [alarm(), {"say": "Well."}]})).await;
    let (event, content) = card(&house).await;
    house.pass(seconds(110)).await;
    house.receive(answer(&event, &content, json!({"taken": true}))).await;
    house.pass(seconds(25)).await;
    assert_eq!(house.requests(), 1);
    house.pass(seconds(10)).await;
    house.quiet().await;
    house.pass(seconds(5)).await;
    assert_eq!(state(&house, &event).0, "expired");
}

#[tokio::test(start_paused = true)]
async fn the_tool_is_offered_from_the_first_message_of_a_phone_on_and_unavailable_elsewhere() {
    let script = json!({"steps": [{"say": "Hello."}, {"say": "Ah, a phone."}, alarm(), {"say": "Not from there."}]});
    let house = House::new(script).await;
    house.ask(ALICE, DIRECT, "hello").await;
    house
        .receive(
            Incoming::message(ALICE, DIRECT, "now from the phone")
                .with("dev.waybread.capabilities", json!(["phone_actions"])),
        )
        .await;
    house.quiet().await;
    house.ask(ALICE, DIRECT, "and from the desk: wake me").await;
    let offered: Vec<_> = (0..3).map(|request| house.shown(request).contains("phone_action")).collect();
    assert_eq!(offered, [false, true, true]);
    assert!(house.shown(3).contains(&phone_actions::tool().unavailable), "{}", house.shown(3));
    assert!(house.server.contents().iter().all(|one| one.get(CARD_KEY).is_none()));
}

#[tokio::test(start_paused = true)]
async fn what_the_paired_phone_can_not_do_is_left_out_of_the_offer_and_refused() {
    let script = json!({"steps": [
        {"calls": [{"name": "phone_action", "arguments": {"action": "dial", "number": "112"}}]}, {"say": "It can't."},
    ]});
    let house = paired(script).await;
    house.ask(ALICE, DIRECT, "call them").await;
    assert!(house.shown(1).contains("the person's phone can't do dial; it can do: alarm, torch"), "{}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn a_broken_call_is_refused_in_the_contracts_words() {
    let script = json!({"steps": [
        {"calls": [{"name": "phone_action", "arguments": {"action": "add_stop"}}]}, {"say": "Where to?"},
    ]});
    let house = by_hand(script).await;
    house.ask(ALICE, DIRECT, "a stop").await;
    assert!(house.shown(1).contains("add_stop needs stop and destination."), "{}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn a_stop_withdraws_the_card() {
    let house = by_hand(json!({"steps": [alarm()]})).await;
    let (event, _) = card(&house).await;
    house.say(ALICE, DIRECT, "!stop").await;
    house.quiet().await;
    house.pass(seconds(5)).await;
    assert_eq!(state(&house, &event).0, "withdrawn");
}

#[tokio::test(start_paused = true)]
async fn one_card_at_a_time_waits_for_a_person() {
    let both = json!({"calls": [
        {"name": "phone_action", "arguments": {"action": "alarm", "time": "07:30"}},
        {"name": "phone_action", "arguments": {"action": "torch", "on": true}},
    ]});
    let house = by_hand(json!({"steps": [both, {"say": "One of them."}]})).await;
    let (event, _) = card(&house).await;
    house.receive(Incoming::reaction(ALICE, DIRECT, &event, "✅")).await;
    house.quiet().await;
    assert!(house.shown(1).contains("another card waits for the person's answer"), "{}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn an_open_card_outlives_a_restart_and_the_turn_that_is_begun_anew_waits_for_it() {
    let house = by_hand(json!({"steps": [alarm()]})).await;
    let (event, _) = card(&house).await;
    house.pass(seconds(20)).await;
    let (server, store) = (house.server.clone(), house.store.clone());
    drop(house);
    let script = json!({"steps": [alarm(), {"say": "It is set."}]});
    let house = House::with(script, |setup| {
        (setup.server, setup.store) = (server, store);
        setup.after = seconds(25);
    })
    .await;
    house.pass(seconds(5)).await;
    house.receive(Incoming::reaction(ALICE, DIRECT, &event, "✅")).await;
    house.quiet().await;
    house.pass(seconds(5)).await;
    assert_eq!(state(&house, &event).0, "done");
    let cards = house.server.contents().iter().filter(|one| one.get(CARD_KEY).is_some()).count();
    assert_eq!(cards, 1, "no second card");
    assert_eq!(house.room(DIRECT).last().unwrap(), "It is set.");
}

#[tokio::test(start_paused = true)]
async fn the_turns_working_time_stands_still_while_a_person_is_awaited() {
    let script = json!({"steps": [alarm(), {"say": "It is set."}]});
    let house = House::with(script, |setup| setup.config.turn.max_time = seconds(60)).await;
    house.say(ALICE, DIRECT, "!phone here").await;
    let (event, _) = card(&house).await;
    house.pass(seconds(100)).await;
    house.receive(Incoming::reaction(ALICE, DIRECT, &event, "✅")).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT).last().unwrap(), "It is set.");
}

#[tokio::test(start_paused = true)]
async fn a_threads_fall_back_is_no_reply_to_the_card() {
    let script = json!({"steps": [alarm(), {"say": "It is set."}], "otherwise": {"say": "Yes?"}});
    let house = House::new(script).await;
    let root = house.receive(Incoming::message(ALICE, GROUP, "!phone here").mention()).await;
    let _ = root;
    let question = house.receive(Incoming::message(ALICE, GROUP, "wake me").mention()).await;
    house.until("a card", |house| house.server.contents().iter().any(|one| one.get(CARD_KEY).is_some())).await;
    let card = house.server.sent().into_iter().find(|sent| sent.content.get(CARD_KEY).is_some()).unwrap();
    assert_eq!(card.content["m.relates_to"], json!({"m.in_reply_to": {"event_id": question}}));
    house.receive(Incoming::message(ALICE, GROUP, "done").thread(&card.id)).await;
    house.pass(seconds(10)).await;
    assert!(!house.server.contents().iter().any(|one| one["m.new_content"][CARD_KEY]["state"] == "done"));
    house.receive(Incoming::message(ALICE, GROUP, "done").reply_to(&card.id)).await;
    house.pass(seconds(10)).await;
    assert!(house.server.contents().iter().any(|one| one["m.new_content"][CARD_KEY]["state"] == "done"));
}

/// More people than turns may run at once, each in a room of their own; `cargo xtask test --long` takes 1,000.
fn crowd() -> usize {
    std::env::var("WAYBREAD_TEST_CARDS").map_or(80, |cards| cards.parse().unwrap())
}

/// What of this process is in memory, in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test(start_paused = true)]
async fn more_cards_are_open_at_once_than_turns_may_run_and_each_is_answered() {
    let crowd = crowd();
    let steps = vec![alarm(); crowd].into_iter().chain(vec![json!({"say": "Set."}); crowd]).collect::<Vec<_>>();
    let house = House::with(json!({"steps": steps}), |setup| {
        assert!(setup.config.turn.max_concurrent < crowd);
        setup.config.outbox.events_per_second = 1e6;
        setup.config.outbox.burst = 1_000_000;
    })
    .await;
    let people: Vec<_> =
        (0..crowd).map(|n| (format!("@p{n}:example.org"), format!("!direct{n}:example.org"))).collect();
    let all_say = async |text: &str| {
        let events = people.iter().map(|(person, room)| house.event(Incoming::message(person, room, text)));
        house.commit(events.collect()).await;
    };
    all_say("!phone here").await;
    house.quiet().await;
    let before = resident();
    all_say("wake me at half past seven").await;
    house.until("all have a card", |house| house.model.answered() == crowd).await;
    house.pass(seconds(1)).await;
    eprintln!("{crowd} open cards: {} bytes resident for each", resident().saturating_sub(before) / crowd);
    let cards = house.server.sent().into_iter().filter(|sent| sent.content.get(CARD_KEY).is_some());
    let cards: Vec<_> = cards.map(|sent| (sent.room, sent.id)).collect();
    assert_eq!(cards.len(), crowd);
    let whose: HashMap<_, _> = people.iter().map(|(person, room)| (room.as_str(), person)).collect();
    let answers = cards.iter().map(|(room, card)| Incoming::reaction(whose[room.as_str()], room.as_str(), card, "✅"));
    house.commit(answers.map(|answer| house.event(answer)).collect()).await;
    house.quiet().await;
    for (_, room) in &people {
        let said = house.room(room);
        assert_eq!(said.last().map(String::as_str), Some("Set."), "{room}: {said:?}");
    }
}
