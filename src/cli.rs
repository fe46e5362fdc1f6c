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
        /// Gives the account a new cross-signing identity and a new recovery key. For an account whose recovery key is
        /// lost: people must verify it anew, and its key backup is deleted.
        #[arg(long)]
        reset_identity: bool,
        /// Logs in as a new device, with the password. For a device whose encryption keys are lost; the old session is
        /// kept in the state folder, in old-devices.
        #[arg(long)]
        new_device: bool,
    },
    /// Waits until a person verifies the agent's device from their client, and asks here whether the emoji are the same.
    /// The agent must not run.
    Verify {
        /// The configuration; config.toml in this folder where none is named, else the built-in defaults.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Writes the file by which a homeserver knows the appservice, for mode = "appservice".
    Registration {
        /// The configuration, as for `run`.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Writes it anew where there is one, with the same secrets.
        #[arg(long)]
        replace: bool,
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
