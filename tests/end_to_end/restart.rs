//! Ended and started again: the same session, nothing lost, nothing doubled.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use crate::support::{AgentSetup, Homeserver, ModelServer, Talk, say};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_takes_up_its_session_and_answers_once_what_was_said_meanwhile() {
    let mut talk = Talk::begin([say("One.", 0), say("Two.", 0), say("Three.", 0)]).await;
    talk.say("first").await;
    talk.answer(1).await;
    let session = fs::read(talk.setup.state().join("session.json")).unwrap();
    talk.agent.stop();

    talk.say("second").await;
    talk.agent = talk.setup.start().await;
    assert_eq!(talk.answer(2).await.text(), "Two.");
    talk.say("third").await;
    assert_eq!(talk.answer(3).await.text(), "Three.");
    assert_eq!(talk.model.shown().len(), 3, "each message is answered once");
    assert_eq!(fs::read(talk.setup.state().join("session.json")).unwrap(), session, "no new login");
    assert!(talk.agent.is_running());
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
    let young = Duration::from_secs(30);
    let model = ModelServer::start([say("Hello.", 0), say("First.", 0), say("Second.", 0)]).await;
    let set = |setup: &mut AgentSetup| setup.set("INBOX_ANSWER_WITHIN_SECONDS", &young.as_secs().to_string());
    let mut talk = Talk::with(model, set).await;
    talk.say("hello").await;
    talk.answer(1).await;
    talk.agent.stop();

    talk.say("an old question").await;
    tokio::time::sleep(young + Duration::from_secs(1)).await;
    talk.say("a first question").await;
    talk.say("!stop").await;
    talk.say("a second question").await;
    talk.agent = talk.setup.start().await;
    assert_eq!(talk.answer(2).await.text(), "First.");
    assert_eq!(talk.answer(3).await.text(), "Second.");
    talk.goes_on(4).await;
    let shown = talk.model.shown();
    assert_eq!(shown.len(), 4, "nothing is answered twice, and the old one not at all: {shown:#?}");
    assert!(shown[1].contains("an old question") && shown[1].contains("a first question"), "{}", shown[1]);
    assert!(shown[2].contains("a second question") && !shown[2].contains("!stop"), "{}", shown[2]);
}
