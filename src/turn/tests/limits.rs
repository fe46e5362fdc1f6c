//! A turn can't run away.

use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::{ALICE, DIRECT, House};

fn pause(seconds: u64) -> Value {
    json!({"calls": [{"name": "pause", "arguments": {"seconds": seconds}}]})
}

#[tokio::test(start_paused = true)]
async fn a_model_that_repeats_a_call_is_hinted_at_twice_and_then_stopped() {
    let again = json!({"calls": [{"name": "now", "arguments": {"zone": "UTC"}}]});
    let house = House::new(json!({"steps": [again, again, again, again, {"say": "Here."}]})).await;
    house.ask(ALICE, DIRECT, "What time is it?").await;
    assert_eq!(house.room(DIRECT), ["notice: ⏹ Ended: I was going round in circles."]);
    let hints = |request| house.shown(request).matches("You have done this before in this turn").count();
    assert_eq!([hints(1), hints(2), hints(3)], [0, 1, 2]);
    assert_eq!(house.requests(), 4);
    house.ask(ALICE, DIRECT, "Are you there?").await;
    assert_eq!(house.room(DIRECT)[1], "Here.");
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_after_its_steps_and_says_so_behind_its_text() {
    let step = |seconds: u64| json!({"say": format!("Step {seconds}."), "calls": [{"name": "pause", "arguments": {"seconds": seconds}}]});
    let house = House::with(json!({"steps": [step(1), step(2), step(3), {"say": "Here."}]}), |setup| {
        setup.config.turn.max_steps = 3;
    })
    .await;
    house.ask(ALICE, DIRECT, "Go on for ever.").await;
    let said = "Step 1.\n\nStep 2.\n\nStep 3.";
    assert_eq!(house.room(DIRECT), [format!("{said}\n\n*⏹ Ended: this took too many steps.*")]);
    house.ask(ALICE, DIRECT, "Are you there?").await;
    assert!(house.shown(3).contains(&format!("assistant: {said}\n\nuser: [3] alice: Are you there?\n")));
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_after_its_time_whatever_a_tool_does() {
    let house = House::new(json!({"steps": [pause(10_000), {"say": "Here."}]})).await;
    house.say(ALICE, DIRECT, "Wait.").await;
    house.pass(Duration::from_secs(299)).await;
    assert_eq!(house.room(DIRECT), [""; 0]);
    house.pass(Duration::from_secs(1)).await;
    assert_eq!(house.room(DIRECT), ["notice: ⏹ Ended: this took too long."]);
    house.ask(ALICE, DIRECT, "Are you there?").await;
    assert_eq!(house.room(DIRECT)[1], "Here.");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_a_place_gets_it_when_another_one_ends() {
    let steps = json!({"steps": [pause(5), {"say": "First."}, {"say": "Second."}]});
    let house = House::with(steps, |setup| setup.config.turn.max_concurrent = 1).await;
    house.say(ALICE, DIRECT, "Wait.").await;
    house.say(ALICE, "!direct-too:example.org", "Hello?").await;
    assert_eq!(house.requests(), 1);
    house.quiet().await;
    assert_eq!([house.room(DIRECT), house.room("!direct-too:example.org")], [["First."], ["Second."]]);
}
