//! The road: a question in an encrypted room, a streamed answer with a tool call in between.

use serde_json::json;

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, calls, say};

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_by_edits_with_a_tool_call_in_between_and_nothing_is_readable_on_the_server() {
    let homeserver = Homeserver::relaxed();
    let answer = format!("In Tokyo it is late. {}", "Go to bed now, secretively. ".repeat(12));
    let model = ModelServer::start([calls("now", json!({"zone": "Asia/Tokyo"})), say(&answer, 100)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let _agent = setup.start().await;
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let room = alice.direct_room(setup.user()).await;

    alice.say(&room, "What time is it in Tokyo, secretively?").await;
    let live = alice
        .until(&room, setup.user(), "an intermediate edit", |messages| {
            messages.last().filter(|one| one.is_live() && one.edits > 0).cloned()
        })
        .await;
    let whole = alice.answer(&room, setup.user(), 1).await;
    assert!(live.text().len() < whole.text().len());
    assert_eq!((whole.text(), &whole.id), (answer.trim(), &live.id));

    let shown = model.shown();
    assert_eq!(shown.len(), 2);
    assert!(shown[0].contains("What time is it in Tokyo"), "{}", shown[0]);
    assert!(shown[1].contains("In Asia/Tokyo it is "), "{}", shown[1]);

    let stored = homeserver.timeline(room.as_str(), &account).await;
    let encrypted = stored.iter().filter(|event| event["type"] == "m.room.encrypted");
    for event in encrypted.clone() {
        let mut keys: Vec<_> = event["content"].as_object().unwrap().keys().map(String::as_str).collect();
        keys.retain(|key| *key != "m.relates_to");
        assert_eq!(keys, ["algorithm", "ciphertext", "device_id", "sender_key", "session_id"], "{event}");
    }
    assert!(encrypted.count() >= 3);
    for event in &stored {
        let kind = event["type"].as_str().unwrap();
        assert!(kind == "m.room.encrypted" || event.get("state_key").is_some(), "{event}");
        assert!(!event.to_string().contains("secretively"), "{event}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_question_is_asked_with_what_was_said_before() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Blue.", 0), say("You asked for a colour.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let _agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;

    alice.say(&room, "Name a colour.").await;
    alice.answer(&room, setup.user(), 1).await;
    alice.say(&room, "What did I ask?").await;
    assert_eq!(alice.answer(&room, setup.user(), 2).await.text(), "You asked for a colour.");

    let shown = model.shown().pop().unwrap();
    for said in ["Name a colour.", "Blue.", "What did I ask?"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}
