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
}
