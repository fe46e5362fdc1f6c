//! The command line.

use std::{io::IsTerminal, path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use matrix_link::Link;
use ruma::{OwnedDeviceId, OwnedUserId};

use crate::{
    account::{Identity, default_state_dir, secret_in},
    backend::buttons::Press,
    chat, check,
    login::{self, Proof},
    pairing::{
        Pairings, link,
        pair::{self, Compare},
    },
    prompt, run,
};

/// The person's end of Waybread: shows what an agent proposes, and does it on this phone once you confirm.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    /// Where session, keys and pairings are kept.
    #[arg(long, global = true, value_name = "FOLDER", env = "WAYBREAD_PHONE_STATE_DIR", default_value_os_t = default_state_dir())]
    state_dir: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Logs in as a new device of your account, and verifies it.
    Login(Login),
    /// Pairs with an agent: you compare its key, and it is told what this phone can do.
    Pair(Pair),
    /// Forgets an agent.
    Unpair {
        /// The agent's account.
        agent: OwnedUserId,
    },
    /// Says which of your other devices are on this phone, such as Element; without any, lists them.
    Link {
        /// The devices' ids.
        devices: Vec<OwnedDeviceId>,
        /// They are no longer on it.
        #[arg(long, requires = "devices")]
        remove: bool,
    },
    /// Shows the cards of paired agents, and does what you confirm, until Ctrl-C.
    Run,
    /// Talks to the agent in an encrypted direct room, and shows its cards.
    Chat(Chat),
    /// Looks whether everything would work.
    Check,
    /// Answers the card that a running client shows. For the buttons of a notification.
    #[command(hide = true)]
    Answer(Press),
}

/// Whose account, and how it is verified.
#[derive(Debug, Args)]
struct Login {
    /// The homeserver's client address, such as https://matrix.example.org.
    #[arg(long, value_name = "URL")]
    homeserver: Option<String>,
    /// Your account.
    #[arg(long, value_name = "@YOU:SERVER")]
    user: Option<OwnedUserId>,
    /// A file with the password; asked for without it.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// A file with your recovery key; asked for without it.
    #[arg(long, value_name = "FILE")]
    recovery_key_file: Option<PathBuf>,
    /// Compares emoji with another device of yours, and asks for no recovery key.
    #[arg(long, conflicts_with = "recovery_key_file")]
    emoji: bool,
}

/// With whom.
#[derive(Debug, Args)]
struct Pair {
    /// The agent's account.
    agent: OwnedUserId,
    /// The key that the agent shows at `!phone`, instead of a comparison by eye.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

/// Who talks to whom.
#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// The homeserver's client address; of the login without it.
    #[arg(long, value_name = "URL", requires = "user")]
    homeserver: Option<String>,
    /// Your account; of the login without it.
    #[arg(long, value_name = "@YOU:SERVER", requires = "homeserver")]
    user: Option<OwnedUserId>,
    /// A file with the account's password, needed at the first start.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The agent's account.
    #[arg(long, value_name = "@AGENT:SERVER")]
    pub(crate) agent: OwnedUserId,
    /// Pairs with the agent without a comparison: for whoever runs both ends, as the demo does.
    #[arg(long)]
    pub(crate) pair: bool,
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
    /// The log that a command writes unless it is asked for another: what runs unseen says what it does.
    pub(crate) fn log_filter(&self) -> &'static str {
        match self.command {
            Command::Run => "waybread_phone=info,matrix_link=warn",
            _ => "off",
        }
    }

    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let state_dir = self.state_dir;
        match self.command {
            Command::Login(login) => {
                let identity = Identity::of(login.homeserver.as_deref(), login.user.as_ref(), &state_dir)?;
                let password = match &login.password_file {
                    Some(file) => Some(secret_in(file)?),
                    None if matrix_link::keeps_session(&state_dir) => None,
                    None => Some(prompt::secret(&format!("Password of {}: ", identity.user))?),
                };
                let proof = match &login.recovery_key_file {
                    Some(file) => Proof::RecoveryKey(secret_in(file)?),
                    None if login.emoji => Proof::Emoji,
                    None => Proof::Asked,
                };
                login::log_in(&identity, &state_dir, password, proof).await
            }
            Command::Pair(Pair { agent, key }) => {
                let (identity, link) = open(&state_dir).await?;
                let mut pairings = Pairings::load(&state_dir)?;
                let mut look = |keys: &pair::Keys| {
                    prompt::line(&keys.text(&agent));
                    prompt::yes("Are both the same?")
                };
                let compare = match &key {
                    Some(key) => Compare::Key(key),
                    None if std::io::stdin().is_terminal() => Compare::Eyes(&mut look),
                    None => bail!("give the agent's key by --key, or compare it in a terminal"),
                };
                pair::with(&link, &identity.user, &agent, &mut pairings, compare).await?;
                prompt::line(&format!("Paired with {agent}. `waybread-phone run` tells it what this phone can do."));
                Ok(())
            }
            Command::Unpair { agent } => {
                if !Pairings::load(&state_dir)?.unpair(&agent)? {
                    bail!("{agent} is not paired");
                }
                prompt::line(&format!("{agent} is no longer paired. Write `!phone off` to it, so that it knows."));
                Ok(())
            }
            Command::Link { devices, remove } => {
                let (_, link) = open(&state_dir).await?;
                let mut pairings = Pairings::load(&state_dir)?;
                let (own, all) = (link.device_id().context("no device")?, link.own_devices().await?);
                let linked = link::changed(pairings.chat_devices(), &all, &own, &devices, remove)?;
                pairings.set_chat_devices(linked)?;
                prompt::line(&link::listed(&all, &own, pairings.chat_devices()));
                Ok(())
            }
            Command::Run => run::run(&state_dir).await,
            Command::Chat(chat) => {
                let identity = Identity::of(chat.homeserver.as_deref(), chat.user.as_ref(), &state_dir)?;
                let password = chat.password_file.as_deref().map(secret_in).transpose()?;
                let link = identity.open(&state_dir, password, [chat.agent.clone()]).await?;
                link.establish_trust().await;
                chat::run(&chat, &identity, link, &state_dir).await
            }
            Command::Check => check::check(&state_dir).await,
            Command::Answer(press) => press.send().context("no card waits for an answer"),
        }
    }
}

impl Chat {
    pub(crate) fn answer_within(&self) -> Duration {
        Duration::from_secs(self.answer_seconds)
    }
}

/// The session that `login` has made; invites of paired agents are accepted by it.
async fn open(state_dir: &std::path::Path) -> anyhow::Result<(Identity, Link)> {
    let identity = Identity::of(None, None, state_dir)?;
    let agents: Vec<_> = Pairings::load(state_dir)?.agents().map(|(user, _)| user.clone()).collect();
    let link = identity.open(state_dir, None, agents).await?;
    Ok((identity, link))
}
