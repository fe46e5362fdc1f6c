//! What counts in an encrypted room, and what is ignored.

use serde_json::json;

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, say};

#[tokio::test(flavor = "multi_thread")]
async fn clear_events_in_an_encrypted_room_ask_stop_and_change_nothing() {
    let homeserver = Homeserver::relaxed();
    let slow = "One word after another comes here slowly. ".repeat(8);
    let model = ModelServer::start([say(&slow, 50), say("Here.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let agent = setup.start().await;
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let room = alice.direct_room(setup.user()).await;
    let forged = async |content| homeserver.send_in_clear(room.as_str(), &account, &content).await;

    forged(json!({"msgtype": "m.text", "body": "a forged question"})).await;
    let question = alice.say(&room, "tell me").await;
    alice.until(&room, setup.user(), "a draft", |all| all.last().filter(|one| one.is_live()).map(|_| ())).await;
    forged(json!({"msgtype": "m.text", "body": "stop"})).await;
    forged(json!({"msgtype": "m.text", "body": "!stop"})).await;
    forged(json!({"msgtype": "m.text", "body": "* forged", "m.new_content": {"msgtype": "m.text", "body": "forged"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": question}}))
    .await;
    assert_eq!(alice.answer(&room, setup.user(), 1).await.text(), slow.trim());
    alice.say(&room, "still there?").await;
    assert_eq!(alice.answer(&room, setup.user(), 2).await.text(), "Here.");
    let shown = model.shown();
    assert_eq!(shown.len(), 2);
    assert!(!shown[1].contains("forged"), "{}", shown[1]);
    assert_eq!(agent.log().matches("event does not count").count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsigned_device_is_heard_only_where_any_device_is() {
    assert_eq!(heard("any").await, Heard { unsigned: true, signed: true });
    assert_eq!(heard("cross_signed").await, Heard { unsigned: false, signed: true });
    assert_eq!(heard("verified").await, Heard { unsigned: false, signed: false });
}

/// Which of a person's two devices, an unsigned and a signed one, the agent's model has heard.
#[derive(Debug, PartialEq)]
struct Heard {
    unsigned: bool,
    signed: bool,
}

async fn heard(trust: &str) -> Heard {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::echo(0).await;
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    setup.set("ACCESS_TRUST", trust);
    let agent = setup.start().await;
    let account = homeserver.account("alice").await;
    let signed = Person::at(&homeserver, &account).await;
    let room = signed.direct_room(setup.user()).await;
    let unsigned = Person::at_unsigned_device(&homeserver, &account).await;
    unsigned.joined(&room, setup.user()).await;

    // In one order, so that what comes last tells that all before it is decided.
    let answered_or_ignored = async |answers: usize, ignored: usize| loop {
        if model.shown().len() >= answers || agent.log().matches("event does not count").count() >= ignored {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    unsigned.say(&room, "from the unsigned device").await;
    answered_or_ignored(1, 1).await;
    signed.say(&room, "from the signed device").await;
    let (answers, ignored) = (model.shown().len(), agent.log().matches("event does not count").count());
    answered_or_ignored(answers + 1, ignored + 1).await;
    let shown = model.shown().concat();
    Heard { unsigned: shown.contains("from the unsigned device"), signed: shown.contains("from the signed device") }
}
