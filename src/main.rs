//! `waybread`: the agent.

#![recursion_limit = "256"]

mod cli;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tracing_subscriber::EnvFilter;
use waybread::{
    app,
    config::{Config, environment},
};

/// The SDK reports answers that are no errors of ours (a 404 for account data that nobody has set) as errors.
const QUIET: [&str; 2] = ["matrix_sdk::http_client=off", "matrix_sdk_crypto::backups=error"];

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
    let mut filter = EnvFilter::try_new(&config.log.filter).context("log.filter")?;
    for quiet in QUIET {
        filter = filter.add_directive(quiet.parse().context("log filter")?);
    }
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    tokio::runtime::Runtime::new().context("no threads")?.block_on(app::run(config))
}
