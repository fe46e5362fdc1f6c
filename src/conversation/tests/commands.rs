//! Lines that begin with `!`.

use matrix_link::AccessList;
use ruma::{UserId, owned_user_id};
use serde_json::json;

use crate::{
    config::Colleague,
    testing::{ALICE, BOB, DIRECT, GROUP, House, Incoming, scripted},
};

#[tokio::test(start_paused = true)]
async fn each_command_answers_with_a_notice_and_is_no_part_of_the_conversation() {
    let house = House::new(json!({"steps": [{"say": "Yes."}]})).await;
    for command in ["!help", "!model", "!model gpt-unknown", "!frobnicate now"] {
        house.say(ALICE, DIRECT, command).await;
    }
    insta::assert_snapshot!("commands", house.room(DIRECT).join("\n---\n"));
    assert_eq!(house.requests(), 0);
    house.ask(ALICE, DIRECT, "Hello?").await;
    assert!(house.shown(0).contains("user: [1] alice: Hello?\n"), "{}", house.shown(0));
}

#[tokio::test(start_paused = true)]
async fn help_names_what_the_model_is_offered_in_this_conversation() {
    let house = House::with_tools(json!({"steps": [{"say": "Noted."}]})).await;
    let tools = |house: &House| {
        let help = house.room(DIRECT).pop().unwrap();
        help.lines().last().unwrap().to_owned()
    };
    house.say(ALICE, DIRECT, "!help").await;
    assert_eq!(tools(&house), "Tools I can use: `now`, `pause`, `rich_send`, `rich_edit`, `later`.");
    house.say(ALICE, DIRECT, "!phone here").await;
    house.say(ALICE, DIRECT, "!help").await;
    assert!(tools(&house).ends_with("`later`, `phone_action`."), "{}", tools(&house));
}

#[tokio::test(start_paused = true)]
async fn a_model_is_chosen_for_one_room() {
    let small = scripted(&json!({"steps": [{"say": "I am small."}]}));
    let house = House::with(json!({"steps": [{"say": "I am large."}, {"say": "Large again."}]}), |setup| {
        setup.models = vec![("large", setup.models[0].1.clone()), ("small", small.clone())];
    })
    .await;
    house.ask(ALICE, DIRECT, "Who are you?").await;
    house.say(ALICE, DIRECT, "!model Small").await;
    house.say(ALICE, DIRECT, "!model").await;
    house.ask(ALICE, DIRECT, "And now?").await;
    insta::assert_snapshot!("choosing_a_model", house.room(DIRECT).join("\n---\n"));
    assert!(
        crate::testing::shown(&small.requests()[0]).contains("assistant: I am large.\n\nuser: [3] alice: And now?\n")
    );
    house.ask(ALICE, "!direct-too:example.org", "Who are you?").await;
    assert_eq!(house.room("!direct-too:example.org"), ["Large again."]);
}

#[tokio::test(start_paused = true)]
async fn in_a_group_a_command_is_for_the_agent_when_it_is_addressed() {
    let house = House::new(json!({"steps": []})).await;
    house.say(ALICE, GROUP, "!help").await;
    assert_eq!(house.room(GROUP), [""; 0]);
    house.receive(Incoming::message(ALICE, GROUP, "Waybread: !frobnicate").mention()).await;
    assert_eq!(house.room(GROUP), ["notice: I don't know `!frobnicate`. `!help` says what I know."]);
}

#[tokio::test(start_paused = true)]
async fn a_command_in_a_thread_is_answered_in_the_thread() {
    let house = House::new(json!({"steps": [{"say": "Yes."}]})).await;
    let root = house.ask(ALICE, DIRECT, "Hello?").await;
    house.receive(Incoming::message(ALICE, DIRECT, "!model").thread(&root)).await;
    assert_eq!(house.server.contents()[1]["m.relates_to"]["event_id"], root.as_str());
}

#[tokio::test(start_paused = true)]
async fn an_exclamation_is_no_command() {
    let house = House::new(json!({"steps": [{"say": "Indeed."}]})).await;
    house.ask(ALICE, DIRECT, "!!").await;
    assert_eq!(house.room(DIRECT), ["Indeed."]);
}

#[tokio::test(start_paused = true)]
async fn the_main_agent_lists_and_invites_those_whom_the_person_may_talk_to() {
    let colleague = |name: &str, allow: &str| Colleague {
        user: UserId::parse(format!("@waybread-{name}:example.org")).unwrap(),
        name: format!("The {name}"),
        short_name: name.to_owned(),
        allow: AccessList::parse([allow]).unwrap(),
    };
    let house = House::with(json!({"steps": []}), |setup| {
        setup.config.colleagues = vec![colleague("cook", "*:example.org"), colleague("guide", BOB)];
    })
    .await;
    for command in ["!agents", "!invite", "!invite The Cook", "!invite guide", "!invite @waybread-cook:example.org"] {
        house.receive(Incoming::message(ALICE, GROUP, &format!("Waybread: {command}")).mention()).await;
    }
    house.say(ALICE, DIRECT, "!invite cook").await;
    house.say(ALICE, DIRECT, "!help").await;
    let said: Vec<_> = [GROUP, DIRECT].iter().flat_map(|room| house.room(room)).collect();
    insta::assert_snapshot!("other_agents", said.join("\n---\n"));
    let cook = owned_user_id!("@waybread-cook:example.org");
    assert_eq!(house.server.acts(), [(); 2].map(|()| format!("!group:example.org invites {cook}")));
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_others_does_not_know_them() {
    let house = House::new(json!({"steps": []})).await;
    house.say(ALICE, DIRECT, "!invite cook").await;
    assert_eq!(house.room(DIRECT), ["notice: I don't know `!invite`. `!help` says what I know."]);
}
