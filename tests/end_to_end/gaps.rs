//! More happened than one sync brings: what it left out is fetched, in order, each event once.

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, Proxy, Trouble, Which, say};

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_messages_the_one_for_the_agent_is_answered_once_though_a_sync_brings_twenty() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Hello.", 0), say("Found it.", 0), say("Still one.", 0)]).await;
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    setup.set("INBOX_SYNC_EVENTS", "20");
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.group_room(&[setup.user()]).await;
    alice.say_to(&room, setup.user(), "hello").await;
    alice.answer(&room, setup.user(), 1).await;
    agent.kill();

    for number in 1..=100 {
        match number {
            10 => alice.say_to(&room, setup.user(), "where is number 9?").await,
            number => alice.say(&room, &format!("number {number}.")).await,
        };
    }
    let _agent = setup.start().await;
    assert_eq!(alice.answer(&room, setup.user(), 2).await.text(), "Found it.");
    let shown = model.shown().pop().unwrap();
    let at = |what: &str| shown.find(what).unwrap_or_else(|| panic!("{what}: {shown}"));
    assert!(at("hello") < at("number 1.") && at("number 1.") < at("number 9.") && at("number 9.") < at("where is"));
    alice.say_to(&room, setup.user(), "and now?").await;
    assert_eq!(alice.answer(&room, setup.user(), 3).await.text(), "Still one.");
    let shown = model.shown().pop().unwrap();
    assert!(shown.contains("number 99.") && shown.matches("number 50.").count() == 1, "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_in_a_room_that_was_left_is_no_error() {
    let homeserver = Homeserver::relaxed();
    let proxy = Proxy::start(&homeserver).await;
    let model = ModelServer::start([say("Hello.", 0), say("Still here.", 0)]).await;
    let mut setup = AgentSetup::new(&proxy.homeserver, &model).await;
    setup.set("INBOX_SYNC_EVENTS", "5");
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    alice.say(&room, "hello").await;
    alice.answer(&room, setup.user(), 1).await;
    agent.kill();

    for number in 1..=10 {
        alice.react(&room, &alice.messages(&room, setup.user())[0].id, &number.to_string()).await;
    }
    proxy.trouble(Which::Messages, 0, usize::MAX, Trouble::Forbid);
    let agent = setup.start().await;
    proxy.happened(1).await;
    alice.say(&room, "there?").await;
    assert_eq!(alice.answer(&room, setup.user(), 2).await.text(), "Still here.");
    let log = agent.log();
    assert!(log.contains("gap not filled: not in the room any more") && !log.contains("ERROR"), "{log}");
}
