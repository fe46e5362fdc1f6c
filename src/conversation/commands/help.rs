//! `!help`: what the agent can do here, for this person.

use std::sync::Arc;

use matrix_link::Event;

use super::{Key, Shared, agents};
use crate::{conversation::task::toolbox, rich::Here};

pub(super) async fn answer(shared: &Arc<Shared>, key: &Key, event: &Event) -> String {
    let here = Here {
        room: key.room.clone(),
        thread: key.thread.clone(),
        person: event.sender.clone(),
        origin: event.id.clone(),
    };
    let offered = toolbox(shared, &here).await.offer();
    let tools: Vec<_> = offered.into_iter().map(|tool| format!("`{}`", tool.name)).collect();
    let tools = if tools.is_empty() { String::new() } else { format!("\n\nTools I can use: {}.", tools.join(", ")) };
    let others = if agents::knows_others(shared) {
        "\n- `!agents` lists the other agents here; `!invite NAME` brings one into this room"
    } else {
        ""
    };
    format!(
        "In a direct room, just write to me. Elsewhere mention me, reply to me, or write in a thread that I am in.\n\n\
         - `stop`, `!stop` or a 🛑 on my answer ends what I am doing\n\
         - edit your question while I answer, and I start over\n\
         - `!model` shows which model answers here; `!model NAME` chooses another\n\
         - `!later` lists what I have set myself for later\n\
         - `!phone here` says that you write from your phone; then I can propose things to do there{others}\n\
         - `!commands` lists what I may run in this room; `!run NAME` runs one for you\n\
         - `!secrets` lists the secrets that I keep, without their values; `!forget NAME` deletes one\n\
         - `!help` shows this{tools}"
    )
}
