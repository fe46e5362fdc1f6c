//! A tool that takes as long as it is told to.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::{
    model::ToolSpec,
    tools::{Origin, Output, Run, Tool},
};

/// Waits for `seconds`.
pub(super) struct Pause;

#[async_trait]
impl Tool for Pause {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "pause".into(),
            description: "Waits.".into(),
            cases: Vec::new(),
            example: None,
            parameters: json!({"type": "object", "properties": {"seconds": {"type": "integer", "minimum": 0}},
                "required": ["seconds"], "additionalProperties": false}),
        }
    }

    async fn run(&self, arguments: Value, _origin: &Origin) -> Run {
        let seconds = arguments["seconds"].as_u64().unwrap_or_default();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Output::new(format!("Waited for {seconds} s.")).into()
    }
}
