//! Whatever the model does, the person gets an answer or a short clear word, and the agent lives on.

use serde_json::json;
use waybread::model::scripted::{Fail, StreamFault};

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, calls, fail, say};

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_the_model_end_in_an_answer_or_a_clear_word() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([]).await;
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    for (name, value) in [
        ("MODEL_ATTEMPTS", "2"),
        ("MODEL_FIRST_TOKEN_SECONDS", "2"),
        ("MODEL_IDLE_SECONDS", "2"),
        ("MODEL_MAX_REPLY_BYTES", "4096"),
    ] {
        setup.set(name, value);
    }
    let mut agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    let status = |status| fail("", Fail::Status { status, retry_after_ms: None });
    let stream = |fault| fail("It begins well. ", Fail::Stream(fault));

    let cases = [
        ("broken arguments", vec![calls("now", json!("{\"zone\": ")), say("Mended.", 0)], "Mended."),
        ("unknown tool", vec![calls("fly", json!({})), say("Walked.", 0)], "Walked."),
        ("429 once", vec![status(429), say("Not busy now.", 0)], "Not busy now."),
        ("500 once", vec![status(500), say("Up again.", 0)], "Up again."),
        ("cut once", vec![stream(StreamFault::Cut), say("Whole.", 0)], "Whole."),
        ("busy", vec![status(429), status(429)], "⚠ My model is busy. Please try again in a few minutes."),
        ("down", vec![status(500), status(502)], "⚠ My model can't be reached right now. Please try again later."),
        ("wrong key", vec![status(401)], "⚠ My model refuses to work. My operator finds the reason in the log."),
        (
            "silent",
            vec![stream(StreamFault::Silence), stream(StreamFault::Silence)],
            "It begins well.\n\n*⚠ My model did not answer in time. Please try again.*",
        ),
    ];
    let mut count = 0;
    for (name, steps, expected) in cases {
        model.add(steps);
        alice.say(&room, name).await;
        count += 1;
        let answer = alice.answer(&room, setup.user(), count).await;
        assert_eq!(answer.text(), expected, "{name}");
    }

    model.add([stream(StreamFault::Endless)]);
    alice.say(&room, "endless").await;
    let answer = alice.answer(&room, setup.user(), count + 1).await;
    assert!(answer.text().ends_with("*⏹ Cut off: the answer reached its limit.*"), "{}", answer.text());

    model.add([say("Still here.", 0)]);
    alice.say(&room, "and now?").await;
    assert_eq!(alice.answer(&room, setup.user(), count + 2).await.text(), "Still here.");
    assert!(agent.is_running());
    let shown = model.shown();
    assert!(shown[1].contains("are not valid JSON"), "{}", shown[1]);
    assert!(shown[3].contains("there is no tool"), "{}", shown[3]);
}
