//! An appservice: how soon what is pushed reaches the model, beside the same questions by `/sync`; how much can be pushed;
//! and what many agents cost that have nothing to do.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use matrix_link::read_or_create_key;
use ruma::{OwnedRoomId, OwnedUserId, RoomId, UserId};
use serde_json::{Value, json};
use waybread::store::{Pushed, Store};

use crate::{
    figures::{Shown, Times},
    process::{self, Memory},
    support::{Appservice, Homeserver, ModelServer, Person},
    unlimited_agent,
};

/// Questions that are not counted, and those that are, in each room.
const WARM_UP: usize = 3;
const QUESTIONS: usize = 40;
const PAUSE: Duration = Duration::from_millis(300);

/// Transactions that are pushed, after some that are not counted.
const TRANSACTIONS: usize = 200;
const FIRST_TRANSACTIONS: usize = 10;
const EVENTS: usize = 100;

/// Agents of an appservice, the rooms that it knows, and agents that are open.
const AGENTS: usize = 1000;
const ROOMS: usize = 5000;
const ACTIVE: usize = 50;
/// Rooms that are made at the same time.
const AT_ONCE: usize = 4;
/// How long an idle appservice is watched; sync rests by then.
const IDLE: Duration = Duration::from_secs(60);

pub async fn measure() {
    println!("### An appservice\n");
    delays().await;
    intake().await;
    crowd().await;
}

/// A room, whom a question there is for, and how long each took to the model.
struct Way {
    name: &'static str,
    room: OwnedRoomId,
    agent: OwnedUserId,
    times: Times,
}

async fn delays() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::echo(0).await;
    let mut appservice = Appservice::new(&homeserver, &model, &["main"]);
    appservice.setup.set("LOG_FILTER", "info");
    let bot = unlimited_agent(&homeserver, &model).await;
    let _running = (appservice.setup.start().await, bot.start().await);
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let main = appservice.agent("main");
    let mut ways = Vec::new();
    for (name, agent, encrypted) in [
        ("plain room, pushed", &main, false),
        ("plain room, by sync", bot.user(), false),
        ("encrypted room, the push being the bell for the agent's sync", &main, true),
        ("encrypted room, by sync", bot.user(), true),
    ] {
        let room = if encrypted {
            alice.direct_room(agent).await
        } else {
            let room = homeserver.plain_direct_room(&account, agent).await;
            alice.joined(&room, agent).await;
            room
        };
        ways.push(Way { name, room, agent: agent.clone(), times: Times::default() });
    }
    // One after the other, so that a slow moment of the machine meets all of them.
    for question in 0..WARM_UP + QUESTIONS {
        for Way { room, agent, times, .. } in &mut ways {
            alice.say(room, &format!("question {question}")).await;
            let accepted = Instant::now();
            alice.answer(room, agent, question + 1).await;
            let asked = *model.asked_at().last().unwrap();
            if question >= WARM_UP {
                times.push(asked.saturating_duration_since(accepted));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    println!(
        "| from the homeserver's taking of the question to the model request | median | 95 % |\n| --- | ---: | ---: |"
    );
    for Way { name, times, .. } in &ways {
        println!("| {name} | {} | {} |", Shown(times.median()), Shown(times.p95()));
    }
    println!();
}

async fn intake() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::echo(0).await;
    let mut appservice = Appservice::new(&homeserver, &model, &["main"]);
    appservice.setup.set("LOG_FILTER", "info");
    let agent = appservice.setup.start().await;
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let main = appservice.agent("main");
    let room = homeserver.plain_group_room(&account, &main).await;
    alice.joined(&room, &main).await;
    // By its answer, the agent is open and knows the room as plain.
    alice.say_to(&room, &main, "hello").await;
    alice.answer(&room, &main, 1).await;
    let mut first = 0;
    let mut push = async |transactions: usize| {
        for _ in 0..transactions {
            let events: Vec<_> = (first..first + EVENTS).map(|number| event(&room, &alice.user, number)).collect();
            assert_eq!(appservice.push(&format!("bench-{first}"), &events).await, 200);
            first += EVENTS;
        }
    };
    push(FIRST_TRANSACTIONS).await;
    process::rest(agent.pid()).await;
    let cpu = process::cpu(agent.pid());
    let begun = Instant::now();
    push(TRANSACTIONS).await;
    let took = begun.elapsed();
    let taken_in = process::cpu(agent.pid()) - cpu;
    process::rest(agent.pid()).await;
    let in_all = process::cpu(agent.pid()) - cpu;
    let events = (TRANSACTIONS * EVENTS) as f64;
    println!("| {TRANSACTIONS} transactions of {EVENTS} plain events, one after the other | |\n| --- | ---: |");
    println!(
        "| events a second, each transaction answered when it is on disk (target: 2000) | {:.0} |",
        events / took.as_secs_f64()
    );
    println!("| CPU while they were pushed, in cores | {:.2} |", taken_in.as_secs_f64() / took.as_secs_f64());
    println!(
        "| events for each second of CPU, until all of them were read into the transcript | {:.0} |",
        events / in_all.as_secs_f64()
    );
    println!();
}

/// Something that is said to nobody.
fn event(room: &RoomId, sender: &UserId, number: usize) -> Value {
    json!({"type": "m.room.message", "room_id": room, "event_id": format!("$bench-{number}"), "sender": sender,
        "origin_server_ts": jiff::Timestamp::now().as_millisecond(), "unsigned": {"age": 12},
        "content": {"msgtype": "m.text", "body": format!("Message {number} of many, which nobody answers."), "m.mentions": {}}})
}

async fn crowd() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::echo(0).await;
    let names: Vec<String> = (0..AGENTS).map(|number| format!("agent-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut appservice = Appservice::new(&homeserver, &model, &names);
    appservice.setup.set("LOG_FILTER", "info");
    // None is closed while others are measured.
    appservice.setup.set("APPSERVICE_CLOSE_AFTER_SECONDS", "3600");
    // The first start makes the store.
    appservice.setup.start().await.kill();
    know_rooms(&appservice, &names).await;
    let agent = appservice.setup.start().await;

    println!("| {AGENTS} agents and {ROOMS} rooms | resident | proportional | CPU in {} s |", IDLE.as_secs());
    println!("| --- | ---: | ---: | ---: |");
    print("none open", agent.pid()).await;
    let alice = Person::new(&homeserver, "alice").await;
    for (first, behind) in [(0, ACTIVE / 2), (ACTIVE / 2, ACTIVE)] {
        let talks = names[first..behind].iter().map(async |name| {
            let agent = appservice.agent(name);
            let room = alice.direct_room(&agent).await;
            alice.say(&room, "Are you there?").await;
            alice.answer_within(Duration::from_secs(300), &room, &agent, 1).await.expect("an answer");
        });
        stream::iter(talks).buffer_unordered(AT_ONCE).for_each(|()| async {}).await;
        print(&format!("{behind} open, each with an encrypted room"), agent.pid()).await;
    }
    println!("\nTarget for {ACTIVE} open: below 300 MB and 1 % of a core.");
    println!();
}

/// As if the homeserver had pushed it over the years.
async fn know_rooms(appservice: &Appservice, names: &[&str]) {
    let state = appservice.setup.state();
    let key = read_or_create_key(&state.join("store.key")).unwrap();
    let owner = appservice.technical_user();
    let store = Store::open(&state.join("waybread.sqlite3"), &owner, &key).await.unwrap();
    let member = |number: usize| {
        let room = RoomId::parse(format!("!known-{number}:localhost")).unwrap();
        (room, appservice.agent(names[number % names.len()]), true)
    };
    let pushed = Pushed { members: (0..ROOMS).map(member).collect(), bells: BTreeMap::new(), events: Vec::new() };
    store.take("known", &pushed).await.unwrap();
}

async fn print(what: &str, pid: u32) {
    process::rest(pid).await;
    // Until sync rests.
    tokio::time::sleep(IDLE).await;
    let cpu = process::cpu(pid);
    tokio::time::sleep(IDLE).await;
    let used = (process::cpu(pid) - cpu).as_secs_f64() / IDLE.as_secs_f64();
    let Memory { resident, proportional } = Memory::of(pid);
    println!("| {what} | {resident:.1} | {proportional:.1} | {:.1} % of a core |", used * 100.0);
}
