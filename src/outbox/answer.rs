//! Answers: what stands in the room for good, in one message or several, and across restarts.
//!
//! The whole answer is kept before its first part is finished. A run that takes it up finds, part by part, what stands
//! there: nothing, a draft to be edited, or the last content.

use std::future::ready;

use futures_util::FutureExt;
use ruma::{MilliSecondsSinceUnixEpoch, OwnedEventId, OwnedRoomId};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Outbox, Place, Post, PostError, Text, queue::Entry};
use crate::store::{Blocks, Cause, Part, Sent, StoreError};

/// An answer as it is to stand in the room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The message that is answered; none where nobody asked.
    pub origin: Option<OwnedEventId>,
    /// The room.
    pub room: OwnedRoomId,
    /// Where its first part stands; the others follow it in the same thread.
    pub place: Place,
    /// Its parts; at least one.
    pub parts: Vec<Text>,
    /// What the transcript remembers of it; nothing of what failed.
    pub remembered: Option<String>,
}

/// What an earlier run has left of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Earlier {
    /// Nothing.
    Nothing,
    /// A draft that was never finished.
    Draft(OwnedEventId),
    /// The whole: all parts are there.
    Finished,
    /// An answer that is decided, and of which not all is known to be sent.
    Decided(Box<Answer>),
}

impl Outbox {
    /// What an earlier run has left of the answer to a message.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn earlier(&self, origin: &OwnedEventId) -> Result<Earlier, StoreError> {
        if let Some(answer) = self.0.store.decided(origin).await? {
            return Ok(Earlier::Decided(Box::new(serde_json::from_value(answer)?)));
        }
        let sent = self.0.store.sent(&Part { origin: origin.clone(), index: 0 }).await?;
        // A decision outlives the delivery of all parts: with none, a finished part is the end of the matter.
        if sent.is_finished {
            return Ok(Earlier::Finished);
        }
        Ok(sent.event.map_or(Earlier::Nothing, Earlier::Draft))
    }

    /// The draft of an earlier run, where there is one and it can be looked up.
    pub async fn draft_of(&self, origin: &OwnedEventId) -> Option<OwnedEventId> {
        self.0.store.sent(&Part { origin: origin.clone(), index: 0 }).await.unwrap_or_default().event
    }

    /// The message that is to answer `origin`, with the draft that stands there already.
    pub fn answer_post(
        &self,
        room: OwnedRoomId,
        place: Place,
        origin: OwnedEventId,
        draft: Option<OwnedEventId>,
    ) -> Post {
        self.part_post(room, place, Part { origin, index: 0 }, draft)
    }

    fn part_post(&self, room: OwnedRoomId, place: Place, part: Part, event: Option<OwnedEventId>) -> Post {
        self.insert_post(Entry { cause: Some(Cause::Part(part)), event, ..Entry::new(room, place, Instant::now()) })
    }

    /// Delivers an answer, its first part into `post`; gives the first event of each part.
    ///
    /// # Errors
    /// See [`PostError`]; parts behind the one that failed may stand there all the same.
    pub async fn deliver(&self, post: Post, answer: &Answer) -> Result<Vec<OwnedEventId>, PostError> {
        if let Some(origin) = &answer.origin {
            let kept = match serde_json::to_value(answer) {
                Ok(value) => self.0.store.decide(origin, &value).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = kept {
                // It goes out all the same; only a crash now would cost it.
                tracing::error!(error = &error as &dyn std::error::Error, "answer not kept");
            }
        }
        // All parts are on their way before the first is waited for: their order is the posts'.
        let mut deliveries = Vec::new();
        let mut first_post = Some(post);
        for (index, text) in (0..).zip(&answer.parts) {
            let sent = self.sent_of(answer, index).await;
            if let (true, Some(event)) = (sent.is_finished, sent.event.clone()) {
                deliveries.push(ready(Ok(event)).boxed());
                continue;
            }
            let place = Place { thread: answer.place.thread.clone(), reply_to: None };
            let post = match (first_post.take().filter(|_| index == 0), &answer.origin) {
                (Some(post), _) => post,
                (None, None) => self.post(answer.room.clone(), place),
                (None, Some(origin)) => {
                    self.part_post(answer.room.clone(), place, Part { origin: origin.clone(), index }, sent.event)
                }
            };
            deliveries.push(post.finish(text).boxed());
        }
        let mut events = Vec::new();
        for (delivery, text) in deliveries.into_iter().zip(&answer.parts) {
            let event = delivery.await?;
            self.know(answer, &event, text).await;
            events.push(event);
        }
        Ok(events)
    }

    /// Makes the blocks of a part known, so that a press on them is understood, and sets its reactions.
    async fn know(&self, answer: &Answer, event: &OwnedEventId, text: &Text) {
        let Some(rich) = &text.rich else { return };
        let blocks =
            Blocks { event: event.clone(), thread: answer.place.thread.clone(), payload: rich.payload.clone() };
        let sent_at = MilliSecondsSinceUnixEpoch::now();
        if let Err(error) = self.0.store.keep_blocks(&answer.room, &blocks, sent_at).await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "blocks not written down: presses are not understood"
            );
        }
        self.seed(&answer.room, event, text);
    }

    /// What an earlier run has sent of a part. What can't be looked up counts as not sent: then it is sent again.
    async fn sent_of(&self, answer: &Answer, index: u32) -> Sent {
        let Some(origin) = answer.origin.clone() else { return Sent::default() };
        self.0.store.sent(&Part { origin, index }).await.unwrap_or_default()
    }
}
