//! Tool calls between a question and its answer.

use serde_json::json;

use crate::testing::{ALICE, DIRECT, House};

#[tokio::test(start_paused = true)]
async fn a_tool_is_called_between_two_texts_and_its_result_is_shown_to_the_model() {
    let house = House::new(json!({"steps": [
        {"say": "I look at the clock.", "calls": [{"name": "now", "arguments": {"zone": "Asia/Tokyo"}}]},
        {"say": "It is 09:30 in Tokyo."},
        {"say": "You are welcome."},
    ]}))
    .await;
    house.ask(ALICE, DIRECT, "What time is it in Tokyo?").await;
    assert_eq!(house.room(DIRECT), ["I look at the clock.\n\nIt is 09:30 in Tokyo."]);
    insta::assert_snapshot!("shown_after_the_call", house.shown(1));
    house.ask(ALICE, DIRECT, "Thanks.").await;
    insta::assert_snapshot!("shown_at_the_next_question", house.shown(2));
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_step_are_run_in_order_and_broken_ones_go_back_as_errors() {
    let house = House::new(json!({"steps": [
        {"calls": [
            {"name": "now", "arguments": "{\"zone\": "},
            {"name": "tomorrow"},
            {"name": "now", "arguments": {"zone": 7}},
            {"name": "now", "arguments": {"zone": "Middle-earth"}},
            {"name": "now", "arguments": {"zone": "UTC"}},
        ]},
        {"say": "It is half past midnight."},
    ]}))
    .await;
    house.ask(ALICE, DIRECT, "What time is it?").await;
    assert_eq!(house.room(DIRECT), ["It is half past midnight."]);
    insta::assert_snapshot!("shown_after_broken_calls", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn of_too_many_calls_in_a_step_the_first_sixteen_are_run() {
    let calls: Vec<_> = (0..20).map(|n| json!({"name": "pause", "arguments": {"seconds": n % 16}})).collect();
    let house = House::new(json!({"steps": [{"calls": calls}, {"say": "Done."}]})).await;
    house.ask(ALICE, DIRECT, "Wait a lot.").await;
    assert_eq!(house.room(DIRECT), ["Done."]);
    let shown = house.shown(1);
    let results: Vec<_> = shown.lines().filter(|line| line.starts_with("pause, ")).collect();
    assert_eq!(results.len(), 20);
    assert_eq!(results[15], "pause, call_16: Waited for 15 s.");
    for result in &results[16..] {
        assert!(result.ends_with(": Error: at most 16 calls in one step"), "{result}");
    }
}
