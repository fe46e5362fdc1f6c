//! A homeserver that keeps what it is given, and behaves as it is told.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use matrix_link::{Act, ActError, Event, FetchError, Outgoing, Payload, Power, Rooms, SendError, Sender, StateEvent};
use ruma::{EventId, OwnedEventId, OwnedRoomId, OwnedTransactionId, OwnedUserId, RoomId, UserId, user_id};
use serde_json::Value;
use tokio::time::Instant;

use super::{ALICE, BOT, DIRECT, GROUP, PLAIN, STRANGER};

/// Who is not shown to type anew after this time has stopped.
const TYPING_TIMEOUT: Duration = Duration::from_secs(30);

/// How the server takes one attempt at sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Takes it.
    Take,
    /// Takes it, and the answer is lost on its way back.
    Lose,
    /// Limits the rate (429) for so many seconds.
    Limit(u64),
    /// Fails (5xx).
    Fail,
    /// Says no (403).
    Refuse,
    /// Says nothing.
    Hang,
}

/// An event that the server has taken.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sent {
    /// When, since the server began.
    pub at: Duration,
    pub room: OwnedRoomId,
    pub id: OwnedEventId,
    pub content: Value,
}

/// The server, seen from the account that the agent has there.
pub(crate) struct Server {
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    brought: usize,
    bucket: Option<Bucket>,
    answers: VecDeque<Answer>,
    attempts: Vec<(OwnedTransactionId, Answer)>,
    taken: BTreeMap<OwnedTransactionId, OwnedEventId>,
    sent: Vec<Sent>,
    typing: BTreeMap<OwnedRoomId, Instant>,
    typing_requests: usize,
    events: BTreeMap<OwnedEventId, Event>,
    room_state: BTreeMap<(OwnedRoomId, String, String), StateEvent>,
    powers: BTreeMap<OwnedUserId, Power>,
    acts: Vec<String>,
    refuses_acts: bool,
}

/// Whoever has this power may set state; with none, invite.
const STATE_POWER: Power = Power::Level(50);

struct Bucket {
    tokens: f64,
    filled_at: Instant,
}

impl Bucket {
    fn take(&mut self) -> Answer {
        self.tokens = (self.tokens + self.filled_at.elapsed().as_secs_f64() / 5.0).min(10.0);
        self.filled_at = Instant::now();
        if self.tokens < 1.0 {
            return Answer::Limit(5);
        }
        self.tokens -= 1.0;
        Answer::Take
    }
}

impl Server {
    pub fn new() -> Self {
        Self { began: Instant::now(), state: Mutex::default() }
    }

    /// A number for the id of an event that others send.
    pub(super) fn number(&self) -> usize {
        let mut state = self.state();
        state.brought += 1;
        state.brought
    }

    /// Answers the next attempts so, in this order; further ones are taken.
    pub fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state().answers.extend(answers);
    }

    /// Limits the account from now on as a homeserver does by default: ten events at once, then one in five seconds.
    pub fn limit(&self) {
        self.state().bucket = Some(Bucket { tokens: 10.0, filled_at: Instant::now() });
    }

    /// Has an event that is not brought and can be fetched.
    pub fn keep(&self, event: Event) -> OwnedEventId {
        let id = event.id.clone();
        self.state().events.insert(id.clone(), event);
        id
    }

    /// Somebody sets state, whether they may or not.
    pub fn put_state(&self, room: &str, sender: &str, event_type: &str, key: &str, content: Value) {
        let event = StateEvent { sender: UserId::parse(sender).unwrap(), content };
        let at = (RoomId::parse(room).unwrap(), event_type.to_owned(), key.to_owned());
        self.state().room_state.insert(at, event);
    }

    /// The state of a room, where it has some.
    pub fn state_of(&self, room: &str, event_type: &str, key: &str) -> Option<Value> {
        let at = (RoomId::parse(room).unwrap(), event_type.to_owned(), key.to_owned());
        self.state().room_state.get(&at).map(|event| event.content.clone())
    }

    /// Gives somebody this power in all rooms; nobody has any else.
    pub fn empower(&self, user: &str, power: Power) {
        self.state().powers.insert(UserId::parse(user).unwrap(), power);
    }

    /// Lets the agent do nothing in rooms from now on but speak.
    pub fn refuse_acts(&self) {
        self.state().refuses_acts = true;
    }

    /// What the agent has done in rooms besides speaking.
    pub fn acts(&self) -> Vec<String> {
        self.state().acts.clone()
    }

    fn act(&self, room: &RoomId, act: String) -> Result<(), ActError> {
        let mut state = self.state();
        if state.refuses_acts {
            return Err(ActError::NotInRoom(room.to_owned()));
        }
        state.acts.push(act);
        Ok(())
    }

    /// The events that it has taken, oldest first.
    pub fn sent(&self) -> Vec<Sent> {
        self.state().sent.clone()
    }

    /// The contents that it has taken.
    pub fn contents(&self) -> Vec<Value> {
        self.sent().into_iter().map(|sent| sent.content).collect()
    }

    /// All attempts, each with its transaction id.
    pub fn attempts(&self) -> Vec<(OwnedTransactionId, Answer)> {
        self.state().attempts.clone()
    }

    /// Whether the agent is shown to type anywhere.
    pub fn anybody_types(&self) -> bool {
        self.state().typing.values().any(|since| since.elapsed() < TYPING_TIMEOUT)
    }

    /// How often the agent has said that it types, or no longer does.
    pub fn typing_requests(&self) -> usize {
        self.state().typing_requests
    }

    /// The messages in a room as they stand now: edited, with what is to be known of them before and behind them.
    pub fn room(&self, room: &str) -> Vec<String> {
        let written = |content: &Value| {
            let notice = if content["msgtype"] == "m.notice" { "notice: " } else { "" };
            let live = if content.get("org.matrix.msc4357.live").is_some() { " (live)" } else { "" };
            format!("{notice}{}{live}", content["body"].as_str().unwrap())
        };
        self.messages(room).iter().map(|(_, content)| written(content)).collect()
    }

    /// The event of a message in a room, by its place there.
    pub fn message(&self, room: &str, index: usize) -> OwnedEventId {
        self.messages(room)[index].0.clone()
    }

    fn messages(&self, room: &str) -> Vec<(OwnedEventId, Value)> {
        let mut messages: Vec<(OwnedEventId, Value)> = Vec::new();
        // Reactions have no body.
        let is_message = |sent: &Sent| sent.room == room && sent.content.get("body").is_some();
        let sent: Vec<_> = self.state().sent.iter().filter(|sent| is_message(sent)).cloned().collect();
        for sent in sent {
            let relation = &sent.content["m.relates_to"];
            if relation["rel_type"] == "m.replace" {
                let message = messages.iter_mut().find(|(id, _)| relation["event_id"] == id.as_str());
                message.expect("an edit is of a message").1 = sent.content["m.new_content"].clone();
            } else {
                messages.push((sent.id, sent.content));
            }
        }
        messages
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

#[async_trait]
impl Sender for Server {
    async fn send(&self, outgoing: &Outgoing) -> Result<OwnedEventId, SendError> {
        match self.attempt(outgoing) {
            Some(result) => result,
            None => std::future::pending().await,
        }
    }
}

impl Server {
    /// How an attempt at sending goes; None when it never ends.
    fn attempt(&self, outgoing: &Outgoing) -> Option<Result<OwnedEventId, SendError>> {
        let Outgoing { room, txn, payload: Payload::Event { content, .. } } = outgoing else {
            panic!("nothing is redacted yet");
        };
        let mut state = self.state();
        let limited = state.bucket.as_mut().map_or(Answer::Take, Bucket::take);
        let answer = state.answers.pop_front().unwrap_or(limited);
        state.attempts.push((txn.clone(), answer));
        match answer {
            Answer::Take | Answer::Lose => {}
            Answer::Limit(seconds) => {
                let retry_after = Some(Duration::from_secs(seconds));
                return Some(Err(SendError::RateLimited { retry_after }));
            }
            Answer::Fail => return Some(Err(SendError::Unavailable("502".into()))),
            Answer::Refuse => return Some(Err(SendError::Refused("403".into()))),
            Answer::Hang => return None,
        }
        // The same transaction id is the same event, as the specification has it.
        let id = match state.taken.get(txn) {
            Some(id) => id.clone(),
            None => {
                let id = EventId::parse(format!("$sent{}", state.sent.len() + 1)).unwrap();
                let (at, room, content) = (self.began.elapsed(), room.clone(), content.clone());
                state.sent.push(Sent { at, room, id: id.clone(), content });
                state.taken.insert(txn.clone(), id.clone());
                id
            }
        };
        let lost = answer == Answer::Lose;
        Some(if lost { Err(SendError::Unavailable("connection reset".into())) } else { Ok(id) })
    }
}

#[async_trait]
impl Rooms for Server {
    fn user_id(&self) -> &UserId {
        user_id!("@waybread:example.org")
    }

    async fn is_direct(&self, room: &RoomId) -> bool {
        room.as_str().starts_with("!direct")
    }

    async fn is_encrypted(&self, room: &RoomId) -> bool {
        room != PLAIN
    }

    async fn display_name(&self, _: &RoomId, user: &UserId) -> String {
        if user == BOT { "Waybread".to_owned() } else { user.localpart().to_owned() }
    }

    async fn name(&self, room: &RoomId) -> Option<String> {
        (room == GROUP).then(|| "The group".to_owned())
    }

    async fn may_speak(&self, room: &RoomId, user: &UserId) -> bool {
        room == GROUP && user != STRANGER
    }

    async fn identity_key(&self, user: &UserId) -> Option<String> {
        Some(format!("key-of-{}", user.localpart()))
    }

    async fn event(&self, room: &RoomId, id: &EventId) -> Result<Event, FetchError> {
        self.state().events.get(id).cloned().ok_or_else(|| FetchError::NotInRoom(room.to_owned()))
    }

    async fn state_event(&self, room: &RoomId, event_type: &str, key: &str) -> Option<StateEvent> {
        self.state().room_state.get(&(room.to_owned(), event_type.to_owned(), key.to_owned())).cloned()
    }

    async fn set_state(
        &self,
        room: &RoomId,
        event_type: &str,
        key: &str,
        content: Value,
    ) -> Result<OwnedEventId, ActError> {
        self.act(room, format!("{room} {event_type} {key:?} {content}"))?;
        self.put_state(room.as_str(), BOT, event_type, key, content);
        Ok(EventId::parse("$state").unwrap())
    }

    async fn invite(&self, room: &RoomId, user: &UserId) -> Result<(), ActError> {
        self.act(room, format!("{room} invites {user}"))
    }

    async fn power(&self, _: &RoomId, user: &UserId) -> Option<Power> {
        (user.server_name() == "example.org").then(|| self.state().powers.get(user).copied().unwrap_or(Power::Level(0)))
    }

    async fn may(&self, room: &RoomId, user: &UserId, act: Act<'_>) -> bool {
        let power = self.power(room, user).await;
        match act {
            Act::SetState(_) => power >= Some(STATE_POWER),
            Act::Invite => power >= Some(Power::Level(0)),
        }
    }

    async fn private_room(&self, user: &UserId, here: &RoomId) -> Result<OwnedRoomId, FetchError> {
        if here == DIRECT && user == ALICE {
            return Ok(here.to_owned());
        }
        Ok(RoomId::parse(format!("!direct-with-{}:example.org", user.localpart())).unwrap())
    }

    async fn set_typing(&self, room: &RoomId, typing: bool) {
        let mut state = self.state();
        state.typing_requests += 1;
        if typing {
            state.typing.insert(room.to_owned(), Instant::now());
        } else {
            state.typing.remove(room);
        }
    }
}
