//! What people write while a turn runs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::{ALICE, BOB, DIRECT, GROUP, House, Incoming};

fn pause(say: &str, seconds: u64) -> Value {
    json!({"say": say, "calls": [{"name": "pause", "arguments": {"seconds": seconds}}]})
}

#[tokio::test(start_paused = true)]
async fn a_second_message_of_the_same_person_is_shown_at_the_next_step() {
    let house = House::new(json!({"steps": [pause("", 5), {"say": "Both."}, {"say": "Yes."}]})).await;
    house.say(ALICE, DIRECT, "Do this.").await;
    house.say(ALICE, DIRECT, "And that.").await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["Both."]);
    insta::assert_snapshot!("shown_with_a_message_taken_in", house.shown(1));
    house.ask(ALICE, DIRECT, "Done?").await;
    insta::assert_snapshot!("shown_after_a_message_was_taken_in", house.shown(2));
}

#[tokio::test(start_paused = true)]
async fn a_message_during_the_last_step_gets_a_turn_of_its_own_that_knows_the_answer() {
    let house = House::new(json!({"steps": [
        {"say": "The first answer.", "word_ms": 500},
        {"say": "The second answer."},
    ]}))
    .await;
    house.say(ALICE, DIRECT, "The first question?").await;
    house.say(ALICE, DIRECT, "The second question?").await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["The first answer.", "The second answer."]);
    insta::assert_snapshot!("shown_in_a_turn_that_had_to_wait", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn several_messages_during_the_last_step_are_answered_each_once() {
    let house = House::new(json!({"steps": [
        {"say": "One.", "word_ms": 500},
        pause("", 1),
        {"say": "Two and three."},
    ], "otherwise": {"say": "Again?"}}))
    .await;
    for question in ["One?", "Two?", "Three?"] {
        house.say(ALICE, DIRECT, question).await;
    }
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["One.", "Two and three."]);
    assert!(house.shown(2).contains("pause, call_1: Waited for 1 s.\n\nuser: [3] alice: Three?\n"));
}

#[tokio::test(start_paused = true)]
async fn another_persons_message_waits_for_its_own_turn() {
    let house = House::new(json!({"steps": [
        pause("", 5),
        {"say": "For alice."},
        {"say": "For bob."},
    ]}))
    .await;
    house.receive(Incoming::message(ALICE, GROUP, "First?").mention()).await;
    let bobs = house.receive(Incoming::message(BOB, GROUP, "Second?").mention()).await;
    house.quiet().await;
    assert_eq!(house.room(GROUP), ["For alice.", "For bob."]);
    let reply = &house.server.contents()[1];
    assert_eq!(reply["m.relates_to"]["m.in_reply_to"]["event_id"], bobs.as_str());
    assert_eq!(reply["m.mentions"], json!({"user_ids": [BOB]}));
    insta::assert_snapshot!("shown_to_alices_turn_of_bobs_message", house.shown(1));
    insta::assert_snapshot!("shown_to_bobs_turn", house.shown(2));
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_prompt_while_the_model_writes_starts_over_with_the_new_text() {
    let house = House::new(json!({"steps": [
        {"say": "Paris is lovely. And", "fail": "silence"},
        {"say": "Rome is lovely."},
    ]}))
    .await;
    let question = house.say(ALICE, DIRECT, "Tell me of Paris.").await;
    house.pass(Duration::from_secs(3)).await;
    assert_eq!(house.room(DIRECT), ["Paris is lovely. And (live)"]);
    house.receive(Incoming::edit(ALICE, DIRECT, &question, "Tell me of Rome.")).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["Rome is lovely."]);
    insta::assert_snapshot!("shown_after_the_prompt_was_edited", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn a_draft_that_an_edit_of_the_prompt_leaves_without_an_answer_is_brought_to_an_end() {
    let house = House::new(json!({"steps": [
        {"say": "Paris is lovely. And", "fail": "silence"},
        {"say": "[no reply]"},
    ]}))
    .await;
    let question = house.say(ALICE, DIRECT, "Tell me of Paris.").await;
    house.pass(Duration::from_secs(3)).await;
    house.receive(Incoming::edit(ALICE, DIRECT, &question, "Never mind.")).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["⚠ My model answered with nothing. Please ask again, perhaps in other words."]);
    assert!(house.shown(1).contains("user: [1] alice: Never mind.\n"), "{}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_prompt_while_a_tool_runs_is_seen_at_the_next_step() {
    let house = House::new(json!({"steps": [pause("", 5), {"say": "Rome is lovely."}]})).await;
    let question = house.say(ALICE, DIRECT, "Tell me of Paris.").await;
    house.receive(Incoming::edit(ALICE, DIRECT, &question, "Tell me of Rome.")).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["Rome is lovely."]);
    let shown = house.shown(1);
    assert!(shown.contains("user: [1] alice: Tell me of Rome.\n\nassistant: \n  call_1"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn an_edit_after_the_turn_changes_the_history_and_starts_no_turn() {
    let house = House::new(json!({"steps": [{"say": "It is 4."}, {"say": "It is 6."}]})).await;
    let question = house.ask(ALICE, DIRECT, "What is 2+2?").await;
    house.receive(Incoming::edit(ALICE, DIRECT, &question, "What is 3+1?")).await;
    house.pass(Duration::from_secs(60)).await;
    assert_eq!(house.requests(), 1);
    house.ask(ALICE, DIRECT, "And 3+3?").await;
    let shown = house.shown(1);
    assert!(shown.contains("user: [1] alice: What is 3+1?\n\nassistant: It is 4."), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn nobody_edits_another_persons_prompt() {
    let house = House::new(json!({"steps": [{"say": "It is", "fail": "silence"}]})).await;
    let question = house.receive(Incoming::message(ALICE, GROUP, "What is 2+2?").mention()).await;
    house.receive(Incoming::edit(BOB, GROUP, &question, "What is 9+9?")).await;
    house.pass(Duration::from_secs(5)).await;
    assert_eq!(house.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_taken_back_before_its_turn_has_none() {
    let house = House::new(json!({"steps": [{"say": "For alice.", "word_ms": 500}]})).await;
    house.receive(Incoming::message(ALICE, GROUP, "First?").mention()).await;
    let bobs = house.receive(Incoming::message(BOB, GROUP, "Second?").mention()).await;
    let alices = house.receive(Incoming::message(ALICE, GROUP, "Third?").mention()).await;
    house.receive(Incoming::redaction(BOB, GROUP, &bobs)).await;
    house.receive(Incoming::redaction(ALICE, GROUP, &alices)).await;
    house.quiet().await;
    assert_eq!(house.room(GROUP), ["For alice."]);
    assert_eq!(house.requests(), 1);
}
