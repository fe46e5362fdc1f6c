//! `waybread-phone`: the person's end of Waybread, in a terminal or on a phone.
//!
//! - `cli`: the command line;
//! - `account`, `login`: whose account, its session, and how its device is verified;
//! - `pairing`: whose cards are taken, and which devices are on this phone;
//! - `cards`: from a card to its answer;
//! - `backend`: what asks the person and acts; `safety`: what the phone refuses by itself; `settings`: what its owner
//!   decides;
//! - `run`: cards alone; `chat`: a chat that shows them too, with `room` and `screen`; `check`: whether all would work;
//! - `sink`, `prompt`: the sync's batches, and questions in the terminal.

#![recursion_limit = "256"]

mod account;
mod backend;
mod cards;
mod chat;
mod check;
mod cli;
mod login;
mod pairing;
mod prompt;
mod room;
mod run;
mod safety;
mod screen;
mod settings;
mod sink;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let filter = EnvFilter::try_from_env("WAYBREAD_PHONE_LOG").unwrap_or_else(|_| EnvFilter::new(cli.log_filter()));
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
