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
    check::{self, Output},
    config::{Config, LogFormat, environment},
    observe::{Guard, GuardedLog},
};

/// Libraries whose "info" is for their own developers; `log.filter` can name them to hear more.
const QUIET: [&str; 4] = ["matrix_sdk", "matrix_sdk_base", "matrix_sdk_crypto", "sqlx"];
/// What they report as errors and warnings and what is none: a 404 for account data that nobody has set; the own device
/// that is not listed yet while it is being made.
const SILENT: [&str; 2] = ["matrix_sdk::http_client=off", "matrix_sdk_crypto::identities::manager=error"];

/// What is heard beside a check's own lines, which tell what libraries complain of.
const CHECK_FILTER: &str = "off,waybread=error,matrix_link=error";
/// How often the agent may begin in an hour within one process: then something is wrong that no new beginning mends.
const RESTARTS_MAX: usize = 5;
const RESTARTS_WITHIN: Duration = Duration::from_secs(3600);
/// How long what still runs on a blocking thread may take at the end.
const SHUTDOWN: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    match start(cli::Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("waybread: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(command: cli::Command) -> anyhow::Result<ExitCode> {
    match command {
        cli::Command::Run { config, reset_identity, new_device } => {
            let config = Config::load(config.as_deref(), environment())?;
            log(&filter(&config.log.filter), config.log.format)?;
            run(&config, Start { reset_identity, new_device })?;
            Ok(ExitCode::SUCCESS)
        }
        cli::Command::Verify { config } => {
            let config = Config::load(config.as_deref(), environment())?;
            log(&filter(&config.log.filter), config.log.format)?;
            in_runtime(app::verify(config))?;
            Ok(ExitCode::SUCCESS)
        }
        cli::Command::Registration { config, replace } => {
            app::register(&Config::load(config.as_deref(), environment())?, replace)?;
            Ok(ExitCode::SUCCESS)
        }
        cli::Command::Check { config: file, json } => {
            log(CHECK_FILTER, LogFormat::Text)?;
            let config = Config::load(file.as_deref(), environment());
            let source =
                file.map_or("config.toml in this folder, or the defaults".into(), |file| file.display().to_string());
            let output = if json { Output::Json } else { Output::Lines };
            let report = in_runtime(async { Ok(check::run(config, &source, output).await) })?;
            Ok(if report.works() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn log(filter: &str, format: LogFormat) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).context("log.filter")?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(GuardedLog::new(Guard::of_process(), std::io::stderr));
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        // All spans: a turn's is around those of the libraries.
        LogFormat::Json => log.json().with_current_span(false).init(),
    }
    Ok(())
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
