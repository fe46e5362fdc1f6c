//! `!phone`: where the person's phone is.

use matrix_link::{Event, Message, in_groups};
use ruma::UserId;

use super::{Key, Shared};
use crate::{phone::Known, store::StoreError};

pub(super) async fn answer(
    words: Option<&str>,
    shared: &Shared,
    key: &Key,
    event: &Event,
    message: &Message,
) -> String {
    match carry_out(words, shared, key, event, message).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "!phone failed");
            "I can't read my notes right now. Please tell my operator.".to_owned()
        }
    }
}

async fn carry_out(
    words: Option<&str>,
    shared: &Shared,
    key: &Key,
    event: &Event,
    message: &Message,
) -> Result<String, StoreError> {
    match words {
        Some("here") => {
            shared.phones.here(event, key.thread.as_ref()).await?;
            let what = if event.device().is_some() { "from this device" } else { "in this room" };
            Ok(format!(
                "Noted: what you write {what} comes from your phone. When I propose something to do there, do it by hand \
                 and answer the card with ✅, or with ❌. `!phone off` takes it back."
            ))
        }
        Some("off") => {
            shared.phones.off(&event.sender).await?;
            Ok("I know of no phone of yours any more.".to_owned())
        }
        Some(_) => {
            Ok("`!phone here` says that you write from your phone, `!phone off` forgets it, `!phone` says what \
                       I know."
                .to_owned())
        }
        None => {
            let Known { announced, here } = shared.phones.known(event, message).await?;
            let paired = match announced {
                Some(actions) if actions.is_empty() => "A phone client of yours is paired, and can do nothing.".into(),
                Some(actions) => format!("A phone client of yours is paired. It can do: {}.", actions.join(", ")),
                None => "No phone client of yours is paired.".to_owned(),
            };
            let here = if here {
                "This message counts as sent from the phone."
            } else {
                "This message does not count as sent from a phone; say `!phone here` if it is."
            };
            Ok([format!("{paired} {here}"), keys(shared, event).await].join("\n\n"))
        }
    }
}

/// What is compared at a pairing: both ends show the same two keys.
async fn keys(shared: &Shared, event: &Event) -> String {
    let key = async |user: &UserId| match shared.rooms.identity_key(user).await {
        Some(key) => format!("`{}`", in_groups(&key)),
        None => "not to be seen now".to_owned(),
    };
    let (mine, yours) = (key(shared.rooms.user_id()).await, key(&event.sender).await);
    format!("To compare when you pair a phone client: my key is {mine}, yours is {yours}.")
}
