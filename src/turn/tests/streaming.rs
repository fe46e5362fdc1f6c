//! The draft: what is sent while the model writes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::testing::{ALICE, Answer, DIRECT, GROUP, House, Incoming, Sent};

fn is_live(sent: &Sent) -> bool {
    sent.content.get("org.matrix.msc4357.live").is_some()
}

fn sentences(count: usize) -> String {
    (1..=count).map(|n| format!("This is sentence number {n}. ")).collect::<String>().trim().to_owned()
}

fn times(house: &House) -> Vec<f64> {
    house.server.sent().iter().map(|sent| sent.at.as_secs_f64()).collect()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_posted_before_a_first_sentence() {
    let house = House::new(json!({"steps": [{"say": "It is so. And then it goes on.", "word_ms": 200}]})).await;
    house.say(ALICE, DIRECT, "Well?").await;
    house.pass(Duration::from_millis(550)).await;
    assert_eq!(house.room(DIRECT), [""; 0]);
    // The blank behind the full stop shows that the sentence has ended.
    house.pass(Duration::from_millis(50)).await;
    assert_eq!(house.room(DIRECT), ["It is so. (live)"]);
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["It is so. And then it goes on."]);
}

#[tokio::test(start_paused = true)]
async fn text_without_a_sentence_is_posted_after_a_second_and_a_half() {
    let house =
        House::new(json!({"steps": [{"say": "one two three four five six seven eight nine ten", "word_ms": 200}]}))
            .await;
    house.say(ALICE, DIRECT, "Count.").await;
    house.until("something stands there", |house| !house.server.sent().is_empty()).await;
    // The first word comes after 0.2 s.
    assert_eq!(times(&house), [1.7]);
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["one two three four five six seven eight nine ten"]);
}

#[tokio::test(start_paused = true)]
async fn a_text_that_hangs_is_posted_after_a_second_and_a_half_all_the_same() {
    let house = House::new(json!({"steps": [{"say": "Let me think", "fail": "silence"}]})).await;
    house.say(ALICE, DIRECT, "Well?").await;
    house.pass(Duration::from_millis(1500)).await;
    assert_eq!(house.room(DIRECT), ["Let me think (live)"]);
}

#[tokio::test(start_paused = true)]
async fn edits_are_paced_and_merged_and_only_the_last_is_not_live() {
    let answer = sentences(20);
    let house = House::new(json!({"steps": [{"say": answer, "word_ms": 100}, {"say": "Yes."}]})).await;
    house.receive(Incoming::message(ALICE, GROUP, "Tell me all.").mention()).await;
    house.quiet().await;
    let sent = house.server.sent();
    assert_eq!(sent.iter().map(is_live).collect::<Vec<_>>(), [true, true, true, true, false]);
    // The fifth word ends the first sentence; then an edit every 2.5 s, and at the end the last.
    assert_eq!(times(&house), [0.5, 3.0, 5.5, 8.0, 10.0]);
    assert!(sent.iter().all(|sent| sent.content.get("m.mentions").is_some()));
    insta::assert_json_snapshot!(
        "the_first_event_an_edit_and_the_last_one",
        [&sent[0].content, &sent[1].content, &shortened(&sent[4].content),]
    );
    assert_eq!(house.room(GROUP), std::slice::from_ref(&answer));
    house.receive(Incoming::message(ALICE, GROUP, "Is that all?").mention()).await;
    house.quiet().await;
    assert!(house.shown(1).contains(&format!("assistant: {answer}\n")), "{}", house.shown(1));
}

#[tokio::test(start_paused = true)]
async fn a_draft_has_forty_edits_at_most_and_its_last_word_all_the_same() {
    let answer = sentences(300);
    let house = House::with(json!({"steps": [{"say": answer, "word_ms": 100}]}), |setup| {
        setup.config.outbox.events_per_second = 100.0;
    })
    .await;
    house.ask(ALICE, DIRECT, "Tell me all.").await;
    let sent = house.server.sent();
    assert_eq!(sent.len(), 1 + 40 + 1);
    assert_eq!(sent.iter().filter(|sent| is_live(sent)).count(), 41);
    assert_eq!(house.room(DIRECT), [answer]);
}

#[tokio::test(start_paused = true)]
async fn a_minute_long_answer_stays_within_the_homeservers_default_budget() {
    let answer = sentences(120);
    let house = House::new(json!({"steps": [], "otherwise": {"say": answer, "word_ms": 100}})).await;
    house.server.limit();
    for _ in 0..2 {
        house.ask(ALICE, DIRECT, "Tell me all.").await;
    }
    assert_eq!(house.room(DIRECT), [answer.clone(), answer]);
    let sent = house.server.sent();
    assert_eq!(sent.iter().filter(|sent| !is_live(sent)).count(), 2);
    // Edits go out all the while: in two minutes at a fifth of an event a second, and ten at once.
    assert!((30..=34).contains(&sent.len()), "{}", sent.len());
    let attempts = house.server.attempts();
    let refused = attempts.iter().filter(|(_, answer)| matches!(answer, Answer::Limit(_))).count();
    assert_eq!(refused, 1, "one edit tries whether the server allows more");
}

#[tokio::test(start_paused = true)]
async fn typing_shows_while_a_turn_works_but_not_for_an_answer_that_is_there_at_once() {
    let house = House::new(json!({"steps": [{"say": "4."}, {"say": "It is four.", "word_ms": 1000}]})).await;
    house.ask(ALICE, DIRECT, "What is 2+2?").await;
    house.pass(Duration::from_secs(1)).await;
    assert_eq!((house.room(DIRECT), house.server.typing_requests()), (vec!["4.".to_owned()], 0));
    house.say(ALICE, DIRECT, "In words?").await;
    house.pass(Duration::from_millis(350)).await;
    assert!(house.server.anybody_types());
    house.quiet().await;
    assert!(!house.server.anybody_types());
    assert_eq!(house.server.typing_requests(), 2);
}

/// The content with its texts cut: they are compared elsewhere.
fn shortened(content: &Value) -> Value {
    let mut content = content.clone();
    let cut = |text: &mut Value| *text = text.as_str().unwrap().chars().take(40).collect::<String>().into();
    cut(&mut content["body"]);
    cut(&mut content["m.new_content"]["body"]);
    content
}
