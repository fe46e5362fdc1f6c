//! Keys that come late: the message waits, the room is told, the answer comes late and once.

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, Proxy, Trouble, Which, say};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_key_comes_late_is_answered_late_and_once() {
    let homeserver = Homeserver::relaxed();
    let proxy = Proxy::start(&homeserver).await;
    let model = ModelServer::start([say("At last.", 0), say("Here.", 0)]).await;
    let mut setup = AgentSetup::new(&proxy.homeserver, &model).await;
    setup.set("INBOX_UNREADABLE_AFTER_SECONDS", "2");
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;

    proxy.trouble(Which::Sync, 0, usize::MAX, Trouble::WithholdKeys);
    alice.say(&room, "Can you read this?").await;
    proxy.happened(1).await;
    let told = alice.answer(&room, setup.user(), 1).await;
    assert!(told.text().starts_with("🔒 I can't read your last message"), "{}", told.text());
    assert_eq!(model.shown().len(), 0);

    proxy.peace();
    let answer = alice.answer(&room, setup.user(), 2).await;
    assert_eq!((answer.text(), answer.edits), ("At last.", 0));
    alice.say(&room, "And this?").await;
    alice.answer(&room, setup.user(), 3).await;
    let texts: Vec<_> = alice.messages(&room, setup.user()).into_iter().map(|one| one.message.body).collect();
    assert_eq!(texts.len(), 3, "told once, answered once each: {texts:#?}");
    assert!(agent.log().contains("decrypted late"), "{}", agent.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_came_while_nobody_was_there_to_try_is_tried_at_the_next_start() {
    let homeserver = Homeserver::relaxed();
    let proxy = Proxy::start(&homeserver).await;
    let model = ModelServer::start([say("At last.", 0)]).await;
    let setup = AgentSetup::new(&proxy.homeserver, &model).await;
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;

    proxy.trouble(Which::Sync, 0, usize::MAX, Trouble::WithholdKeys);
    alice.say(&room, "Can you read this?").await;
    proxy.happened(1).await;
    while !agent.log().contains("no key for an event") {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    agent.kill();
    proxy.peace();
    let _agent = setup.start().await;
    assert_eq!(alice.answer(&room, setup.user(), 1).await.text(), "At last.");
}
