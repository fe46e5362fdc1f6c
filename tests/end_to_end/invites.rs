//! Invites: allowed people's are accepted, live or pending; others' are declined.

use futures_util::future::join_all;
use matrix_link::Membership;

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, say};

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_invite_is_declined_and_an_allowed_persons_accepted_also_when_it_waited() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Hello.", 0)]).await;
    let (alice, mallory) = (Person::new(&homeserver, "alice").await, Person::new(&homeserver, "mallory").await);
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    setup.set("ACCESS_ALLOW", alice.user.as_str());
    let agent = setup.user();
    // Both wait before the agent has ever run.
    let (pending, pending_stranger) = (alice.invite(agent).await, mallory.invite(agent).await);
    let _agent = setup.start().await;
    alice.joined(&pending, agent).await;
    mallory.member(&pending_stranger, agent, Membership::Left).await;

    let live = alice.direct_room(agent).await;
    let live_stranger = mallory.invite(agent).await;
    mallory.member(&live_stranger, agent, Membership::Left).await;

    // In a room of allowed people a stranger is heard, and not answered.
    let group = alice.group_room(&[agent, &mallory.user]).await;
    mallory.say_to(&group, agent, "do my work").await;
    alice.say(&live, "hello").await;
    assert_eq!(alice.answer(&live, agent, 1).await.text(), "Hello.");
    assert_eq!(alice.messages(&group, agent), []);
    assert_eq!(model.shown().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn direct_rooms_whose_invites_come_at_once_are_all_known_to_be_direct() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::echo(0).await;
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    setup.set("OUTBOX_BURST", "100");
    let _agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;

    let rooms = join_all((0..8).map(|_| alice.direct_room(setup.user()))).await;
    for room in &rooms {
        alice.say(room, "Is this a direct room?").await;
    }
    for room in &rooms {
        alice.answer(room, setup.user(), 1).await;
    }
}
