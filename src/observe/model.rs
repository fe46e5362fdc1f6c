//! A model that is watched: its figures and its health, for every call of every endpoint.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::time::Instant;

use super::{Health, metrics};
use crate::model::{Delta, DeltaStream, Model, ModelError, Request};

/// A model, watched. What it says passes unchanged. A call that is ended from outside counts neither way.
pub struct Watched {
    model: Arc<dyn Model>,
    health: Health,
}

impl Watched {
    /// Watches one endpoint: below retries and fallbacks, so that each attempt counts, under the name of whom it went to.
    pub fn new(model: Arc<dyn Model>, health: Health) -> Self {
        Self { model, health }
    }
}

impl Model for Watched {
    fn stream(&self, request: Request) -> DeltaStream {
        let (name, health) = (self.model.name(), self.health.clone());
        let mut deltas = self.model.stream(request);
        async_stream::stream! {
            let began = Instant::now();
            let mut spoke = false;
            let mut ended = false;
            while let Some(delta) = deltas.next().await {
                match &delta {
                    Ok(_) if !spoke => {
                        spoke = true;
                        metrics::model_spoke(&name, began.elapsed());
                    }
                    _ => {}
                }
                match &delta {
                    Ok(Delta::Done { usage, .. }) => {
                        ended = true;
                        health.model_answered();
                        if let Some(usage) = usage {
                            metrics::model_tokens(&name, *usage);
                        }
                    }
                    Err(error) => {
                        ended = true;
                        failed(&health, &name, error);
                    }
                    Ok(_) => {}
                }
                yield delta;
            }
            if !ended {
                failed(&health, &name, &ModelError::Cut);
            }
        }
        .boxed()
    }

    fn name(&self) -> String {
        self.model.name()
    }
}

fn failed(health: &Health, name: &str, error: &ModelError) {
    metrics::model_failed(name, error);
    // A request that is too long says nothing against the model.
    if !matches!(error, ModelError::TooLong { .. }) {
        health.model_failed();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::advance;

    use super::*;
    use crate::testing::scripted;

    async fn troubles_after(calls: [&str; 5]) -> Vec<String> {
        let health = Health::new();
        let steps: Vec<_> = calls
            .iter()
            .map(|call| match *call {
                "answers" => json!({"say": "Yes."}),
                "cut" => json!({"say": "Yes", "fail": "cut"}),
                status => json!({"fail": {"status": status.parse::<u16>().unwrap_or(500)}}),
            })
            .collect();
        let model = Watched::new(Arc::new(scripted(&json!({ "steps": steps }))), health.clone());
        for _ in calls {
            let _: Vec<_> = model.stream(Request { messages: Vec::new(), tools: Vec::new() }).collect().await;
            advance(Duration::from_secs(20)).await;
        }
        health.synced();
        health.troubles()
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_that_only_fails_is_dead_and_requests_that_are_too_long_say_nothing_against_it() {
        assert_eq!(
            troubles_after(["500", "cut", "401", "429", "503"]).await,
            ["the last 5 calls of the model failed, for 100 s"]
        );
        assert_eq!(troubles_after(["500", "cut", "answers", "429", "503"]).await, [""; 0]);
        assert_eq!(troubles_after(["413"; 5]).await, [""; 0]);
    }
}
