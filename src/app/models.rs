//! The models that the configuration names, ready to be asked.

use std::{num::NonZeroU32, sync::Arc};

use anyhow::Context;
use futures_util::StreamExt;
use tokio::sync::OnceCell;

use crate::{
    config,
    conversation::NamedModel,
    model::{
        Chain, DeltaStream, Endpoint, Form, Limits, Model, ModelError, OpenAi, Request, ResponseFormat, Retry, Script,
        Scripted, probe,
    },
    observe::{Health, Watched},
    store::Store,
};

/// The models to choose from, the usual one first. Each stands for all: when it has failed, the others are asked.
pub(super) fn build(config: &config::Model, store: &Store, health: &Health) -> anyhow::Result<Vec<NamedModel>> {
    if let Some(file) = &config.script {
        let text = std::fs::read_to_string(file).with_context(|| format!("model.script: {}", file.display()))?;
        let script: Script = text.parse().with_context(|| format!("model.script: {}", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let model = watched(Scripted::new(script), health);
        return Ok(vec![NamedModel { name, model }]);
    }
    let endpoints = [Some(&config.endpoint), config.fallback.as_ref()];
    let asked: Vec<Probed> = endpoints
        .into_iter()
        .flatten()
        .map(|endpoint| Probed::new(endpoint_of(config, endpoint), config, store.clone()))
        .collect();
    for one in &asked {
        // Found out now, so that the first question does not wait for it; an error is told again when somebody asks.
        let probed = one.clone();
        tokio::spawn(async move {
            if let Err(error) = probed.ready().await {
                tracing::warn!(model = %probed.endpoint.name, %error, "the model can't be asked yet");
            }
        });
    }
    let retry = Retry {
        attempts: NonZeroU32::new(config.attempts).unwrap_or(NonZeroU32::MIN),
        first: config.retry_first,
        max: config.retry_max,
    };
    let chain = |first: usize| {
        let others = asked.iter().enumerate().filter(|(index, _)| *index != first);
        let chain = Chain::new(watched(asked[first].clone(), health), retry);
        others.fold(chain, |chain, (_, other)| chain.fallback(watched(other.clone(), health), retry))
    };
    Ok((0..asked.len()).map(|index| NamedModel { name: asked[index].name(), model: Arc::new(chain(index)) }).collect())
}

fn watched(model: impl Model + 'static, health: &Health) -> Arc<dyn Model> {
    Arc::new(Watched::new(Arc::new(model), health.clone()))
}

/// The endpoint as it is asked.
pub(crate) fn endpoint_of(config: &config::Model, endpoint: &config::Endpoint) -> Endpoint {
    Endpoint {
        url: endpoint.url.to_string(),
        name: endpoint.name.clone(),
        key: endpoint.key.clone(),
        temperature: config.temperature,
        reply_tokens: config.reply_tokens,
        limits: Limits {
            connect: config.connect_timeout,
            first_token: config.first_token_timeout,
            idle: config.idle_timeout,
            max_reply_bytes: config.max_reply_bytes,
        },
    }
}

/// An endpoint whose form of tool calls is found out once, at the first step, and kept: the agent starts while its model
/// does not run yet.
#[derive(Clone)]
struct Probed {
    endpoint: Endpoint,
    tool_calls: config::ToolCalls,
    response_format: config::ResponseFormat,
    store: Store,
    model: Arc<OnceCell<OpenAi>>,
}

impl Probed {
    fn new(endpoint: Endpoint, config: &config::Model, store: Store) -> Self {
        let (tool_calls, response_format) = (config.tool_calls, config.response_format);
        Self { endpoint, tool_calls, response_format, store, model: Arc::default() }
    }

    async fn ready(&self) -> Result<&OpenAi, ModelError> {
        self.model.get_or_try_init(async || OpenAi::new(self.endpoint.clone(), self.form().await?)).await
    }

    async fn form(&self) -> Result<Form, ModelError> {
        use config::{ResponseFormat as Format, ToolCalls};
        let probed = match (self.tool_calls, self.response_format) {
            (ToolCalls::Native, _) => return Ok(Form::Native),
            (ToolCalls::Constrained, Format::JsonSchema) => {
                return Ok(Form::Constrained(ResponseFormat::JsonSchema));
            }
            (ToolCalls::Constrained, Format::JsonObject) => {
                return Ok(Form::Constrained(ResponseFormat::JsonObject));
            }
            (ToolCalls::Auto | ToolCalls::Constrained, _) => self.tool_calls,
        };
        let Endpoint { url, name, .. } = &self.endpoint;
        let kept = self.store.model_form(url, name).await.unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "what was found out about the model can't be read"
            );
            None
        });
        let kept = kept.and_then(|form| form.parse::<Form>().ok());
        if let Some(form) = kept.filter(|form| probed == ToolCalls::Auto || *form != Form::Native) {
            return Ok(form);
        }
        let form = match probed {
            ToolCalls::Constrained => Form::Constrained(probe::response_format(&self.endpoint).await?),
            ToolCalls::Auto | ToolCalls::Native => probe::form(&self.endpoint).await?,
        };
        tracing::info!(model = %name, %form, "found out how the model calls tools");
        if let Err(error) = self.store.set_model_form(url, name, &form.to_string()).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "what was found out about the model is not kept");
        }
        Ok(form)
    }
}

impl Model for Probed {
    fn stream(&self, request: Request) -> DeltaStream {
        let this = self.clone();
        async_stream::stream! {
            match this.ready().await {
                Err(error) => yield Err(error),
                Ok(model) => {
                    let mut deltas = model.stream(request);
                    while let Some(delta) = deltas.next().await {
                        yield delta;
                    }
                }
            }
        }
        .boxed()
    }

    fn name(&self) -> String {
        self.endpoint.name.clone()
    }
}
