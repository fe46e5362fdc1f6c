//! A message through a private encrypted room that is made for it, and left and forgotten at the end, whatever happens.

use matrix_link::{EventKind, Link, NewRoom, Outgoing, Payload, Protection, Rooms, SendError, Sender};
use rand::RngExt as _;
use ruma::{OwnedEventId, OwnedRoomId, TransactionId};
use serde_json::{Value, json};

use super::{Report, STEP, because, limits, within};
use crate::outbox;

/// The size of the file that is uploaded.
const FILE_BYTES: usize = 4096;
/// The wait before an event is tried again that was refused without a time.
const REFUSED: std::time::Duration = std::time::Duration::from_secs(5);

/// The room, and what was seen of the account's limits there.
pub(super) struct Trip<'a> {
    link: &'a Link,
    room: OwnedRoomId,
    /// Events that the homeserver has taken.
    pub(super) taken: u32,
    /// Whether it has refused one because they came too fast.
    pub(super) limited: bool,
}

pub(super) async fn check(report: &mut Report, link: &Link) {
    let new = NewRoom::Group { name: "Waybread checks itself".to_owned(), invite: Vec::new() };
    let room = match within(STEP, link.create_room(new)).await {
        Ok(room) => room,
        Err(error) => {
            report.fail("round trip", because("no room can be made", &error), "see whether the account may make rooms");
            report.warn("limits", "unknown", "mend what failed above first");
            return;
        }
    };
    report.ok("round trip", "a private encrypted room is made");
    let mut trip = Trip { link, room, taken: 0, limited: false };
    if trip.steps(report).await {
        limits::check(report, &mut trip).await;
    } else {
        report.warn("limits", "unknown", "mend what failed above first");
    }
    match within(STEP, link.leave_for_good(&trip.room)).await {
        Ok(()) => report.ok("leave", "the room is left and forgotten"),
        Err(error) => report.warn(
            "leave",
            because("the room can't be left", &error),
            "leave \"Waybread checks itself\" with another client of the account; it does no harm",
        ),
    }
}

impl Trip<'_> {
    /// Whether messages can be sent.
    async fn steps(&mut self, report: &mut Report) -> bool {
        step(report, "sync", "answers", within(STEP, self.link.catch_up()).await);
        let Some(message) = step(report, "send", "encrypted, and read back", self.message().await) else {
            for check in ["receive", "edit", "react", "upload", "download", "redact"] {
                report.not_checked(check);
            }
            return false;
        };
        step(report, "receive", "a sync brings it", self.received(&message).await);
        step(report, "edit", "encrypted, and read back", self.edit(&message).await);
        step(report, "react", "read back", self.react(&message).await);
        let bytes: Vec<u8> = (0..FILE_BYTES).map(|_| rand::rng().random()).collect();
        let uploaded = within(STEP, self.link.upload_encrypted(&bytes)).await;
        match step(report, "upload", format!("an encrypted file of {FILE_BYTES} bytes"), uploaded) {
            None => report.not_checked("download"),
            Some(file) => {
                let downloaded = within(STEP, self.link.download_encrypted(&file)).await;
                let same = downloaded.and_then(|downloaded| held(downloaded == bytes, "it has changed on the way"));
                step(report, "download", "the same file", same);
            }
        }
        step(report, "redact", "the message is taken back", self.redact(&message).await);
        true
    }

    async fn message(&mut self) -> anyhow::Result<OwnedEventId> {
        let text = "Waybread checks itself.";
        let id = self.send("m.room.message", json!({"msgtype": "m.notice", "body": text})).await?;
        let event = within(STEP, self.link.event(&self.room, &id)).await?;
        held(matches!(event.protection, Protection::Encrypted { .. }), "it did not go out encrypted")?;
        held(event.message().is_some_and(|message| message.body == text), "it reads back as something else")?;
        Ok(id)
    }

    async fn received(&self, message: &OwnedEventId) -> anyhow::Result<()> {
        held(within(STEP, self.link.sync_brings(&self.room, message)).await?, "no sync brings it")
    }

    async fn edit(&mut self, message: &OwnedEventId) -> anyhow::Result<()> {
        let text = "Waybread checks itself, and edits.";
        let content = outbox::edit(&json!({"msgtype": "m.notice", "body": text}), message);
        let id = self.send("m.room.message", content).await?;
        let event = within(STEP, self.link.event(&self.room, &id)).await?;
        held(
            matches!(event.kind, EventKind::Edit { target, message: new } if target == *message && new.body == text),
            "it reads back as something else",
        )
    }

    async fn react(&mut self, message: &OwnedEventId) -> anyhow::Result<()> {
        let relation = json!({"rel_type": "m.annotation", "event_id": message, "key": "✅"});
        let id = self.send("m.reaction", json!({"m.relates_to": relation})).await?;
        let event = within(STEP, self.link.event(&self.room, &id)).await?;
        held(
            matches!(event.kind, EventKind::Reaction { target, .. } if target == *message),
            "it reads back as something else",
        )
    }

    async fn redact(&mut self, message: &OwnedEventId) -> anyhow::Result<()> {
        self.deliver(Payload::Redaction { target: message.clone() }).await?;
        let event = within(STEP, self.link.event(&self.room, message)).await?;
        held(event.message().is_none(), "its words are still there")
    }

    /// Sends an event, and waits out the account's limit.
    async fn send(&mut self, event_type: &str, content: Value) -> anyhow::Result<OwnedEventId> {
        self.deliver(Payload::Event { event_type: event_type.to_owned(), content }).await
    }

    async fn deliver(&mut self, payload: Payload) -> anyhow::Result<OwnedEventId> {
        let outgoing = Outgoing { room: self.room.clone(), txn: TransactionId::new(), payload };
        let (link, limited) = (self.link, &mut self.limited);
        let sent = within(STEP, async {
            loop {
                match link.send(&outgoing).await {
                    Err(SendError::RateLimited { retry_after }) => {
                        *limited = true;
                        tokio::time::sleep(retry_after.unwrap_or(REFUSED)).await;
                    }
                    other => return other,
                }
            }
        });
        let id = sent.await?;
        self.taken += 1;
        Ok(id)
    }

    /// Sends one event more, if the account's limit allows it.
    pub(super) async fn one_more(&mut self) -> anyhow::Result<()> {
        let content = json!({"msgtype": "m.notice", "body": "How fast may I write?"});
        let payload = Payload::Event { event_type: "m.room.message".to_owned(), content };
        let outgoing = Outgoing { room: self.room.clone(), txn: TransactionId::new(), payload };
        match within(STEP, async { Ok::<_, SendError>(self.link.send(&outgoing).await) }).await? {
            Ok(_) => self.taken += 1,
            Err(SendError::RateLimited { .. }) => self.limited = true,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn held(condition: bool, otherwise: &'static str) -> anyhow::Result<()> {
    if condition { Ok(()) } else { Err(anyhow::anyhow!(otherwise)) }
}

fn step<T>(
    report: &mut Report,
    check: &'static str,
    what: impl std::fmt::Display,
    outcome: anyhow::Result<T>,
) -> Option<T> {
    match outcome {
        Ok(value) => {
            report.ok(check, what);
            Some(value)
        }
        Err(error) => {
            report.fail(check, super::told(&error), advice(check));
            None
        }
    }
}

fn advice(check: &str) -> &'static str {
    match check {
        "upload" | "download" => "see whether the homeserver's media store works and takes files of this size",
        "sync" | "receive" => "see whether /sync passes the proxy in front of the homeserver",
        _ => "look into the homeserver's log; waybread check can be repeated at any time",
    }
}
