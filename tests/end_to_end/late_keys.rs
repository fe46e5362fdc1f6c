//! Keys that come late, or only from the backup: the message waits, the room is told, the answer comes late and once.

use ruma::OwnedRoomId;

use crate::support::{AgentSetup, Health, Homeserver, ModelServer, Person, Proxy, Trouble, Which, say};

/// A talk with somebody whose keys can be held up on their way.
struct Scene {
    homeserver: Homeserver,
    proxy: Proxy,
    model: ModelServer,
    setup: AgentSetup,
}

impl Scene {
    async fn new(model: ModelServer) -> Self {
        let homeserver = Homeserver::relaxed();
        let proxy = Proxy::start(&homeserver).await;
        let setup = AgentSetup::new(&homeserver, &model).await;
        Self { homeserver, proxy, model, setup }
    }

    /// A person with a direct room, whose keys are held up from now on.
    async fn alice(&self) -> (Person, OwnedRoomId) {
        let account = self.homeserver.account("alice").await;
        let alice = Person::at(&self.proxy.homeserver, &account).await;
        let room = alice.direct_room(self.setup.user()).await;
        self.proxy.trouble(Which::ToDevice, 0, usize::MAX, Trouble::Postpone);
        (alice, room)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_key_comes_late_is_answered_late_and_once() {
    let mut scene = Scene::new(ModelServer::start([say("At last.", 0), say("Here.", 0)]).await).await;
    scene.setup.set("INBOX_UNREADABLE_AFTER_SECONDS", "2");
    let agent = scene.setup.start().await;
    let user = scene.setup.user();
    let (alice, room) = scene.alice().await;

    alice.say(&room, "Can you read this?").await;
    let told = alice.answer(&room, user, 1).await;
    assert!(told.text().starts_with("🔒 I can't read your last message"), "{}", told.text());
    assert_eq!(scene.model.shown().len(), 0);
    scene.proxy.catch_up().await;
    let answer = alice.answer(&room, user, 2).await;
    assert_eq!((answer.text(), answer.edits), ("At last.", 0));
    alice.say(&room, "And this?").await;
    alice.answer(&room, user, 3).await;
    let texts: Vec<_> = alice.messages(&room, user).into_iter().map(|one| one.message.body).collect();
    assert_eq!(texts.len(), 3, "told once, answered once each: {texts:#?}");
    assert!(agent.log().contains("decrypted late"), "{}", agent.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_came_while_nobody_was_there_is_used_at_the_next_start() {
    let scene = Scene::new(ModelServer::start([say("At last.", 0)]).await).await;
    let agent = scene.setup.start().await;
    let (alice, room) = scene.alice().await;

    alice.say(&room, "Can you read this?").await;
    agent.logs("no key for an event").await;
    agent.kill();
    scene.proxy.catch_up().await;
    let _agent = scene.setup.start().await;
    assert_eq!(alice.answer(&room, scene.setup.user(), 1).await.text(), "At last.");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_lost_keys_make_the_agent_not_ready_until_they_come() {
    let mut scene = Scene::new(ModelServer::start((1..=5).map(|_| say("Yes.", 0))).await).await;
    let health = Health::of(&mut scene.setup);
    let _agent = scene.setup.start().await;
    let (alice, room) = scene.alice().await;
    health.ready(200).await;

    for number in 1..=5 {
        alice.say(&room, &format!("question {number}")).await;
    }
    let troubles = health.ready(503).await;
    assert_eq!(troubles, "5 events of the last 10 minutes can't be decrypted\n");
    scene.proxy.catch_up().await;
    health.ready(200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_only_the_backup_has_is_fetched_from_there_and_vouches_for_no_device() {
    assert!(answered_by_the_backup("any").await);
    assert!(!answered_by_the_backup("cross_signed").await);
}

/// Whether a message is answered whose key a new device of the agent has from the backup alone.
async fn answered_by_the_backup(trust: &str) -> bool {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("One.", 0), say("Two.", 0)]).await;
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    setup.set("ACCESS_TRUST", trust);
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    alice.say(&room, "first").await;
    alice.answer(&room, setup.user(), 1).await;
    // Alice's key, and the agent's own of its answer.
    homeserver.until_backed_up(&setup.account, 2).await;
    agent.kill();

    // Under the key that the old device has, and that the new one never gets from its sender.
    alice.say(&room, "second").await;
    let agent = setup.start_with(&["--new-device"]).await;
    let passed_over = agent.logs("event does not count");
    let answer =
        alice.until(&room, setup.user(), "an answer", |all| all.iter().find(|one| one.text() == "Two.").cloned());
    tokio::select! {
        _ = answer => true,
        _ = passed_over => false,
    }
}
