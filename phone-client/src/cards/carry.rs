//! One card's way: asked, confirmed, looked at once more, taken, done, answered.

use std::time::Duration;

use matrix_link::{Outgoing, Payload, SendError};
use phone_actions::{Answer, CardId, Status};
use ruma::OwnedTransactionId;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Desk, Posted, Standing, Waiting,
    accept::{self, PassedOver},
    journal::Begun,
};
use crate::{
    backend::{Decision, Performed, Prompt},
    safety,
};

/// The end of a card's time in which nothing is begun any more.
const LAST: Duration = Duration::from_secs(10);
/// How long an answer is tried to be sent, and how far apart.
const ANSWER_WITHIN: Duration = Duration::from_secs(120);
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// What is said of a card whose phone died in the middle.
const INTERRUPTED: &str = "the phone client was ended while it did this; whether it was done is not known";

/// Whether the client goes on after a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoOn,
    End,
}

impl Desk {
    /// Answers what an earlier run has left, and carries one card after the other, until the person says STOP or
    /// [`Self::stop`] is called.
    pub(crate) async fn run(&self, mut waiting: Waiting) {
        self.answer_what_was_left().await;
        loop {
            let posted = tokio::select! {
                posted = waiting.0.recv() => posted,
                () = self.0.stop.notified() => None,
            };
            let Some(posted) = posted else { break };
            let then = self.carry(&posted).await;
            self.open().remove(&posted.event.id);
            if then == Then::End {
                break;
            }
        }
        while let Ok(posted) = waiting.0.try_recv() {
            self.end(&posted, Status::Declined, None).await;
        }
    }

    async fn carry(&self, posted: &Posted) -> Then {
        let until = match self.look(posted).await {
            Ok(until) => until,
            Err(reason) => {
                tracing::warn!(event = %posted.event.id, %reason, "card passed over");
                return Then::GoOn;
            }
        };
        let phone = &self.0.phone;
        let action = &posted.card.action;
        if let Err(refused) = safety::check(action, &phone.backend.health().await, phone.guard) {
            tracing::warn!(action = action.name(), %refused, "refused");
            self.end(posted, Status::Failed, Some(refused.to_string())).await;
            return Then::GoOn;
        }
        phone.backend.keep_awake(true).await;
        let then = self.ask(posted, until).await;
        phone.backend.keep_awake(false).await;
        then
    }

    /// Whether the card may be shown or acted on now, and until when.
    async fn look(&self, posted: &Posted) -> Result<Instant, PassedOver> {
        let phone = &self.0.phone;
        let sender = &posted.event.sender;
        let pinned = phone.pairings().key(sender).map(str::to_owned).ok_or(PassedOver::NotPaired)?;
        let key = phone.matrix.identity_key(sender).await.ok_or(PassedOver::KeyUnseen)?;
        if key != pinned {
            self.unpair(posted).await;
            return Err(PassedOver::KeyChanged);
        }
        let fetched = phone.matrix.fetch(&posted.event.room, &posted.event.id).await;
        let card = fetched.map_err(|_| PassedOver::Unseen)?;
        let left = posted.card.expires_in.saturating_sub(card.age).saturating_sub(LAST);
        if card.redacted || left.is_zero() || *posted.standing.borrow() == Standing::Gone {
            return Err(PassedOver::Over);
        }
        let asked = <&ruma::EventId>::try_from(posted.card.re.as_str()).map_err(|_| PassedOver::NotAsked)?;
        let asked = phone.matrix.fetch(&posted.event.room, asked).await.map_err(|_| PassedOver::Unseen)?;
        accept::asked_for(&posted.event, &asked.event, phone)?;
        Ok(Instant::now() + left)
    }

    async fn unpair(&self, posted: &Posted) {
        let agent = &posted.event.sender;
        if let Err(error) = self.0.phone.pairings().unpair(agent) {
            tracing::error!(error = &error as &dyn std::error::Error, "not unpaired on disk");
        }
        tracing::error!(%agent, "has another key now: unpaired");
        let text = format!(
            "{agent} has another key than the one you have compared. It is no longer paired, and its cards are not shown. \
             If its operator has replaced its identity, pair again: waybread-phone pair {agent}"
        );
        self.0.phone.backend.notice(&text).await;
    }

    async fn ask(&self, posted: &Posted, until: Instant) -> Then {
        let phone = &self.0.phone;
        let prompt = Prompt {
            action: &posted.card.action,
            id: &posted.card.id,
            agent: &posted.event.sender,
            remaining: until.saturating_duration_since(Instant::now()),
        };
        let mut standing = posted.standing.clone();
        let decision = tokio::select! {
            decision = phone.backend.confirm(&prompt) => decision,
            _ = standing.wait_for(|standing| *standing == Standing::Gone) => return Then::GoOn,
            () = sleep_until(until) => return Then::GoOn,
            () = self.0.stop.notified() => Ok(Decision::Stop),
        };
        match decision {
            Ok(Decision::Confirmed) => self.act(posted).await,
            Ok(Decision::Declined) => self.end(posted, Status::Declined, None).await,
            Ok(Decision::Stop) => {
                self.end(posted, Status::Declined, None).await;
                return Then::End;
            }
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the person can't be asked");
                self.end(posted, Status::Failed, Some(format!("the phone can't ask its owner: {error}"))).await;
            }
        }
        Then::GoOn
    }

    /// The person has confirmed. All that was right when the card was shown must be so still.
    async fn act(&self, posted: &Posted) {
        let until = match self.look(posted).await {
            Ok(until) => until,
            Err(reason) => {
                tracing::warn!(event = %posted.event.id, %reason, "not done");
                return self.0.phone.backend.notice("Not done: the card is over, or not what it was.").await;
            }
        };
        let mut begun = Begun {
            card: posted.card.id.to_string(),
            room: posted.event.room.clone(),
            event: posted.event.id.clone(),
            thread: posted.thread.clone(),
            came: None,
        };
        if let Err(error) = self.0.journal.write(&begun) {
            tracing::error!(%error, "not done: it can't be written down");
            return self.end(posted, Status::Failed, Some("the phone can't write to its folder".to_owned())).await;
        }
        let taken = Answer::Taken { card: posted.card.id.clone() };
        if let Err(error) = self.deliver(&begun, &taken, until).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "not done: the homeserver does not take it");
            self.0.journal.clear();
            return self.0.phone.backend.notice("Not done: the homeserver can't be reached.").await;
        }
        if *posted.standing.borrow() == Standing::Gone {
            return self.answer(&begun, Status::Failed, Some("the card was taken back".to_owned())).await;
        }
        let performed = safety::perform(&*self.0.phone.backend, &posted.card.action, self.0.phone.guard).await;
        let (status, words) = match performed {
            Performed::Done(words) => (Status::Done, words),
            Performed::Failed(words) => (Status::Failed, Some(words)),
        };
        tracing::info!(action = posted.card.action.name(), status = status.as_str(), "done with a card");
        begun.came = Some((status.as_str().to_owned(), words.clone()));
        if let Err(error) = self.0.journal.write(&begun) {
            tracing::error!(%error, "what came of it can't be written down");
        }
        self.answer(&begun, status, words).await;
    }

    /// Answers a card that was not begun.
    async fn end(&self, posted: &Posted, status: Status, words: Option<String>) {
        let not_begun = Begun {
            card: posted.card.id.to_string(),
            room: posted.event.room.clone(),
            event: posted.event.id.clone(),
            thread: posted.thread.clone(),
            came: None,
        };
        let answer = Answer::Ended { card: posted.card.id.clone(), status, message: words };
        if let Err(error) = self.deliver(&not_begun, &answer, Instant::now() + ANSWER_WITHIN).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "not answered");
        }
    }

    pub(super) async fn refuse_one_more(&self, posted: &Posted) {
        self.end(posted, Status::Failed, Some("too many cards wait on the phone".to_owned())).await;
    }

    async fn answer(&self, begun: &Begun, status: Status, words: Option<String>) {
        let Some(card) = begun.id() else { return self.0.journal.clear() };
        let answer = Answer::Ended { card, status, message: words };
        match self.deliver(begun, &answer, Instant::now() + ANSWER_WITHIN).await {
            Ok(()) => self.0.journal.clear(),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "not answered; tried again at the next start"
                );
            }
        }
    }

    async fn answer_what_was_left(&self) {
        match self.0.journal.left() {
            Ok(None) => {}
            Ok(Some(begun)) => {
                let (status, words) = match begun.came.clone() {
                    Some((status, words)) => (Status::read(&status), words),
                    None => (Status::Failed, Some(INTERRUPTED.to_owned())),
                };
                tracing::warn!(event = %begun.event, status = status.as_str(), "an earlier run's card is answered");
                self.answer(&begun, status, words).await;
            }
            Err(error) => {
                tracing::error!(%error, "what an earlier run has begun can't be read");
                self.0.journal.clear();
            }
        }
    }

    /// Sends an answer, again and again until a time. The same answer has the same transaction id, so that it is there once.
    async fn deliver(&self, begun: &Begun, answer: &Answer, until: Instant) -> Result<(), SendError> {
        let kind = match answer {
            Answer::Taken { .. } => "taken",
            Answer::Ended { .. } => "ended",
        };
        let outgoing = Outgoing {
            room: begun.room.clone(),
            txn: txn(answer.card(), kind),
            payload: Payload::Event {
                event_type: "m.room.message".to_owned(),
                content: answer.content(begun.event.as_str(), begun.thread.as_deref().map(|id| id.as_str())),
            },
        };
        let mut wait = RETRY_FIRST;
        loop {
            match self.0.phone.matrix.send(&outgoing).await {
                Ok(_) => return Ok(()),
                Err(error) if !error.retryable() || Instant::now() + wait >= until => return Err(error),
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, ?wait, "answer not taken yet");
                    sleep(wait).await;
                    wait = (wait * 2).min(RETRY_MAX);
                }
            }
        }
    }
}

fn txn(card: &CardId, kind: &str) -> OwnedTransactionId {
    format!("phone-{card}-{kind}").into()
}
