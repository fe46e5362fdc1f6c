//! `waybread`: the agent.

#![recursion_limit = "256"]

mod cli;

use std::{io::IsTerminal, process::ExitCode};

use anyhow::Context;
use clap::Parser;
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;
use waybread::{
    app,
    check::{self, Output},
    config::{Config, environment},
};

/// Libraries whose "info" is for their own developers; `log.filter` can name them to hear more.
const QUIET: [&str; 4] = ["matrix_sdk", "matrix_sdk_base", "matrix_sdk_crypto", "sqlx"];
/// What they report as errors and warnings and what is none: a 404 for account data that nobody has set; the own device
/// that is not listed yet while it is being made.
const SILENT: [&str; 2] = ["matrix_sdk::http_client=off", "matrix_sdk_crypto::identities::manager=error"];

/// What is heard beside a check's own lines, which tell what libraries complain of.
const CHECK_FILTER: &str = "off,waybread=error,matrix_link=error";

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
        cli::Command::Run { config } => {
            let config = Config::load(config.as_deref(), environment())?;
            log(&filter(&config.log.filter))?;
            runtime()?.block_on(app::run(config))?;
            Ok(ExitCode::SUCCESS)
        }
        cli::Command::Check { config: file, json } => {
            log(CHECK_FILTER)?;
            let config = Config::load(file.as_deref(), environment());
            let source =
                file.map_or("config.toml in this folder, or the defaults".into(), |file| file.display().to_string());
            let output = if json { Output::Json } else { Output::Lines };
            let report = runtime()?.block_on(check::run(config, &source, output));
            Ok(if report.works() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    Runtime::new().context("no threads")
}

fn log(filter: &str) -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(filter).context("log.filter")?)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}

/// The operator's filter, with the libraries made quiet that it does not name.
fn filter(asked: &str) -> String {
    let quiet = QUIET.iter().filter(|name| !asked.contains(**name)).map(|name| format!("{name}=warn"));
    let silent = SILENT.iter().filter(|_| !asked.contains("matrix_sdk")).map(ToString::to_string);
    quiet.chain(silent).chain([asked.to_owned()]).collect::<Vec<_>>().join(",")
}
