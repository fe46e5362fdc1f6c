//! Killed at any point and started again: exactly one answer, nothing lost.

use std::time::Duration;

use rand::RngExt;
use serde_json::json;
use waybread::model::scripted::{Fail, StreamFault};

use crate::support::{ModelServer, Talk, Trouble, Which, calls, fail, say};

impl Talk {
    /// Started again, the agent gives the answer, and nothing else stands in the room.
    async fn is_answered_once(&mut self, answer: &str) {
        self.proxy.peace();
        self.start_again(&[]).await;
        assert_eq!(self.answer(1).await.text(), answer);
        // What a second answer would be comes before the answer to a further question.
        self.goes_on(2).await;
        let all = self.messages();
        assert_eq!(
            all.iter().map(|one| (one.text(), one.is_live())).collect::<Vec<_>>(),
            [(answer, false), ("Here.", false)]
        );
        let shown = self.model.shown().pop().unwrap();
        assert!(shown.contains(answer), "the answer is remembered: {shown}");
    }
}

fn story() -> String {
    format!("It begins well. {}", "And it goes on. ".repeat(20))
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_the_question_was_received() {
    let mut talk = Talk::begin([say("Yes.", 0)]).await;
    talk.proxy.trouble(Which::Sync, 0, usize::MAX, Trouble::HoldAnswer);
    talk.say("Well?").await;
    talk.proxy.happened(1).await;
    talk.agent.stop();
    talk.is_answered_once("Yes.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_the_model_thinks() {
    let silence = fail("", Fail::Stream(StreamFault::Silence));
    let mut talk = Talk::begin([silence, say("Yes.", 0)]).await;
    talk.say("Well?").await;
    talk.model.asked(1).await;
    talk.agent.stop();
    talk.is_answered_once("Yes.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_the_first_event_is_frozen_and_not_sent() {
    let mut talk = Talk::begin([say(&story(), 20), say("Yes.", 0)]).await;
    talk.proxy.trouble(Which::Send, 0, 1, Trouble::Swallow);
    talk.say("Well?").await;
    talk.proxy.happened(1).await;
    talk.agent.stop();
    talk.is_answered_once("Yes.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_the_first_event_is_sent_and_not_settled() {
    let mut talk = Talk::begin([say(&story(), 20), say("Yes.", 0)]).await;
    talk.proxy.trouble(Which::Send, 0, 1, Trouble::HoldAnswer);
    talk.say("Well?").await;
    talk.proxy.happened(1).await;
    talk.agent.stop();
    talk.is_answered_once("Yes.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_the_draft_grows() {
    let mut talk = Talk::begin([say(&story(), 100), say("Yes.", 0)]).await;
    talk.say("Well?").await;
    let draft = talk
        .alice
        .until(&talk.room, talk.setup.user(), "an edit", |all| all.last().filter(|one| one.edits > 0).cloned())
        .await;
    talk.agent.stop();
    talk.is_answered_once("Yes.").await;
    assert_eq!(talk.messages()[0].id, draft.id, "the draft is taken up");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_the_last_word_is_frozen_and_not_sent() {
    let mut talk = Talk::begin([say("Yes.", 0)]).await;
    talk.proxy.trouble(Which::Send, 0, 1, Trouble::Swallow);
    talk.say("Well?").await;
    talk.proxy.happened(1).await;
    talk.agent.stop();
    talk.is_answered_once("Yes.").await;
    assert_eq!(talk.model.shown().len(), 2, "the model is not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_the_last_word_is_sent_and_not_settled() {
    let mut talk = Talk::begin([say("Yes.", 0)]).await;
    talk.proxy.trouble(Which::Send, 0, 1, Trouble::HoldAnswer);
    talk.say("Well?").await;
    talk.proxy.happened(1).await;
    talk.agent.stop();
    talk.is_answered_once("Yes.").await;
    assert_eq!(talk.model.shown().len(), 2, "the model is not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_the_answer_stands_there() {
    let mut talk = Talk::begin([say("Yes.", 0)]).await;
    talk.say("Well?").await;
    talk.answer(1).await;
    talk.agent.stop();
    talk.is_answered_once("Yes.").await;
}

/// A tool that posts, killed while it does: the turn that is begun anew calls it again.
async fn killed_while_a_tool_posts(trouble: Trouble) {
    let payload = json!({"v": 1, "blocks": [{"type": "code", "code": "yes"}]});
    let posts = || calls("rich_send", json!({"payload": payload, "fallback": "Yes."}));
    let mut talk = Talk::begin([posts(), posts(), say("[no reply]", 0)]).await;
    talk.proxy.trouble(Which::Send, 0, 1, trouble);
    talk.say("Well?").await;
    talk.proxy.happened(1).await;
    talk.agent.stop();
    talk.is_answered_once("Yes.").await;
    assert!(talk.model.shown()[2].contains("It stands there already"), "{}", talk.model.shown()[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_a_tool_runs() {
    killed_while_a_tool_posts(Trouble::Swallow).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_a_tool_runs_that_has_posted() {
    killed_while_a_tool_posts(Trouble::HoldAnswer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_points_each_question_has_one_answer() {
    let rounds = std::env::var("WAYBREAD_TEST_CRASHES").map_or(3, |rounds| rounds.parse().unwrap());
    let mut talk = Talk::with(ModelServer::echo(10).await, |_| {}).await;
    for round in 1..=rounds {
        talk.say(&format!("question {round}")).await;
        tokio::time::sleep(Duration::from_millis(rand::rng().random_range(0..1500))).await;
        talk.start_again(&[]).await;
        talk.answer(round).await;
    }
    talk.say("the last question").await;
    talk.answer(rounds + 1).await;
    let all = talk.messages();
    assert_eq!(all.len(), rounds + 1, "{all:#?}");
    for (round, answer) in (1..=rounds).zip(&all) {
        assert!(!answer.is_live() && answer.text().contains(&format!("question {round}.")), "{answer:?}");
    }
    assert!(talk.agent.is_running());
}
