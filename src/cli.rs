//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// An LLM agent that lives in Matrix rooms.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the agent until it is ended (Ctrl-C, SIGTERM).
    Run {
        /// The configuration; config.toml in this folder where none is named, else the built-in defaults.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Tries all that the agent needs, and says what to do about what does not work; the agent must not be running.
    Check {
        /// The configuration, as for `run`.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Prints one JSON object instead of lines.
        #[arg(long)]
        json: bool,
    },
}
