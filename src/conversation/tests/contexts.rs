//! Contexts don't mix.

use serde_json::json;

use crate::testing::{ALICE, BOB, DIRECT, GROUP, House, Incoming};

/// Another direct room.
const BOBS: &str = "!direct-bob:example.org";

#[tokio::test(start_paused = true)]
async fn two_rooms_at_once_have_contexts_of_their_own() {
    let house = House::new(json!({"steps": [
        {"say": "Red it is.", "word_ms": 500},
        {"say": "Blue it is.", "word_ms": 500},
        {"say": "You like red."},
        {"say": "You like blue."},
    ]}))
    .await;
    house.say(ALICE, DIRECT, "I like red.").await;
    house.say(BOB, BOBS, "I like blue.").await;
    house.quiet().await;
    house.ask(ALICE, DIRECT, "What do I like?").await;
    house.ask(BOB, BOBS, "What do I like?").await;
    assert_eq!(house.room(DIRECT), ["Red it is.", "You like red."]);
    assert_eq!(house.room(BOBS), ["Blue it is.", "You like blue."]);
    for request in 0..4 {
        let shown = house.shown(request);
        let (own, others) =
            if request % 2 == 0 { (["red", "alice"], ["lue", "bob"]) } else { (["blue", "bob"], ["ed", "alice"]) };
        let lines: String = shown.lines().skip_while(|line| !line.starts_with("user: ")).collect();
        assert!(own.iter().all(|word| lines.contains(word)), "{request}: {lines}");
        assert!(!others.iter().any(|word| lines.contains(word)), "{request}: {lines}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_people_in_one_room_are_told_apart_and_each_is_answered() {
    let house = House::new(json!({"steps": [{"say": "Red."}, {"say": "Blue."}, {"say": "Alice likes red."}]})).await;
    for (sender, text) in [(ALICE, "I like red."), (BOB, "I like blue."), (BOB, "What does alice like?")] {
        house.receive(Incoming::message(sender, GROUP, text).mention()).await;
        house.quiet().await;
    }
    let mentions: Vec<_> = house.server.contents().iter().map(|content| content["m.mentions"].clone()).collect();
    assert_eq!(mentions, [ALICE, BOB, BOB].map(|user| json!({ "user_ids": [user] })));
    insta::assert_snapshot!("shown_of_two_people", house.shown(2));
}

#[tokio::test(start_paused = true)]
async fn a_thread_and_the_main_timeline_do_not_see_each_other() {
    let house = House::new(json!({"steps": [
        {"say": "Main one."},
        {"say": "Thread one.", "word_ms": 500},
        {"say": "Main two.", "word_ms": 700},
        {"say": "Thread two."},
    ]}))
    .await;
    let root = house.ask(ALICE, DIRECT, "The root.").await;
    // At once: the two are conversations of their own.
    house.receive(Incoming::message(ALICE, DIRECT, "In the thread.").thread(&root)).await;
    house.say(ALICE, DIRECT, "In the main timeline.").await;
    house.until("both are answered", |house| house.room(DIRECT).len() == 3).await;
    house.receive(Incoming::message(ALICE, DIRECT, "In the thread again.").thread(&root)).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["Main one.", "Thread one.", "Main two.", "Thread two."]);
    insta::assert_snapshot!("shown_in_the_main_timeline", house.shown(2));
    insta::assert_snapshot!("shown_in_the_thread", house.shown(3));
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_back_is_shown_no_more() {
    let house = House::new(json!({"steps": [], "otherwise": {"say": "Yes."}})).await;
    let secret = house.ask(ALICE, DIRECT, "My number is 12345.").await;
    house.receive(Incoming::redaction(ALICE, DIRECT, &secret)).await;
    house.ask(ALICE, DIRECT, "What is my number?").await;
    assert!(!house.shown(1).contains("12345"), "{}", house.shown(1));
}
