//! What a call names: messages by their handles, rooms by their ids.

use std::time::Duration;

use mxblocks_tools::{RichCall, plan};
use ruma::{OwnedRoomId, RoomId};
use serde_json::Value;
use tokio::time::timeout;

use super::{Desk, Here};
use crate::tools::Refusal;

/// How long the look-up of a room's people may take: a turn waits for it.
const LOOKUP_WITHIN: Duration = Duration::from_secs(5);
/// The arguments that name a message.
const NAMES_A_MESSAGE: [&str; 3] = ["reply_to", "thread", "event_id"];

impl Desk {
    /// The checked call and the room that it goes to, with handles of that room turned into events.
    pub(super) async fn planned(
        &self,
        name: &str,
        here: &Here,
        mut arguments: Value,
    ) -> Result<(RichCall, OwnedRoomId), Refusal> {
        // A room that is no text is for `plan` to refuse.
        let room = self.room(here, arguments.get("room").and_then(Value::as_str)).await?;
        if let Some(arguments) = arguments.as_object_mut() {
            for key in NAMES_A_MESSAGE {
                let Some(value) = arguments.get_mut(key) else { continue };
                let Some(handle) = handle(value) else { continue };
                let event = self.0.store.event_of(&room, handle).await?;
                *value = event
                    .ok_or_else(|| Refusal::call(format!("{key}: there is no message [{handle}] there")))?
                    .to_string()
                    .into();
            }
        }
        Ok((plan(name, &arguments).map_err(Refusal::Call)?, room))
    }

    /// The room that a call goes to: where the agent and the person both may speak, and the operator lets it. A name must
    /// be that of one of them alone: anybody may name a room.
    async fn room(&self, here: &Here, named: Option<&str>) -> Result<OwnedRoomId, Refusal> {
        let named = match named.map(str::trim) {
            None | Some("" | "here") => return Ok(here.room.clone()),
            Some(named) if named == here.room.as_str() => return Ok(here.room.clone()),
            Some(named) => named,
        };
        let mut by_name = Vec::new();
        for room in self.other_rooms(here).await {
            if room.as_str() == named {
                return Ok(room);
            }
            if self.0.rooms.name(&room).await.is_some_and(|name| name == named) {
                by_name.push(room);
            }
        }
        if by_name.len() == 1
            && let Some(room) = by_name.pop()
        {
            return Ok(room);
        }
        let named: String = named.chars().take(80).collect();
        let rooms = self.rooms_to_name(here).await;
        Err(Refusal::call(format!("room: {named:?} is none that you may post to; it may name: {rooms}")))
    }

    /// What `room` may name, in words for the model.
    pub(super) async fn rooms_to_name(&self, here: &Here) -> String {
        let mut rooms = Vec::new();
        for room in self.other_rooms(here).await {
            rooms.push(match self.0.rooms.name(&room).await {
                Some(name) => format!("{room} ({name:?})"),
                None => room.to_string(),
            });
        }
        if rooms.is_empty() {
            "only this chat, by leaving it out".to_owned()
        } else {
            format!("this chat, by leaving it out, or {}", rooms.join(", "))
        }
    }

    async fn other_rooms(&self, here: &Here) -> Vec<OwnedRoomId> {
        let mut rooms = Vec::new();
        for room in self.0.settings.rooms.iter().filter(|room| **room != here.room) {
            if self.both_may_speak(room, here).await {
                rooms.push(room.clone());
            }
        }
        rooms
    }

    async fn both_may_speak(&self, room: &RoomId, here: &Here) -> bool {
        let rooms = &self.0.rooms;
        let both = async { rooms.may_speak(room, rooms.user_id()).await && rooms.may_speak(room, &here.person).await };
        timeout(LOOKUP_WITHIN, both).await.unwrap_or(false)
    }
}

/// The handle in `[12]`, `12`, `#12` or the number 12; None for anything else, which may be an event id.
fn handle(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => {
            let text = text.trim();
            let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
            let digits = text.trim().trim_start_matches('#');
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::handle;

    #[test]
    fn a_handle_is_taken_however_it_is_written_and_an_event_id_is_none() {
        for written in [json!("[12]"), json!("12"), json!(" #12 "), json!(12), json!("[ 12 ]")] {
            assert_eq!(handle(&written), Some(12), "{written}");
        }
        for written in [json!("$12"), json!(""), json!("[a]"), json!("99999999999999999999"), json!(1.5), json!(null)] {
            assert_eq!(handle(&written), None, "{written}");
        }
    }
}
