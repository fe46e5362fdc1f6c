//! A card that is done by hand: from the person's reaction, once the homeserver has taken it, to the model's next request.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    figures::{Times, line},
    observer::Observer,
    support::{Homeserver, ModelServer, Person, Seen, calls, say},
    unlimited_agent,
};

const CARD: &str = "dev.waybread.phone_action";
/// Cards that are not counted, and those that are.
const WARM_UP: usize = 3;
const CARDS: usize = 30;
/// Before an answer, for what follows a card: seeds, and what the sync brings of one's own.
const PAUSE: Duration = Duration::from_millis(700);

pub async fn measure() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([]).await;
    let mut setup = unlimited_agent(&homeserver, &model).await;
    setup.set("PHONE_PER_MINUTE", "1000");
    let _agent = setup.start().await;
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let room = alice.direct_room(setup.user()).await;
    let observer = Observer::start(&homeserver, &account).await;
    alice.say(&room, "!phone here").await;
    alice.answer(&room, setup.user(), 1).await;

    let (mut send, mut plain_sync, mut own) = (Times::default(), Times::default(), Times::default());
    for number in 0..WARM_UP + CARDS {
        model.add([calls("phone_action", json!({"action": "torch", "on": true})), say("Done.", 0)]);
        alice.say(&room, "light").await;
        let is_card = |one: &&Seen| one.message.content.get(CARD).is_some();
        let card = |all: &[Seen]| all.iter().filter(is_card).nth(number).map(|card| card.id.clone());
        let card = alice.until(&room, setup.user(), "a card", card).await;
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        let answer = alice.react(&room, &card, "✅").await;
        let accepted = Instant::now();
        let last = |all: &[Seen]| all.iter().filter(|one| one.text() == "Done.").nth(number).map(|_| ());
        alice.until(&room, setup.user(), "the last word", last).await;
        let seen = observer.saw(&answer).await;
        let asked = *model.asked_at().last().unwrap();
        if number >= WARM_UP {
            send.push(accepted - begun);
            plain_sync.push(seen.saturating_duration_since(accepted));
            own.push(asked.saturating_duration_since(seen));
        }
    }
    let bare = bare(&homeserver).await;
    let added = own.beyond(bare.median());
    println!("### The answer to a card ({CARDS} reactions)\n");
    println!("| | median | 95 % | beside the send | compare |\n| --- | ---: | ---: | ---: | --- |");
    line("the person's reaction, until the homeserver has taken it", &send, &send, "");
    line("from then until a plain client's sync shows it", &plain_sync, &send, "");
    line("from there until a bare client of the same SDK has it", &bare, &send, "");
    line("from the plain client to the model's next request", &own, &send, "");
    line("**own delay**: from the bare client's median to the model's request", &added, &send, "target: at most 10 ms");
    println!();
}

/// The same road to a client that does nothing but sync, as in [`crate::delays`].
async fn bare(homeserver: &Homeserver) -> Times {
    let account = homeserver.account("carol").await;
    let (carol, bare) = (Person::at(homeserver, &account).await, Person::new(homeserver, "bare").await);
    let room = carol.direct_room(&bare.user).await;
    let observer = Observer::start(homeserver, &account).await;
    let mut times = Times::default();
    for number in 0..WARM_UP + CARDS {
        let card = bare.say(&room, &format!("card {number}")).await;
        tokio::time::sleep(PAUSE).await;
        let answer = carol.react(&room, &card, "✅").await;
        bare.reaction(&room, &card).await;
        let known = Instant::now();
        let seen = observer.saw(&answer).await;
        if number >= WARM_UP {
            times.push(known.saturating_duration_since(seen));
        }
    }
    times
}
