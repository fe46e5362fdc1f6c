//! Shows that the agent types while a turn works. Typing is the room's, turns are the threads': it shows as long as any
//! of them works, but for the first moments: an answer that is there at once needs no sign, and each sign costs the
//! homeserver a round of sync for everybody in the room.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use matrix_link::Rooms;
use ruma::OwnedRoomId;
use tokio::{
    task::JoinHandle,
    time::{interval, sleep},
};

/// How long a turn works unseen: too short for a person to wonder.
const UNSEEN: Duration = Duration::from_millis(300);
/// How often typing is shown anew; the homeserver forgets it after 30 s.
const EVERY: Duration = Duration::from_secs(20);

/// Where turns work. A handle: clones share it.
#[derive(Clone)]
pub struct Typing(Arc<Board>);

struct Board {
    rooms: Arc<dyn Rooms>,
    working: Mutex<HashMap<OwnedRoomId, Working>>,
}

struct Working {
    turns: usize,
    show: JoinHandle<()>,
    shown: Arc<AtomicBool>,
}

/// A turn works in a room. To be ended; one that is dropped is forgotten by the homeserver after 30 s.
#[must_use = "typing must be ended"]
pub(super) struct AtWork {
    typing: Typing,
    room: OwnedRoomId,
    ended: bool,
}

impl Typing {
    /// Nobody works yet.
    pub fn new(rooms: Arc<dyn Rooms>) -> Self {
        Self(Arc::new(Board { rooms, working: Mutex::default() }))
    }

    /// Whether a turn works anywhere.
    #[cfg(test)]
    pub(crate) fn anybody_works(&self) -> bool {
        !self.working().is_empty()
    }

    pub(super) fn begin(&self, room: OwnedRoomId) -> AtWork {
        self.working()
            .entry(room.clone())
            .or_insert_with(|| {
                let (rooms, room) = (self.0.rooms.clone(), room.clone());
                let shown = Arc::new(AtomicBool::new(false));
                let begun = shown.clone();
                let show = tokio::spawn(async move {
                    sleep(UNSEEN).await;
                    begun.store(true, Ordering::Release);
                    let mut tick = interval(EVERY);
                    loop {
                        tick.tick().await;
                        rooms.set_typing(&room, true).await;
                    }
                });
                Working { turns: 0, show, shown }
            })
            .turns += 1;
        AtWork { typing: self.clone(), room, ended: false }
    }

    /// One turn less; says whether it was the room's last, and typing is to be taken back.
    fn leave(&self, room: &OwnedRoomId) -> bool {
        let mut working = self.working();
        let Some(here) = working.get_mut(room) else { return false };
        here.turns -= 1;
        if here.turns > 0 {
            return false;
        }
        working.remove(room).is_some_and(|here| {
            here.show.abort();
            here.shown.load(Ordering::Acquire)
        })
    }

    fn working(&self) -> MutexGuard<'_, HashMap<OwnedRoomId, Working>> {
        self.0.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AtWork {
    pub(super) async fn end(mut self) {
        self.ended = true;
        if self.typing.leave(&self.room) {
            self.typing.0.rooms.set_typing(&self.room, false).await;
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if !self.ended {
            self.typing.leave(&self.room);
        }
    }
}
