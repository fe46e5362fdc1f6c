//! With the homeserver's own limits: 10 events, then one in 5 seconds.

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, say};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_streamed_for_a_minute_arrives_whole_under_default_rate_limits() {
    let homeserver = Homeserver::default_limits();
    let answer: String = (1..=240).map(|number| format!("word{number} ")).collect();
    let model = ModelServer::start([say(&answer, 250)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let mut agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;

    alice.say(&room, "Count, please.").await;
    alice
        .until(&room, setup.user(), "the draft", |messages| messages.last().filter(|one| one.is_live()).map(|_| ()))
        .await;
    // The answer takes a minute, and each wait has an end of its own.
    for part in ["word100", "word200"] {
        alice.until(&room, setup.user(), part, |messages| messages.last()?.text().contains(part).then_some(())).await;
    }
    let whole = alice.answer(&room, setup.user(), 1).await;
    assert_eq!(whole.text(), answer.trim());
    assert!((5..=25).contains(&whole.edits), "{} edits", whole.edits);
    assert_eq!(alice.messages(&room, setup.user()).len(), 1);
    assert!(agent.is_running());
    assert!(!agent.log().contains("ERROR"), "{}", agent.log());
}
