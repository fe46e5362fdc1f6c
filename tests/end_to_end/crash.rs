//! Killed at any point and started again: exactly one answer, nothing lost.

use std::time::Duration;

use rand::RngExt;
use ruma::OwnedRoomId;
use serde_json::json;

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, Proxy, Trouble, Which, calls, fail, say};
use waybread::model::scripted::{Fail, StreamFault};

struct Scene {
    model: ModelServer,
    proxy: Proxy,
    setup: AgentSetup,
    alice: Person,
    room: OwnedRoomId,
}

impl Scene {
    async fn new(model: ModelServer) -> (Self, crate::support::Agent) {
        let homeserver = Homeserver::relaxed();
        let proxy = Proxy::start(&homeserver).await;
        let setup = AgentSetup::new(&proxy.homeserver, &model).await;
        let agent = setup.start().await;
        let alice = Person::new(&homeserver, "alice").await;
        let room = alice.direct_room(setup.user()).await;
        (Self { model, proxy, setup, alice, room }, agent)
    }

    /// Started again, the agent gives the answer, and nothing else stands in the room.
    async fn is_answered_once(&self, answer: &str) {
        self.proxy.peace();
        let _agent = self.setup.start().await;
        let seen = self.alice.answer(&self.room, self.setup.user(), 1).await;
        assert_eq!(seen.text(), answer);
        // What a second answer would be comes before the answer to a further question.
        self.model.add([say("Here.", 0)]);
        self.alice.say(&self.room, "Are you there?").await;
        assert_eq!(self.alice.answer(&self.room, self.setup.user(), 2).await.text(), "Here.");
        let all = self.alice.messages(&self.room, self.setup.user());
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
    let (scene, agent) = Scene::new(ModelServer::start([say("Yes.", 0)]).await).await;
    scene.proxy.trouble(Which::Sync, 0, usize::MAX, Trouble::HoldAnswer);
    scene.alice.say(&scene.room, "Well?").await;
    scene.proxy.happened(1).await;
    agent.kill();
    scene.is_answered_once("Yes.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_the_model_thinks() {
    let silence = fail("", Fail::Stream(StreamFault::Silence));
    let (scene, agent) = Scene::new(ModelServer::start([silence, say("Yes.", 0)]).await).await;
    scene.alice.say(&scene.room, "Well?").await;
    scene.model.asked(1).await;
    agent.kill();
    scene.is_answered_once("Yes.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_the_first_event_is_frozen_and_not_sent() {
    let (scene, agent) = Scene::new(ModelServer::start([say(&story(), 20), say("Yes.", 0)]).await).await;
    scene.proxy.trouble(Which::Send, 0, 1, Trouble::Swallow);
    scene.alice.say(&scene.room, "Well?").await;
    scene.proxy.happened(1).await;
    agent.kill();
    scene.is_answered_once("Yes.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_the_first_event_is_sent_and_not_settled() {
    let (scene, agent) = Scene::new(ModelServer::start([say(&story(), 20), say("Yes.", 0)]).await).await;
    scene.proxy.trouble(Which::Send, 0, 1, Trouble::HoldAnswer);
    scene.alice.say(&scene.room, "Well?").await;
    scene.proxy.happened(1).await;
    agent.kill();
    scene.is_answered_once("Yes.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_the_draft_grows() {
    let (scene, agent) = Scene::new(ModelServer::start([say(&story(), 100), say("Yes.", 0)]).await).await;
    scene.alice.say(&scene.room, "Well?").await;
    let draft = scene
        .alice
        .until(&scene.room, scene.setup.user(), "an edit", |all| all.last().filter(|one| one.edits > 0).cloned())
        .await;
    agent.kill();
    scene.is_answered_once("Yes.").await;
    assert_eq!(scene.alice.messages(&scene.room, scene.setup.user())[0].id, draft.id, "the draft is taken up");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_the_last_word_is_frozen_and_not_sent() {
    let (scene, agent) = Scene::new(ModelServer::start([say("Yes.", 0)]).await).await;
    scene.proxy.trouble(Which::Send, 0, 1, Trouble::Swallow);
    scene.alice.say(&scene.room, "Well?").await;
    scene.proxy.happened(1).await;
    agent.kill();
    scene.is_answered_once("Yes.").await;
    assert_eq!(scene.model.shown().len(), 2, "the model is not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_the_last_word_is_sent_and_not_settled() {
    let (scene, agent) = Scene::new(ModelServer::start([say("Yes.", 0)]).await).await;
    scene.proxy.trouble(Which::Send, 0, 1, Trouble::HoldAnswer);
    scene.alice.say(&scene.room, "Well?").await;
    scene.proxy.happened(1).await;
    agent.kill();
    scene.is_answered_once("Yes.").await;
    assert_eq!(scene.model.shown().len(), 2, "the model is not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_when_the_answer_stands_there() {
    let (scene, agent) = Scene::new(ModelServer::start([say("Yes.", 0)]).await).await;
    scene.alice.say(&scene.room, "Well?").await;
    scene.alice.answer(&scene.room, scene.setup.user(), 1).await;
    agent.kill();
    scene.is_answered_once("Yes.").await;
}

/// A tool that posts, killed while it does: the turn that is begun anew calls it again.
async fn killed_while_a_tool_posts(trouble: Trouble) {
    let payload = json!({"v": 1, "blocks": [{"type": "code", "code": "yes"}]});
    let posts = || calls("rich_send", json!({"payload": payload, "fallback": "Yes."}));
    let (scene, agent) = Scene::new(ModelServer::start([posts(), posts(), say("[no reply]", 0)]).await).await;
    scene.proxy.trouble(Which::Send, 0, 1, trouble);
    scene.alice.say(&scene.room, "Well?").await;
    scene.proxy.happened(1).await;
    agent.kill();
    scene.is_answered_once("Yes.").await;
    assert!(scene.model.shown()[2].contains("It stands there already"), "{}", scene.model.shown()[2]);
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
    let (scene, mut agent) = Scene::new(ModelServer::echo(10).await).await;
    for round in 1..=rounds {
        scene.alice.say(&scene.room, &format!("question {round}")).await;
        tokio::time::sleep(Duration::from_millis(rand::rng().random_range(0..1500))).await;
        agent.kill();
        agent = scene.setup.start().await;
        scene.alice.answer(&scene.room, scene.setup.user(), round).await;
    }
    scene.alice.say(&scene.room, "the last question").await;
    scene.alice.answer(&scene.room, scene.setup.user(), rounds + 1).await;
    let all = scene.alice.messages(&scene.room, scene.setup.user());
    assert_eq!(all.len(), rounds + 1, "{all:#?}");
    for (round, answer) in (1..=rounds).zip(&all) {
        assert!(!answer.is_live() && answer.text().contains(&format!("question {round}.")), "{answer:?}");
    }
    assert!(agent.is_running());
}
