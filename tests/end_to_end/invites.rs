//! Invites: allowed people's are accepted, live or pending; others' are declined.

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
