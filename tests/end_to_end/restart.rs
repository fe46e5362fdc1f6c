//! Ended and started again: the same session, nothing lost, nothing doubled.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, say};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_takes_up_its_session_and_answers_once_what_was_said_meanwhile() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("One.", 0), say("Two.", 0), say("Three.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    alice.say(&room, "first").await;
    alice.answer(&room, setup.user(), 1).await;
    let session = fs::read(setup.state().join("session.json")).unwrap();
    agent.kill();

    alice.say(&room, "second").await;
    let mut agent = setup.start().await;
    assert_eq!(alice.answer(&room, setup.user(), 2).await.text(), "Two.");
    alice.say(&room, "third").await;
    assert_eq!(alice.answer(&room, setup.user(), 3).await.text(), "Three.");
    assert_eq!(model.shown().len(), 3, "each message is answered once");
    assert_eq!(fs::read(setup.state().join("session.json")).unwrap(), session, "no new login");
    assert!(agent.is_running());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_secret_is_the_owners_alone() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let agent = setup.start().await;
    let mode = |name: &str| fs::metadata(setup.state().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    for file in ["session.json", "store.key", "recovery-key"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    let recovery_key = fs::read_to_string(setup.state().join("recovery-key")).unwrap();
    assert_eq!(recovery_key.split_whitespace().count(), 12);
    let log = agent.log();
    for secret in [recovery_key.trim(), setup.account.password.as_str()] {
        assert!(!log.contains(secret));
    }
    assert!(!log.contains("not signed"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_was_said_meanwhile_the_old_is_read_the_new_is_answered_and_a_stop_is_not_carried_out() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Hello.", 0), say("First.", 0), say("Second.", 0), say("Here.", 0)]).await;
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    let young = Duration::from_secs(30);
    setup.set("INBOX_ANSWER_WITHIN_SECONDS", &young.as_secs().to_string());
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    alice.say(&room, "hello").await;
    alice.answer(&room, setup.user(), 1).await;
    agent.kill();

    alice.say(&room, "an old question").await;
    tokio::time::sleep(young + Duration::from_secs(1)).await;
    alice.say(&room, "a first question").await;
    alice.say(&room, "!stop").await;
    alice.say(&room, "a second question").await;
    let _agent = setup.start().await;
    assert_eq!(alice.answer(&room, setup.user(), 2).await.text(), "First.");
    assert_eq!(alice.answer(&room, setup.user(), 3).await.text(), "Second.");
    alice.say(&room, "there?").await;
    assert_eq!(alice.answer(&room, setup.user(), 4).await.text(), "Here.");
    let shown = model.shown();
    assert_eq!(shown.len(), 4, "nothing is answered twice, and the old one not at all: {shown:#?}");
    assert!(shown[1].contains("an old question") && shown[1].contains("a first question"), "{}", shown[1]);
    assert!(shown[2].contains("a second question") && !shown[2].contains("!stop"), "{}", shown[2]);
}
