//! The same road with a meter between agent and homeserver: requests for each answer, and how much of the way out is the
//! agent's own.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    figures::{Times, line},
    meter::{Meter, Passed},
    support::{Homeserver, ModelServer, Person, say},
    unlimited_agent,
};

const WARM_UP: usize = 3;
const QUESTIONS: usize = 20;
/// After an answer, for what follows it: the end of typing, what the sync brings of one's own.
const PAUSE: Duration = Duration::from_millis(500);
/// A streamed answer: words, and the time between them.
const WORDS: usize = 100;
const WORD_MS: u64 = 100;

pub async fn measure() {
    let homeserver = Homeserver::relaxed();
    let meter = Meter::start(&homeserver).await;
    let model = ModelServer::start([]).await;
    let setup = unlimited_agent(&meter.homeserver, &model).await;
    let _agent = setup.start().await;
    let alice = Person::new(&homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    let ask = async |number: usize| {
        alice.say(&room, &format!("question {number}")).await;
        alice.answer(&room, setup.user(), number).await;
        // The person may see it before the sender is told that it was taken.
        meter.has_passed("send").await;
        tokio::time::sleep(PAUSE).await;
    };

    let (mut inside, mut out, mut own_send) = (Times::default(), Times::default(), Times::default());
    let mut at_once = Vec::new();
    for number in 1..=WARM_UP + QUESTIONS {
        model.add([say("This is the answer, all at once.", 0)]);
        ask(number).await;
        let passed = meter.take();
        if number <= WARM_UP {
            continue;
        }
        let asked = *model.asked_at().last().unwrap();
        let sent = passed.iter().find(|one| one.kind == "send").unwrap();
        inside.push(asked - last_sync_before(&passed, asked).answered);
        out.push(sent.answered - asked);
        own_send.push(sent.took);
        at_once.extend(passed);
    }
    model.add([say(&"A streamed word, ".repeat(WORDS / 3), WORD_MS)]);
    ask(WARM_UP + QUESTIONS + 1).await;
    let streamed = meter.take();

    println!("### Inside the agent ({QUESTIONS} questions, a meter between agent and homeserver)\n");
    println!("| | median | 95 % | beside the send | compare |\n| --- | ---: | ---: | ---: | --- |");
    line("the agent's send, as the homeserver takes it", &own_send, &own_send, "");
    line("the sync's answer with the question to the model request", &inside, &own_send, "the SDK's own work is in it");
    line("first token to the first event taken, the send included", &out, &own_send, "");
    println!("\nRequests to the homeserver for each answer:\n");
    println!("| | in all | of which |\n| --- | ---: | --- |");
    count("an answer that is there at once", &at_once, QUESTIONS);
    count(&format!("one streamed for {} s", WORDS as u64 * WORD_MS / 1000), &streamed, 1);
    println!();
}

fn last_sync_before(passed: &[Passed], asked: Instant) -> &Passed {
    passed.iter().rfind(|one| one.kind == "sync" && one.answered <= asked).unwrap()
}

fn count(what: &str, passed: &[Passed], answers: usize) {
    let mut kinds = BTreeMap::<&str, usize>::new();
    for one in passed {
        *kinds.entry(&one.kind).or_default() += 1;
    }
    let each = |count: usize| count as f64 / answers as f64;
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{kind} {:.1}", each(*count))).collect();
    println!("| {what} | {:.1} | {} |", each(passed.len()), kinds.join(", "));
}
