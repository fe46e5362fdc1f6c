//! Cards against a scripted homeserver and a scripted person, with a paused clock.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::VecDeque, time::Duration};

use matrix_link::{Protection, parse};
use phone_actions::{Action, CARD_KEY, CardId, Outcome, check};
use ruma::{device_id, event_id, room_id, user_id};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::*;
use crate::backend::{BackendError, Decision, Health, Performed, Prompt};

const AGENT: &str = "@agent:example.org";
const ALICE: &str = "@alice:example.org";
const ASKED: &str = "$asked";
const CARD: &str = "$card";
/// When the person asked, in milliseconds; the card came a second later.
const AT: u64 = 1_000_000;

/// A homeserver with two events, and what was sent to it.
struct Scripted {
    asked: Mutex<Event>,
    posted: Mutex<Option<Event>>,
    age: Mutex<Duration>,
    redacted: Mutex<bool>,
    keys: Mutex<VecDeque<Option<&'static str>>>,
    /// Attempts that fail before one is taken.
    failing: Mutex<u32>,
    sent: watch::Sender<Vec<(String, Value)>>,
}

#[async_trait]
impl Matrix for Scripted {
    async fn fetch(&self, room: &RoomId, id: &EventId) -> Result<Fetched, FetchError> {
        let event = match id.as_str() {
            ASKED => Some(self.asked.lock().unwrap().clone()),
            CARD => self.posted.lock().unwrap().clone(),
            _ => None,
        };
        let event = event.ok_or_else(|| FetchError::NotInRoom(room.to_owned()))?;
        Ok(Fetched { event, age: *self.age.lock().unwrap(), redacted: *self.redacted.lock().unwrap() })
    }

    async fn identity_key(&self, _: &UserId) -> Option<String> {
        let mut keys = self.keys.lock().unwrap();
        let key = if keys.len() > 1 { keys.pop_front() } else { keys.front().copied() };
        key.flatten().map(str::to_owned)
    }

    async fn send(&self, outgoing: &Outgoing) -> Result<OwnedEventId, SendError> {
        let mut failing = self.failing.lock().unwrap();
        if *failing > 0 {
            *failing -= 1;
            return Err(SendError::Unavailable("cut".into()));
        }
        let matrix_link::Payload::Event { content, .. } = &outgoing.payload else { panic!("a redaction") };
        self.sent.send_modify(|sent| sent.push((outgoing.txn.to_string(), content.clone())));
        Ok(event_id!("$sent").to_owned())
    }
}

/// A person who decides the same each time, after a while, and a phone that does as it is told.
struct Hands {
    decision: Option<Decision>,
    after: Duration,
    outcome: Performed,
    health: Health,
    said: Mutex<Vec<String>>,
}

impl Default for Hands {
    fn default() -> Self {
        Self {
            decision: Some(Decision::Confirmed),
            after: Duration::from_secs(2),
            outcome: Performed::Done(None),
            health: Health::default(),
            said: Mutex::default(),
        }
    }
}

impl Hands {
    fn note(&self, what: impl Into<String>) {
        self.said.lock().unwrap().push(what.into());
    }
}

#[async_trait]
impl Backend for Hands {
    fn can(&self, _: &str) -> bool {
        true
    }

    async fn confirm(&self, prompt: &Prompt<'_>) -> Result<Decision, BackendError> {
        self.note(format!("asked for {} s", prompt.remaining.as_secs()));
        sleep(self.after).await;
        match self.decision {
            Some(decision) => Ok(decision),
            None => Err(BackendError::InputEnded),
        }
    }

    async fn perform(&self, action: &Action) -> Performed {
        self.note(format!("did {}", action.to_value()));
        self.outcome.clone()
    }

    async fn health(&self) -> Health {
        self.health
    }

    async fn keep_awake(&self, on: bool) {
        self.note(if on { "awake" } else { "asleep" });
    }

    async fn notice(&self, text: &str) {
        self.note(text.split('.').next().unwrap());
    }
}

struct Scene {
    matrix: Arc<Scripted>,
    hands: Arc<Hands>,
    desk: Desk,
    run: tokio::task::JoinHandle<()>,
    folder: TempDir,
}

fn encrypted(device: &str, standing: matrix_link::Standing) -> Protection {
    Protection::Encrypted { device: Some(device.into()), standing }
}

fn event(id: &str, sender: &str, at: u64, content: Value, protection: Protection) -> Event {
    let raw = json!({"type": "m.room.message", "event_id": id, "sender": sender, "origin_server_ts": at,
        "content": content});
    parse(room_id!("!room:example.org"), &raw, protection).unwrap()
}

fn asked_from(device: &str) -> Event {
    let content = json!({"msgtype": "m.text", "body": "Wake me at half past seven"});
    event(ASKED, ALICE, AT, content, encrypted(device, matrix_link::Standing::CrossSigned))
}

fn card() -> Card {
    let action = check(&json!({"action": "alarm", "summary": "Wake up", "time": "07:30"})).unwrap();
    let id = CardId::from_bytes([7; 16]);
    Card::new(id, ALICE, ASKED, Some("PHONE"), action, Duration::from_secs(120)).unwrap()
}

fn posted(content: Value) -> Event {
    event(CARD, AGENT, AT + 1000, content, encrypted("BOT", matrix_link::Standing::CrossSigned))
}

fn scene(hands: Hands) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let matrix = Scripted {
        asked: Mutex::new(asked_from("PHONE")),
        posted: Mutex::new(Some(posted(card().content()))),
        age: Mutex::new(Duration::from_secs(5)),
        redacted: Mutex::default(),
        keys: Mutex::new([Some("key")].into()),
        failing: Mutex::default(),
        sent: watch::Sender::new(Vec::new()),
    };
    begin(Arc::new(matrix), Arc::new(hands), folder)
}

fn begin(matrix: Arc<Scripted>, hands: Arc<Hands>, folder: TempDir) -> Scene {
    let mut pairings = Pairings::load(folder.path()).unwrap();
    pairings.pin(user_id!("@agent:example.org"), "key").unwrap();
    pairings.set_chat_devices([device_id!("ELEMENT").to_owned()].into()).unwrap();
    let phone = Phone {
        matrix: matrix.clone(),
        user: ALICE.try_into().unwrap(),
        device: "PHONE".into(),
        pairings: Mutex::new(pairings),
        backend: hands.clone(),
        guard: HeatGuard::Minimal,
    };
    let (desk, waiting) = Desk::new(Arc::new(phone), folder.path());
    let run = tokio::spawn({
        let desk = desk.clone();
        async move { desk.run(waiting).await }
    });
    Scene { matrix, hands, desk, run, folder }
}

impl Scene {
    async fn see_card(&self) -> bool {
        self.desk.see(&posted(card().content())).await
    }

    /// What was answered, once `count` answers are there: each the transaction id and the contract's key.
    async fn answers(&self, count: usize) -> Vec<(String, Value)> {
        let mut sent = self.matrix.sent.subscribe();
        let waited = sent.wait_for(|sent| sent.len() >= count);
        let sent = timeout(Duration::from_secs(600), waited).await.unwrap().unwrap().clone();
        let key = |(txn, content): (String, Value)| (txn, content["dev.waybread.phone_answer"].clone());
        sent.into_iter().map(key).collect()
    }

    /// Waits until nothing can happen any more.
    async fn rest(&self) -> Vec<(String, Value)> {
        sleep(Duration::from_secs(600)).await;
        assert!(!self.desk.is_busy());
        self.answers(0).await
    }

    fn said(&self) -> Vec<String> {
        self.hands.said.lock().unwrap().clone()
    }
}

fn taken() -> (String, Value) {
    let id = card().id;
    (format!("phone-{id}-taken"), json!({"v": 1, "id": id.as_str(), "taken": true}))
}

fn ended(status: &str, message: Option<&str>) -> (String, Value) {
    let id = card().id;
    let mut key = json!({"v": 1, "id": id.as_str(), "status": status});
    if let Some(message) = message {
        key["message"] = message.into();
    }
    (format!("phone-{id}-ended"), key)
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_card_is_taken_done_and_answered() {
    let scene = scene(Hands { outcome: Performed::Done(Some("set".to_owned())), ..Hands::default() });
    assert!(scene.see_card().await);
    assert_eq!(scene.rest().await, [taken(), ended("done", Some("set"))]);
    let did = r#"did {"action":"alarm","summary":"Wake up","time":"07:30"}"#;
    assert_eq!(scene.said(), ["awake", "asked for 105 s", did, "asleep"]);
    assert!(!scene.folder.path().join("card.json").exists());
    assert!(!scene.run.is_finished());
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_in_the_cards_thread_and_a_reply_to_it() {
    let scene = scene(Hands::default());
    let mut content = card().content();
    content["m.relates_to"] = json!({"rel_type": "m.thread", "event_id": "$root", "is_falling_back": true,
        "m.in_reply_to": {"event_id": "$last"}});
    *scene.matrix.posted.lock().unwrap() = Some(posted(content.clone()));
    assert!(scene.desk.see(&posted(content)).await);
    scene.answers(2).await;
    let sent = scene.matrix.sent.borrow().clone();
    let relation = json!({"rel_type": "m.thread", "event_id": "$root", "is_falling_back": false,
        "m.in_reply_to": {"event_id": CARD}});
    assert!(sent.iter().all(|(_, content)| content["m.relates_to"] == relation), "{sent:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_no_is_answered_and_nothing_is_done() {
    let scene = scene(Hands { decision: Some(Decision::Declined), ..Hands::default() });
    scene.see_card().await;
    assert_eq!(scene.rest().await, [ended("declined", None)]);
    assert_eq!(scene.said(), ["awake", "asked for 105 s", "asleep"]);
}

#[tokio::test(start_paused = true)]
async fn stop_declines_what_is_open_and_what_waits_and_ends_the_client() {
    let scene = scene(Hands { decision: Some(Decision::Stop), ..Hands::default() });
    scene.see_card().await;
    let mut second = card();
    second.id = CardId::from_bytes([8; 16]);
    let mut waits = posted(second.content());
    waits.id = event_id!("$second").to_owned();
    assert!(scene.desk.see(&waits).await);
    let answers = scene.answers(2).await;
    assert!(answers.iter().all(|(_, key)| key["status"] == "declined"), "{answers:#?}");
    timeout(Duration::from_secs(1), scene.run).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_process_declines_what_is_open() {
    let scene = scene(Hands { after: Duration::from_secs(90), ..Hands::default() });
    scene.see_card().await;
    sleep(Duration::from_secs(1)).await;
    scene.desk.stop();
    assert_eq!(scene.answers(1).await, [ended("declined", None)]);
    timeout(Duration::from_secs(1), scene.run).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_person_who_cannot_be_asked_has_not_confirmed() {
    let scene = scene(Hands { decision: None, ..Hands::default() });
    scene.see_card().await;
    let words = "the phone can't ask its owner: the terminal's input has ended";
    assert_eq!(scene.rest().await, [ended("failed", Some(words))]);
}

#[tokio::test(start_paused = true)]
async fn a_card_is_shown_for_its_time_but_the_last_ten_seconds() {
    let scene = scene(Hands { after: Duration::from_secs(500), ..Hands::default() });
    scene.see_card().await;
    sleep(Duration::from_secs(104)).await;
    assert!(scene.desk.is_busy());
    sleep(Duration::from_secs(2)).await;
    assert!(!scene.desk.is_busy());
    assert_eq!(scene.rest().await, []);
}

#[tokio::test(start_paused = true)]
async fn an_old_card_is_not_shown() {
    for age in [110, 3600] {
        let scene = scene(Hands::default());
        *scene.matrix.age.lock().unwrap() = Duration::from_secs(age);
        scene.see_card().await;
        assert_eq!((scene.rest().await, scene.said()), (vec![], vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_card_that_is_closed_or_taken_back_while_it_is_shown_goes_away() {
    for way in ["edit", "redaction"] {
        let scene = scene(Hands { after: Duration::from_secs(60), ..Hands::default() });
        scene.see_card().await;
        sleep(Duration::from_secs(1)).await;
        let gone = match way {
            "edit" => posted_edit(AGENT, card().outcome_content(CARD, Outcome::Withdrawn, None)),
            _ => redaction(),
        };
        scene.desk.see(&gone).await;
        assert_eq!(scene.rest().await, [], "{way}");
        assert_eq!(scene.said(), ["awake", "asked for 105 s", "asleep"], "{way}");
    }
}

fn posted_edit(sender: &str, content: Value) -> Event {
    event("$edit", sender, AT + 2000, content, encrypted("BOT", matrix_link::Standing::CrossSigned))
}

fn redaction() -> Event {
    let raw = json!({"type": "m.room.redaction", "event_id": "$redaction", "sender": AGENT, "origin_server_ts": AT,
        "content": {"redacts": CARD}});
    parse(room_id!("!room:example.org"), &raw, Protection::Clear).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_edit_by_somebody_else_or_of_something_else_closes_nothing() {
    let other_action = {
        let mut content = card().outcome_content(CARD, Outcome::Withdrawn, None);
        content["m.new_content"][CARD_KEY]["action"]["time"] = "07:31".into();
        content
    };
    let withdrawn = card().outcome_content(CARD, Outcome::Withdrawn, None);
    let clear = event("$edit", AGENT, AT + 2000, withdrawn.clone(), Protection::Clear);
    for edit in [posted_edit("@mallory:example.org", withdrawn), posted_edit(AGENT, other_action), clear] {
        let scene = scene(Hands::default());
        scene.see_card().await;
        sleep(Duration::from_secs(1)).await;
        scene.desk.see(&edit).await;
        assert_eq!(scene.rest().await, [taken(), ended("done", None)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_card_that_was_redacted_or_whose_time_is_over_is_not_done_after_a_late_yes() {
    for way in ["redacted", "over", "gone"] {
        let scene = scene(Hands::default());
        scene.see_card().await;
        sleep(Duration::from_secs(1)).await;
        match way {
            "redacted" => *scene.matrix.redacted.lock().unwrap() = true,
            "over" => *scene.matrix.age.lock().unwrap() = Duration::from_secs(111),
            _ => *scene.matrix.posted.lock().unwrap() = None,
        }
        assert_eq!(scene.rest().await, [], "{way}");
        assert!(!scene.said().iter().any(|said| said.starts_with("did")), "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_key_unpairs_loudly_before_the_card_is_shown_and_before_it_is_done() {
    for keys in [vec![Some("other")], vec![Some("key"), Some("other")]] {
        let scene = scene(Hands::default());
        *scene.matrix.keys.lock().unwrap() = keys.clone().into();
        scene.see_card().await;
        assert_eq!(scene.rest().await, []);
        let said = scene.said();
        assert!(!said.iter().any(|said| said.starts_with("did")), "{said:?}");
        let loud = "@agent:example";
        assert!(said.iter().any(|said| said.starts_with(loud)), "{said:?}");
        assert_eq!(Pairings::load(scene.folder.path()).unwrap().key(user_id!("@agent:example.org")), None);
        // Nothing of it is taken any more.
        assert!(!scene.see_card().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_seen_unpairs_nobody_and_shows_nothing() {
    let scene = scene(Hands::default());
    *scene.matrix.keys.lock().unwrap() = [None].into();
    scene.see_card().await;
    assert_eq!((scene.rest().await, scene.said()), (vec![], vec![]));
    assert!(Pairings::load(scene.folder.path()).unwrap().key(user_id!("@agent:example.org")).is_some());
}

#[tokio::test(start_paused = true)]
async fn only_what_the_owner_has_just_written_from_this_phone_is_answered_by_a_card() {
    let at = |at| Event { sent_at: ruma::MilliSecondsSinceUnixEpoch(at), ..asked_from("PHONE") };
    let millis = |ms: u64| ruma::UInt::try_from(ms).unwrap();
    let unsigned = Event { protection: encrypted("PHONE", matrix_link::Standing::Unsigned), ..asked_from("PHONE") };
    for (asked, shown) in [
        (asked_from("PHONE"), true),
        (asked_from("ELEMENT"), true),
        (asked_from("WEB"), false),
        (Event { sender: AGENT.try_into().unwrap(), ..asked_from("PHONE") }, false),
        (Event { room: room_id!("!other:example.org").to_owned(), ..asked_from("PHONE") }, false),
        (Event { protection: Protection::Clear, ..asked_from("PHONE") }, false),
        (unsigned, false),
        (at(millis(AT + 1000 - 600_000)), true),
        (at(millis(AT + 1000 - 600_001)), false),
        (at(millis(AT + 1001)), false),
    ] {
        let scene = scene(Hands::default());
        *scene.matrix.asked.lock().unwrap() = asked.clone();
        scene.see_card().await;
        assert_eq!(scene.rest().await.len(), if shown { 2 } else { 0 }, "{asked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_card_of_a_paired_agents_signed_device_for_this_person_and_device_is_taken() {
    let other = |change: &dyn Fn(&mut Card)| {
        let mut card = card();
        change(&mut card);
        posted(card.content())
    };
    let signed = matrix_link::Standing::CrossSigned;
    for event in [
        Event { sender: user_id!("@mallory:example.org").to_owned(), ..posted(card().content()) },
        Event { protection: Protection::Clear, ..posted(card().content()) },
        Event { protection: encrypted("BOT", matrix_link::Standing::Unsigned), ..posted(card().content()) },
        other(&|card| card.person = "@bob:example.org".to_owned()),
        other(&|card| card.device = Some("OTHER".to_owned())),
        other(&|card| card.device = None),
        posted(card().closed_content(Outcome::Done, None)),
        posted(json!({"msgtype": "m.text", "body": "x", CARD_KEY: {"v": 1}})),
        event(CARD, AGENT, AT, json!({"msgtype": "m.text", "body": "x"}), encrypted("BOT", signed)),
    ] {
        let scene = scene(Hands::default());
        assert!(!scene.desk.see(&event).await, "{event:?}");
        assert_eq!((scene.rest().await, scene.said()), (vec![], vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_phone_that_refuses_says_why_and_does_not_ask() {
    let flat = Health { battery: Some(3), charging: Some(false), temperature: None };
    let scene = scene(Hands { health: flat, ..Hands::default() });
    scene.see_card().await;
    let answers = scene.rest().await;
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].1["status"], "failed");
    assert!(answers[0].1["message"].as_str().unwrap().contains("battery"), "{answers:?}");
    assert_eq!(scene.said(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_announced_as_taken_is_not_done() {
    let scene = scene(Hands::default());
    *scene.matrix.failing.lock().unwrap() = u32::MAX;
    scene.see_card().await;
    assert_eq!(scene.rest().await, []);
    assert!(!scene.said().iter().any(|said| said.starts_with("did")));
    assert!(!scene.folder.path().join("card.json").exists());
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_repeated_with_the_same_transaction_id_until_it_is_taken() {
    let scene = scene(Hands::default());
    *scene.matrix.failing.lock().unwrap() = 3;
    scene.see_card().await;
    assert_eq!(scene.rest().await, [taken(), ended("done", None)]);
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_has_left_is_answered_at_the_start_once() {
    for (came, status, words) in [
        (json!(null), "failed", Some("the phone client was ended while it did this; whether it was done is not known")),
        (json!(["done", "set"]), "done", Some("set")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let left = json!({"card": card().id.as_str(), "room": "!room:example.org", "event": CARD, "thread": null,
            "came": came});
        std::fs::write(folder.path().join("card.json"), left.to_string()).unwrap();
        let scene = scene(Hands::default());
        let scene = begin(scene.matrix.clone(), scene.hands.clone(), folder);
        assert_eq!(scene.answers(1).await, [ended(status, words)]);
        scene.rest().await;
        assert!(!scene.folder.path().join("card.json").exists());
    }
}

#[tokio::test(start_paused = true)]
async fn a_card_that_comes_twice_is_shown_once_and_too_many_are_refused() {
    let scene = scene(Hands { after: Duration::from_secs(500), ..Hands::default() });
    assert!(scene.see_card().await);
    assert!(scene.see_card().await);
    sleep(Duration::from_secs(1)).await;
    for number in 0..=MAX_WAITING {
        let mut more = card();
        more.id = CardId::from_bytes([number as u8; 16]);
        let mut event = posted(more.content());
        event.id = format!("$more{number}").try_into().unwrap();
        scene.desk.see(&event).await;
    }
    let answers = scene.answers(1).await;
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].1["message"], "too many cards wait on the phone");
}
