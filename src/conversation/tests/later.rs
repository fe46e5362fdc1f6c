//! Turns that the agent has set itself.

use std::time::Duration;

use serde_json::json;

use crate::testing::{ALICE, BOB, DIRECT, GROUP, House, Incoming};

fn set(seconds: u64, note: &str) -> serde_json::Value {
    json!({"calls": [{"name": "later", "arguments": {"seconds": seconds, "note": note}}]})
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_set_for_later_begins_by_itself_with_its_note_and_only_once() {
    let house = House::with_tools(json!({"steps": [
        set(120, "Say that the tea is ready."), {"say": "I will."}, {"say": "The tea is ready."},
    ]}))
    .await;
    house.ask(ALICE, DIRECT, "remind me of the tea").await;
    house.pass(minutes(1)).await;
    assert_eq!(house.requests(), 2);
    house.pass(minutes(10)).await;
    assert_eq!(house.room(DIRECT), ["I will.", "The tea is ready."]);
    assert!(house.shown(2).contains("Nobody has written. You asked for this turn"), "{}", house.shown(2));
    assert!(house.shown(2).contains("\"Say that the tea is ready.\""), "{}", house.shown(2));
    assert_eq!(house.requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_became_due_while_the_agent_was_away_begins_at_the_next_start() {
    let house = House::with_tools(json!({"steps": [set(60, "Look again."), {"say": "Yes."}]})).await;
    house.ask(ALICE, DIRECT, "look again in a minute").await;
    let (server, store) = (house.server.clone(), house.store.clone());
    drop(house);
    tokio::time::advance(minutes(5)).await;
    let script = json!({"steps": [{"say": "I have looked."}]});
    let house = House::with(script, |setup| {
        setup.offer_tools();
        (setup.server, setup.store) = (server, store);
        setup.after = minutes(5);
    })
    .await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["Yes.", "I have looked."]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_for_later_stays_in_its_thread_and_mentions_nobody() {
    let house = House::with_tools(json!({"steps": [set(60, "Go on."), {"say": "Later."}, {"say": "Now."}]})).await;
    let root = house.receive(Incoming::message(BOB, GROUP, "a root")).await;
    house.receive(Incoming::message(ALICE, GROUP, "go on later").thread(&root).mention()).await;
    house.quiet().await;
    house.pass(minutes(2)).await;
    let last = house.server.contents().pop().unwrap();
    assert_eq!(last["body"], "Now.");
    assert_eq!(last["m.relates_to"]["event_id"], root.as_str());
    assert_eq!(last["m.mentions"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn people_list_what_is_set_and_take_it_away() {
    let house = House::with_tools(json!({"steps": [set(600, "Look."), set(4000, "Look far."), {"say": "Set."}]})).await;
    house.ask(ALICE, DIRECT, "look twice").await;
    house.say(ALICE, DIRECT, "!later").await;
    house.say(ALICE, DIRECT, "!later delete 1").await;
    house.say(ALICE, DIRECT, "!later delete 1").await;
    house.say(ALICE, DIRECT, "!later").await;
    house.pass(minutes(20)).await;
    insta::assert_snapshot!(house.room(DIRECT).join("\n---\n"));
    assert_eq!(house.requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn no_more_turns_are_set_than_one_conversation_may_have() {
    let script = json!({"steps": [set(60, "a"), set(60, "b"), {"say": "One is set."}]});
    let house = House::with(script, |setup| {
        setup.offer_tools();
        setup.config.later.max_open = 1;
    })
    .await;
    house.ask(ALICE, DIRECT, "look twice").await;
    assert!(house.shown(2).contains("there are 1 turns to come here already"), "{}", house.shown(2));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_turn_that_nobody_attends() {
    let house = House::with_tools(
        json!({"steps": [set(60, "Talk."), {"say": "Yes."}, {"say": "And so on.", "fail": "endless"}]}),
    )
    .await;
    house.ask(ALICE, DIRECT, "talk later").await;
    house.until("it talks", |house| house.requests() == 3).await;
    house.pass(Duration::from_secs(5)).await;
    house.say(ALICE, DIRECT, "!stop").await;
    house.quiet().await;
    house.pass(minutes(5)).await;
    assert_eq!(house.requests(), 3);
    assert!(house.room(DIRECT)[1].ends_with("*⏹ Stopped.*"), "{:?}", house.room(DIRECT));
}

#[tokio::test(start_paused = true)]
async fn a_turn_for_later_waits_for_the_one_that_runs_and_two_that_are_due_together_both_come() {
    let script = json!({"steps": [
        set(60, "The first."), set(60, "The second."), {"say": "Set."},
        {"say": "It takes me a while to say all of this.", "word_ms": 4000},
        {"expect_last": ["The first."], "say": "One."}, {"expect_last": ["The second."], "say": "Two."},
    ]});
    let house = House::with_tools(script).await;
    house.ask(ALICE, DIRECT, "remind me twice").await;
    house.pass(Duration::from_secs(50)).await;
    house.say(ALICE, DIRECT, "and now talk").await;
    house.pass(minutes(3)).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT)[1..], ["It takes me a while to say all of this.", "One.", "Two."]);
    assert_eq!(house.requests(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_note_that_reads_like_a_stop_stops_nothing() {
    let script = json!({"steps": [
        set(60, "stop"), {"say": "Set."}, {"say": "One word after another.", "word_ms": 5000}, {"say": "I have stopped it."},
    ]});
    let house = House::with_tools(script).await;
    house.ask(ALICE, DIRECT, "stop it in a minute").await;
    house.pass(Duration::from_secs(55)).await;
    house.say(ALICE, DIRECT, "talk").await;
    house.pass(minutes(2)).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT)[1..], ["One word after another.", "I have stopped it."]);
}
