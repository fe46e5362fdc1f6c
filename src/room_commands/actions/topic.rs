//! `topic`: sets the room's topic.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;

use super::{Action, By, Fields, Kind, Made, Need, Reading, Refusal, Step, Template, filled};

pub(super) const KIND: Kind = Kind { name: "topic", by: By::Anybody, read };

const TOPIC: &str = "m.room.topic";
const MAX_TOPIC: usize = 500;

#[derive(Debug)]
struct Topic(Template);

fn read(fields: &Fields<'_>, reading: &mut Reading<'_>) -> Result<Arc<dyn Action>, String> {
    Ok(Arc::new(Topic(reading.with_inputs(&fields.text("text", 1..=MAX_TOPIC)?)?)))
}

#[async_trait]
impl Action for Topic {
    fn summary(&self) -> String {
        "sets the topic".to_owned()
    }

    fn needs(&self) -> Need {
        Need::SetState(TOPIC)
    }

    async fn run(&self, step: &Step<'_>, _made: &mut Made) -> Result<String, Refusal> {
        let topic: String = filled(&self.0, step).chars().take(MAX_TOPIC).collect();
        step.set_state(TOPIC, "", json!({ "topic": topic })).await?;
        Ok(format!("the topic is {topic:?} now"))
    }
}
