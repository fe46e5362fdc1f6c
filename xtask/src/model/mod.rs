//! Which language model the demo's agent talks to, and what the agent is told about it.
//!
//! In this order: a script; the endpoint that the environment names; a model server found on this machine;
//! the embedded model, which needs no account and no key, and is only there to show the road.

use std::{ffi::OsString, path::PathBuf};

use anyhow::{Context, Result};

use crate::{cache::Cache, python::Python};

mod discover;
mod engine;
mod weights;

use self::{discover::Endpoint, engine::Engine};

/// The model of a demo. The embedded one's server ends when this is dropped.
pub enum Model {
    /// Prepared answers from a file.
    Scripted(PathBuf),
    /// The environment's own settings, left as they are.
    Named(String),
    /// A server that was running on this machine.
    Found(Endpoint),
    /// Our own server.
    Embedded(Engine),
}

/// A variable of the agent's environment.
pub type Variable = (&'static str, OsString);

impl Model {
    /// Finds a model; `script` is the file of a scripted one.
    pub fn get(script: Option<PathBuf>, cache: &Cache, python: &Python) -> Result<Self> {
        if let Some(script) = script {
            let path = script.canonicalize();
            return Ok(Self::Scripted(path.with_context(|| format!("can't read {}", script.display()))?));
        }
        if let Some(url) = std::env::var("WAYBREAD_MODEL_URL").ok().filter(|url| !url.is_empty()) {
            return Ok(Self::Named(url));
        }
        if let Some(endpoint) = discover::find() {
            return Ok(Self::Found(endpoint));
        }
        Ok(Self::Embedded(Engine::start(cache, python)?))
    }

    /// What is set for the agent, beside what the person's environment has.
    pub fn environment(&self) -> Vec<Variable> {
        match self {
            Self::Scripted(script) => vec![("WAYBREAD_MODEL_SCRIPT", script.into())],
            Self::Named(_) => Vec::new(),
            Self::Found(endpoint) => address(&endpoint.url, &endpoint.name),
            Self::Embedded(engine) => {
                let mut environment = address(engine.url(), engine::NAME);
                environment.extend(engine::settings());
                environment
            }
        }
    }

    /// One line for the person.
    pub fn describe(&self) -> String {
        match self {
            Self::Scripted(script) => format!("scripted answers from {}", script.display()),
            Self::Named(url) => format!("{url} (WAYBREAD_MODEL_URL)"),
            Self::Found(Endpoint { url, name }) => format!("{name} at {url} (found on this machine)"),
            Self::Embedded(_) => format!("{} (embedded; small, it only shows the road)", engine::NAME),
        }
    }
}

fn address(url: &str, name: &str) -> Vec<Variable> {
    vec![("WAYBREAD_MODEL_URL", url.into()), ("WAYBREAD_MODEL_NAME", name.into())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_the_environment_names_is_passed_on_untouched() {
        assert_eq!(Model::Named("http://model.example/v1".into()).environment(), []);
    }

    #[test]
    fn a_scripted_and_a_found_model_are_named_to_the_agent() {
        let scripted = Model::Scripted("/answers.json".into());
        assert_eq!(scripted.environment(), [("WAYBREAD_MODEL_SCRIPT", "/answers.json".into())]);
        let found = Endpoint { url: "http://127.0.0.1:11434/v1".into(), name: "qwen2.5:7b".into() };
        assert_eq!(
            Model::Found(found).environment(),
            [("WAYBREAD_MODEL_URL", "http://127.0.0.1:11434/v1".into()), ("WAYBREAD_MODEL_NAME", "qwen2.5:7b".into()),]
        );
    }
}
