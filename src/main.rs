//! `waybread`: the agent.

#![recursion_limit = "256"]

mod cli;

use std::{
    collections::VecDeque,
    io::IsTerminal,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Parser;
use tracing_subscriber::EnvFilter;
use waybread::{
    app::{self, Ended, Start},
    config::{Config, environment},
};

/// Libraries whose "info" is for their own developers; `log.filter` can name them to hear more.
const QUIET: [&str; 4] = ["matrix_sdk", "matrix_sdk_base", "matrix_sdk_crypto", "sqlx"];
/// What they report as errors and warnings and what is none: a 404 for account data that nobody has set; the own device
/// that is not listed yet while it is being made.
const SILENT: [&str; 2] = ["matrix_sdk::http_client=off", "matrix_sdk_crypto::identities::manager=error"];

/// How often the agent may begin in an hour within one process: then something is wrong that no new beginning mends.
const RESTARTS_MAX: usize = 5;
const RESTARTS_WITHIN: Duration = Duration::from_secs(3600);
/// How long what still runs on a blocking thread may take at the end.
const SHUTDOWN: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    match start(&cli::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("waybread: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(cli: &cli::Cli) -> anyhow::Result<()> {
    let (cli::Command::Run { config, .. } | cli::Command::Verify { config }) = &cli.command;
    let config = Config::load(config.as_deref(), environment())?;
    let filter = EnvFilter::try_new(filter(&config.log.filter)).context("log.filter")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    match cli.command {
        cli::Command::Run { reset_identity, new_device, .. } => run(&config, Start { reset_identity, new_device }),
        cli::Command::Verify { .. } => in_runtime(app::verify(config)),
    }
}

/// Runs the agent; where its session is to be opened anew, as after a crash: all that it does stands in its store.
fn run(config: &Config, start: Start) -> anyhow::Result<()> {
    let mut start = Some(start);
    let mut begun = VecDeque::from([Instant::now()]);
    loop {
        match in_runtime(app::run(config.clone(), start.take().unwrap_or_default()))? {
            Ended::AsTold => return Ok(()),
            Ended::BeginAnew(reason) => {
                begun.retain(|begun| begun.elapsed() < RESTARTS_WITHIN);
                if begun.len() >= RESTARTS_MAX {
                    return Err(reason).with_context(|| format!("begun {RESTARTS_MAX} times within an hour"));
                }
                tracing::warn!(reason = &*reason as &dyn std::error::Error, "begins anew");
                begun.push_back(Instant::now());
            }
        }
    }
}

fn in_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Runtime::new().context("no threads")?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(SHUTDOWN);
    outcome
}

/// The operator's filter, with the libraries made quiet that it does not name.
fn filter(asked: &str) -> String {
    let quiet = QUIET.iter().filter(|name| !asked.contains(**name)).map(|name| format!("{name}=warn"));
    let silent = SILENT.iter().filter(|_| !asked.contains("matrix_sdk")).map(ToString::to_string);
    quiet.chain(silent).chain([asked.to_owned()]).collect::<Vec<_>>().join(",")
}
