//! A question and its answer.

use serde_json::json;

use crate::testing::{ALICE, DIRECT, GROUP, House, Incoming, at_once};

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_and_both_are_shown_at_the_next_one() {
    let house = House::new(json!({"steps": [{"say": "It is **4**."}, {"say": "It is 6."}]})).await;
    house.ask(ALICE, DIRECT, "What is 2+2?").await;
    house.ask(ALICE, DIRECT, "And 3+3?").await;
    insta::assert_json_snapshot!("answers_in_a_direct_room", house.server.contents());
    insta::assert_snapshot!("shown_with_the_second_question", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn question_and_answer_stand_in_the_transcript() {
    let house = House::new(json!({"steps": [{"say": "It is **4**."}]})).await;
    let question = house.ask(ALICE, DIRECT, "What is 2+2?").await;
    let lines = at_once(house.store.lines(DIRECT.try_into().unwrap(), None, None, 10)).await.unwrap();
    let lines: Vec<_> =
        lines.iter().map(|one| (one.handle, &*one.line.name, one.line.event_id.as_str(), &*one.line.text)).collect();
    let expected = [(1, "alice", question.as_str(), "What is 2+2?"), (2, "Waybread", "$sent1", "It is **4**.")];
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn in_a_group_the_answer_is_a_reply_that_mentions_the_asker() {
    let house = House::new(json!({"steps": [{"say": "It is 4."}]})).await;
    house.receive(Incoming::message(ALICE, GROUP, "What is 2+2?").mention()).await;
    house.quiet().await;
    insta::assert_json_snapshot!("an_answer_in_a_group", house.server.contents());
    insta::assert_snapshot!("shown_in_a_group", house.shown(0));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_chooses_to_say_nothing_sends_nothing() {
    let house = House::new(json!({"steps": [{"say": "[no reply]"}, {"say": "Yes."}]})).await;
    house.ask(ALICE, DIRECT, "hm").await;
    assert_eq!(house.server.attempts(), []);
    house.ask(ALICE, DIRECT, "Are you there?").await;
    assert_eq!(house.room(DIRECT), ["Yes."]);
    assert!(house.shown(1).contains("user: [1] alice: hm\n[2] alice: Are you there?\n"), "{}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn nothing_to_add_after_a_tool_leaves_what_was_said_before_it() {
    let house = House::new(json!({"steps": [
        {"say": "I look it up.", "calls": [{"name": "now"}]},
        {"say": "[no reply]"},
    ]}))
    .await;
    house.ask(ALICE, DIRECT, "Note the time.").await;
    assert_eq!(house.room(DIRECT), ["I look it up."]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_is_a_notice_and_no_part_of_the_conversation() {
    let house = House::new(json!({"steps": [{"say": ""}, {"say": "Here I am."}]})).await;
    house.ask(ALICE, DIRECT, "Hello?").await;
    house.ask(ALICE, DIRECT, "Hello??").await;
    assert_eq!(
        house.room(DIRECT),
        ["notice: ⚠ My model answered with nothing. Please ask again, perhaps in other words.", "Here I am."]
    );
    assert!(house.shown(1).contains("user: [1] alice: Hello?\n[2] alice: Hello??\n"), "{}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_is_split_where_its_markdown_allows_and_comes_in_order() {
    let code: Vec<_> = (1..=60).map(|n| format!("let line_{n} = {n};")).collect();
    let answer = format!("Here it is.\n\n```rust\n{}\n```\n\nThat is all.", code.join("\n"));
    let house = House::with(json!({"steps": [{"say": answer}, {"say": "Yes."}]}), |setup| {
        setup.config.outbox.max_event_bytes = 5000;
    })
    .await;
    house.ask(ALICE, DIRECT, "Show me code.").await;
    let room = house.room(DIRECT);
    assert!(room.len() > 1, "{room:#?}");
    assert!(room.iter().all(|part| part.matches("```").count() % 2 == 0), "{room:#?}");
    assert_eq!([&*room[0], &*room[room.len() - 1]], ["Here it is.", "That is all."]);
    let lines = |parts: &[String]| -> Vec<String> {
        parts.iter().flat_map(|part| part.lines()).filter(|line| line.contains("line_")).map(str::to_owned).collect()
    };
    assert_eq!(lines(&room), code);

    house.ask(ALICE, DIRECT, "Is that all?").await;
    assert!(house.shown(1).contains(&format!("assistant: {answer}\n")), "{}", house.shown(1));
}
