//! `waybread`: the agent.

#![recursion_limit = "256"]

mod cli;

use std::{io::IsTerminal, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use tracing_subscriber::EnvFilter;
use waybread::{
    app,
    config::{Config, LogFormat, environment},
};

/// Libraries whose "info" is for their own developers; `log.filter` can name them to hear more.
const QUIET: [&str; 4] = ["matrix_sdk", "matrix_sdk_base", "matrix_sdk_crypto", "sqlx"];
/// What they report as errors and warnings and what is none: a 404 for account data that nobody has set; the own device
/// that is not listed yet while it is being made.
const SILENT: [&str; 2] = ["matrix_sdk::http_client=off", "matrix_sdk_crypto::identities::manager=error"];

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
    let cli::Command::Run { config } = &cli.command;
    let config = Config::load(config.as_deref(), environment())?;
    let filter = EnvFilter::try_new(filter(&config.log.filter)).context("log.filter")?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.log.format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        // All spans: a turn's is around those of the libraries.
        LogFormat::Json => log.json().with_current_span(false).init(),
    }
    tokio::runtime::Runtime::new().context("no threads")?.block_on(app::run(config))
}

/// The operator's filter, with the libraries made quiet that it does not name.
fn filter(asked: &str) -> String {
    let quiet = QUIET.iter().filter(|name| !asked.contains(**name)).map(|name| format!("{name}=warn"));
    let silent = SILENT.iter().filter(|_| !asked.contains("matrix_sdk")).map(ToString::to_string);
    quiet.chain(silent).chain([asked.to_owned()]).collect::<Vec<_>>().join(",")
}
