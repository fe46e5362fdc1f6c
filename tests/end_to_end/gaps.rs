//! More happened than one sync brings: what it left out is fetched, in order, each event once.

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, say};

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
