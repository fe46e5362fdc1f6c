//! A list in a room's state counts when somebody who may change it has said so to the agent: a homeserver can write state
//! that nobody has written, and state is never encrypted.
//!
//! The agent shows the list in the room, with its hash and a code. A reply `yes CODE` confirms it: in an encrypted room from
//! a device that counts, by a person who has the power to change the list. Any change asks anew.

use matrix_link::{Act, Event, EventKind, Message, MessageKind};
use rand::RngExt as _;
use ruma::{EventId, OwnedEventId, RoomId};
use serde_json::json;

use super::{
    Commands, STATE_TYPE,
    list::{List, hash_of},
};
use crate::{
    outbox::{Place, Text},
    store::{Ask, AskKind, Call, Cause, StoreError},
    tools::Refusal,
};

/// How long a list waits for its confirmation; `!commands` asks anew.
const WAIT: std::time::Duration = std::time::Duration::from_secs(7 * 86_400);
/// Letters and digits that are not mistaken for others.
const CODE: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const CODE_LENGTH: usize = 4;

/// A room's list in its state.
#[derive(Debug, Clone)]
pub(super) struct StateList {
    pub(super) list: List,
    pub(super) hash: String,
    pub(super) sender: ruma::OwnedUserId,
}

/// Whether a room's own list counts.
#[derive(Debug)]
pub(super) enum Standing {
    /// There is none, or an empty one.
    None,
    /// Whoever has set it may not: nobody is told of it.
    Forged,
    /// It waits for a person.
    Unconfirmed(StateList),
    /// It counts.
    Confirmed(StateList),
}

impl Commands {
    /// The room's own list, and whether it counts.
    pub(super) async fn standing(&self, room: &RoomId) -> Result<Standing, StoreError> {
        let Some(list) = self.state_list(room).await else { return Ok(Standing::None) };
        if list.list.entries.is_empty() && list.list.errors.is_empty() {
            return Ok(Standing::None);
        }
        let known = self.parts().store.command_list(room).await?;
        if known.is_some_and(|known| known.hash == list.hash && known.confirmed) {
            return Ok(Standing::Confirmed(list));
        }
        // The homeserver refuses what somebody without the power sets, and is not taken at its word.
        if !self.parts().rooms.may(room, &list.sender, Act::SetState(STATE_TYPE)).await {
            tracing::warn!(%room, sender = %list.sender, "a list of commands by somebody who may set none: passed over");
            return Ok(Standing::Forged);
        }
        Ok(Standing::Unconfirmed(list))
    }

    /// The list that is for this agent: its own, else the one for all.
    async fn state_list(&self, room: &RoomId) -> Option<StateList> {
        let own = self.parts().rooms.user_id().as_str();
        // A state key that begins with "@" is its user's alone to set, so people write the id without it.
        for key in [own, own.trim_start_matches('@'), ""] {
            if let Some(event) = self.parts().rooms.state_event(room, STATE_TYPE, key).await
                && event.content.as_object().is_some_and(|content| !content.is_empty())
            {
                let hash = hash_of(&json!([room, key, event.content]));
                return Some(StateList { list: List::of_state(&event.content), hash, sender: event.sender });
            }
        }
        None
    }

    /// Shows a list that waits for a person, once for each change.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn look(&self, room: &RoomId) -> Result<(), StoreError> {
        if !self.reads_state() {
            return Ok(());
        }
        let Standing::Unconfirmed(list) = self.standing(room).await? else { return Ok(()) };
        if self.parts().store.tell_command_list(room, &list.hash).await? {
            self.show(room, list);
        }
        Ok(())
    }

    /// Shows a list and asks for its confirmation. Whoever calls does not wait until it is sent.
    pub(super) fn show(&self, room: &RoomId, list: StateList) {
        let (commands, room) = (self.clone(), room.to_owned());
        tokio::spawn(async move {
            if let Err(error) = commands.ask_to_confirm(&room, &list).await {
                tracing::error!(error = &error as &dyn std::error::Error, "a list of commands is not shown");
            }
        });
    }

    async fn ask_to_confirm(&self, room: &RoomId, list: &StateList) -> Result<(), Refusal> {
        let parts = self.parts();
        let code: String = {
            let mut rng = rand::rng();
            (0..CODE_LENGTH)
                .filter_map(|_| CODE.get(rng.random_range(0..CODE.len())).map(|&byte| char::from(byte)))
                .collect()
        };
        let id = format!("list-{}-{code}", list.hash);
        let origin = OwnedEventId::try_from(format!("${id}")).map_err(|_| Refusal::call("no id"))?;
        let call = Call { origin, arguments: format!("list of {room}") };
        // Whatever was shown before is not what stands there now, or has another code.
        for earlier in parts.store.open_asks(AskKind::List).await?.iter().filter(|ask| ask.room == room) {
            parts.asks.close(&earlier.id, &json!("replaced")).await?;
        }
        let nothing_works = list.list.entries.is_empty();
        let content = Text { mentions: vec![list.sender.clone()], ..Text::notice(card(list, &code)) }.content();
        let now = parts.clock.now();
        let until = now.saturating_add(WAIT).unwrap_or(now);
        let ask = Ask {
            id,
            kind: AskKind::List,
            room: room.to_owned(),
            thread: None,
            person: list.sender.clone(),
            question: json!({"hash": list.hash, "code": code, "text": content["body"]}),
            event: None,
            expires_at: until,
            verdict: None,
        };
        if !nothing_works {
            parts.store.ask(&ask, &call, now).await?;
        }
        let event = parts.outbox.send(room.to_owned(), Place::default(), content, Some(Cause::Call(call))).await?;
        if !nothing_works {
            parts.store.asked(&ask.id, &event, until).await?;
        }
        Ok(())
    }

    /// Takes an answer to a list that was shown. Says whether the event was one: then it is for nobody else.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn answered(&self, event: &Event) -> Result<bool, StoreError> {
        let EventKind::Message(message) = &event.kind else { return Ok(false) };
        let Some(target) = &message.reply_to else { return Ok(false) };
        let Some(ask) = self.parts().store.ask_by_event(&event.room, target).await? else { return Ok(false) };
        if ask.kind != AskKind::List || message.kind != MessageKind::Text || self.is_bot(event) {
            return Ok(false);
        }
        let said = answer(message, ask.question["code"].as_str().unwrap_or_default());
        if said == Said::Nothing {
            return Ok(false);
        }
        let word = match ask.verdict {
            None if ask.expires_at <= self.parts().clock.now() => {
                "That was shown too long ago; `!commands` shows how the list stands now.".to_owned()
            }
            Some(_) => "That list has been answered already; `!commands` shows how it stands.".to_owned(),
            None => self.decide(event, &ask, target, said).await?,
        };
        self.say(&event.room, message.thread.clone(), &word);
        Ok(true)
    }

    async fn decide(&self, event: &Event, ask: &Ask, card: &EventId, said: Said) -> Result<String, StoreError> {
        let parts = self.parts();
        if !parts.rooms.may(&event.room, &event.sender, Act::SetState(STATE_TYPE)).await {
            return Ok("Only somebody who may change this room's list of commands can confirm it.".to_owned());
        }
        if said == Said::WrongCode {
            return Ok("That is not the code of this list: it stands in my message.".to_owned());
        }
        let hash = ask.question["hash"].as_str().unwrap_or_default();
        let stands = match self.standing(&event.room).await? {
            Standing::Unconfirmed(list) | Standing::Confirmed(list) => list.hash == hash,
            Standing::None | Standing::Forged => false,
        };
        if !stands {
            parts.asks.close(&ask.id, &json!("changed")).await?;
            return Ok("The list has changed since: `!commands` shows how it stands.".to_owned());
        }
        let (verdict, word) = match said {
            Said::Yes => ("confirmed", "Confirmed: I use this room's list of commands from now on."),
            _ => ("declined", "Then I leave this room's list of commands alone until it changes."),
        };
        if !parts.asks.close(&ask.id, &json!(verdict)).await? {
            return Ok("That list has been answered already; `!commands` shows how it stands.".to_owned());
        }
        if said == Said::Yes {
            parts.store.confirm_command_list(&event.room, hash, &event.sender).await?;
            tracing::info!(room = %event.room, person = %event.sender, hash, "list of commands confirmed");
        }
        self.close_card(event, ask, card, verdict).await;
        Ok(word.to_owned())
    }

    async fn close_card(&self, event: &Event, ask: &Ask, card: &EventId, verdict: &str) {
        let text = ask.question["text"].as_str().unwrap_or_default();
        // The last paragraph says how to answer.
        let text = text.rsplit_once("\n\n").map_or(text, |(before, _)| before);
        let name = self.parts().rooms.display_name(&event.room, &event.sender).await;
        let content = Text::notice(format!("{text}\n\n*{verdict} by {name}*")).content();
        let edited = self.parts().outbox.edit(event.room.clone(), card.to_owned(), content);
        tokio::spawn(async move {
            if let Err(error) = edited.await {
                tracing::warn!(error = &error as &dyn std::error::Error, "a list's end is not shown");
            }
        });
    }
}

/// What a reply says to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    Yes,
    WrongCode,
    No,
}

fn answer(message: &Message, code: &str) -> Said {
    let words = message.body.trim().trim_end_matches(['.', '!']).to_lowercase();
    match words.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["yes", given] if *given == code.to_lowercase() => Said::Yes,
        ["yes", ..] => Said::WrongCode,
        ["no"] => Said::No,
        _ => Said::Nothing,
    }
}

fn card(list: &StateList, code: &str) -> String {
    let StateList { list, hash, .. } = list;
    let mut text =
        "🧰 **This room's list of commands has changed.** I leave it alone until somebody who may change it \
                    confirms it."
            .to_owned();
    for entry in &list.entries {
        text.push_str(&format!("\n- `{}`: {} ({})", entry.name, entry.description, entry.summary()));
    }
    if !list.errors.is_empty() {
        text.push_str("\n\nI can't read these, and leave them out:");
        for error in &list.errors {
            text.push_str(&format!("\n- {error}"));
        }
    }
    if list.entries.is_empty() {
        text.push_str("\n\nNothing in it works, so there is nothing to confirm.");
    } else {
        text.push_str(&format!(
            "\n\nTo let me run what stands in it, reply to this message: `yes {code}`. To leave it: `no`. (List `{hash}`.)"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(body: &str) -> Said {
        let message = Message {
            kind: MessageKind::Text,
            body: body.to_owned(),
            html: None,
            mentions: None,
            reply_to: None,
            thread: None,
            content: json!(null),
        };
        answer(&message, "K7QF")
    }

    #[test]
    fn only_the_word_and_the_code_confirm() {
        for (body, meant) in [
            ("yes K7QF", Said::Yes),
            (" Yes k7qf. ", Said::Yes),
            ("yes", Said::WrongCode),
            ("yes K7QG", Said::WrongCode),
            ("yes K7QF please", Said::WrongCode),
            ("no", Said::No),
            ("what is this?", Said::Nothing),
            ("K7QF", Said::Nothing),
        ] {
            assert_eq!(said(body), meant, "{body}");
        }
    }
}
