//! A person ends a turn, whatever it is doing.

use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::{ALICE, Answer, BOB, DIRECT, GROUP, House, Incoming, STRANGER};

/// Ways to stop the turn on alice's question in the direct room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Word,
    Command,
    Sign,
    Redaction,
}

const WAYS: [Way; 4] = [Way::Word, Way::Command, Way::Sign, Way::Redaction];

/// A turn of `step` that is stopped after two seconds in the given way.
async fn stopped(step: &Value, way: Way) -> House {
    let house = House::new(json!({"steps": [step, {"say": "Here."}]})).await;
    let question = house.say(ALICE, DIRECT, "Go on for ever.").await;
    house.pass(Duration::from_secs(2)).await;
    assert!(house.server.anybody_types());
    match way {
        Way::Word => house.say(ALICE, DIRECT, "Stop!").await,
        Way::Command => house.say(ALICE, DIRECT, "!stop").await,
        Way::Sign => {
            let draft = house.server.sent()[0].id.clone();
            house.receive(Incoming::reaction(ALICE, DIRECT, &draft, "🛑\u{fe0f}")).await
        }
        Way::Redaction => house.receive(Incoming::redaction(ALICE, DIRECT, &question)).await,
    };
    assert!(!house.server.anybody_types(), "{way:?}: still types");
    house
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_streaming_model_at_once_and_its_text_gets_an_end_mark() {
    for way in WAYS {
        let house = stopped(&json!({"say": "It is so. And", "fail": "endless", "word_ms": 500}), way).await;
        assert_eq!(house.room(DIRECT), ["It is so. And\n\n*⏹ Stopped.*"], "{way:?}");
        house.ask(ALICE, DIRECT, "Are you there?").await;
        assert_eq!(house.room(DIRECT)[1], "Here.");
        let shown = house.shown(1);
        assert!(shown.contains("assistant: It is so. And\n") && !shown.contains("Stopped"), "{shown}");
        assert_eq!(shown.contains("Go on for ever."), way != Way::Redaction, "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_silent_model_at_once() {
    for way in [Way::Word, Way::Command, Way::Redaction] {
        let house = stopped(&json!({"fail": "silence"}), way).await;
        assert_eq!(house.room(DIRECT), ["notice: ⏹ Stopped."], "{way:?}");
    }
    for way in WAYS {
        let house = stopped(&json!({"say": "It is", "fail": "silence"}), way).await;
        assert_eq!(house.room(DIRECT), ["It is\n\n*⏹ Stopped.*"], "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_hanging_tool_at_once() {
    for way in WAYS {
        let calls = [json!({"name": "pause", "arguments": {"seconds": 10_000}})];
        let house = stopped(&json!({"say": "I wait now. Patience.", "calls": calls}), way).await;
        assert_eq!(house.room(DIRECT), ["I wait now. Patience.\n\n*⏹ Stopped.*"], "{way:?}");
        house.pass(Duration::from_secs(600)).await;
        assert_eq!(house.requests(), 1, "the model is not asked again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_turn_that_waits_to_ask_a_busy_model_again() {
    let house = House::new(json!({"steps": [{"fail": {"status": 503, "retry_after_ms": 20_000}}]})).await;
    house.say(ALICE, DIRECT, "Hello?").await;
    house.say(ALICE, DIRECT, "stop").await;
    assert_eq!(house.room(DIRECT), ["notice: ⏹ Stopped."]);
    house.pass(Duration::from_secs(60)).await;
    assert_eq!(house.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_open_fence_is_closed_before_the_end_mark() {
    let step = json!({"say": "Like this:\n\n```rust\nlet x", "fail": "silence"});
    let house = stopped(&step, Way::Word).await;
    assert_eq!(house.room(DIRECT), ["Like this:\n\n```rust\nlet x\n```\n\n*⏹ Stopped.*"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_nothing_running_says_so() {
    let house = House::new(json!({"steps": []})).await;
    house.say(ALICE, DIRECT, "!stop").await;
    house.say(ALICE, DIRECT, "stop").await;
    assert_eq!(house.room(DIRECT), ["notice: Nothing is running here."; 2]);
    assert_eq!(house.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_word_that_cannot_be_delivered_holds_up_no_turn() {
    let house = House::new(json!({"steps": [{"say": "Here."}]})).await;
    house.server.answer([Answer::Fail; 4]);
    house.say(ALICE, DIRECT, "!stop").await;
    house.say(ALICE, DIRECT, "Are you there?").await;
    assert_eq!(house.requests(), 1);
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["notice: Nothing is running here.", "Here."]);
}

#[tokio::test(start_paused = true)]
async fn in_a_group_a_bystanders_stop_word_stops_nothing_and_a_stop_command_does() {
    let house = House::new(json!({"steps": [{"say": "It is so. And", "fail": "silence"}]})).await;
    house.receive(Incoming::message(ALICE, GROUP, "Go on.").mention()).await;
    house.pass(Duration::from_secs(3)).await;
    house.say(BOB, GROUP, "stop").await;
    house.say(STRANGER, GROUP, "!stop").await;
    let draft = house.server.sent()[0].id.clone();
    house.receive(Incoming::reaction(STRANGER, GROUP, &draft, "🛑")).await;
    house.receive(Incoming::reaction(BOB, GROUP, &draft, "👍")).await;
    assert_eq!(house.room(GROUP), ["It is so. And (live)"]);
    house.say(BOB, GROUP, "!stop").await;
    assert_eq!(house.room(GROUP), ["It is so. And\n\n*⏹ Stopped.*"]);
}

#[tokio::test(start_paused = true)]
async fn in_a_group_the_askers_own_stop_word_needs_no_mention() {
    let house = House::new(json!({"steps": [{"say": "It is so. And", "fail": "silence"}]})).await;
    house.receive(Incoming::message(ALICE, GROUP, "Go on.").mention()).await;
    house.pass(Duration::from_secs(3)).await;
    house.say(ALICE, GROUP, "stop.").await;
    assert_eq!(house.room(GROUP), ["It is so. And\n\n*⏹ Stopped.*"]);
    assert!(!house.server.anybody_types());
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_a_thread_leaves_the_rooms_other_turns_alone() {
    let house = House::new(json!({"steps": [
        {"say": "Main. And", "fail": "silence"},
        {"say": "Thread. And", "fail": "silence"},
    ]}))
    .await;
    let root = house.say(ALICE, DIRECT, "One.").await;
    house.receive(Incoming::message(ALICE, DIRECT, "Two.").thread(&root)).await;
    house.pass(Duration::from_secs(3)).await;
    house.receive(Incoming::message(ALICE, DIRECT, "stop").thread(&root)).await;
    assert_eq!(house.room(DIRECT), ["Main. And (live)", "Thread. And\n\n*⏹ Stopped.*"]);
}
