//! Many who write at once, bots among them.

use std::{collections::BTreeSet, sync::Arc};

use ruma::owned_user_id;
use serde_json::json;

use crate::testing::{ALICE, BOB, DIRECT, GROUP, House, Incoming, ROBOT};

#[tokio::test(start_paused = true)]
async fn a_bot_gets_three_turns_and_then_none_until_a_person_speaks() {
    let house = House::new(json!({"steps": [], "otherwise": {"say": "Yes."}})).await;
    let bot = || Incoming::message(ROBOT, GROUP, "And then?").mention();
    let mut answered = Vec::new();
    for _ in 0..5 {
        house.receive(bot()).await;
        house.quiet().await;
        answered.push(house.requests());
    }
    assert_eq!(answered, [1, 2, 3, 3, 3]);
    house.say(BOB, GROUP, "Go on, you two.").await;
    house.receive(bot()).await;
    house.quiet().await;
    assert_eq!(house.requests(), 4);
    let shown = house.shown(3);
    assert_eq!(shown.matches("And then?").count(), 6, "all of it was read: {shown}");
}

#[tokio::test(start_paused = true)]
async fn a_full_conversation_refuses_with_a_word_and_answers_the_others() {
    let steps = json!({"steps": [{"say": "For alice.", "word_ms": 2000}], "otherwise": {"say": "For bob."}});
    let house = House::with(steps, |setup| setup.config.turn.max_waiting = 2).await;
    house.receive(Incoming::message(ALICE, GROUP, "First.").mention()).await;
    for text in ["Second.", "Third.", "Fourth."] {
        house.receive(Incoming::message(BOB, GROUP, text).mention()).await;
    }
    assert_eq!(
        house.room(GROUP),
        ["notice: ⚠ Too many are waiting: I leave out what comes now. Please send it again when I have answered."]
    );
    house.quiet().await;
    assert_eq!(house.room(GROUP)[1..], ["For alice.", "For bob.", "For bob."]);
    assert!(house.shown(2).contains("[3] bob: Third.\n"), "{}", house.shown(2));
    assert!(!house.shown(2).contains("Fourth."), "{}", house.shown(2));
}

#[tokio::test(start_paused = true)]
async fn a_flood_during_one_turn_is_bounded_and_its_words_are_still_read() {
    let steps = json!({"steps": [{"say": "One.", "word_ms": 2000}], "otherwise": {"say": "More."}});
    let house = House::with(steps, |setup| setup.config.turn.max_waiting = 2).await;
    for text in ["One.", "Two.", "Three.", "Four.", "Five."] {
        house.say(ALICE, DIRECT, text).await;
    }
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["One.", "More.", "More."]);
    let shown = house.shown(2);
    assert!(["Two.", "Three.", "Four.", "Five."].iter().all(|text| shown.contains(text)), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn many_events_in_one_batch_are_taken_in_order() {
    let house = House::new(json!({"steps": [{"say": "All of them."}], "otherwise": {"say": "Hm."}})).await;
    let mut batch: Vec<_> =
        (1..=300).map(|n| house.event(Incoming::message(BOB, GROUP, &format!("Line {n}.")))).collect();
    batch.push(house.event(Incoming::message(ALICE, GROUP, "How many?").mention()));
    house.commit(batch).await;
    house.quiet().await;
    assert_eq!(house.room(GROUP), ["All of them."]);
    let shown = house.shown(0);
    assert!(shown.contains("[300] bob:\n<<data TAG>>\nLine 300.\n<<end TAG>>\n[301] alice: How many?\n"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn agents_of_one_appservice_are_bots_to_each_other_and_mention_each_other_by_their_ids() {
    let script = json!({"steps": [], "otherwise": {"say": "@robot-two:example.org, what do you say?"}});
    let house = House::with(script, |setup| {
        setup.config.access.agents = Arc::new(BTreeSet::from([owned_user_id!("@robot-two:example.org")]));
    })
    .await;
    for _ in 0..4 {
        house.receive(Incoming::message("@robot-two:example.org", GROUP, "And you?").mention()).await;
        house.quiet().await;
    }
    assert_eq!(house.requests(), 3);
    house.receive(Incoming::message(ALICE, GROUP, "Ask the other one!").mention()).await;
    house.quiet().await;
    let said = house.server.contents().pop().unwrap();
    assert_eq!(said["m.mentions"]["user_ids"], json!([ALICE, "@robot-two:example.org"]));
}
