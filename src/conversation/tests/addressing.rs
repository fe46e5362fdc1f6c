//! Which messages are answered, and what the model sees of the others.

use std::time::Duration;

use matrix_link::Standing;
use serde_json::json;

use crate::testing::{ALICE, BOB, BOT, DIRECT, GROUP, House, Incoming, PLAIN, STRANGER};

const HOUR: Duration = Duration::from_secs(3600);

async fn house() -> House {
    House::new(json!({"steps": [], "otherwise": {"say": "Yes."}})).await
}

/// How many requests a message leads to, in a house of its own.
async fn requests(incoming: Incoming) -> usize {
    let house = house().await;
    house.receive(incoming).await;
    house.quiet().await;
    assert_eq!(house.server.sent().len(), house.requests(), "an answer to each request, and no other word");
    house.requests()
}

fn direct() -> Incoming {
    Incoming::message(ALICE, DIRECT, "hi")
}

#[tokio::test(start_paused = true)]
async fn in_a_direct_room_every_message_is_answered_and_elsewhere_a_mention() {
    assert_eq!(requests(direct()).await, 1);
    assert_eq!(requests(Incoming::message(ALICE, GROUP, "hi")).await, 0);
    assert_eq!(requests(Incoming::message(ALICE, GROUP, "hi").mention()).await, 1);
    assert_eq!(requests(Incoming::message(ALICE, PLAIN, "hi").mention()).await, 1);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_count_is_neither_answered_nor_shown() {
    for (name, incoming) in [
        ("clear in an encrypted room", direct().clear()),
        ("an unsigned device", direct().standing(Standing::Unsigned)),
        ("a device that is not the sender's", direct().standing(Standing::NotTheirs)),
        ("the agent's own", Incoming::message(BOT, DIRECT, "hi")),
    ] {
        let house = house().await;
        house.receive(incoming).await;
        house.ask(ALICE, DIRECT, "Well?").await;
        assert_eq!(house.requests(), 1, "{name}");
        assert!(house.shown(0).contains("user: [1] alice: Well?\n"), "{name}: {}", house.shown(0));
    }
    assert_eq!(requests(direct().standing(Standing::Verified)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_count_stops_nothing_and_edits_nothing() {
    let house = House::new(json!({"steps": [{"say": "It is", "fail": "silence"}]})).await;
    let question = house.say(ALICE, DIRECT, "What is it?").await;
    for incoming in [
        Incoming::message(ALICE, DIRECT, "stop").clear(),
        Incoming::message(ALICE, DIRECT, "!stop").standing(Standing::Unsigned),
        Incoming::edit(ALICE, DIRECT, &question, "What was it?").clear(),
    ] {
        house.receive(incoming).await;
    }
    house.pass(Duration::from_secs(5)).await;
    assert!(house.server.anybody_types());
    assert_eq!(house.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn notices_strangers_and_old_messages_are_read_and_not_answered() {
    for (incoming, line) in [
        (Incoming::message(BOB, GROUP, "I am a service.").notice().mention(), "I am a service."),
        (Incoming::message(STRANGER, GROUP, "Let me in.").mention(), "Let me in."),
        (Incoming::message(BOB, GROUP, "Yesterday.").mention().age(2 * HOUR), "Yesterday."),
        (Incoming::message(STRANGER, GROUP, "!help").mention(), "!help"),
    ] {
        let house = house().await;
        house.receive(incoming).await;
        house.quiet().await;
        assert_eq!(house.server.attempts(), [], "{line}");
        house.receive(Incoming::message(ALICE, GROUP, "What was said?").mention()).await;
        house.quiet().await;
        let shown = house.shown(0);
        assert!(
            shown.contains(&format!(":\n<<data TAG>>\n{line}\n<<end TAG>>\n[2] alice: What was said?\n")),
            "{shown}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_of_an_hour_ago_is_answered() {
    assert_eq!(requests(direct().age(HOUR)).await, 1);
    assert_eq!(requests(direct().age(HOUR + Duration::from_secs(1))).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_comes_late_is_not_carried_out() {
    for command in ["!help", "!model other", "!stop"] {
        assert_eq!(requests(Incoming::message(ALICE, DIRECT, command).age(Duration::from_secs(180))).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_to_the_agent_is_for_it_and_a_reply_to_a_person_is_not() {
    let house = house().await;
    house.receive(Incoming::message(ALICE, GROUP, "Are you there?").mention()).await;
    house.quiet().await;
    let answer = house.server.sent()[0].id.clone();
    let bobs = house.receive(Incoming::message(BOB, GROUP, "Really?").reply_to(&answer)).await;
    house.quiet().await;
    house.receive(Incoming::message(ALICE, GROUP, "He asks.").reply_to(&bobs)).await;
    house.quiet().await;
    assert_eq!(house.requests(), 2);
    insta::assert_snapshot!("shown_with_a_reply", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn the_target_of_a_reply_that_was_never_seen_is_fetched_and_shown() {
    let house = house().await;
    let target = house.server.keep(house.event(Incoming::message(BOB, GROUP, "The meeting is at nine.")));
    house.receive(Incoming::message(ALICE, GROUP, "When is it?").mention().reply_to(&target)).await;
    house.quiet().await;
    insta::assert_snapshot!("shown_with_a_fetched_target", house.shown(0));
}

#[tokio::test(start_paused = true)]
async fn a_reply_to_an_answer_that_is_not_remembered_is_for_the_agent() {
    let house = house().await;
    let target = house.server.keep(house.event(Incoming::message(BOT, GROUP, "It is 4.")));
    house.receive(Incoming::message(ALICE, GROUP, "Are you sure?").reply_to(&target)).await;
    house.quiet().await;
    let shown = house.shown(0);
    assert!(shown.contains("assistant: It is 4.\n\nuser: [2] alice (reply to you): Are you sure?\n"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_reply_whose_target_cannot_be_fetched_is_answered_all_the_same() {
    let house = house().await;
    house.receive(direct().reply_to(ruma::event_id!("$gone"))).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["Yes."]);
    assert!(house.shown(0).contains("user: [1] alice: hi\n"));
}

#[tokio::test(start_paused = true)]
async fn in_a_thread_the_agent_answers_once_it_has_taken_part() {
    let house = house().await;
    let root = house.say(ALICE, GROUP, "A thread.").await;
    house.receive(Incoming::message(ALICE, GROUP, "One.").thread(&root)).await;
    assert_eq!(house.requests(), 0);
    house.receive(Incoming::message(ALICE, GROUP, "Two.").thread(&root).mention()).await;
    house.quiet().await;
    house.receive(Incoming::message(BOB, GROUP, "Three.").thread(&root)).await;
    house.quiet().await;
    house.say(BOB, GROUP, "Not in the thread.").await;
    assert_eq!(house.requests(), 2);
    insta::assert_snapshot!("shown_in_a_thread", house.shown(1));
    insta::assert_json_snapshot!(
        "relations_in_a_thread",
        house.server.contents().iter().map(|content| content["m.relates_to"].clone()).collect::<Vec<_>>()
    );
}
