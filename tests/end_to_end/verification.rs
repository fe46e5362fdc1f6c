//! Verification by emoji: with allowed people, by the agent itself or by its operator; nobody else.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::Child,
};

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, say};

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_person_and_the_agent_verify_each_other_and_a_strangers_request_is_cancelled() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Hello.", 0)]).await;
    let (alice, mallory) = (Person::new(&homeserver, "alice").await, Person::new(&homeserver, "mallory").await);
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    setup.set("ACCESS_ALLOW", alice.user.as_str());
    let agent = setup.start().await;
    alice.direct_room(setup.user()).await;

    let seen = alice.verify(setup.user()).await.unwrap();
    assert_eq!(seen.len(), 7);
    let logged = agent.logs("emoji: ").await;
    // In the same order, and one can be there more than once.
    let rest = seen.iter().try_fold(logged.as_str(), |rest, name| Some(rest.split_once(&format!(" {name}"))?.1));
    assert!(rest.is_some(), "{seen:?} {logged}");
    agent.logs(&format!("verified user={}", alice.user)).await;

    // The agent knows the stranger's devices from a room that they share.
    let group = alice.group_room(&[setup.user(), &mallory.user]).await;
    alice.say_to(&group, setup.user(), "hello").await;
    alice.answer(&group, setup.user(), 1).await;
    let refused = mallory.verify(setup.user()).await.unwrap_err();
    assert!(refused.to_string().starts_with("cancelled: "), "{refused}");
    agent.logs("not in access.allow").await;
    assert_eq!(model.shown().len(), 1, "a request for verification is no question");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_has_replaced_their_identity_is_still_answered() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Hello.", 0), say("Hello again.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let bob = Person::new(&homeserver, "bob").await;
    let group = alice.group_room(&[setup.user(), &bob.user]).await;
    bob.say_to(&group, setup.user(), "hello").await;
    bob.answer(&group, setup.user(), 1).await;
    alice.direct_room(setup.user()).await;
    alice.verify(setup.user()).await.unwrap();
    alice.reset_identity().await;
    agent.logs("no longer verified").await;
    bob.say_to(&group, setup.user(), "hello again").await;
    assert_eq!(bob.answer(&group, setup.user(), 2).await.text(), "Hello again.");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_only_verified_people_count_the_operator_compares() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Hello.", 0)]).await;
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    setup.set("ACCESS_TRUST", "verified");
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    alice.say(&room, "hello").await;
    agent.logs("event does not count").await;
    agent.kill();

    let operator = setup.verify();
    let operator = tokio::task::spawn_blocking(move || operate(operator));
    let seen = alice.verify(setup.user()).await.unwrap();
    let shown = operator.await.unwrap();
    for name in seen {
        assert!(shown.contains(&name), "{name} is not in {shown}");
    }
    assert!(shown.contains(&format!("verified: {}", alice.user)), "{shown}");

    let _agent = setup.start().await;
    alice.say(&room, "hello again").await;
    assert_eq!(alice.answer(&room, setup.user(), 1).await.text(), "Hello.");
}

/// Answers yes to what is asked, and gives all that was shown.
fn operate(mut process: Child) -> String {
    let mut out = BufReader::new(process.stdout.take().unwrap());
    let mut shown = Vec::new();
    out.read_until(b'?', &mut shown).unwrap();
    process.stdin.take().unwrap().write_all(b"yes\n").unwrap();
    out.read_to_end(&mut shown).unwrap();
    assert!(process.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}
