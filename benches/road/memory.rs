//! The agent's memory at rest, by the number of its rooms.

use futures_util::{StreamExt, stream};

use crate::{
    process::{self, Memory},
    support::{Homeserver, ModelServer, Person},
    unlimited_agent,
};

/// Rooms that are made at the same time.
const AT_ONCE: usize = 8;

pub async fn measure() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::echo(0).await;
    let setup = unlimited_agent(&homeserver, &model).await;
    let alice = Person::new(&homeserver, "alice").await;

    println!("### Memory at rest (MB)\n");
    println!("| | resident | proportional | compare |\n| --- | ---: | ---: | --- |");
    // The first start makes keys, once in the account's life.
    setup.start().await.kill();
    let agent = setup.start().await;
    print("no room", agent.pid(), "target: below 35; another bot on this SDK: 35").await;
    for (count, compare) in [(100, "target: below 44; that bot: 44"), (200, "")] {
        let rooms = stream::iter(0..100).map(|_| alice.direct_room(setup.user()));
        rooms.buffer_unordered(AT_ONCE).for_each(|_| async {}).await;
        print(&format!("{count} encrypted rooms, joined since the start"), agent.pid(), compare).await;
    }
    agent.kill();
    let agent = setup.start().await;
    print("200 encrypted rooms, started with them", agent.pid(), "").await;
    println!();
}

async fn print(what: &str, pid: u32, compare: &str) {
    process::rest(pid).await;
    let Memory { resident, proportional } = Memory::of(pid);
    println!("| {what} | {resident:.1} | {proportional:.1} | {compare} |");
}
