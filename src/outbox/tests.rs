//! What arrives at a homeserver that limits, fails or refuses.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use serde_json::json;

use crate::testing::{ALICE, Answer, DIRECT, House};

fn second(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_limited_arrives_whole_and_once() {
    let answer = "It is so. It goes on and on. It ends here.";
    let house = House::new(json!({"steps": [{"say": answer, "word_ms": 1000}, {"say": "Yes."}]})).await;
    // The first event, an edit, and the last word twice.
    house.server.answer([Answer::Limit(3), Answer::Take, Answer::Limit(2), Answer::Limit(4), Answer::Limit(1)]);
    house.ask(ALICE, DIRECT, "Well?").await;
    assert_eq!(house.room(DIRECT), [answer]);
    let times: Vec<_> = house.server.sent().iter().map(|sent| sent.at).collect();
    assert!(times[0] >= second(3) + Duration::from_millis(1500), "{times:?}");
    house.ask(ALICE, DIRECT, "Is that all?").await;
    assert_eq!(house.room(DIRECT), [answer, "Yes."]);
    assert!(house.shown(1).contains(&format!("assistant: {answer}\n")));
}

#[tokio::test(start_paused = true)]
async fn a_payload_is_repeated_with_the_same_transaction_id_until_it_is_taken() {
    let house = House::new(json!({"steps": [{"say": "It is 4."}]})).await;
    house.server.answer([Answer::Fail, Answer::Lose, Answer::Limit(1), Answer::Fail]);
    house.ask(ALICE, DIRECT, "What is 2+2?").await;
    let (txns, answers): (Vec<_>, Vec<_>) = house.server.attempts().into_iter().unzip();
    assert_eq!(answers, [Answer::Fail, Answer::Lose, Answer::Limit(1), Answer::Fail, Answer::Take]);
    assert!(txns.iter().all(|txn| *txn == txns[0]), "{txns:?}");
    assert_eq!(house.room(DIRECT), ["It is 4."]);
}

#[tokio::test(start_paused = true)]
async fn a_first_event_whose_answer_is_lost_is_not_doubled_by_what_follows() {
    let answer = "It is so. And it goes on like this.";
    let house = House::new(json!({"steps": [{"say": answer, "word_ms": 500}]})).await;
    house.server.answer([Answer::Lose, Answer::Lose]);
    house.ask(ALICE, DIRECT, "Well?").await;
    assert_eq!(house.room(DIRECT), [answer]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_answer_costs_that_answer_only() {
    let house = House::new(json!({"steps": [{"say": "Lost."}, {"say": "I am here."}]})).await;
    house.server.answer([Answer::Refuse]);
    house.ask(ALICE, DIRECT, "Hello?").await;
    assert_eq!(house.room(DIRECT), [""; 0]);
    house.ask(ALICE, DIRECT, "And now?").await;
    assert_eq!(house.room(DIRECT), ["I am here."]);
    // What nobody has read is no part of the conversation.
    assert!(house.shown(1).contains("user: [1] alice: Hello?\n[2] alice: And now?\n"), "{}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn a_refused_draft_does_not_cost_the_last_word() {
    let answer = "It is so. And it goes on.";
    let house = House::new(json!({"steps": [{"say": answer, "word_ms": 1000}]})).await;
    house.server.answer([Answer::Refuse]);
    house.ask(ALICE, DIRECT, "Well?").await;
    assert_eq!(house.room(DIRECT), [answer]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_given_up_when_the_homeserver_is_gone_for_too_long() {
    let house = House::with(json!({"steps": [{"say": "Lost."}, {"say": "I am here."}]}), |setup| {
        setup.config.outbox.give_up_after = second(10);
    })
    .await;
    // After 1, 2, 4 and 8 seconds more.
    house.server.answer([Answer::Fail; 5]);
    house.ask(ALICE, DIRECT, "Hello?").await;
    assert_eq!(house.server.attempts().len(), 5);
    house.ask(ALICE, DIRECT, "And now?").await;
    assert_eq!(house.room(DIRECT), ["I am here."]);
}

#[tokio::test(start_paused = true)]
async fn a_homeserver_that_hangs_in_one_room_holds_up_no_other() {
    let house = House::new(json!({"steps": [{"say": "Held up."}, {"say": "I am here."}]})).await;
    house.server.answer([Answer::Hang]);
    house.say(ALICE, DIRECT, "Hello?").await;
    house.say(ALICE, "!direct-too:example.org", "Hello?").await;
    assert_eq!(house.room("!direct-too:example.org"), ["I am here."]);
    assert!(house.shown(1).contains("user: [1] alice: Hello?\n"), "{}", house.shown(1));
}
