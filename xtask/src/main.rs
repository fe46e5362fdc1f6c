//! Runs the project: `cargo xtask demo` for a first chat, `cargo xtask test` for the whole test suite, `cargo xtask
//! bench` for what it costs.
//!
//! A newcomer compiles this crate before anything else, so it stays small: plain threads and processes,
//! no async runtime, no TLS. What it needs from outside (Synapse, the embedded model) is fetched by pip.
#![allow(clippy::print_stdout, reason = "this program's output is for the person who runs it")]

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

mod appservices;
mod bench;
mod browser;
mod cache;
mod cargo;
mod demo;
mod guard;
mod homeserver;
mod interrupt;
mod model;
mod net;
mod process;
mod progress;
mod python;
mod secret;
mod test;
mod testbed;
mod toolchain;

use self::progress::say;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Runs the project")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Chat with the agent in an encrypted room, on a homeserver of your own on this machine.
    Demo(demo::Options),
    /// Format, clippy, and every test, end to end against a real homeserver.
    Test {
        /// Kill the agent at fifty random points instead of three.
        #[arg(long)]
        long: bool,
        /// Handed to `cargo test`.
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Measure delays, memory, requests and CPU of a release build, and write them to docs/performance.md.
    Bench,
    /// Runs a command that ends with its parent (used by the other tasks).
    #[command(hide = true)]
    Guard {
        /// The program.
        program: PathBuf,
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Demo(options) => interrupt::listen().and_then(|()| demo::run(options)),
        Task::Test { long, arguments } => {
            let length = if long { test::Length::Long } else { test::Length::Usual };
            interrupt::listen().and_then(|()| test::run(length, &arguments))
        }
        Task::Bench => interrupt::listen().and_then(|()| bench::run()),
        Task::Guard { program, arguments } => guard::run(&program, &arguments, std::io::stdin()),
    };
    result.unwrap_or_else(|error| report(&error))
}

/// An interruption is what the person asked for, no error. A failed command's exit code becomes ours.
fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<interrupt::Interrupted>() {
        say("\nEnded.");
        return ExitCode::from(interrupt::EXIT_CODE);
    }
    say(format_args!("\nerror: {error:#}"));
    match error.downcast_ref::<process::Failed>() {
        Some(failed) => failed.exit_code(),
        None => ExitCode::FAILURE,
    }
}
