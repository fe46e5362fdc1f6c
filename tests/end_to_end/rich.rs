//! Messages with blocks, on a homeserver that refuses floats.

use serde_json::{Value, json};

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, calls, say};
use waybread::model::scripted::{Call, Step};

const KEY: &str = "com.ianm.mtrix";

fn price(price: f64) -> Value {
    json!({"v": 1, "blocks": [{"type": "ticker", "symbol": "WAY", "price": price}]})
}

fn edits(range: std::ops::RangeInclusive<u32>) -> Step {
    let edit = |n: u32| Call {
        name: "rich_edit".to_owned(),
        arguments: json!({"event_id": "[2]", "payload": price(f64::from(n) + 0.5), "fallback": format!("now {n}.5")}),
    };
    Step { calls: range.map(edit).collect(), ..Step::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_price_with_a_fraction_is_sent_and_edited_five_times_with_two_edits_on_the_wire() {
    let homeserver = Homeserver::relaxed();
    let sends = calls("rich_send", json!({"payload": price(62.99), "fallback": "now 62.99"}));
    let model = ModelServer::start([sends, edits(1..=5), say("[no reply]", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let _agent = setup.start().await;
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let room = alice.direct_room(setup.user()).await;

    alice.say(&room, "Watch the price.").await;
    model.asked(3).await;
    let last = alice
        .until(&room, setup.user(), "the last edit", |all| all.iter().find(|one| one.text() == "now 5.5").cloned())
        .await;
    assert_eq!(last.edits, 2);
    assert_eq!(last.message.content[KEY]["blocks"][0]["price"], "5.5");
    let shown = model.shown();
    assert_eq!(shown[2].matches("Edited [2].").count(), 5, "{}", shown[2]);
    for event in homeserver.timeline(room.as_str(), &account).await {
        assert!(!event.to_string().contains("62.99"), "encrypted like every message: {event}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_works_after_a_restart_and_only_on_the_agents_own_messages() {
    let homeserver = Homeserver::relaxed();
    let sends = calls("rich_send", json!({"payload": price(1.5), "fallback": "now 1.5"}));
    let model = ModelServer::start([sends, say("[no reply]", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    let question = alice.say(&room, "Watch the price.").await;
    let first = alice.answer(&room, setup.user(), 1).await;
    model.asked(2).await;
    agent.kill();

    let _agent = setup.start().await;
    let of_alice = calls("rich_edit", json!({"event_id": question, "payload": price(2.5), "fallback": "forged"}));
    let own = calls("rich_edit", json!({"event_id": first.id, "payload": price(2.5), "fallback": "now 2.5"}));
    model.add([of_alice, own, say("Done.", 0)]);
    alice.say(&room, "Go on.").await;
    let done = alice.answer(&room, setup.user(), 2).await;
    assert_eq!(done.text(), "Done.");
    let now = alice.messages(&room, setup.user()).into_iter().find(|one| one.id == first.id).unwrap();
    assert_eq!((now.text(), now.edits), ("now 2.5", 1));
    assert!(model.shown().concat().contains("only your own can be edited"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reaction_that_stands_for_a_button_starts_a_turn_and_replies_and_threads_land_right() {
    let homeserver = Homeserver::relaxed();
    let buttons = json!({"v": 1, "blocks": [{"type": "buttons", "buttons": [
        {"label": "Start", "action": {"type": "react", "key": "🚀"}}]}]});
    let sends = |more: Value| {
        let mut arguments = json!({"payload": buttons, "fallback": "Start? 🚀"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Call { name: "rich_send".to_owned(), arguments }
    };
    let both =
        Step { calls: vec![sends(json!({"reply_to": "[1]"})), sends(json!({"thread": "[1]"}))], ..Step::default() };
    let model = ModelServer::start([both, say("[no reply]", 0), say("Off we go.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let _agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.group_room(&[setup.user()]).await;
    let question = alice.say_to(&room, setup.user(), "Ready?").await;

    alice.answer(&room, setup.user(), 2).await;
    let posted = alice.messages(&room, setup.user());
    assert_eq!(posted[0].message.reply_to.as_ref(), Some(&question));
    assert_eq!(posted[1].message.thread.as_ref(), Some(&question));
    alice.react(&room, &posted[0].id, "🚀").await;
    let answer = alice.answer(&room, setup.user(), 3).await;
    assert_eq!(answer.text(), "Off we go.");
    assert_eq!(answer.message.reply_to.as_ref(), Some(&posted[0].id));
    assert!(model.shown().pop().unwrap().contains(r#"pressed \"Start\""#), "{:?}", model.shown().pop());
}
