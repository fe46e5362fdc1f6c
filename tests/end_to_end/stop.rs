//! Stop, at any time: the room shows the end within a second.

use std::time::{Duration, Instant};

use ruma::{OwnedEventId, RoomId};
use waybread::model::scripted::{Fail, StreamFault};

use crate::support::{Agent, AgentSetup, Homeserver, ModelServer, Person, Seen, fail, say};

/// From when the homeserver has the stop to when the person sees the end: the agent's time, and the homeserver's and the
/// client's on the way back.
const AT_ONCE: Duration = Duration::from_secs(1);

struct Talk {
    _agent: Agent,
    setup: AgentSetup,
    alice: Person,
    room: ruma::OwnedRoomId,
    prompt: OwnedEventId,
}

async fn asked(model: &ModelServer) -> Talk {
    let homeserver = Homeserver::relaxed();
    let setup = AgentSetup::new(&homeserver, model).await;
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    let prompt = alice.say(&room, "Tell me a long story.").await;
    Talk { _agent: agent, setup, alice, room, prompt }
}

impl Talk {
    async fn draft(&self) -> Seen {
        self.alice
            .until(&self.room, self.setup.user(), "a draft", |messages| {
                messages.last().filter(|one| one.is_live()).cloned()
            })
            .await
    }

    /// The finished message, and how long after `since` it was there.
    async fn ended(&self, since: Instant) -> (Seen, Duration) {
        let end = self.alice.answer(&self.room, self.setup.user(), 1).await;
        (end, since.elapsed())
    }

    fn room(&self) -> &RoomId {
        &self.room
    }
}

fn story() -> ModelServerSteps {
    vec![say(&"Once upon a time there was a fox. ".repeat(200), 50)]
}

type ModelServerSteps = Vec<waybread::model::scripted::Step>;

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_word_ends_the_answer_while_the_model_streams() {
    let model = ModelServer::start(story()).await;
    let talk = asked(&model).await;
    let draft = talk.draft().await;
    talk.alice.say(talk.room(), "stop").await;
    let since = Instant::now();
    let (end, took) = talk.ended(since).await;
    assert!(end.id == draft.id && end.text().ends_with("*⏹ Stopped.*"), "{}", end.text());
    assert!(end.text().starts_with("Once upon a time"));
    assert!(took < AT_ONCE, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stop_command_ends_the_answer_while_the_model_hangs() {
    let model = ModelServer::start([fail("Once upon a time. ", Fail::Stream(StreamFault::Silence))]).await;
    let talk = asked(&model).await;
    talk.draft().await;
    talk.alice.say(talk.room(), "!stop").await;
    let since = Instant::now();
    let (end, took) = talk.ended(since).await;
    assert_eq!(end.text(), "Once upon a time.\n\n*⏹ Stopped.*");
    assert!(took < AT_ONCE, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_sign_on_the_draft_ends_it() {
    let model = ModelServer::start(story()).await;
    let talk = asked(&model).await;
    let draft = talk.draft().await;
    talk.alice.react(talk.room(), &draft.id, "🛑").await;
    let since = Instant::now();
    let (end, took) = talk.ended(since).await;
    assert!(end.text().ends_with("*⏹ Stopped.*"), "{}", end.text());
    assert!(took < AT_ONCE, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn taking_the_question_back_ends_the_answer() {
    let model = ModelServer::start(story()).await;
    let talk = asked(&model).await;
    talk.draft().await;
    talk.alice.redact(talk.room(), &talk.prompt).await;
    let since = Instant::now();
    let (end, took) = talk.ended(since).await;
    assert!(end.text().ends_with("*⏹ Stopped.*"), "{}", end.text());
    assert!(took < AT_ONCE, "{took:?}");

    model.add([say("Fine.", 0)]);
    talk.alice.say(talk.room(), "Something else, then.").await;
    talk.alice.answer(talk.room(), talk.setup.user(), 2).await;
    let shown = model.shown().pop().unwrap();
    assert!(!shown.contains("Tell me a long story"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_before_the_first_word_is_answered_too() {
    let model = ModelServer::start([fail("", Fail::Stream(StreamFault::Silence))]).await;
    let talk = asked(&model).await;
    // The model has the question when the turn runs.
    model.asked(1).await;
    talk.alice.say(talk.room(), "!stop").await;
    let since = Instant::now();
    let (end, took) = talk.ended(since).await;
    assert_eq!(end.text(), "⏹ Stopped.");
    assert!(took < AT_ONCE, "{took:?}");
}
