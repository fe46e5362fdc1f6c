//! The embedded model's server: llama.cpp by way of its Python package, on a free loopback port.

use std::{ffi::OsString, path::Path, process::Command, thread, time::Duration};

use anyhow::Result;

use super::{Variable, weights};
use crate::{
    cache::Cache,
    interrupt::Interrupted,
    net,
    process::{self, Output, Process},
    progress::Step,
    python::{Python, Venv},
};

/// The model's name at its server.
pub const NAME: &str = "qwen2.5-coder-0.5b";

const PACKAGE: &str = "llama-cpp-python[server]==0.3.36";
const VENV: &str = "llama-cpp-python-0.3.36";

/// Ready-made wheels by the package's own author.
const WHEELS: &str = "https://abetlen.github.io/llama-cpp-python/whl/cpu";

/// What their download gets before the build from source begins.
const WHEELS_LIMIT: Duration = Duration::from_secs(180);

/// What a question "are you there" to the outside gets in all, name lookup included.
const REACHABLE_LIMIT: Duration = Duration::from_secs(8);

/// What loading half a gigabyte gets.
const START_LIMIT: Duration = Duration::from_secs(180);

const CONTEXT_TOKENS: u32 = 4096;
const REPLY_TOKENS: u32 = 512;

/// `URL`
const ASK: &str = "
import sys, urllib.request
urllib.request.urlopen(urllib.request.Request(sys.argv[1], method='HEAD'), timeout=3)
";

/// What the agent has to know to drive so small a model.
pub fn settings() -> [Variable; 7] {
    [
        ("WAYBREAD_MODEL_CONTEXT_TOKENS", CONTEXT_TOKENS.to_string().into()),
        ("WAYBREAD_MODEL_REPLY_TOKENS", REPLY_TOKENS.to_string().into()),
        // Its native tool calls come back as text, and this server takes a schema in this form alone.
        ("WAYBREAD_MODEL_TOOL_CALLS", "constrained".into()),
        ("WAYBREAD_MODEL_RESPONSE_FORMAT", "json_object".into()),
        ("WAYBREAD_MODEL_TEMPERATURE", "0".into()),
        // More tools than one are more than it can take in.
        ("WAYBREAD_RICH_TOOLS", "off".into()),
        ("WAYBREAD_LATER_TOOL", "off".into()),
    ]
}

/// A running model server. It is ended when this is dropped.
pub struct Engine {
    _process: Process,
    url: String,
}

impl Engine {
    /// Installs what is missing, starts the server and waits until it answers.
    pub fn start(cache: &Cache, python: &Python) -> Result<Self> {
        let venv = python.venv(cache, VENV, "llama_cpp", Step::begin, install)?;
        let weights = weights::get(cache, &venv)?;
        let port = net::any_free()?;
        let log = cache.root().join("model.log");
        process::clear_log(&log)?;
        let step = Step::begin("Loading the model");
        let mut process = Process::start("the model's server", &serve(&venv, &weights, port), Output::Log(&log))?;
        let url = format!("{}/v1", net::local_url(port));
        let models = format!("{url}/models");
        step.finish(process.wait_until(START_LIMIT, || net::answers(&models).then_some(())))?;
        Ok(Self { _process: process, url })
    }

    /// Its address, up to and with `/v1`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// Ready-made wheels where they can be had, the build from source elsewhere.
fn install(venv: &Venv) -> Result<()> {
    if is_reachable(venv, WHEELS)? {
        let step = Step::begin("Installing llama.cpp");
        let install = ["install", "--only-binary", ":all:", "--extra-index-url", WHEELS, PACKAGE];
        match step.finish(venv.pip(install, Some(WHEELS_LIMIT), || {})) {
            Err(error) if !error.is::<Interrupted>() => {}
            other => return other,
        }
    }
    let step = Step::begin("Building llama.cpp from source, once (about 8 minutes on 2 cores)");
    step.finish(venv.pip(["install", "--prefer-binary", PACKAGE], None, || {}))
}

/// Does this address answer at all?
pub fn is_reachable(venv: &Venv, url: &str) -> Result<bool> {
    match venv.script(ASK, &[OsString::from(url)], Some(REACHABLE_LIMIT), || {}) {
        Ok(()) => Ok(true),
        Err(error) if error.is::<Interrupted>() => Err(error),
        Err(_) => Ok(false),
    }
}

fn serve(venv: &Venv, weights: &Path, port: u16) -> Command {
    let mut serve = venv.module("llama_cpp.server");
    serve.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--model_alias", NAME]);
    serve.arg("--model").arg(weights);
    // A free core for everything else: with all cores busy, generation slows down tenfold.
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get() - 1).max(1);
    serve.args(["--n_threads", &threads.to_string(), "--n_ctx", &CONTEXT_TOKENS.to_string()]);
    // By default a new request cuts the running one off.
    serve.args(["--interrupt_requests", "false"]);
    serve
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_model_is_driven_with_constrained_calls_and_a_small_context() {
        assert_eq!(
            settings(),
            [
                ("WAYBREAD_MODEL_CONTEXT_TOKENS", "4096".into()),
                ("WAYBREAD_MODEL_REPLY_TOKENS", "512".into()),
                ("WAYBREAD_MODEL_TOOL_CALLS", "constrained".into()),
                ("WAYBREAD_MODEL_RESPONSE_FORMAT", "json_object".into()),
                ("WAYBREAD_MODEL_TEMPERATURE", "0".into()),
                ("WAYBREAD_RICH_TOOLS", "off".into()),
                ("WAYBREAD_LATER_TOOL", "off".into()),
            ]
        );
    }
}
