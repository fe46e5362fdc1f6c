//! Cards for the person's phone, without a phone client: done by hand, and answered by a reaction or in words.

use serde_json::json;

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, calls, say};

const CARD: &str = "dev.waybread.phone_action";

#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_is_done_by_hand_is_answered_by_a_reaction_and_in_words() {
    let homeserver = Homeserver::relaxed();
    let alarm = calls("phone_action", json!({"action": "alarm", "time": "07:30", "summary": "Wake up"}));
    let torch = calls("phone_action", json!({"action": "torch", "on": true}));
    let model = ModelServer::start([alarm, say("It is set.", 0), torch, say("Not then.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let _agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    let card = async |number: usize| {
        let card = |all: &[crate::support::Seen]| {
            all.iter().filter(|one| one.message.content.get(CARD).is_some()).nth(number).cloned()
        };
        alice.until(&room, setup.user(), "a card", card).await
    };

    alice.say(&room, "!phone here").await;
    alice.answer(&room, setup.user(), 1).await;
    alice.say(&room, "wake me at half past seven").await;
    let first = card(0).await;
    assert!(first.text().starts_with("⏰ Set an alarm for 07:30"), "{}", first.text());
    alice.react(&room, &first.id, "✅").await;
    let said =
        |text: &'static str| move |all: &[crate::support::Seen]| all.iter().any(|one| one.text() == text).then_some(());
    alice.until(&room, setup.user(), "the answer", said("It is set.")).await;
    let closed = |all: &[crate::support::Seen]| {
        let card = all.iter().find(|one| one.id == first.id)?;
        (card.message.content[CARD]["state"] == "done").then_some(())
    };
    alice.until(&room, setup.user(), "the card's end", closed).await;

    alice.say(&room, "light").await;
    let second = card(1).await;
    alice.reply(&room, &second.id, "no").await;
    alice.until(&room, setup.user(), "the answer", said("Not then.")).await;
    assert_eq!(model.shown().len(), 4, "answers start no turn");
}
