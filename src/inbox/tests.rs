//! What came in and what goes out survive the end of the process, each once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{path::Path, sync::Arc};

use matrix_link::{Batch, Sink as _};
use ruma::user_id;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::Inbox;
use crate::{
    store::Store,
    testing::{ALICE, Answer, DIRECT, House, Incoming, Server, at_once},
};

/// A process: when it is dropped, all its tasks end where they are.
fn process() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

async fn store(folder: &Path) -> Store {
    at_once(Store::open(&folder.join("store.sqlite3"), user_id!("@waybread:example.org"), &[1; 32])).await.unwrap()
}

async fn house(folder: &Path, server: &Arc<Server>, script: Value) -> House {
    let store = store(folder).await;
    House::with(script, |setup| (setup.store, setup.server) = (store, server.clone())).await
}

fn yes() -> Value {
    json!({"steps": [], "otherwise": {"say": "Yes."}})
}

#[test]
fn a_command_from_before_the_start_is_never_carried_out() {
    let folder = tempfile::tempdir().unwrap();
    let server = Arc::new(Server::new());
    process().block_on(async {
        let elsewhere = House::new(yes()).await;
        let said = |words| elsewhere.event(Incoming::message(ALICE, DIRECT, words));
        let events = vec![said("Well?"), said("!stop"), said("!help"), said("!model other")];
        let batch = Batch { position: "p1".into(), events, ..Batch::default() };
        at_once(Inbox::new(store(folder.path()).await, 10).commit(&batch)).await.unwrap();
    });
    process().block_on(async {
        let house = house(folder.path(), &server, yes()).await;
        house.quiet().await;
        assert_eq!(house.room(DIRECT), ["Yes."]);
    });
}

#[test]
fn an_event_that_was_kept_before_a_crash_is_handled_after_it_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Arc::new(Server::new());
    process().block_on(async {
        let elsewhere = House::new(yes()).await;
        let store = store(folder.path()).await;
        let batch = Batch {
            position: "p1".into(),
            events: vec![elsewhere.event(Incoming::message(ALICE, DIRECT, "Are you there?"))],
            ..Batch::default()
        };
        at_once(Inbox::new(store, 10).commit(&batch)).await.unwrap();
    });
    process().block_on(async {
        let house = house(folder.path(), &server, yes()).await;
        house.quiet().await;
        assert!(house.shown(0).contains("user: [1] alice: Are you there?\n"), "{}", house.shown(0));
        assert_eq!(at_once(house.store.position()).await.unwrap().as_deref(), Some("p1"));
    });
    process().block_on(async {
        let house = house(folder.path(), &server, yes()).await;
        house.quiet().await;
        assert_eq!(house.requests(), 0);
    });
    assert_eq!(server.room(DIRECT), ["Yes."]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_brought_twice_is_answered_once() {
    let house = House::new(yes()).await;
    let event = house.event(Incoming::message(ALICE, DIRECT, "Hello?"));
    house.commit(vec![event.clone()]).await;
    house.quiet().await;
    house.commit(vec![event.clone(), event]).await;
    house.quiet().await;
    assert_eq!(house.room(DIRECT), ["Yes."]);
}

#[test]
fn an_answer_that_was_not_taken_before_a_crash_goes_out_after_it_with_the_same_transaction_id() {
    let folder = tempfile::tempdir().unwrap();
    let server = Arc::new(Server::new());
    // The homeserver takes it, and the process ends before it knows.
    server.answer([Answer::Lose]);
    process().block_on(async {
        let house = house(folder.path(), &server, yes()).await;
        house.say(ALICE, DIRECT, "Hello?").await;
    });
    assert_eq!(server.attempts().len(), 1);
    process().block_on(async {
        let house = house(folder.path(), &server, yes()).await;
        house.settle().await;
        let (txns, answers): (Vec<_>, Vec<_>) = server.attempts().into_iter().unzip();
        assert_eq!(answers, [Answer::Lose, Answer::Take]);
        assert_eq!(txns[0], txns[1]);
        house.ask(ALICE, DIRECT, "And now?").await;
    });
    process().block_on(async {
        let house = house(folder.path(), &server, yes()).await;
        house.settle().await;
    });
    assert_eq!(server.room(DIRECT), ["Yes.", "Yes."]);
}

#[test]
fn after_a_restart_the_conversation_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let server = Arc::new(Server::new());
    process().block_on(async {
        let house = house(folder.path(), &server, json!({"steps": [{"say": "It is 4."}]})).await;
        house.ask(ALICE, DIRECT, "What is 2+2?").await;
    });
    process().block_on(async {
        let house = house(folder.path(), &server, yes()).await;
        house.ask(ALICE, DIRECT, "Are you sure?").await;
        let shown = house.shown(0);
        assert!(
            shown.contains("user: [1] alice: What is 2+2?\n\nassistant: It is 4.\n\nuser: [3] alice: Are you sure?\n"),
            "{shown}"
        );
    });
}
