//! `pin`: pins a message of the room: what the chain has posted, what was asked, or one that is named by its number.

use std::sync::Arc;

use async_trait::async_trait;
use ruma::OwnedEventId;
use serde_json::json;

use super::{Action, By, Fields, Kind, Made, Need, Reading, Refusal, Step, Template, filled};

pub(super) const KIND: Kind = Kind { name: "pin", by: By::Anybody, read };

const PINNED: &str = "m.room.pinned_events";
/// Messages that are pinned in a room, at most: what is sent to every client at once.
const MAX_PINNED: usize = 100;

#[derive(Debug)]
enum Pin {
    Posted,
    Question,
    Numbered(Template),
}

fn read(fields: &Fields<'_>, reading: &mut Reading<'_>) -> Result<Arc<dyn Action>, String> {
    Ok(Arc::new(match &*fields.text("message", 1..=64)? {
        "posted" if reading.has_post => Pin::Posted,
        "posted" => return Err("nothing is posted before".to_owned()),
        "question" => Pin::Question,
        written if written.starts_with("{{input:") => Pin::Numbered(reading.with_inputs(written)?),
        _ => return Err("message must be \"posted\", \"question\" or \"{{input:NAME}}\"".to_owned()),
    }))
}

impl Pin {
    async fn target(&self, step: &Step<'_>, made: &Made) -> Result<OwnedEventId, Refusal> {
        match self {
            Self::Posted => made.posted.clone().ok_or_else(|| Refusal::call("nothing was posted")),
            Self::Question => Ok(step.here.origin.clone()),
            Self::Numbered(template) => {
                let written = filled(template, step);
                let number = written.trim().trim_matches(['[', ']', '#']).parse::<i64>().ok();
                let event = match number {
                    Some(number) => step.store().event_of(&step.here.room, number).await?,
                    None => None,
                };
                event.ok_or_else(|| Refusal::call(format!("there is no message [{}] here", written.trim())))
            }
        }
    }
}

#[async_trait]
impl Action for Pin {
    fn summary(&self) -> String {
        "pins a message".to_owned()
    }

    fn needs(&self) -> Need {
        Need::SetState(PINNED)
    }

    async fn run(&self, step: &Step<'_>, made: &mut Made) -> Result<String, Refusal> {
        let target = self.target(step, made).await?;
        let now = step.rooms().state_event(&step.here.room, PINNED, "").await;
        let mut pinned: Vec<String> =
            now.and_then(|event| serde_json::from_value(event.content["pinned"].clone()).ok()).unwrap_or_default();
        if pinned.iter().any(|one| *one == target) {
            return Ok("the message is pinned already".to_owned());
        }
        if pinned.len() >= MAX_PINNED {
            return Err(Refusal::call(format!("{MAX_PINNED} messages are pinned here already")));
        }
        pinned.push(target.to_string());
        step.set_state(PINNED, "", json!({ "pinned": pinned })).await?;
        Ok("the message is pinned".to_owned())
    }
}
