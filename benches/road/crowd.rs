//! Many conversations at once, with a homeserver that does not limit the agent and with one that does.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, future::join_all, stream};
use ruma::{OwnedRoomId, UserId};

use crate::{
    figures::{Shown, Times},
    support::{AgentSetup, Homeserver, ModelServer, Person},
    unlimited_agent,
};

const CONVERSATIONS: usize = 64;
/// Rooms that are made at the same time.
const AT_ONCE: usize = 8;
/// An answer that has not come by then counts as missing. Under Synapse's limits (10 events, then one in 5 seconds) the
/// last of 64 answers can't come before 270 s.
pub const LIMIT: Duration = Duration::from_secs(300);

pub async fn measure() {
    println!("### {CONVERSATIONS} questions at the same moment, each in an encrypted direct room\n");
    println!("| | whole answers | first | median | 95 % | last | typing seen after | a send meanwhile |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    relaxed().await;
    default_limits().await;
    println!(
        "\nFrom the homeserver's taking of the question to the whole answer before the person. \"A send meanwhile\" is \
         the median of the questions' own sends, which the homeserver takes one after the other.\n"
    );
}

async fn relaxed() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::echo(0).await;
    let setup = unlimited_agent(&homeserver, &model).await;
    let _agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let rooms = rooms(&alice, setup.user()).await;
    ask("no limits, first question in new rooms", &alice, setup.user(), &rooms, 1).await;
    ask("no limits, second question", &alice, setup.user(), &rooms, 2).await;
}

/// The limits are lifted for the person, who is many people's stand-in, and for the agent while it joins.
async fn default_limits() {
    let homeserver = Homeserver::default_limits();
    let model = ModelServer::echo(0).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let admin = homeserver.admin().await;
    let account = homeserver.account("alice").await;
    for user in [&account.user, setup.user()] {
        homeserver.set_limited(&admin, user, false).await;
    }
    let _agent = setup.start().await;
    let alice = Person::at(&homeserver, &account).await;
    let rooms = rooms(&alice, setup.user()).await;
    homeserver.set_limited(&admin, setup.user(), true).await;
    ask("Synapse's default limits", &alice, setup.user(), &rooms, 1).await;
}

async fn rooms(alice: &Person, agent: &UserId) -> Vec<OwnedRoomId> {
    stream::iter(0..CONVERSATIONS).map(|_| alice.direct_room(agent)).buffer_unordered(AT_ONCE).collect().await
}

/// Asks in all rooms at once, the `number`th question in each, and prints how it went.
async fn ask(what: &str, alice: &Person, agent: &UserId, rooms: &[OwnedRoomId], number: usize) {
    let asked = join_all(rooms.iter().map(async |room| {
        let begun = Instant::now();
        alice.say(room, &format!("question {number}")).await;
        let accepted = Instant::now();
        let answer = alice.answer_within(LIMIT, room, agent, number).await;
        let answered = answer.map(|_| accepted.elapsed());
        let typing = alice.typing_seen(room, begun).map(|at| at.saturating_duration_since(accepted));
        (accepted - begun, answered, typing)
    }))
    .await;
    let sends: Times = asked.iter().map(|one| one.0).collect();
    let answers: Times = asked.iter().filter_map(|one| one.1).collect();
    let typing: Times = asked.iter().filter_map(|one| one.2).collect();
    println!(
        "| {what} | {} of {} | {} | {} | {} | {} | {} ({} of {}) | {} |",
        answers.len(),
        rooms.len(),
        Shown(answers.min()),
        Shown(answers.median()),
        Shown(answers.p95()),
        Shown(answers.max()),
        Shown(typing.median()),
        typing.len(),
        rooms.len(),
        Shown(sends.median()),
    );
}
