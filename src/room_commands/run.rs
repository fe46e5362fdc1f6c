//! `!run NAME`, `!commands`: the person's own way, by the same checks and without the model.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use matrix_link::{Act, Event};
use ruma::{OwnedEventId, OwnedRoomId};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::{
    Commands, STATE_TYPE,
    chain::{self, ByHand, Progress},
    check,
    confirm::Standing,
    list::Entry,
};
use crate::{
    http::forms::FormVerdict,
    rich::Here,
    store::{AskKind, Call, StoreError},
};

/// Runs by hand at once in one room or thread, at most.
const MAX_RUNNING: usize = 8;

/// What people run by hand now, by room and thread.
#[derive(Default)]
pub(super) struct Running(Mutex<HashMap<Place, Vec<Arc<Notify>>>>);

type Place = (OwnedRoomId, Option<OwnedEventId>);

impl Running {
    /// One more, if there may be; its notice comes when it is to stop.
    fn begin(&self, place: Place) -> Option<Arc<Notify>> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let here = running.entry(place).or_default();
        (here.len() < MAX_RUNNING).then(|| {
            let stop = Arc::new(Notify::new());
            here.push(stop.clone());
            stop
        })
    }

    fn end(&self, place: &Place, stop: &Arc<Notify>) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(here) = running.get_mut(place) {
            here.retain(|one| !Arc::ptr_eq(one, stop));
            if here.is_empty() {
                running.remove(place);
            }
        }
    }

    fn stop(&self, place: &Place) -> bool {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let here = running.get(place);
        here.into_iter().flatten().for_each(|stop| stop.notify_one());
        here.is_some()
    }
}

impl Commands {
    /// Runs a command for a person, as the words behind `!run` say. Gives what there is to say at once; how it ends is said
    /// when it does.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn run(&self, here: Here, words: Option<&str>) -> Result<Option<String>, StoreError> {
        let list = self.list(&here.room).await?;
        if list.entries.is_empty() {
            return Ok(Some("This room has no list of commands: nothing can be run here.".to_owned()));
        }
        let mut words = split(words.unwrap_or_default()).into_iter();
        let Some(name) = words.next() else {
            return Ok(Some(
                "`!run NAME` runs a command; `!commands` lists them. Inputs follow as `input=value`.".to_owned(),
            ));
        };
        let mut inputs = Map::new();
        for word in words {
            let Some((input, value)) = word.split_once('=') else {
                return Ok(Some(format!("Inputs are written as `input=value`; I can't read {word:?}.")));
            };
            let typed = list.find(&name).map_or_else(|| value.into(), |entry| entry.inputs.typed(input, value));
            inputs.insert(input.to_owned(), typed);
        }
        let (entry, inputs) = match self.prepare(&here, &name, &Value::Object(inputs)).await? {
            Ok(prepared) => prepared,
            Err(refused) => return Ok(Some(format!("{refused}."))),
        };
        let by_hand = ByHand {
            room: here.room.clone(),
            thread: here.thread.clone(),
            person: here.person.clone(),
            origin: here.origin.clone(),
            command: entry.name.clone(),
            inputs,
        };
        Ok(self.begin(entry, here, Progress { by_hand: Some(by_hand), ..Progress::new() }))
    }

    /// Takes up what people have run by hand when the process ended.
    pub(super) async fn resume_runs(&self) -> Result<(), StoreError> {
        for kept in self.parts().store.command_runs().await? {
            let Ok(progress) = serde_json::from_value::<Progress>(kept) else { continue };
            let Some(by_hand) = progress.by_hand.clone() else { continue };
            let here =
                Here { room: by_hand.room, thread: by_hand.thread, person: by_hand.person, origin: by_hand.origin };
            let list = self.list(&here.room).await?;
            match list.find(&by_hand.command) {
                // Its conditions held when it began.
                Some(entry) => drop(self.begin(entry.clone(), here, progress)),
                None => self.parts().store.forget_command_run(&call_of(&here)).await?,
            }
        }
        Ok(())
    }

    fn begin(&self, entry: Arc<Entry>, here: Here, progress: Progress) -> Option<String> {
        let place = (here.room.clone(), here.thread.clone());
        let Some(stop) = self.parts().by_hand.begin(place.clone()) else {
            return Some("Too many commands run here already: please wait until one has ended.".to_owned());
        };
        let commands = self.clone();
        tokio::spawn(async move {
            let inputs = progress.by_hand.as_ref().map(|by_hand| by_hand.inputs.clone()).unwrap_or_default();
            let call = call_of(&here);
            let ended = tokio::select! {
                ended = chain::run(&commands, &entry, &here, &inputs, &call, progress) => Some(ended),
                () = stop.notified() => None,
            };
            commands.parts().by_hand.end(&place, &stop);
            let word = match ended {
                Some(Ok(ended)) => ended.text(),
                Some(Err(error)) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "room command broke off");
                    format!("{} broke off: I can't write my notes right now. Please tell my operator.", entry.name)
                }
                None => {
                    if let Err(error) = commands.parts().store.forget_command_run(&call).await {
                        tracing::error!(error = &error as &dyn std::error::Error, "a stopped command is not forgotten");
                    }
                    format!("⏹ {} is stopped.", entry.name)
                }
            };
            commands.say(&here.room, here.thread.clone(), &word);
        });
        None
    }

    /// A person says stop: what runs by hand in that room or thread ends, and the forms whose addresses were sent to them
    /// there are taken back. Says whether there was anything.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn stop(&self, event: &Event, thread: Option<&OwnedEventId>) -> Result<bool, StoreError> {
        let parts = self.parts();
        let mut stopped = parts.by_hand.stop(&(event.room.clone(), thread.cloned()));
        for form in parts.store.open_asks(AskKind::Form).await? {
            if form.room == event.room && form.person == event.sender {
                stopped |= parts.asks.close(&form.id, &FormVerdict::Withdrawn.to_value()).await?;
            }
        }
        Ok(stopped)
    }

    /// What `!commands` answers: the list, and for each command whether this person can run it now.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn overview(&self, here: &Here, event: &Event) -> Result<String, StoreError> {
        let list = self.list(&here.room).await?;
        let rooms = self.parts().rooms.as_ref();
        let mut text = String::new();
        for entry in &list.entries {
            let now = match check::check(entry, here, rooms, &self.parts().store).await? {
                Ok(()) => String::new(),
                Err(refused) => format!("\n  - not now, for you: {refused}"),
            };
            let inputs: String = entry.inputs.lines().iter().map(|input| format!("\n  - input {input}")).collect();
            text.push_str(&format!(
                "\n- `{}` (listed {}): {}\n  - {}{inputs}{now}",
                entry.name,
                entry.source,
                entry.description,
                entry.summary()
            ));
        }
        let mut parts = Vec::new();
        if !text.is_empty() {
            parts.push(format!("What I may run in this room; `!run NAME` runs one for you:\n{text}"));
        }
        if self.reads_state() {
            match self.standing(&here.room).await? {
                Standing::Unconfirmed(own) => {
                    let may = rooms.may(&here.room, &event.sender, Act::SetState(STATE_TYPE)).await;
                    if may {
                        self.parts().store.tell_command_list(&here.room, &own.hash).await?;
                        self.show(&here.room, own.clone());
                    }
                    parts.push(format!(
                        "This room has a list of its own that nobody has confirmed (`{}`), so I leave it alone.",
                        own.hash
                    ));
                }
                Standing::Confirmed(own) if !own.list.errors.is_empty() => {
                    let errors: Vec<_> = own.list.errors.iter().map(|error| format!("- {error}")).collect();
                    parts.push(format!(
                        "What I can't read in this room's list, and leave out:\n\n{}",
                        errors.join("\n")
                    ));
                }
                Standing::Forged | Standing::None | Standing::Confirmed(_) => {}
            }
        }
        if parts.is_empty() {
            parts.push("This room has no list of commands: there is nothing that I may run here.".to_owned());
        }
        Ok(parts.join("\n\n"))
    }
}

fn call_of(here: &Here) -> Call {
    Call { origin: here.origin.clone(), arguments: "!run".to_owned() }
}

/// Words between blanks; what stands between double quotes is one.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut any) = (Vec::new(), String::new(), false, false);
    for c in line.chars() {
        match c {
            '"' => (quoted, any) = (!quoted, true),
            c if c.is_whitespace() && !quoted => {
                if any {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => {
                word.push(c);
                any = true;
            }
        }
    }
    if any {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn inputs_with_blanks_stand_in_quotes() {
        assert_eq!(split(" deploy  branch=main note=\"all of it\" "), ["deploy", "branch=main", "note=all of it"]);
        assert_eq!(split("a=\"\""), ["a="]);
        assert!(split("  ").is_empty());
    }
}
