//! A person with a real client: matrix-sdk, an encryption identity of their own.

use std::{
    collections::BTreeSet,
    fs,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use matrix_link::{
    AccessList, Account as LinkAccount, ActError, Batch, Comparison, Confirm, Credentials, Event, EventKind, Link,
    Message, NewRoom, Outgoing, Payload, Rooms, Sender, Sink, SinkError, SyncLimits, Trust, Undecrypted, Verifier,
    VerifyError,
};
use ruma::{EventId, OwnedDeviceId, OwnedEventId, OwnedRoomId, OwnedUserId, RoomId, TransactionId, UserId};
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{Account, Homeserver};

/// How long anything may take that a test waits for.
const WAIT: Duration = Duration::from_secs(60);

/// A person at a client.
pub struct Person {
    pub user: OwnedUserId,
    link: Arc<Link>,
    seen: watch::Receiver<Vec<Event>>,
    typing: Arc<Mutex<Vec<TypingSeen>>>,
    sync: JoinHandle<()>,
    state: TempDir,
}

/// A message of somebody as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub id: OwnedEventId,
    pub message: Message,
    /// How often it was edited, as far as the person saw.
    pub edits: usize,
}

impl Seen {
    pub fn text(&self) -> &str {
        &self.message.body
    }

    pub fn is_live(&self) -> bool {
        self.message.content.get("org.matrix.msc4357.live").is_some()
    }
}

/// When somebody was seen to type, and where.
type TypingSeen = (Instant, OwnedRoomId);

struct Keep {
    events: watch::Sender<Vec<Event>>,
    typing: Arc<Mutex<Vec<TypingSeen>>>,
}

#[async_trait]
impl Sink for Keep {
    async fn commit(&self, batch: &Batch) -> Result<(), SinkError> {
        let now = Instant::now();
        let typing = batch.typing.iter().filter(|typing| !typing.users.is_empty());
        self.typing.lock().unwrap().extend(typing.map(|typing| (now, typing.room.clone())));
        self.events.send_modify(|seen| seen.extend(batch.events.iter().cloned()));
        Ok(())
    }

    async fn kept(&self, _: &RoomId, _: &[OwnedEventId]) -> Result<Option<BTreeSet<OwnedEventId>>, SinkError> {
        Ok(None)
    }

    async fn undecrypted(&self, _: Option<&str>, _: u32) -> Result<Vec<Undecrypted>, SinkError> {
        Ok(Vec::new())
    }

    async fn decrypted(&self, _: &Event) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Compares emoji, and finds them the same.
#[derive(Default)]
struct Compare(Mutex<Vec<String>>);

#[async_trait]
impl Verifier for Compare {
    async fn same(&self, comparison: &Comparison) -> bool {
        *self.0.lock().unwrap() = comparison.emoji.iter().map(|one| one.name.clone()).collect();
        true
    }

    async fn ended(&self, _user: &UserId, _outcome: &Result<(), VerifyError>) {}
}

impl Person {
    pub async fn new(homeserver: &Homeserver, name: &str) -> Self {
        Self::at(homeserver, &homeserver.account(name).await).await
    }

    pub async fn at(homeserver: &Homeserver, account: &Account) -> Self {
        let state = tempfile::tempdir().unwrap();
        let link = open(homeserver, account, &state, Trust::CrossSigned).await;
        assert!(link.establish_trust().await.device_signed);
        Self::online(link, state)
    }

    /// The same person at a further device, which nobody has signed.
    pub async fn at_unsigned_device(homeserver: &Homeserver, account: &Account) -> Self {
        let state = tempfile::tempdir().unwrap();
        let link = open(homeserver, account, &state, Trust::Any).await;
        assert!(!link.establish_trust().await.device_signed);
        Self::online(link, state)
    }

    fn online(link: Link, state: TempDir) -> Self {
        let user = link.user_id().to_owned();
        let link = Arc::new(link);
        let (events, seen) = watch::channel(Vec::new());
        let typing = Arc::<Mutex<_>>::default();
        let keep = Keep { events, typing: typing.clone() };
        let syncing = link.clone();
        let sync = tokio::spawn(async move {
            syncing.run_sync(&keep).await.unwrap();
        });
        Self { user, link, seen, typing, sync, state }
    }

    /// The device that she sits at.
    pub fn device(&self) -> OwnedDeviceId {
        self.link.device_id().unwrap()
    }

    /// The master key of somebody's identity, as the homeserver shows it now.
    pub async fn key_of(&self, user: &UserId) -> String {
        self.link.identity_key(user).await.unwrap()
    }

    /// Waits until somebody's identity is another than it was.
    pub async fn key_other_than(&self, user: &UserId, key: &str) {
        let changed = async {
            while self.key_of(user).await == key {
                sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(WAIT, changed).await.expect("the identity stays as it is");
    }

    /// An encrypted direct room with the agent, who has joined it.
    pub async fn direct_room(&self, agent: &UserId) -> OwnedRoomId {
        let room = self.link.create_room(NewRoom::Direct(agent.to_owned())).await.unwrap();
        self.joined(&room, agent).await;
        room
    }

    /// An encrypted room with several, who all have joined it.
    pub async fn group_room(&self, others: &[&UserId]) -> OwnedRoomId {
        let invite = others.iter().map(|user| (*user).to_owned()).collect();
        let room = self.link.create_room(NewRoom::Group { name: "group".to_owned(), invite }).await.unwrap();
        for user in others {
            self.joined(&room, user).await;
        }
        room
    }

    /// Invites into a new direct room, and does not wait for an answer.
    pub async fn invite(&self, agent: &UserId) -> OwnedRoomId {
        self.link.create_room(NewRoom::Direct(agent.to_owned())).await.unwrap()
    }

    /// Invites into a room that is there.
    pub async fn invite_into(&self, room: &RoomId, user: &UserId) {
        self.link.invite(room, user).await.unwrap();
    }

    /// Waits until the person's client knows that a room is encrypted.
    pub async fn until_encrypted(&self, room: &RoomId) {
        let waited = timeout(WAIT, async {
            while self.link.knows_as_plain(room) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        waited.await.expect("the room does not become encrypted");
    }

    /// Waits until a user is in the room.
    pub async fn joined(&self, room: &RoomId, user: &UserId) {
        self.member(room, user, matrix_link::Membership::Joined).await;
    }

    /// Waits until a user's membership has become this.
    pub async fn member(&self, room: &RoomId, user: &UserId, to: matrix_link::Membership) {
        let wanted = EventKind::Membership { user: user.to_owned(), change: to };
        self.wait(&format!("{user} is {to:?}"), |seen| {
            seen.iter().any(|event| event.room == room && event.kind == wanted).then_some(())
        })
        .await;
    }

    pub async fn say(&self, room: &RoomId, text: &str) -> OwnedEventId {
        self.send(room, "m.room.message", json!({"msgtype": "m.text", "body": text, "m.mentions": {}})).await
    }

    /// Says something to somebody.
    pub async fn say_to(&self, room: &RoomId, user: &UserId, text: &str) -> OwnedEventId {
        let content = json!({"msgtype": "m.text", "body": text, "m.mentions": {"user_ids": [user]}});
        self.send(room, "m.room.message", content).await
    }

    /// Says something to somebody in a thread.
    pub async fn say_in_thread(&self, room: &RoomId, root: &EventId, user: &UserId, text: &str) -> OwnedEventId {
        let content = json!({"msgtype": "m.text", "body": text, "m.mentions": {"user_ids": [user]},
            "m.relates_to": {"rel_type": "m.thread", "event_id": root}});
        self.send(room, "m.room.message", content).await
    }

    pub async fn reply(&self, room: &RoomId, target: &EventId, text: &str) -> OwnedEventId {
        let content = json!({"msgtype": "m.text", "body": text, "m.mentions": {},
            "m.relates_to": {"m.in_reply_to": {"event_id": target}}});
        self.send(room, "m.room.message", content).await
    }

    pub async fn edit(&self, room: &RoomId, target: &EventId, text: &str) -> OwnedEventId {
        let content = json!({"msgtype": "m.text", "body": format!("* {text}"), "m.mentions": {},
            "m.new_content": {"msgtype": "m.text", "body": text, "m.mentions": {}},
            "m.relates_to": {"rel_type": "m.replace", "event_id": target}});
        self.send(room, "m.room.message", content).await
    }

    pub async fn react(&self, room: &RoomId, target: &EventId, key: &str) -> OwnedEventId {
        let relation = json!({"rel_type": "m.annotation", "event_id": target, "key": key});
        self.send(room, "m.reaction", json!({ "m.relates_to": relation })).await
    }

    pub async fn redact(&self, room: &RoomId, target: &EventId) {
        let payload = Payload::Redaction { target: target.to_owned() };
        let outgoing = Outgoing { room: room.to_owned(), txn: TransactionId::new(), payload };
        self.link.send(&outgoing).await.unwrap();
    }

    /// Verifies somebody, and gives the names of the emoji that the person has seen.
    pub async fn verify(&self, user: &UserId) -> Result<Vec<String>, VerifyError> {
        let compare = Compare::default();
        timeout(WAIT, self.link.verify(user, &compare)).await.expect("the verification does not end")?;
        assert!(self.link.has_verified(user).await);
        Ok(compare.0.into_inner().unwrap())
    }

    /// Compares emoji with whoever asks for it, and finds them the same, until the task is aborted.
    pub fn answers_verifications(&self) -> JoinHandle<()> {
        let link = self.link.clone();
        tokio::spawn(async move { link.answer_verifications(&Confirm::By(&Compare::default())).await })
    }

    /// Replaces the person's identity.
    pub async fn reset_identity(&self) {
        self.link.reset_identity().await.unwrap();
    }

    /// The recovery key of the person's account.
    pub fn recovery_key(&self) -> String {
        fs::read_to_string(self.state.path().join("recovery-key")).unwrap()
    }

    async fn send(&self, room: &RoomId, event_type: &str, content: Value) -> OwnedEventId {
        let payload = Payload::Event { event_type: event_type.to_owned(), content };
        let outgoing = Outgoing { room: room.to_owned(), txn: TransactionId::new(), payload };
        self.link.send(&outgoing).await.unwrap()
    }

    /// Sets state of a room, if the homeserver lets her.
    pub async fn sets(&self, room: &RoomId, event_type: &str, content: Value) -> Result<(), ActError> {
        self.link.set_state(room, event_type, "", content).await.map(|_| ())
    }

    /// A room's state as she sees it.
    pub async fn state(&self, room: &RoomId, event_type: &str, key: &str) -> Option<Value> {
        self.link.state_event(room, event_type, key).await.map(|event| event.content)
    }

    /// Waits until a room's state is so.
    pub async fn until_state(
        &self,
        room: &RoomId,
        event_type: &str,
        key: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let waited = timeout(WAIT, async {
            loop {
                if let Some(content) = self.state(room, event_type, key).await
                    && is_so(&content)
                {
                    return content;
                }
                sleep(Duration::from_millis(100)).await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("the state {event_type} is never so"))
    }

    /// Waits until somebody has written a message with this in any room, and gives the room and the text.
    pub async fn finds(&self, sender: &UserId, text: &str) -> (OwnedRoomId, String) {
        self.wait(&format!("a message with {text}"), |seen| {
            seen.iter().rev().filter(|event| event.sender == sender).find_map(|event| match &event.kind {
                EventKind::Message(message) if message.body.contains(text) => {
                    Some((event.room.clone(), message.body.clone()))
                }
                _ => None,
            })
        })
        .await
    }

    /// All that she has seen, decrypted.
    pub fn everything(&self) -> String {
        format!("{:?}", self.seen.borrow())
    }

    /// The messages of `sender` in a room as they stand now, oldest first.
    pub fn messages(&self, room: &RoomId, sender: &UserId) -> Vec<Seen> {
        messages(&self.seen.borrow(), room, sender)
    }

    /// Waits until the agent's messages fulfil a condition, and gives what it gives.
    pub async fn until<T>(
        &self,
        room: &RoomId,
        agent: &UserId,
        what: &str,
        condition: impl Fn(&[Seen]) -> Option<T>,
    ) -> T {
        self.wait(what, |seen| condition(&messages(seen, room, agent))).await
    }

    /// Waits until the agent has `count` finished messages and gives the last one.
    pub async fn answer(&self, room: &RoomId, agent: &UserId, count: usize) -> Seen {
        self.until(room, agent, &format!("{count} finished messages"), |messages| {
            let finished: Vec<_> = messages.iter().filter(|one| !one.is_live()).collect();
            (finished.len() >= count).then(|| finished[count - 1].clone())
        })
        .await
    }

    /// Like [`Person::answer`], for answers that may take longer than a test waits, or not come in time.
    pub async fn answer_within(&self, limit: Duration, room: &RoomId, agent: &UserId, count: usize) -> Option<Seen> {
        self.wait_within(limit, |seen| {
            messages(seen, room, agent).into_iter().filter(|one| !one.is_live()).nth(count - 1)
        })
        .await
    }

    /// Waits until somebody has reacted to an event.
    pub async fn reaction(&self, room: &RoomId, to: &EventId) {
        let is_it = |event: &Event| matches!(&event.kind, EventKind::Reaction { target, .. } if target == to);
        self.wait("a reaction", |seen| seen.iter().any(|event| event.room == room && is_it(event)).then_some(())).await;
    }

    /// When somebody was first seen to type in the room, from a time on.
    pub fn typing_seen(&self, room: &RoomId, since: Instant) -> Option<Instant> {
        let seen = self.typing.lock().unwrap();
        seen.iter().find(|(at, place)| *at >= since && place == room).map(|(at, _)| *at)
    }

    async fn wait<T>(&self, what: &str, condition: impl Fn(&[Event]) -> Option<T>) -> T {
        match self.wait_within(WAIT, condition).await {
            Some(found) => found,
            None => panic!("{} waited for {what}; saw {:#?}", self.user, self.seen.borrow()),
        }
    }

    async fn wait_within<T>(&self, limit: Duration, condition: impl Fn(&[Event]) -> Option<T>) -> Option<T> {
        let mut seen = self.seen.clone();
        let waited = timeout(limit, async {
            loop {
                if let Some(found) = condition(&seen.borrow_and_update()) {
                    return found;
                }
                seen.changed().await.unwrap();
            }
        });
        waited.await.ok()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.sync.abort();
    }
}

async fn open(homeserver: &Homeserver, account: &Account, state: &TempDir, trust: Trust) -> Link {
    let account = LinkAccount {
        homeserver: homeserver.url.clone(),
        user: account.user.clone(),
        credentials: Some(Credentials::Password(SecretString::from(account.password.clone()))),
        device_name: "test".to_owned(),
        state_dir: state.path().to_owned(),
        trust,
        access: AccessList::parse(["*:localhost"]).unwrap(),
        host: None,
        limits: SyncLimits::default(),
    };
    Link::open(account, None).await.unwrap()
}

fn messages(events: &[Event], room: &RoomId, sender: &UserId) -> Vec<Seen> {
    let mut messages: Vec<Seen> = Vec::new();
    for event in events.iter().filter(|event| event.room == room && event.sender == sender) {
        match &event.kind {
            EventKind::Message(message) => {
                messages.push(Seen { id: event.id.clone(), message: message.clone(), edits: 0 });
            }
            EventKind::Edit { target, message } => {
                let edited = messages.iter_mut().find(|one| one.id == *target);
                let edited = edited.expect("an edit of a message that is there");
                edited.message = message.clone();
                edited.edits += 1;
            }
            _ => {}
        }
    }
    messages
}
