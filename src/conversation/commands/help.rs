//! `!help`: what the agent can do.

use super::Shared;

pub(super) fn answer(shared: &Shared) -> String {
    let tools: Vec<_> = shared.tools.offer().into_iter().map(|tool| format!("`{}`", tool.name)).collect();
    let tools = if tools.is_empty() { String::new() } else { format!("\n\nTools I can use: {}.", tools.join(", ")) };
    format!(
        "In a direct room, just write to me. Elsewhere mention me, reply to me, or write in a thread that I am in.\n\n\
         - `stop`, `!stop` or a 🛑 on my answer ends what I am doing\n\
         - edit your question while I answer, and I start over\n\
         - `!model` shows which model answers here; `!model NAME` chooses another\n\
         - `!later` lists what I have set myself for later\n\
         - `!phone here` says that you write from your phone; then I can propose things to do there\n\
         - `!help` shows this{tools}"
    )
}
