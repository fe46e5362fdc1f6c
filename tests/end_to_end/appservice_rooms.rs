//! Several agents of an appservice, in rooms with people and with each other.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{Appservice, Homeserver, ModelServer, Person, say};

/// What is no picture, and which nobody looks at here.
const PICTURE: &[u8] = b"a picture";

#[tokio::test(flavor = "multi_thread")]
async fn the_main_agent_brings_another_in_and_of_two_only_the_addressed_one_answers() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Main here.", 0), say("Cook here.", 0)]).await;
    let appservice = Appservice::new(&homeserver, &model, &["main", "cook"]);
    let _agent = appservice.setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let (main, cook) = (appservice.agent("main"), appservice.agent("cook"));
    let group = alice.group_room(&[&main]).await;
    alice.say_to(&group, &main, &format!("{main}: !agents")).await;
    let listed = alice.answer(&group, &main, 1).await;
    assert!(listed.text().contains("The cook (`@"), "{}", listed.text());
    alice.say_to(&group, &main, &format!("{main}: !invite the cook")).await;
    assert_eq!(alice.answer(&group, &main, 2).await.text(), "The cook is invited.");
    alice.joined(&group, &cook).await;

    alice.say(&group, "Nobody is asked.").await;
    alice.say_to(&group, &main, "Who is there?").await;
    assert_eq!(alice.answer(&group, &main, 3).await.text(), "Main here.");
    alice.say_to(&group, &cook, "And you?").await;
    assert_eq!(alice.answer(&group, &cook, 1).await.text(), "Cook here.");
    assert_eq!((alice.messages(&group, &main).len(), alice.messages(&group, &cook).len()), (3, 1));
    let shown = model.shown();
    assert!(
        shown.len() == 2 && shown[1].contains("You are the cook.") && shown[1].contains("Main here."),
        "{shown:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_answer_each_other_until_it_is_enough_and_again_when_a_person_speaks() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([]).await;
    let mut appservice = Appservice::new(&homeserver, &model, &["main", "cook"]);
    // Each has to be opened again for each turn.
    appservice.setup.set("APPSERVICE_MAX_OPEN", "1");
    let agent = appservice.setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let (main, cook) = (appservice.agent("main"), appservice.agent("cook"));
    let group = alice.group_room(&[&main, &cook]).await;
    // Each answer mentions whom it answers, so this never ends by itself.
    model.add([say(&format!("{cook}, what do you say?"), 0)]);
    model.add((0..20).map(|_| say("And you?", 0)));
    alice.say_to(&group, &main, "Ask the cook!").await;
    timeout(Duration::from_secs(240), model.asked(7)).await.expect("one turn for alice and three each for the other");
    agent.logs("bots have had their turns").await;
    alice.say_to(&group, &cook, "Thank you, that will do.").await;
    timeout(Duration::from_secs(60), model.asked(8)).await.expect("an answer to alice");
    assert!(model.shown()[7].contains("that will do"), "{:#?}", model.shown());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_rests_hears_the_bell_and_answers_a_person_at_a_new_device() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("One.", 0), say("Two.", 0)]).await;
    let mut appservice = Appservice::new(&homeserver, &model, &["main"]);
    appservice.setup.set("ACCESS_TRUST", "any");
    let agent = appservice.setup.start().await;
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let main = appservice.agent("main");
    let room = alice.direct_room(&main).await;
    alice.say(&room, "first").await;
    assert_eq!(alice.answer(&room, &main, 1).await.text(), "One.");
    agent.logs("sync rests").await;
    let further = Person::at_unsigned_device(&homeserver, &account).await;
    further.joined(&room, &main).await;
    further.say(&room, "second").await;
    // Both of her devices can read it.
    assert_eq!(alice.answer(&room, &main, 2).await.text(), "Two.");
    let readable = further.until(&room, &main, "the answer", |all| all.last().map(|one| one.text().to_owned()));
    assert_eq!(readable.await, "Two.");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_has_its_name_and_its_picture_which_is_uploaded_once() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([]).await;
    let appservice = Appservice::new(&homeserver, &model, &["main"]);
    fs::write(appservice.setup.folder().join("main.png"), PICTURE).unwrap();
    appservice.set_agent_tables("main", "avatar = \"main.png\"\n");
    let main = appservice.agent("main");
    let alice = homeserver.account("alice").await;
    let profile = async || homeserver.get(&format!("/_matrix/client/v3/profile/{main}"), &alice).await;
    let mut pictures = Vec::new();
    for picture in [PICTURE, PICTURE, b"another picture"] {
        fs::write(appservice.setup.folder().join("main.png"), picture).unwrap();
        let agent = appservice.setup.start().await;
        homeserver.plain_direct_room(&alice, &main).await;
        agent.logs_often("invite accepted", pictures.len() + 1).await;
        let shown = profile().await;
        assert_eq!(shown["displayname"], "The main");
        pictures.push(shown["avatar_url"].as_str().unwrap().to_owned());
        agent.kill();
    }
    assert!(pictures[0] == pictures[1] && pictures[1] != pictures[2], "{pictures:?}");
    let media = pictures[2].replace("mxc://", "/_matrix/client/v1/media/download/");
    assert_eq!(homeserver.bytes(&media, &alice).await, b"another picture");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_homeserver_makes_no_devices_agents_log_in() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Hello.", 0), say("Still here.", 0)]).await;
    let appservice = Appservice::that_logs_in(&homeserver, &model, &["main"]);
    let agent = appservice.setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let main = appservice.agent("main");
    let room = alice.direct_room(&main).await;
    alice.say(&room, "hello").await;
    assert_eq!(alice.answer(&room, &main, 1).await.text(), "Hello.");
    let session = fs::read_to_string(appservice.state_of("main").join("session.json")).unwrap();
    let session: Value = serde_json::from_str(&session).unwrap();
    assert!(session["access_token"].as_str().is_some_and(|token| !token.is_empty()), "its own token");
    agent.kill();
    let _agent = appservice.setup.start().await;
    alice.say(&room, "still there?").await;
    assert_eq!(alice.answer(&room, &main, 2).await.text(), "Still here.");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_pushes_get_their_status_and_cost_no_memory_and_no_answer() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Hello.", 0), say("Still here.", 0)]).await;
    let appservice = Appservice::new(&homeserver, &model, &["main"]);
    let mut agent = appservice.setup.start().await;
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let main = appservice.agent("main");
    let room = homeserver.plain_direct_room(&account, &main).await;
    alice.joined(&room, &main).await;
    alice.say(&room, "hello").await;
    assert_eq!(alice.answer(&room, &main, 1).await.text(), "Hello.");

    let event = |key: &str, value: Value| {
        let mut event = json!({"type": "m.room.message", "room_id": room, "event_id": "$forged", "sender": alice.user,
            "origin_server_ts": 1, "content": {"msgtype": "m.text", "body": "forged"}});
        event[key] = value;
        event
    };
    let before = peak_of(agent.pid());
    let many: Vec<_> = (0..10_000)
        .map(|number| {
            let mut one = event("event_id", json!(format!("$many-{number}")));
            one["sender"] = json!("@mallory:elsewhere.example");
            one
        })
        .collect();
    assert_eq!(appservice.push("many", &many).await, 200);
    let keys = ["type", "room_id", "event_id", "sender", "origin_server_ts", "content"];
    let broken = keys
        .iter()
        .flat_map(|key| [Value::Null, json!(5), json!({}), json!("x".repeat(300))].map(|value| event(key, value)));
    let unknown = event("type", json!("com.example.unknown"));
    assert_eq!(
        appservice.push("broken", &broken.chain([json!(null), json!([]), unknown]).collect::<Vec<_>>()).await,
        200
    );
    let large = format!("{{\"events\": [{}]}}", "[".repeat(15 << 20));
    let list = format!("{{\"events\": [{}0]}}", "0,".repeat(7 << 20));
    let wide = format!("{{\"events\": [[{}0]]}}", "0,".repeat(7 << 20));
    for (body, status) in [(large, 400), (list, 400), (wide, 200)] {
        assert_eq!(appservice.push_body("large", Some(appservice.hs_token()), body).await, Some(status));
    }
    for token in [Some(appservice.hs_token()), Some("wrong".to_owned()), None] {
        let status = appservice.push_body("huge", token.clone(), " ".repeat(100 << 20)).await;
        // The answer may come before the whole is sent: then the connection ends.
        assert!(status.is_none_or(|status| [401, 403, 413].contains(&status)), "{token:?}: {status:?}");
    }
    let grown = peak_of(agent.pid()) - before;
    assert!(grown < 150, "{grown} MB more");

    assert!(agent.is_running());
    alice.say(&room, "still there?").await;
    // It reads all that was pushed first.
    let answer = alice.answer_within(Duration::from_secs(300), &room, &main, 2).await.unwrap();
    assert_eq!(answer.text(), "Still here.");
    assert!(!agent.log().contains("panicked"));
    assert_eq!(model.shown().len(), 2);
}

/// The most memory that a process has had, in MB.
fn peak_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}
