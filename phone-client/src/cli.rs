//! The command line.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use matrix_link::{AccessEntry, AccessList, Account, Credentials, Link, SyncLimits, Trust};
use ruma::OwnedUserId;
use secrecy::SecretString;

use crate::chat;

/// The person's end of Waybread.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Talks to the agent in an encrypted direct room.
    Chat(Chat),
}

/// Who talks to whom.
#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// The homeserver's client address.
    #[arg(long, value_name = "URL")]
    homeserver: String,
    /// The person's account.
    #[arg(long, value_name = "@YOU:SERVER")]
    user: OwnedUserId,
    /// A file with the account's password, needed at the first start.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Where session and keys are kept.
    #[arg(long, value_name = "FOLDER")]
    state_dir: PathBuf,
    /// The agent's account.
    #[arg(long, value_name = "@AGENT:SERVER")]
    pub(crate) agent: OwnedUserId,
    /// Says this, prints the answer, and ends after the last. Can be given several times.
    #[arg(long, value_name = "TEXT")]
    pub(crate) say: Vec<String>,
    /// Prints the agent's messages as the events that they are, too.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Seconds to wait for an answer with --say.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    answer_seconds: u64,
}

impl Cli {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Command::Chat(chat) = self.command;
        chat::run(&chat).await
    }
}

impl Chat {
    pub(crate) fn answer_within(&self) -> Duration {
        Duration::from_secs(self.answer_seconds)
    }

    /// Opens the person's session; only the agent's invites are accepted by it.
    pub(crate) async fn open(&self) -> anyhow::Result<Link> {
        let credentials = match &self.password_file {
            None => None,
            Some(file) => {
                let password = fs::read_to_string(file).with_context(|| file.display().to_string())?;
                Some(Credentials::Password(SecretString::from(password.trim_end())))
            }
        };
        let account = Account {
            homeserver: self.homeserver.clone(),
            user: self.user.clone(),
            credentials,
            device_name: "waybread-phone".to_owned(),
            state_dir: self.state_dir.clone(),
            trust: Trust::CrossSigned,
            access: AccessList::from_iter([AccessEntry::User(self.agent.clone())]),
            limits: SyncLimits::default(),
        };
        let link = Link::open(account, None).await?;
        link.establish_trust().await;
        Ok(link)
    }
}
