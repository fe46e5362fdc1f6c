//! What the person says or changes during a turn.

use serde_json::json;

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, calls, say};

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_the_question_starts_the_answer_over_and_later_only_changes_the_history() {
    let homeserver = Homeserver::relaxed();
    let wrong = "This answers the wrong question at length. ".repeat(40);
    let model = ModelServer::start([say(&wrong, 100), say("Right.", 0), say("I see.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let _agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;

    let question = alice.say(&room, "wrong question").await;
    alice
        .until(&room, setup.user(), "a draft", |messages| messages.last().filter(|one| one.is_live()).map(|_| ()))
        .await;
    alice.edit(&room, &question, "right question").await;
    assert_eq!(alice.answer(&room, setup.user(), 1).await.text(), "Right.");
    let shown = model.shown();
    assert!(shown[1].contains("right question") && !shown[1].contains("wrong"), "{}", shown[1]);

    alice.edit(&room, &question, "edited afterwards").await;
    alice.say(&room, "another").await;
    alice.answer(&room, setup.user(), 2).await;
    let shown = model.shown();
    assert_eq!(shown.len(), 3, "an edit after the turn starts none");
    assert!(shown[2].contains("edited afterwards") && !shown[2].contains("right question"), "{}", shown[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_words_during_a_turn_are_never_lost() {
    let homeserver = Homeserver::relaxed();
    let long = "The first answer takes a while to write. ".repeat(8);
    let model = ModelServer::start([say(&long, 50), calls("now", json!({})), say("Both seen.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let _agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;

    alice.say(&room, "first").await;
    alice
        .until(&room, setup.user(), "a draft", |messages| messages.last().filter(|one| one.is_live()).map(|_| ()))
        .await;
    alice.say(&room, "second").await;
    assert_eq!(alice.answer(&room, setup.user(), 1).await.text(), long.trim());
    assert_eq!(alice.answer(&room, setup.user(), 2).await.text(), "Both seen.");
    let shown = model.shown();
    assert!(!shown[0].contains("second") && shown[1].contains("second"), "{shown:#?}");
}
