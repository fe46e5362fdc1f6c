//! A model that goes wrong: the person gets an answer or a short clear word, and the next question works.

use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::{ALICE, DIRECT, House};

/// What stands in the room after a turn of `steps`, and that the next question works.
async fn after(steps: &[Value]) -> Vec<String> {
    let mut steps = steps.to_vec();
    steps.push(json!({"say": "I am here."}));
    let count = steps.len();
    let house = House::new(json!({ "steps": steps })).await;
    house.ask(ALICE, DIRECT, "Hello?").await;
    let room = house.room(DIRECT);
    assert_eq!(house.requests(), count - 1);
    house.ask(ALICE, DIRECT, "And now?").await;
    assert_eq!(house.room(DIRECT).last().unwrap(), "I am here.");
    let shown = house.shown(count - 1);
    assert!(shown.contains("alice: Hello?") && shown.contains("alice: And now?") && !shown.contains('⚠'), "{shown}");
    room
}

fn status(status: u16) -> Value {
    json!({"fail": {"status": status}})
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_passes_is_not_seen_in_the_room() {
    for fault in [status(429), status(500), json!({"fail": "cut"}), json!({"say": "Half an answer.", "fail": "cut"})] {
        let room = after(&[fault.clone(), fault.clone(), json!({"say": "A whole answer."})]).await;
        assert_eq!(room, ["A whole answer."], "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_stays_is_told_in_a_word() {
    let busy = "notice: ⚠ My model is busy. Please try again in a few minutes.";
    let gone = "notice: ⚠ My model can't be reached right now. Please try again later.";
    let refuses = "notice: ⚠ My model refuses to work. My operator finds the reason in the log.";
    let long = "notice: ⚠ That is too long for my model. Please ask in smaller parts.";
    assert_eq!(after(&[(); 4].map(|()| status(429))).await, [busy]);
    assert_eq!(after(&[(); 4].map(|()| status(500))).await, [gone]);
    assert_eq!(after(&[(); 4].map(|()| json!({"fail": "cut"}))).await, [gone]);
    assert_eq!(after(&[status(401)]).await, [refuses]);
    assert_eq!(after(&[status(413)]).await, [long]);
}

#[tokio::test(start_paused = true)]
async fn what_was_said_before_a_fault_that_stays_remains_with_the_word_behind_it() {
    let room = after(&[(); 4].map(|()| json!({"say": "It is so. And", "fail": "cut"}))).await;
    assert_eq!(room, ["It is so. And\n\n*⚠ My model can't be reached right now. Please try again later.*"]);
}

#[tokio::test(start_paused = true)]
async fn a_fault_in_a_later_step_keeps_the_earlier_ones() {
    let first = json!({"say": "I look.", "calls": [{"name": "now"}]});
    let room = after(&[first, json!({"say": "It is ha", "fail": "cut"}), json!({"say": "It is half past."})]).await;
    assert_eq!(room, ["I look.\n\nIt is half past."]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_model_is_ended_by_the_turns_time() {
    assert_eq!(after(&[json!({"fail": "silence"})]).await, ["notice: ⏹ Ended: this took too long."]);
}

#[tokio::test(start_paused = true)]
async fn an_endless_model_is_ended_by_the_turns_time() {
    let room = after(&[json!({"say": "It goes on.", "fail": "endless", "word_ms": 1000})]).await;
    assert_eq!(room.len(), 1);
    assert!(room[0].starts_with("It goes on. It goes on. "), "{room:?}");
    assert!(room[0].ends_with("\n\n*⏹ Ended: this took too long.*"), "{room:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_turn_types_until_its_model_answers() {
    let house =
        House::new(json!({"steps": [{"fail": {"status": 429, "retry_after_ms": 25_000}}, {"say": "Now."}]})).await;
    house.say(ALICE, DIRECT, "Hello?").await;
    house.pass(Duration::from_secs(24)).await;
    assert!(house.server.anybody_types() && house.server.sent().is_empty());
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["Now."]);
    assert_eq!(house.server.sent()[0].at, Duration::from_secs(25));
}

#[tokio::test(start_paused = true)]
async fn rooms_do_not_suffer_from_each_others_faults() {
    let house = House::new(json!({"steps": [{"fail": "silence"}, {"say": "I am here."}]})).await;
    house.say(ALICE, DIRECT, "Hello?").await;
    house.say(ALICE, "!direct-too:example.org", "Hello?").await;
    assert_eq!([house.room(DIRECT), house.room("!direct-too:example.org")], [vec![], vec!["I am here.".to_owned()]]);
}
