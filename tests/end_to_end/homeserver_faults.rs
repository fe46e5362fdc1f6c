//! Whatever the homeserver does: one answer, whole, nothing doubled.

use ruma::OwnedRoomId;

use crate::support::{Agent, AgentSetup, Homeserver, ModelServer, Person, Proxy, Trouble, Which, say};

struct Scene {
    _agent: Agent,
    model: ModelServer,
    proxy: Proxy,
    setup: AgentSetup,
    alice: Person,
    room: OwnedRoomId,
}

async fn scene() -> Scene {
    let homeserver = Homeserver::relaxed();
    let proxy = Proxy::start(&homeserver).await;
    let model = ModelServer::start([]).await;
    let setup = AgentSetup::new(&proxy.homeserver, &model).await;
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    Scene { _agent: agent, model, proxy, setup, alice, room }
}

impl Scene {
    /// Asks; the answer takes about four seconds: a first event, an edit and the last word.
    async fn ask(&self) -> String {
        let answer = format!("It begins well. {}", "And it goes on. ".repeat(10));
        self.model.add([say(&answer, 100)]);
        self.alice.say(&self.room, "Well?").await;
        answer.trim().to_owned()
    }

    async fn is_answered_once(&self, answer: &str) {
        let seen = self.alice.answer(&self.room, self.setup.user(), 1).await;
        assert_eq!(seen.text(), answer);
        self.model.add([say("Here.", 0)]);
        self.alice.say(&self.room, "Are you there?").await;
        self.alice.answer(&self.room, self.setup.user(), 2).await;
        let all = self.alice.messages(&self.room, self.setup.user());
        assert_eq!(all.iter().map(|one| one.text()).collect::<Vec<_>>(), [answer, "Here."]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_the_homeserver_to_the_first_a_middle_and_the_last_event_are_lost() {
    let scene = scene().await;
    for skip in [0, 1, 2] {
        scene.proxy.trouble(Which::Send, skip, 1, Trouble::LoseAnswer);
    }
    let answer = scene.ask().await;
    scene.is_answered_once(&answer).await;
    scene.proxy.happened(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_a_middle_and_the_last_event_are_limited() {
    let scene = scene().await;
    for skip in [0, 1, 2] {
        scene.proxy.trouble(Which::Send, skip, 1, Trouble::Limit(1000));
    }
    let answer = scene.ask().await;
    scene.is_answered_once(&answer).await;
    scene.proxy.happened(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_is_broken_for_a_while() {
    let scene = scene().await;
    let answer = scene.ask().await;
    scene
        .alice
        .until(&scene.room, scene.setup.user(), "a draft", |all| all.last().filter(|one| one.is_live()).map(|_| ()))
        .await;
    scene.proxy.trouble(Which::All, 0, usize::MAX, Trouble::BadGateway);
    scene.proxy.happened(8).await;
    scene.proxy.peace();
    scene.is_answered_once(&answer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_and_syncs_are_slow() {
    let scene = scene().await;
    scene.proxy.trouble(Which::Send, 0, usize::MAX, Trouble::Slow(1500));
    scene.proxy.trouble(Which::Sync, 0, 5, Trouble::Slow(1500));
    let answer = scene.ask().await;
    scene.is_answered_once(&answer).await;
}
