//! Room commands in a room: who may run what, what comes of it, and what nobody sees.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
};
use matrix_link::Power;
use ruma::{owned_event_id, owned_room_id, owned_user_id, user_id};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{Listed, STATE_TYPE};
use crate::{
    http::forms,
    store::{Call, NewSecret, SecretOwner, Store, Submission},
    testing::{ALICE, Answer, BOB, DIRECT, GROUP, House, Incoming, Setup, at_once},
};

/// The room that the agent shares with alice alone.
const PRIVATE: &str = "!direct-with-alice:example.org";
const TOKEN: &str = "gT7-wX92kLmQ04zRb8Nd";

fn call(name: &str, inputs: Value) -> Value {
    let mut arguments = json!({ "name": name });
    if !inputs.is_null() {
        arguments["inputs"] = inputs;
    }
    json!({"calls": [{"name": "room_command", "arguments": arguments}]})
}

fn say(text: &str) -> Value {
    json!({ "say": text })
}

fn script(steps: impl IntoIterator<Item = Value>) -> Value {
    json!({ "steps": steps.into_iter().collect::<Vec<_>>() })
}

fn listed(setup: &mut Setup, entries: impl IntoIterator<Item = Value>) {
    let read = |mut entry: Value| {
        entry["rooms"] = json!([GROUP]);
        Listed::read(&entry).unwrap()
    };
    setup.config.room.commands = entries.into_iter().map(read).collect();
}

fn connect() -> Value {
    json!({
        "name": "connect-git",
        "description": "Connects a Git repository.",
        "when": [{"secret": "git-token", "is": "absent"}],
        "actions": [
            {"type": "form", "title": "Connect a repository", "scope": "room", "fields": [
                {"name": "repository", "label": "Repository", "kind": "text"},
                {"name": "token", "label": "Access token", "kind": "secret", "secret": "git-token"},
            ]},
            {"type": "post", "text": "A repository is connected."},
        ],
    })
}

fn topic() -> Value {
    json!({
        "name": "set-topic",
        "description": "Sets the topic.",
        "inputs": {"properties": {"what": {"type": "string", "description": "the topic", "maxLength": 40}},
            "required": ["what"]},
        "actions": [{"type": "topic", "text": "Now: {{input:what}}"}],
    })
}

/// A house with these commands in the group.
async fn house(steps: impl IntoIterator<Item = Value>, entries: impl IntoIterator<Item = Value>) -> House {
    House::with(script(steps), |setup| listed(setup, entries)).await
}

async fn asks(house: &House, person: &str, text: &str) {
    house.receive(Incoming::message(person, GROUP, text).mention()).await;
    house.quiet().await;
}

/// The address of the form in a room.
fn address(house: &House, room: &str) -> Option<String> {
    let messages = house.room(room);
    let text = messages.iter().rev().find(|text| text.contains("https://forms.example.org/"))?;
    let (_, rest) = text.split_once("https://forms.example.org")?;
    Some(rest.split_whitespace().next()?.to_owned())
}

async fn form_is_there(house: &House) -> String {
    house.until("a form", |house| address(house, PRIVATE).is_some()).await;
    address(house, PRIVATE).unwrap()
}

/// A browser.
struct Browser<'h> {
    house: &'h House,
    path: String,
    cookie: String,
}

impl<'h> Browser<'h> {
    async fn opens(house: &'h House, path: &str) -> Self {
        let mut browser = Self { house, path: path.to_owned(), cookie: String::new() };
        let (_, page, _) = browser.asks(Request::get(path).body(Body::empty()).unwrap()).await;
        let open = format!("{path}/open");
        let (status, _, cookie) = browser.posts(&open, &[("waybread-page", &csrf(&page))]).await;
        assert_eq!(status, StatusCode::SEE_OTHER);
        browser.cookie = cookie;
        browser
    }

    async fn sends(&self, fields: &[(&str, &str)]) -> (StatusCode, String) {
        let request = Request::get(&self.path).header(header::COOKIE, &self.cookie).body(Body::empty()).unwrap();
        let (_, page, _) = self.asks(request).await;
        let own = csrf(&page);
        let fields: Vec<_> = [("waybread-page", &*own)].into_iter().chain(fields.iter().copied()).collect();
        let (status, page, _) = self.posts(&self.path, &fields).await;
        self.house.settle().await;
        (status, page)
    }

    async fn posts(&self, path: &str, fields: &[(&str, &str)]) -> (StatusCode, String, String) {
        let part = |(name, value): &(&str, &str)| {
            format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let body: String = fields.iter().map(part).chain(["--XX--\r\n".to_owned()]).collect();
        let request = Request::post(path)
            .header(header::COOKIE, &self.cookie)
            .header(header::CONTENT_TYPE, "multipart/form-data; boundary=XX")
            .header(header::USER_AGENT, "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0");
        self.asks(request.body(body.into()).unwrap()).await
    }

    async fn asks(&self, request: Request<Body>) -> (StatusCode, String, String) {
        let response = at_once(forms::router(self.house.forms.clone()).oneshot(request)).await.unwrap();
        let status = response.status();
        let cookie = response.headers().get(header::SET_COOKIE).map(|value| value.to_str().unwrap().to_owned());
        let cookie = cookie.unwrap_or_default().split(';').next().unwrap_or_default().to_owned();
        let page = at_once(to_bytes(response.into_body(), 1 << 20)).await.unwrap();
        (status, String::from_utf8(page.to_vec()).unwrap(), cookie)
    }
}

fn csrf(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"waybread-page\" value=\"").expect("a page with a form");
    rest.split('"').next().unwrap().to_owned()
}

/// What the model was told by the tool at its request with this number.
fn told(house: &House, request: usize) -> String {
    let shown = house.shown(request);
    let (_, result) = shown.rsplit_once("room_command, call_").expect("a result of the tool");
    let (_, result) = result.split_once(": ").unwrap();
    result.split("\n\ntools: ").next().unwrap().trim().to_owned()
}

// The four.

#[tokio::test(start_paused = true)]
async fn a_listed_command_opens_its_form_for_the_person_who_asks_and_the_room_sees_only_that() {
    let house = house([call("connect-git", Value::Null), say("It is connected.")], [connect()]).await;
    house.receive(Incoming::message(ALICE, GROUP, "connect our repository").mention()).await;
    let path = form_is_there(&house).await;
    assert_eq!(house.room(GROUP), ["notice: 🔐 I have sent alice a form: Connect a repository."]);
    let browser = Browser::opens(&house, &path).await;
    let (status, _) = browser.sends(&[("repository", "example/app"), ("token", TOKEN)]).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    house.quiet().await;
    house.pass(Duration::from_secs(5)).await;
    insta::assert_snapshot!("told_of_the_form", told(&house, 1));
    insta::assert_snapshot!("private_room", house.room(PRIVATE).join("\n---\n"));
    assert_eq!(house.room(GROUP)[1..], ["A repository is connected.", "It is connected."]);
    let everything = format!("{:?} {:?}", house.server.contents(), (0..2).map(|n| house.shown(n)).collect::<Vec<_>>());
    assert!(!everything.contains(TOKEN) && !house.shown(1).contains("example/app"));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_not_listed_is_refused_with_those_that_are() {
    let house = house([call("rm-rf", Value::Null), say("I can't.")], [connect(), topic()]).await;
    asks(&house, ALICE, "clean up").await;
    assert_eq!(told(&house, 1), "Error: there is no command \"rm-rf\" here; the commands are: connect-git, set-topic");
}

#[tokio::test(start_paused = true)]
async fn a_room_without_a_list_is_offered_no_tool_and_one_whose_list_is_gone_refuses() {
    let steps = [say("Nothing to run here."), call("hello", Value::Null), say("It is gone.")];
    let house = house(steps, [connect()]).await;
    house.ask(ALICE, DIRECT, "connect").await;
    assert!(!house.shown(0).contains("room_command"), "{}", house.shown(0));

    let house = confirmed(script([
        json!({"calls": [
            {"name": "pause", "arguments": {"seconds": 5}},
            {"name": "room_command", "arguments": {"name": "hello"}},
        ]}),
        say("It is gone."),
    ]))
    .await;
    house.receive(Incoming::message(ALICE, GROUP, "say hello").mention()).await;
    house.server.put_state(GROUP, ALICE, STATE_TYPE, "", json!({}));
    house.quiet().await;
    assert_eq!(told(&house, 1), "Error: this room has no list of commands any more: nothing can be run here");
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_condition_does_not_hold_is_refused_with_the_reason() {
    let mut entry = topic();
    entry["when"] = json!([{"state": "m.room.encryption", "content": {"algorithm": "m.megolm.v2"}}]);
    let house = house([call("set-topic", json!({"what": "tea"})), say("Not now.")], [entry]).await;
    house.server.empower(ALICE, Power::Level(100));
    house.server.put_state(GROUP, ALICE, "m.room.encryption", "", json!({"algorithm": "m.megolm.v1"}));
    asks(&house, ALICE, "set the topic").await;
    assert_eq!(
        told(&house, 1),
        "Error: \"set-topic\" can't run now: the room's state \"m.room.encryption\" with {\"algorithm\":\"m.megolm.v2\"} \
         is not there"
    );
    assert!(house.server.acts().is_empty());
}

// Refusals.

#[tokio::test(start_paused = true)]
async fn each_refusal_says_why() {
    let hello = |name: &str| json!({"name": name, "description": "Says hello.", "actions": [{"type": "post", "text": "Hello."}]});
    let with = |name: &str, key: &str, value: Value| {
        let mut entry = hello(name);
        entry[key] = value;
        entry
    };
    let entries = [
        topic(),
        with("for-bob", "allow", json!([BOB])),
        with("for-admins", "min_power", json!(100)),
        with("needs-secret", "when", json!([{"secret": "git-token"}])),
        with("once", "when", json!([{"state": "m.room.topic", "is": "absent"}])),
        json!({"name": "ask-in", "description": "Asks somebody in.", "actions": [{"type": "invite", "user": BOB}]}),
    ];
    let names = ["set-topic", "for-bob", "for-admins", "needs-secret", "once", "ask-in"];
    let steps = names.iter().flat_map(|name| [call(name, Value::Null), say("No.")]);
    let house = house(steps, entries).await;
    house.server.put_state(GROUP, ALICE, "m.room.topic", "", json!({"topic": "Tea"}));
    let mut refusals = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if *name == "ask-in" {
            house.server.empower(ALICE, Power::Level(-1));
        }
        asks(&house, ALICE, &format!("run {name}")).await;
        refusals.push(told(&house, index * 2 + 1));
    }
    insta::assert_snapshot!(refusals.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn the_rights_are_the_persons_and_not_the_agents() {
    let steps = [
        call("set-topic", json!({"what": "tea"})),
        say("You may not."),
        call("set-topic", json!({"what": "tea"})),
        say("Done."),
    ];
    let house = house(steps, [topic()]).await;
    asks(&house, ALICE, "topic: tea").await;
    assert_eq!(told(&house, 1), "Error: \"set-topic\" sets the topic, which alice may not do in this room");
    house.server.empower(BOB, Power::Infinite);
    asks(&house, BOB, "topic: tea").await;
    assert_eq!(told(&house, 3), "set-topic is done:\n1. the topic is \"Now: tea\" now");
    assert_eq!(house.server.state_of(GROUP, "m.room.topic", "").unwrap(), json!({"topic": "Now: tea"}));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_nobody_attends_runs_nothing() {
    let later = json!({"calls": [{"name": "later", "arguments": {"seconds": 30, "note": "say hello"}}]});
    let steps = [later, say("Later."), call("connect-git", Value::Null), say("Nobody is here.")];
    let house = House::with(script(steps), |setup| {
        setup.offer_tools();
        listed(setup, [connect()]);
    })
    .await;
    asks(&house, ALICE, "connect it in a while").await;
    house.pass(Duration::from_secs(40)).await;
    house.quiet().await;
    assert_eq!(
        told(&house, 3),
        "Error: nobody attends this turn, and a room command needs the person who asks for it: say in words what you would \
         run, and let somebody ask you for it"
    );
    assert_eq!(address(&house, PRIVATE), None);
}

// Chains.

#[tokio::test(start_paused = true)]
async fn a_chain_stops_at_the_first_action_that_fails_and_says_which() {
    let entry = json!({"name": "announce", "description": "Announces.", "actions": [
        {"type": "post", "text": "Tea at four."},
        {"type": "topic", "text": "Tea"},
        {"type": "post", "text": "The topic is set."},
    ]});
    let house = house([call("announce", Value::Null), say("It stopped.")], [entry]).await;
    house.server.empower(ALICE, Power::Level(100));
    house.server.refuse_acts();
    asks(&house, ALICE, "announce tea").await;
    insta::assert_snapshot!("stopped_chain", told(&house, 1));
    assert_eq!(house.room(GROUP), ["Tea at four.", "It stopped."]);
}

#[tokio::test(start_paused = true)]
async fn every_action_does_what_it_says() {
    let entry = json!({"name": "everything", "description": "Does everything.",
    "inputs": {"properties": {"who": {"type": "string"}, "line": {"type": "integer"}}, "required": ["who", "line"]},
    "actions": [
        {"type": "post", "text": "Welcome, {{input:who}}.", "payload": {"v": 1, "blocks": [
            {"type": "table", "columns": ["who"], "rows": [["{{input:who}}"]]}]}},
        {"type": "pin", "message": "posted"},
        {"type": "pin", "message": "{{input:line}}"},
        {"type": "pin", "message": "question"},
        {"type": "widget", "id": "board", "title": "Board", "url": "https://board.example.org/"},
        {"type": "widget_close", "id": "board"},
        {"type": "widget_close", "id": "board"},
        {"type": "invite", "user": "{{input:who}}"},
    ]});
    let inputs = json!({"who": "@carol:elsewhere.org", "line": 1});
    let house = house([call("everything", inputs), say("Done.")], [entry]).await;
    house.server.empower(ALICE, Power::Level(50));
    asks(&house, ALICE, "do it").await;
    insta::assert_snapshot!(told(&house, 1));
    insta::assert_snapshot!("acts", house.server.acts().join("\n"));
    let posted = house.server.contents().into_iter().find(|one| one.get("com.ianm.mtrix").is_some()).unwrap();
    assert_eq!(posted["com.ianm.mtrix"]["blocks"][0]["rows"], json!([["@carol:elsewhere.org"]]));
}

// A room's own list.

fn state_list() -> Value {
    json!({"v": 1, "commands": [
        {"name": "hello", "description": "Says hello.", "actions": [{"type": "post", "text": "Hello, all."}]},
        {"name": "Broken", "description": "x", "actions": []},
    ]})
}

async fn set_list(house: &House, sender: &str, list: Value) {
    house.server.put_state(GROUP, sender, STATE_TYPE, "", list);
    house.receive(Incoming::state(sender, GROUP, STATE_TYPE)).await;
    house.pass(Duration::from_secs(1)).await;
}

/// The last card that asks for a confirmation, and its code.
fn card(house: &House) -> (ruma::OwnedEventId, String) {
    let sent = house.server.sent();
    let card =
        sent.iter().rfind(|sent| sent.content["body"].as_str().is_some_and(|body| body.contains("`yes "))).unwrap();
    let body = card.content["body"].as_str().unwrap();
    let code = body.split_once("`yes ").unwrap().1.split('`').next().unwrap();
    (card.id.clone(), code.to_owned())
}

/// A house with a list of the group's own that alice has set and confirmed.
async fn confirmed(script: Value) -> House {
    let house = House::new(script).await;
    house.server.empower(ALICE, Power::Level(100));
    set_list(&house, ALICE, state_list()).await;
    let (event, code) = card(&house);
    house.receive(Incoming::message(ALICE, GROUP, &format!("yes {code}")).reply_to(&event)).await;
    house.pass(Duration::from_secs(1)).await;
    house
}

#[tokio::test(start_paused = true)]
async fn a_rooms_own_list_counts_once_somebody_with_the_power_has_confirmed_it() {
    let steps = [say("I have no commands."), call("hello", Value::Null), say("Done.")];
    let house = House::new(script(steps)).await;
    house.server.empower(ALICE, Power::Level(50));
    set_list(&house, ALICE, state_list()).await;
    let (event, code) = card(&house);
    let shown = house.room(GROUP).join("\n---\n").replace(&code, "CODE");
    insta::assert_snapshot!("card", shown);
    let reply = async |sender: &str, words: &str| {
        house.receive(Incoming::message(sender, GROUP, words).reply_to(&event)).await;
        house.pass(Duration::from_secs(5)).await;
    };
    reply(BOB, &format!("yes {code}")).await;
    reply(ALICE, "yes ABCD").await;
    house.receive(Incoming::message(ALICE, GROUP, &format!("yes {code}")).reply_to(&event).clear()).await;
    asks(&house, ALICE, "say hello").await;
    assert!(!house.shown(0).contains("room_command"), "nobody has confirmed it");
    reply(ALICE, &format!("yes {code}")).await;
    let said = house.room(GROUP).join("\n---\n").replace(&code, "CODE");
    insta::assert_snapshot!("confirmed", said);
    asks(&house, ALICE, "say hello").await;
    assert!(house.room(GROUP).contains(&"Hello, all.".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_somebody_without_the_power_has_set_never_counts() {
    let house = House::new(script([say("Nothing here.")])).await;
    house.server.empower(ALICE, Power::Level(100));
    set_list(&house, BOB, state_list()).await;
    asks(&house, ALICE, "say hello").await;
    assert!(!house.shown(0).contains("room_command"));
    assert_eq!(house.room(GROUP), ["Nothing here."], "nobody is asked about it");
}

#[tokio::test(start_paused = true)]
async fn any_change_asks_anew_and_an_old_answer_confirms_nothing() {
    let house = confirmed(script([say("Not now."), say("Not now either.")])).await;
    let (old, code) = card(&house);
    let mut changed = state_list();
    changed["commands"][0]["description"] = "Says hello, or something else.".into();
    set_list(&house, ALICE, changed.clone()).await;
    let (new, _) = card(&house);
    assert_ne!(old, new);
    house.receive(Incoming::message(ALICE, GROUP, &format!("yes {code}")).reply_to(&old)).await;
    asks(&house, ALICE, "say hello").await;
    assert!(!house.shown(0).contains("room_command"));
    // Back to what was confirmed before: a change like any other.
    set_list(&house, ALICE, state_list()).await;
    asks(&house, ALICE, "say hello").await;
    assert!(!house.shown(1).contains("room_command"));
}

#[tokio::test(start_paused = true)]
async fn descriptions_of_a_rooms_own_list_reach_the_model_as_fenced_data() {
    let house = confirmed(script([say("Hm.")])).await;
    asks(&house, ALICE, "what can you do?").await;
    let request = &house.model.requests()[0];
    let tool = request.tools.iter().find(|tool| tool.name == "room_command").unwrap();
    let (_, tag) = tool.description.rsplit_once("<<end ").unwrap();
    let tag = tag.trim_end_matches(">>").to_owned();
    insta::assert_snapshot!(tool.description.replace(&tag, "TAG"));
}

// Forms that wait.

#[tokio::test(start_paused = true)]
async fn a_form_that_nobody_sends_ends_the_chain_and_its_address() {
    let house = house([call("connect-git", Value::Null), say("Never mind.")], [connect()]).await;
    house.receive(Incoming::message(ALICE, GROUP, "connect").mention()).await;
    let path = form_is_there(&house).await;
    house.pass(Duration::from_secs(595)).await;
    assert_eq!(house.requests(), 1);
    house.quiet().await;
    house.pass(Duration::from_secs(5)).await;
    insta::assert_snapshot!("form_not_sent", told(&house, 1));
    assert_eq!(
        house.room(PRIVATE),
        ["notice: 🔐 **Connect a repository**\n\nNot sent in time: the address does nothing any more."]
    );
    let browser = Browser { house: &house, path: path.clone(), cookie: String::new() };
    let (status, _, _) = browser.asks(Request::get(&path).body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::GONE);
}

#[tokio::test(start_paused = true)]
async fn a_stop_takes_the_form_back() {
    let house = house([call("connect-git", Value::Null)], [connect()]).await;
    house.receive(Incoming::message(ALICE, GROUP, "connect").mention()).await;
    let path = form_is_there(&house).await;
    let browser = Browser::opens(&house, &path).await;
    house.receive(Incoming::message(ALICE, GROUP, "stop").mention()).await;
    house.quiet().await;
    house.pass(Duration::from_secs(5)).await;
    let (status, _, _) = browser.posts(&path, &[("token", TOKEN)]).await;
    assert_eq!(status, StatusCode::GONE);
    assert!(house.room(PRIVATE)[0].contains("Taken back"));
}

#[tokio::test(start_paused = true)]
async fn an_open_form_outlives_a_restart_and_the_chain_goes_on_behind_it() {
    let entry = || {
        let mut entry = connect();
        entry["actions"].as_array_mut().unwrap().insert(0, json!({"type": "post", "text": "Let us begin."}));
        entry
    };
    let first = house([call("connect-git", Value::Null)], [entry()]).await;
    first.receive(Incoming::message(ALICE, GROUP, "connect").mention()).await;
    let path = form_is_there(&first).await;
    let cookie = Browser::opens(&first, &path).await.cookie;
    let (server, store) = (first.server.clone(), first.store.clone());
    drop(first);
    let house = House::with(script([call("connect-git", Value::Null), say("It is connected.")]), |setup| {
        (setup.server, setup.store) = (server, store);
        setup.after = Duration::from_secs(60);
        listed(setup, [entry()]);
    })
    .await;
    house.pass(Duration::from_secs(5)).await;
    let browser = Browser { house: &house, path, cookie };
    let (status, _) = browser.sends(&[("repository", "example/app"), ("token", TOKEN)]).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    house.quiet().await;
    house.pass(Duration::from_secs(5)).await;
    assert_eq!(
        house.room(GROUP),
        [
            "Let us begin.",
            "notice: 🔐 I have sent alice a form: Connect a repository.",
            "A repository is connected.",
            "It is connected."
        ]
    );
    assert_eq!(house.room(PRIVATE).len(), 2, "one form, and what was stored: {:?}", house.room(PRIVATE));
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_pasted_into_the_chat_is_left_out_and_its_sender_told() {
    let house = house([call("connect-git", Value::Null), say("Hello.")], [connect()]).await;
    house.receive(Incoming::message(ALICE, GROUP, "connect").mention()).await;
    form_is_there(&house).await;
    house.receive(Incoming::message(ALICE, GROUP, &format!("here it is: {TOKEN}")).mention()).await;
    house.receive(Incoming::message(BOB, GROUP, "an ordinary word")).await;
    house.pass(Duration::from_secs(5)).await;
    assert!(house.room(GROUP).last().unwrap().contains("That looks like a token"), "{:?}", house.room(GROUP));
    house.receive(Incoming::message(ALICE, GROUP, "stop").mention()).await;
    house.quiet().await;
    asks(&house, ALICE, "hello").await;
    assert!(!house.shown(1).contains(TOKEN) && house.shown(1).contains("an ordinary word"), "{}", house.shown(1));
}

// By hand.

#[tokio::test(start_paused = true)]
async fn people_run_commands_by_hand_by_the_same_checks() {
    let house = house([], [connect(), topic()]).await;
    let says = async |sender: &str, words: &str| {
        house.receive(Incoming::message(sender, GROUP, words).mention()).await;
        house.pass(Duration::from_secs(8)).await;
        house.room(GROUP).last().unwrap().clone()
    };
    assert_eq!(
        says(ALICE, "!run nothing").await,
        "notice: there is no command \"nothing\" here; the commands are: connect-git, set-topic."
    );
    assert_eq!(
        says(ALICE, "!run set-topic what=tea").await,
        "notice: \"set-topic\" sets the topic, which alice may not do in this room."
    );
    house.server.empower(ALICE, Power::Level(50));
    assert_eq!(
        says(ALICE, "!run set-topic what=\"tea and cake\"").await,
        "notice: set-topic is done:\n1. the topic is \"Now: tea and cake\" now"
    );
    assert!(says(ALICE, "!run set-topic tea").await.contains("Inputs are written as `input=value`"));
    says(ALICE, "!run connect-git").await;
    let path = form_is_there(&house).await;
    let browser = Browser::opens(&house, &path).await;
    browser.sends(&[("repository", "example/app"), ("token", TOKEN)]).await;
    house.pass(Duration::from_secs(20)).await;
    insta::assert_snapshot!("by_hand", house.room(GROUP).join("\n---\n"));
    insta::assert_snapshot!("commands", says(ALICE, "!commands").await);
    insta::assert_snapshot!("secrets", says(ALICE, "!secrets").await);
    assert_eq!(
        says(BOB, "!forget git-token").await,
        "notice: `git-token` was given by somebody else: only they, or somebody who may change this room's list of commands, \
         can delete it."
    );
    assert_eq!(says(ALICE, "!forget git-token").await, "notice: `git-token` of this room is deleted.");
    assert_eq!(says(ALICE, "!secrets").await, "notice: I keep no secrets here.");
    assert_eq!(house.requests(), 0, "no model was asked");
}

#[tokio::test(start_paused = true)]
async fn what_runs_by_hand_is_stopped_by_a_stop_and_taken_up_after_a_restart() {
    let first = house([], [connect()]).await;
    first.receive(Incoming::message(ALICE, GROUP, "!run connect-git").mention()).await;
    let path = form_is_there(&first).await;
    let cookie = Browser::opens(&first, &path).await.cookie;
    let (server, store) = (first.server.clone(), first.store.clone());
    drop(first);
    let house = House::with(script([]), |setup| {
        (setup.server, setup.store) = (server, store);
        setup.after = Duration::from_secs(60);
        listed(setup, [connect()]);
    })
    .await;
    house.pass(Duration::from_secs(5)).await;
    Browser { house: &house, path, cookie }.sends(&[("repository", "example/app"), ("token", TOKEN)]).await;
    house.pass(Duration::from_secs(10)).await;
    assert!(house.room(GROUP).last().unwrap().starts_with("notice: connect-git is done:"), "{:?}", house.room(GROUP));

    house.receive(Incoming::message(ALICE, GROUP, "!forget git-token").mention()).await;
    house.receive(Incoming::message(ALICE, GROUP, "!run connect-git").mention()).await;
    house.pass(Duration::from_secs(10)).await;
    house.receive(Incoming::message(ALICE, GROUP, "!stop").mention()).await;
    house.pass(Duration::from_secs(10)).await;
    assert_eq!(house.room(GROUP).last().unwrap(), "notice: ⏹ connect-git is stopped.");
}

#[tokio::test(start_paused = true)]
async fn what_was_stored_is_told_in_the_private_room_and_deleted_from_there() {
    let mut entry = connect();
    entry["actions"][0]["scope"] = "person".into();
    let house = house([], [entry]).await;
    house.receive(Incoming::message(ALICE, GROUP, "!run connect-git").mention()).await;
    let path = form_is_there(&house).await;
    Browser::opens(&house, &path).await.sends(&[("repository", "example/app"), ("token", TOKEN)]).await;
    house.pass(Duration::from_secs(10)).await;
    house.say(ALICE, PRIVATE, "!secrets").await;
    house.pass(Duration::from_secs(10)).await;
    house.say(ALICE, PRIVATE, "!forget git-token").await;
    house.pass(Duration::from_secs(10)).await;
    insta::assert_snapshot!("private", house.room(PRIVATE).join("\n---\n"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_the_private_room_takes_the_form_back_too() {
    let house = house([call("connect-git", Value::Null), say("It was taken back.")], [connect()]).await;
    house.receive(Incoming::message(ALICE, GROUP, "connect").mention()).await;
    form_is_there(&house).await;
    house.say(ALICE, PRIVATE, "stop").await;
    house.quiet().await;
    house.pass(Duration::from_secs(5)).await;
    assert!(told(&house, 1).contains("the form was taken back before it was sent"), "{}", told(&house, 1));
    assert_eq!(house.room(PRIVATE).len(), 1, "{:?}", house.room(PRIVATE));
    assert!(house.room(PRIVATE)[0].contains("Taken back"));
}

#[tokio::test(start_paused = true)]
async fn a_form_whose_address_was_on_its_way_when_the_process_ended_is_sent_once() {
    let first = House::with(script([call("connect-git", Value::Null)]), |setup| {
        listed(setup, [connect()]);
        setup.server.answer([Answer::Hang]);
    })
    .await;
    first.receive(Incoming::message(ALICE, GROUP, "connect").mention()).await;
    first.until("the message is on its way", |house| !house.server.attempts().is_empty()).await;
    let (server, store) = (first.server.clone(), first.store.clone());
    drop(first);
    let house = House::with(script([call("connect-git", Value::Null), say("It is connected.")]), |setup| {
        (setup.server, setup.store) = (server, store);
        setup.after = Duration::from_secs(30);
        listed(setup, [connect()]);
    })
    .await;
    let path = form_is_there(&house).await;
    house.pass(Duration::from_secs(5)).await;
    Browser::opens(&house, &path).await.sends(&[("repository", "example/app"), ("token", TOKEN)]).await;
    house.quiet().await;
    assert_eq!(house.room(GROUP).last().unwrap(), "It is connected.");
    let forms =
        house.server.contents().iter().filter(|one| one.to_string().contains("This form is for you alone")).count();
    assert_eq!(forms, 1);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_repeated_is_not_begun_again_after_a_crash() {
    let hook = json!({"name": "hook", "description": "Calls.", "actions": [
        {"type": "webhook", "url": "https://ci.example.org/"},
        {"type": "post", "text": "Called."},
    ]});
    let store = at_once(Store::in_memory(&owned_user_id!("@waybread:example.org"))).await.unwrap();
    let by_hand =
        json!({"room": GROUP, "thread": null, "person": ALICE, "origin": "$x", "command": "hook", "inputs": {}});
    let progress =
        json!({"run": "r", "effects": [], "made": {"posted": null, "form": {}}, "begun": true, "by_hand": by_hand});
    let begun = Call { origin: owned_event_id!("$x"), arguments: "!run".into() };
    at_once(store.keep_command_run(&begun, &progress, jiff::Timestamp::UNIX_EPOCH)).await.unwrap();
    let house = House::with(script([]), |setup| {
        setup.store = store.clone();
        listed(setup, [hook]);
    })
    .await;
    house.pass(Duration::from_secs(5)).await;
    assert_eq!(
        house.room(GROUP),
        [
            "notice: hook stopped at action 1 of 2 (calls ci.example.org): I was restarted in the middle of it; whether it was \
          done is not known, so it is not repeated.\nNothing was done before it."
        ]
    );
    assert_eq!(at_once(store.command_runs()).await.unwrap(), Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn a_form_that_is_sent_before_its_turn_has_begun_anew_completes_it_all_the_same() {
    let first = house([call("connect-git", Value::Null)], [connect()]).await;
    first.receive(Incoming::message(ALICE, GROUP, "connect").mention()).await;
    let path = form_is_there(&first).await;
    let id = path.split('/').nth(2).unwrap().to_owned();
    let (server, store) = (first.server.clone(), first.store.clone());
    drop(first);
    let verdict = forms::FormVerdict::Given(forms::Submitted {
        fields: vec!["repository".into(), "token".into()],
        plain: [("repository".to_owned(), "example/app".to_owned())].into(),
        secrets: vec!["git-token".into()],
        browser: "Firefox on Linux".into(),
        at: 0,
    });
    let submission = Submission {
        ask: &id,
        verdict: &verdict.to_value(),
        owner: &SecretOwner::Room(owned_room_id!("!group:example.org")),
        set_by: user_id!("@alice:example.org"),
        secrets: &[NewSecret { name: "git-token".into(), value: TOKEN.to_owned().into() }],
        at: "2026-03-29T00:31:00Z".parse().unwrap(),
    };
    assert!(at_once(store.submit_form(&submission)).await.unwrap());
    let house = House::with(script([call("connect-git", Value::Null), say("It is connected.")]), |setup| {
        (setup.server, setup.store) = (server, store);
        setup.after = Duration::from_secs(120);
        listed(setup, [connect()]);
    })
    .await;
    house.quiet().await;
    house.pass(Duration::from_secs(5)).await;
    assert!(told(&house, 1).starts_with("connect-git is done:"), "{}", told(&house, 1));
    assert!(house.room(PRIVATE).last().unwrap().contains("Stored: `git-token`"));
}
