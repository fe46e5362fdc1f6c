//! `waybread-phone`: the person's end of Waybread, in a terminal.
//!
//! - `cli`: the command line;
//! - `room`: the encrypted direct room with the agent, found or made;
//! - `chat`: what is said and what comes back;
//! - `screen`: how it looks in the terminal.

#![recursion_limit = "256"]

#[expect(dead_code, reason = "the runner of cards, which uses it, is being written")]
mod backend;
mod chat;
mod cli;
mod room;
#[cfg_attr(not(test), expect(dead_code, reason = "the runner of cards, which uses it, is being written"))]
mod safety;
mod screen;
#[cfg_attr(not(test), expect(dead_code, reason = "the runner of cards, which uses it, is being written"))]
mod settings;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let filter = EnvFilter::try_from_env("WAYBREAD_PHONE_LOG").unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let ended = tokio::runtime::Runtime::new().map_err(Into::into).and_then(|runtime| {
        let ended = runtime.block_on(cli.run());
        // A read of the terminal can't be called off.
        runtime.shutdown_background();
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("waybread-phone: {error:#}");
            ExitCode::FAILURE
        }
    }
}
