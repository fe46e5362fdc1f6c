//! One question after the other in an encrypted direct room: how long each part of the road takes, and the CPU that the
//! agent needs for it.

use std::time::{Duration, Instant};

use crate::{
    figures::{Shown, Times, line},
    observer::Observer,
    process,
    support::{Homeserver, ModelServer, Person},
    unlimited_agent,
};

/// Questions that are not counted: sessions are made, caches filled.
const WARM_UP: usize = 5;
const QUESTIONS: usize = 60;
/// Between an answer and the next question, so that what follows an answer does not count with the next one.
const PAUSE: Duration = Duration::from_millis(300);

#[derive(Default)]
struct Measured {
    send: Times,
    to_request: Times,
    plain_sync: Times,
    own: Times,
    sent: Times,
    answer: Times,
}

pub async fn measure() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::echo(0).await;
    let setup = unlimited_agent(&homeserver, &model).await;
    let agent = setup.start().await;
    let account = homeserver.account("alice").await;
    let alice = Person::at(&homeserver, &account).await;
    let room = alice.direct_room(setup.user()).await;
    let observer = Observer::start(&homeserver, &account).await;

    let mut measured = Measured::default();
    let mut cpu = Duration::ZERO;
    for question in 0..WARM_UP + QUESTIONS {
        if question == WARM_UP {
            measured = Measured::default();
            process::rest(agent.pid()).await;
            cpu = process::cpu(agent.pid());
        }
        let begun = Instant::now();
        let id = alice.say(&room, &format!("question {question}")).await;
        let accepted = Instant::now();
        let answer = alice.answer(&room, setup.user(), question + 1).await;
        let answered = Instant::now();
        let seen = observer.saw(&id).await;
        let asked = *model.asked_at().last().unwrap();
        measured.send.push(accepted - begun);
        measured.to_request.push(asked - begun);
        measured.plain_sync.push(seen.saturating_duration_since(accepted));
        measured.own.push(asked.saturating_duration_since(seen));
        measured.sent.push(observer.saw(&answer.id).await - begun);
        measured.answer.push(answered - begun);
        tokio::time::sleep(PAUSE).await;
    }
    let cpu = (process::cpu(agent.pid()) - cpu) / QUESTIONS as u32;
    drop(agent);
    print(&measured, &bare(&homeserver).await, cpu);
}

/// The same road to a client that does nothing but sync: what the SDK's own work on an event takes, from the plain
/// client's sync on. It keeps nothing.
async fn bare(homeserver: &Homeserver) -> Times {
    let account = homeserver.account("carol").await;
    let (carol, bare) = (Person::at(homeserver, &account).await, Person::new(homeserver, "bare").await);
    let room = carol.direct_room(&bare.user).await;
    let observer = Observer::start(homeserver, &account).await;
    let mut times = Times::default();
    for message in 0..WARM_UP + QUESTIONS {
        let id = carol.say(&room, &format!("message {message}")).await;
        bare.answer(&room, &carol.user, message + 1).await;
        let known = Instant::now();
        let seen = observer.saw(&id).await;
        if message >= WARM_UP {
            times.push(known.saturating_duration_since(seen));
        }
        tokio::time::sleep(PAUSE).await;
    }
    times
}

fn print(measured: &Measured, bare: &Times, cpu: Duration) {
    let Measured { send, to_request, plain_sync, own, sent, answer } = measured;
    println!("### One question ({} in a row, one encrypted direct room)\n", send.len());
    println!("| | median | 95 % | beside the send | compare |\n| --- | ---: | ---: | ---: | --- |");
    line("the person's send, until the homeserver has taken it", send, send, "");
    line("from then until a plain client's sync shows it", plain_sync, send, "");
    line("from there until a bare client of the same SDK has decrypted it", bare, send, "");
    line("from the plain client to the model request", own, send, "");
    let added = own.beyond(bare.median());
    line("**own delay**: from the bare client's median to the model request", &added, send, "target: below 10 ms");
    line("send begun to model request, in all", to_request, send, "another bot on this SDK: 162 ms, 3.1 sends");
    line("send begun to the answer in a plain client's sync", sent, send, "that bot's sending: 238 ms, 4.6 sends");
    line("send begun to the answer decrypted before the person", answer, send, "");
    println!("\nCPU of the agent for each answer, all included: {}.\n", Shown(cpu));
}
