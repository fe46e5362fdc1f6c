//! An appservice: the homeserver pushes, the agents are virtual users.

use std::{fs, time::Duration};

use ruma::OwnedRoomId;
use serde_json::json;

use crate::support::{Account, Agent, Appservice, Homeserver, ModelServer, Person, calls, say};

/// Alice with two agents: the one in a plain room, the other in an encrypted one.
struct Rooms {
    appservice: Appservice,
    agent: Agent,
    model: ModelServer,
    homeserver: Homeserver,
    account: Account,
    alice: Person,
    plain: OwnedRoomId,
    encrypted: OwnedRoomId,
}

impl Rooms {
    async fn begin(model: ModelServer, set: impl FnOnce(&mut Appservice)) -> Self {
        let homeserver = Homeserver::relaxed();
        let mut appservice = Appservice::new(&homeserver, &model, &["main", "cook"]);
        set(&mut appservice);
        let agent = appservice.setup.start().await;
        let account = homeserver.account("alice").await;
        let alice = Person::at(&homeserver, &account).await;
        let encrypted = alice.direct_room(&appservice.agent("main")).await;
        let plain = homeserver.plain_direct_room(&account, &appservice.agent("cook")).await;
        alice.joined(&plain, &appservice.agent("cook")).await;
        Self { appservice, agent, model, homeserver, account, alice, plain, encrypted }
    }

    async fn in_plain(&self, count: usize) -> String {
        self.alice.answer(&self.plain, &self.appservice.agent("cook"), count).await.text().to_owned()
    }

    async fn in_encrypted(&self, count: usize) -> String {
        self.alice.answer(&self.encrypted, &self.appservice.agent("main"), count).await.text().to_owned()
    }

    async fn start_again(&mut self) {
        self.agent.stop();
        self.agent = self.appservice.setup.start().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_made_when_they_are_invited_and_answer_as_themselves_in_plain_and_encrypted_rooms() {
    let model = ModelServer::start([say("Soup.", 0), say("Welcome.", 0), say("Bread.", 0)]).await;
    let rooms = Rooms::begin(model, |_| {}).await;
    rooms.alice.say(&rooms.plain, "What shall I cook?").await;
    assert_eq!(rooms.in_plain(1).await, "Soup.");
    rooms.alice.say(&rooms.encrypted, "Hello, secretively.").await;
    assert_eq!(rooms.in_encrypted(1).await, "Welcome.");
    // By now the room is known to be plain: straight from the transaction.
    rooms.alice.say(&rooms.plain, "And with it?").await;
    assert_eq!(rooms.in_plain(2).await, "Bread.");
    rooms.agent.logs("straight=1").await;

    let shown = rooms.model.shown();
    assert_eq!(shown.len(), 3, "{shown:#?}");
    assert!(shown[0].contains("You are the cook.") && shown[1].contains("You are the main."), "{shown:#?}");
    let stored = rooms.homeserver.timeline(rooms.encrypted.as_str(), &rooms.account).await;
    assert!(stored.iter().all(|event| !event.to_string().contains("secretively")));
    let name = r#""displayname":"The main""#;
    assert!(stored.iter().any(|event| event.to_string().contains(name)), "{stored:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_comes_again_is_answered_once() {
    let mut rooms = Rooms::begin(ModelServer::start([say("One.", 0), say("Two.", 0)]).await, |_| {}).await;
    rooms.alice.say(&rooms.plain, "first").await;
    assert_eq!(rooms.in_plain(1).await, "One.");

    let messages = rooms.homeserver.timeline(rooms.plain.as_str(), &rooms.account).await;
    let mut first = messages.into_iter().find(|event| event["content"]["body"] == "first").unwrap();
    first["room_id"] = json!(rooms.plain);
    let again = [first];
    let pushed = futures_util::future::join_all((0..4).map(|_| rooms.appservice.push("again", &again))).await;
    assert_eq!(pushed, [200; 4]);
    rooms.start_again().await;
    assert_eq!(rooms.appservice.push("again", &again).await, 200);
    assert_eq!(rooms.appservice.push("under another id", &again).await, 200);

    rooms.alice.say(&rooms.plain, "second").await;
    assert_eq!(rooms.in_plain(2).await, "Two.");
    assert_eq!(rooms.model.shown().len(), 2, "nothing is answered twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_while_it_was_away_is_answered_once_and_in_order() {
    let mut rooms = Rooms::begin(ModelServer::echo(0).await, |_| {}).await;
    let (main, cook) = (rooms.appservice.agent("main"), rooms.appservice.agent("cook"));
    let people = [Person::new(&rooms.homeserver, "bob").await, Person::new(&rooms.homeserver, "carol").await];
    let group = rooms.alice.group_room(&[&main, &people[0].user, &people[1].user]).await;
    for person in &people {
        person.joined(&group, &main).await;
    }
    rooms.alice.say(&rooms.plain, "before").await;
    assert!(rooms.in_plain(1).await.contains("before"));
    rooms.agent.stop();
    for (person, number) in people.iter().chain([&rooms.alice]).zip(["first", "second", "third"]) {
        person.say_to(&group, &main, number).await;
        person.say(&group, "not for it").await;
    }
    rooms.alice.say(&rooms.plain, "meanwhile").await;
    rooms.agent = rooms.appservice.setup.start().await;
    assert!(rooms.in_plain(2).await.contains("meanwhile"));
    rooms.alice.answer(&group, &main, 3).await;
    rooms.alice.say(&rooms.plain, "behind").await;
    assert!(rooms.in_plain(3).await.contains("behind"));
    let answers = rooms.alice.messages(&group, &main);
    for (answer, number) in answers.iter().zip(["first", "second", "third"]) {
        assert!(answer.text().contains(number), "{number}: {}", answer.text());
    }
    assert_eq!((answers.len(), rooms.alice.messages(&rooms.plain, &cook).len(), rooms.model.shown().len()), (3, 3, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_invited_into_an_encrypted_room_that_is_older_than_it() {
    let mut rooms = Rooms::begin(ModelServer::start([say("Here I am.", 0)]).await, |_| {}).await;
    let group = rooms.alice.group_room(&[&rooms.appservice.agent("main")]).await;
    rooms.alice.say(&group, "before its time").await;
    rooms.appservice.set_agents(&["main", "cook", "new"]);
    rooms.start_again().await;
    let new = rooms.appservice.agent("new");
    rooms.alice.invite_into(&group, &new).await;
    rooms.alice.joined(&group, &new).await;
    rooms.alice.say_to(&group, &new, "Are you there?").await;
    assert_eq!(rooms.alice.answer(&group, &new, 1).await.text(), "Here I am.");
    assert_eq!(rooms.model.shown().len(), 1, "only the addressed one answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_encryption_is_turned_on_later_what_comes_in_clear_behind_it_counts_for_nothing() {
    let model = ModelServer::start([say("In clear.", 0), say("In secret.", 0)]).await;
    let rooms = Rooms::begin(model, |_| {}).await;
    rooms.alice.say(&rooms.plain, "first").await;
    assert_eq!(rooms.in_plain(1).await, "In clear.");
    rooms.homeserver.encrypt(rooms.plain.as_str(), &rooms.account).await;
    let forged = json!({"msgtype": "m.text", "body": "forged"});
    rooms.homeserver.send_in_clear(rooms.plain.as_str(), &rooms.account, &forged).await;
    rooms.alice.until_encrypted(&rooms.plain).await;
    rooms.alice.say(&rooms.plain, "second").await;
    assert_eq!(rooms.in_plain(2).await, "In secret.");
    let shown = rooms.model.shown();
    assert!(shown.len() == 2 && !shown[1].contains("forged"), "{shown:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_keys_are_lost_gets_a_new_device_and_goes_on() {
    let twice = [say("One.", 0), say("Two.", 0), say("Two.", 0), say("Two.", 0)];
    let mut rooms = Rooms::begin(ModelServer::start(twice).await, |_| {}).await;
    rooms.alice.say(&rooms.encrypted, "first").await;
    assert_eq!(rooms.in_encrypted(1).await, "One.");
    rooms.agent.stop();
    let state = rooms.appservice.state_of("main");
    let session = fs::read(state.join("session.json")).unwrap();
    fs::remove_dir_all(state.join("matrix")).unwrap();
    rooms.agent = rooms.appservice.setup.start().await;
    rooms.agent.logs("a new device takes its place").await;
    rooms.agent.logs_often(": open\n", 3).await;
    // Her client hears of the new device a moment later than the homeserver: what she says until then is for the old one.
    let main = rooms.appservice.agent("main");
    let mut answer = None;
    for _ in 0..3 {
        rooms.alice.say(&rooms.encrypted, "Are you well?").await;
        answer = rooms.alice.answer_within(Duration::from_secs(20), &rooms.encrypted, &main, 2).await;
        if answer.is_some() {
            break;
        }
    }
    assert_eq!(answer.expect("an answer").text(), "Two.");
    assert_ne!(fs::read(state.join("session.json")).unwrap(), session);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_closed_when_they_are_idle_and_opened_when_they_are_spoken_to() {
    let rooms = Rooms::begin(ModelServer::echo(0).await, |appservice| {
        appservice.setup.set("APPSERVICE_MAX_OPEN", "1");
        appservice.setup.set("APPSERVICE_CLOSE_AFTER_SECONDS", "1");
    })
    .await;
    for round in 1..=3 {
        rooms.alice.say(&rooms.plain, &format!("plain {round}")).await;
        rooms.alice.say(&rooms.encrypted, &format!("encrypted {round}")).await;
        assert!(rooms.in_plain(round).await.contains(&format!("plain {round}")));
        assert!(rooms.in_encrypted(round).await.contains(&format!("encrypted {round}")));
    }
    rooms.agent.logs("closed: nothing to do").await;
    assert_eq!(rooms.model.shown().len(), 6);
}

/// Messages in each of the two rooms.
const MANY: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn two_agents_answer_two_hundred_messages_without_a_limit_and_without_a_loss() {
    let homeserver = Homeserver::default_limits();
    let model = ModelServer::echo(0).await;
    let appservice = Appservice::new(&homeserver, &model, &["main", "cook"]);
    let agent = appservice.setup.start().await;
    let account = homeserver.account("alice").await;
    homeserver.set_limited(&homeserver.admin().await, &account.user, false).await;
    let alice = Person::at(&homeserver, &account).await;
    let (main, cook) = (appservice.agent("main"), appservice.agent("cook"));
    let encrypted = alice.direct_room(&main).await;
    let plain = homeserver.plain_direct_room(&account, &cook).await;
    alice.joined(&plain, &cook).await;
    let talk = async |room: &OwnedRoomId, with| {
        for count in 1..=MANY {
            alice.say(room, &format!("number {count}")).await;
            let answer = alice.answer_within(Duration::from_secs(60), room, with, count).await.expect("an answer");
            assert!(answer.text().contains(&format!("number {count}")), "{}", answer.text());
        }
    };
    tokio::join!(talk(&encrypted, &main), talk(&plain, &cook));
    assert_eq!(model.shown().len(), 2 * MANY);
    assert!(!agent.log().contains("M_LIMIT_EXCEEDED"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_tries_both_directions_and_what_it_makes_is_what_a_run_goes_on_with() {
    let probed = || calls("echo", json!({"value": 7}));
    let model = ModelServer::start([probed(), probed()]).await;
    let homeserver = Homeserver::relaxed();
    let appservice = Appservice::new(&homeserver, &model, &["main"]);
    let checked = appservice.setup.check(&[]).await;
    assert!(checked.works, "{}", checked.raw);
    for found in
        ["ok    appservice     the homeserver takes its token", "ok    push           the homeserver reaches us at"]
    {
        assert!(checked.raw.contains(found), "{}", checked.raw);
    }
    assert!(!checked.raw.lines().any(|line| line.starts_with("warn")), "{}", checked.raw);

    let session = fs::read(appservice.state_of("main").join("session.json")).unwrap();
    let agent = appservice.setup.start().await;
    model.add([say("Hello.", 0)]);
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(&appservice.agent("main")).await;
    alice.say(&room, "hello").await;
    assert_eq!(alice.answer(&room, &appservice.agent("main"), 1).await.text(), "Hello.");
    assert_eq!(fs::read(appservice.state_of("main").join("session.json")).unwrap(), session);
    drop(agent);

    for (secret, found) in [("as-token", "fail  appservice"), ("hs-token", "fail  push")] {
        let file = appservice.setup.folder().join("secrets").join(secret);
        let right = fs::read(&file).unwrap();
        fs::write(&file, "wrong").unwrap();
        let checked = appservice.setup.check(&[]).await;
        assert!(!checked.works && checked.raw.contains(found), "{}", checked.raw);
        fs::write(&file, right).unwrap();
    }
}
