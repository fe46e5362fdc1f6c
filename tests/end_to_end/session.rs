//! The session and its sync loop stay alive: tokens that end, a homeserver that is silent.

use std::fs;

use ruma::OwnedRoomId;
use serde_json::Value;

use crate::support::{Agent, AgentSetup, Health, Homeserver, ModelServer, Person, Proxy, Trouble, Which, say};

struct Scene {
    agent: Agent,
    model: ModelServer,
    proxy: Proxy,
    setup: AgentSetup,
    health: Health,
    alice: Person,
    room: OwnedRoomId,
}

/// An agent whose rounds of sync may take three seconds.
async fn scene() -> Scene {
    let homeserver = Homeserver::relaxed();
    let proxy = Proxy::start(&homeserver).await;
    let model = ModelServer::start([]).await;
    let mut setup = AgentSetup::new(&proxy.homeserver, &model).await;
    setup.set("MATRIX_SYNC_TIMEOUT_SECONDS", "3");
    let health = Health::of(&mut setup);
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    Scene { agent, model, proxy, setup, health, alice, room }
}

impl Scene {
    /// The same with the agent killed and started again.
    async fn restarted(self) -> Self {
        self.agent.kill();
        let agent = self.setup.start().await;
        Self { agent, ..self }
    }

    async fn answers(&self, count: usize) {
        self.model.add([say("Here.", 0)]);
        self.alice.say(&self.room, "Are you there?").await;
        assert_eq!(self.alice.answer(&self.room, self.setup.user(), count).await.text(), "Here.");
    }

    fn session(&self) -> Value {
        serde_json::from_slice(&fs::read(self.setup.state().join("session.json")).unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_that_never_answers_is_begun_anew_and_shown_as_degraded_when_it_goes_on() {
    let scene = scene().await;
    scene.answers(1).await;
    scene.proxy.trouble(Which::Sync, 0, 3, Trouble::Swallow);
    scene.agent.logs("sync is degraded").await;
    scene.agent.logs("sync works again").await;
    scene.answers(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_degraded_sync_is_seen_from_outside_until_it_works_again() {
    let scene = scene().await;
    scene.health.ready(200).await;
    scene.proxy.trouble(Which::Sync, 0, usize::MAX, Trouble::BadGateway);
    let trouble = scene.health.ready(503).await;
    assert!(trouble.starts_with("not synced for ") && trouble.ends_with(" s\n"), "{trouble}");
    scene.proxy.peace();
    scene.health.ready(200).await;
    scene.answers(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_is_refreshed_and_the_fresh_ones_outlive_a_restart() {
    let scene = scene().await;
    let before = scene.session();
    assert!(before["refresh_token"].is_string());
    scene.proxy.trouble(Which::Sync, 0, 1, Trouble::SoftLogout);
    scene.proxy.happened(1).await;
    scene.answers(1).await;
    let after = scene.session();
    assert_eq!(after["device_id"], before["device_id"]);
    for token in ["access_token", "refresh_token"] {
        assert_ne!(after[token], before[token], "{token}");
    }
    assert!(!scene.agent.log().contains("begins anew"));
    let scene = scene.restarted().await;
    scene.answers(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_soft_logout_the_same_device_logs_in_again() {
    let scene = scene().await;
    scene.answers(1).await;
    let before = scene.session();
    scene.proxy.trouble(Which::Refresh, 0, 1, Trouble::SoftLogout);
    scene.proxy.trouble(Which::Sync, 0, 1, Trouble::SoftLogout);
    scene.agent.logs("soft logout").await;
    scene.agent.logs("begins anew").await;
    scene.answers(2).await;
    let after = scene.session();
    assert_eq!(after["device_id"], before["device_id"]);
    assert_ne!(after["access_token"], before["access_token"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_hard_logout_the_agent_ends_and_says_what_to_do() {
    let mut scene = scene().await;
    scene.answers(1).await;
    Homeserver::relaxed().log_out_everywhere(&scene.setup.account).await;
    scene.agent.ended().await;
    let last = scene.setup.last_word();
    assert!(last.contains("the homeserver has ended this session") && last.contains("--new-device"), "{last}");
    let agent = scene.setup.start_with(&["--new-device"]).await;
    let scene = Scene { agent, ..scene };
    // A join shows that the new device has shown its keys.
    scene.alice.direct_room(scene.setup.user()).await;
    scene.answers(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_device_with_a_wrong_password_leaves_the_session_in_its_place() {
    let mut scene = scene().await;
    scene.answers(1).await;
    let before = scene.session();
    scene.agent.kill();
    scene.setup.set("MATRIX_PASSWORD", "wrong");
    let refusal = scene.setup.refusal_with(&["--new-device"]).await;
    assert!(refusal.contains("does not accept the password"), "{refusal}");
    assert!(!scene.setup.state().join("old-devices").exists());
    let scene = Scene { agent: scene.setup.start().await, ..scene };
    scene.answers(2).await;
    assert_eq!(scene.session()["device_id"], before["device_id"]);
}
