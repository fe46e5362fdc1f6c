//! `!agents`, `!invite NAME`: the other agents of the appservice, for its main one.
//!
//! What somebody may not talk to is not there for them: it is neither listed nor invited.

use matrix_link::Event;
use ruma::UserId;

use super::{Key, Shared};
use crate::config::Colleague;

/// Agents that one answer names; more are counted.
const MAX_LISTED: usize = 50;

pub(super) fn knows_others(shared: &Shared) -> bool {
    !shared.settings.colleagues.is_empty()
}

pub(super) async fn list(shared: &Shared, key: &Key, event: &Event) -> String {
    let mut lines = Vec::new();
    let all = colleagues(shared, &event.sender);
    let more = all.clone().count().saturating_sub(MAX_LISTED);
    for Colleague { user, name, .. } in all.take(MAX_LISTED) {
        let here = if shared.rooms.may_speak(&key.room, user).await { " (here)" } else { "" };
        lines.push(format!("- {name} (`{user}`){here}"));
    }
    if lines.is_empty() {
        return "There is no other agent that you may talk to.".to_owned();
    }
    if more > 0 {
        lines.push(format!("- and {more} more"));
    }
    format!("Agents:\n\n{}\n\n`!invite NAME` brings one in here.", lines.join("\n"))
}

pub(super) async fn invite(name: Option<&str>, shared: &Shared, key: &Key, event: &Event) -> String {
    let Some(name) = name else { return "`!invite NAME`: whom? `!agents` lists them.".to_owned() };
    let Some(Colleague { user, name, .. }) = colleagues(shared, &event.sender).find(|one| is_called(one, name)) else {
        return format!("I know no agent {name:?}. `!agents` lists them.");
    };
    // Two of us in it, and it would be direct for neither.
    if shared.rooms.is_direct(&key.room).await {
        return format!("This is a chat of us two. Start one with `{user}`, or ask me in a room with others.");
    }
    match shared.rooms.invite(&key.room, user).await {
        Ok(()) => format!("{name} is invited."),
        Err(error) => {
            tracing::warn!(room = %key.room, agent = %user, error = &error as &dyn std::error::Error, "not invited");
            format!("I can't invite {name} here: perhaps I am not allowed to. You can: it is `{user}`.")
        }
    }
}

/// Those whom a person may talk to.
fn colleagues<'a>(shared: &'a Shared, person: &UserId) -> impl Iterator<Item = &'a Colleague> + Clone {
    shared.settings.colleagues.iter().filter(move |one| one.allow.allows(person))
}

/// By its name, its user id or the localpart of that, with or without what all begin with; without regard to case.
fn is_called(colleague: &Colleague, name: &str) -> bool {
    let Colleague { user, name: shown, short_name, .. } = colleague;
    [shown, short_name, user.as_str(), user.localpart()]
        .iter()
        .any(|one| one.trim_start_matches('@').eq_ignore_ascii_case(name.trim_start_matches('@')))
}
