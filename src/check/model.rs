//! The model: whether it can be asked, how it calls tools, how much it can read.

use super::Report;
use crate::{
    app::models::endpoint_of,
    config::{self, Config, ToolCalls},
    model::{Endpoint, Form, ModelError, ResponseFormat, Script, context, probe},
    store::Store,
};

/// What is checked of one endpoint: whether it can be asked, and its context.
const MODEL: [&str; 2] = ["model", "context"];
const FALLBACK: [&str; 2] = ["fallback", "its context"];

pub(super) async fn check(report: &mut Report, config: &Config, store: Option<&Store>) {
    let model = &config.model;
    if let Some(file) = &model.script {
        let script = std::fs::read_to_string(file).map_err(anyhow::Error::from);
        match script.and_then(|text| Ok(text.parse::<Script>()?)) {
            Ok(_) => report.ok("model", format!("plays the script {}", file.display())),
            Err(error) => {
                report.fail("model", super::because(file.display(), &error), "correct it, or leave out model.script");
            }
        }
        return;
    }
    for (checks, endpoint) in [(MODEL, Some(&model.endpoint)), (FALLBACK, model.fallback.as_ref())] {
        let Some(endpoint) = endpoint else { continue };
        let [check, context] = checks;
        let endpoint = endpoint_of(model, endpoint);
        if asked(report, check, model, &endpoint, store).await {
            size(report, context, model, &endpoint).await;
        } else {
            report.not_checked(context);
        }
    }
}

/// Whether it answers.
async fn asked(
    report: &mut Report,
    check: &'static str,
    config: &config::Model,
    endpoint: &Endpoint,
    store: Option<&Store>,
) -> bool {
    let found = match config.tool_calls {
        ToolCalls::Auto | ToolCalls::Native => probe::form(endpoint).await,
        ToolCalls::Constrained => probe::response_format(endpoint).await.map(Form::Constrained),
    };
    let Endpoint { name, url, .. } = endpoint;
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            report.fail(check, format!("{name} at {url}: {error}"), advice(check, &error));
            return false;
        }
    };
    let says = format!("{name} at {url} {}", in_words(found));
    match used(config, endpoint, store).await {
        Some((used, why)) if used != found => report.warn(
            check,
            format!("{says}; but {why} has {used}"),
            "set model.tool_calls and model.response_format to what was found, or to what you know to be right",
        ),
        _ if found == Form::Constrained(ResponseFormat::Free) => {
            report.warn(
                check,
                says,
                "expect broken tool calls; use a larger model, or a server that follows json_schema",
            );
        }
        _ => report.ok(check, says),
    }
    true
}

fn in_words(form: Form) -> &'static str {
    match form {
        Form::Native => "calls tools natively",
        Form::Constrained(ResponseFormat::JsonSchema) => "calls tools by one JSON object a step (json_schema)",
        Form::Constrained(ResponseFormat::JsonObject) => "calls tools by one JSON object a step (json_object)",
        Form::Constrained(ResponseFormat::Free) => "calls no tools natively and follows no response_format",
    }
}

/// The form that a run would use without asking, and who says so.
async fn used(config: &config::Model, endpoint: &Endpoint, store: Option<&Store>) -> Option<(Form, &'static str)> {
    use config::ResponseFormat as Format;
    let configured = match (config.tool_calls, config.response_format) {
        (ToolCalls::Native, _) => Some(Form::Native),
        (ToolCalls::Constrained, Format::JsonSchema) => Some(Form::Constrained(ResponseFormat::JsonSchema)),
        (ToolCalls::Constrained, Format::JsonObject) => Some(Form::Constrained(ResponseFormat::JsonObject)),
        (ToolCalls::Auto | ToolCalls::Constrained, _) => None,
    };
    if let Some(form) = configured {
        return Some((form, "the configuration"));
    }
    let kept: Form = store?.model_form(&endpoint.url, &endpoint.name).await.ok()??.parse().ok()?;
    let meant = config.tool_calls == ToolCalls::Auto || kept != Form::Native;
    meant.then_some((kept, "the store, from an earlier run,"))
}

fn advice(check: &str, error: &ModelError) -> String {
    let table = if check == "model" { "model" } else { "model.fallback" };
    match error {
        ModelError::Endpoint(_) | ModelError::Unreachable(_) => {
            format!("check {table}.url (up to and with /v1) and whether the server runs")
        }
        ModelError::Refused { status: 401 | 403, .. } => {
            format!("check the key in the file that {table}.key_file names")
        }
        ModelError::Refused { .. } => format!("check {table}.name and {table}.url (up to and with /v1)"),
        ModelError::Timeout { .. } => {
            "give it more time (model.connect_seconds, first_token_seconds, idle_seconds), or take a smaller model"
                .into()
        }
        ModelError::RateLimited { .. } => "wait, then check again".into(),
        ModelError::TooLong { .. } => "give the server a larger context".into(),
        ModelError::Server { .. } | ModelError::Cut | ModelError::Malformed(_) => "look into the server's log".into(),
    }
}

async fn size(report: &mut Report, check: &'static str, config: &config::Model, endpoint: &Endpoint) {
    let asked = config.context_tokens;
    match context::told(endpoint).await {
        None => report.ok(check, format!("not told by the server; model.context_tokens = {asked} is taken on trust")),
        Some(given) if given < u64::from(asked) => report.warn(
            check,
            format!("the server gives {given} tokens, and model.context_tokens is {asked}"),
            format!("set model.context_tokens to {given} at most, or have the server give more"),
        ),
        Some(given) => report.ok(check, format!("{asked} of the {given} tokens that the server gives are used")),
    }
}
