//! `waybread verify`: a person verifies the agent, with an operator who compares the emoji on the terminal.
//!
//! What comes in meanwhile waits in the inbox for the next run.

use std::{
    io::{self, BufRead, Write},
    time::Duration,
};

use anyhow::{anyhow, bail};
use async_trait::async_trait;
use matrix_link::{Comparison, Confirm, Rooms, Trust, Verifier, VerifyError};
use ruma::UserId;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{Start, open};
use crate::{
    config::{Config, Mode},
    inbox::Inbox,
    state_dir::StateDir,
};

/// How long it waits for a verification that succeeds.
const WAIT: Duration = Duration::from_secs(900);

/// Waits until somebody has verified the agent's device.
///
/// # Errors
/// When the session does not open, or nobody has verified it in time.
pub async fn verify(mut config: Config) -> anyhow::Result<()> {
    if config.mode == Mode::Appservice {
        bail!("mode: the agents of an appservice have nobody at a terminal who compares emoji");
    }
    // In an encrypted room what we say to somebody whom we have not verified yet must reach them. Nothing else is said.
    if config.access.trust == Trust::Verified {
        config.access.trust = Trust::CrossSigned;
    }
    let held = StateDir::open(&config.matrix.state_dir)?;
    let store = open::store(&config, &held).await?;
    let link = open::link(&config, &store, Start::default(), None).await?;
    let inbox = Inbox::new(store, config.inbox.max_queued);
    let (verified, mut is_verified) = mpsc::channel(1);
    let operator = Operator { verified };
    let confirm = Confirm::By(&operator);
    writeln!(
        io::stdout(),
        "waiting: verify {} from your client; in Element: its profile, \"Verify\", \"Verify by emoji\"",
        link.user_id()
    )?;
    let waited = timeout(WAIT, async {
        tokio::select! {
            ended = link.run_sync(&inbox) => Err(ended.err().map_or_else(|| anyhow!("sync ended"), super::advise)),
            () = link.answer_verifications(&confirm) => Err(anyhow!("no verification can be answered any more")),
            _ = is_verified.recv() => Ok(()),
        }
    });
    waited
        .await
        .unwrap_or_else(|_| Err(anyhow!("nobody has verified the agent within {} minutes", WAIT.as_secs() / 60)))
}

/// The operator at the terminal.
struct Operator {
    verified: mpsc::Sender<()>,
}

#[async_trait]
impl Verifier for Operator {
    async fn same(&self, comparison: &Comparison) -> bool {
        ask(&question(comparison)).await
    }

    async fn ended(&self, user: &UserId, outcome: &Result<(), VerifyError>) {
        let line = match outcome {
            Ok(()) => format!("verified: {user}"),
            Err(error) => format!("not verified: {user}: {error}"),
        };
        let _ = writeln!(io::stdout(), "{line}");
        if outcome.is_ok() {
            let _ = self.verified.try_send(());
        }
    }
}

fn question(comparison: &Comparison) -> String {
    let Comparison { user, device, emoji } = comparison;
    let emoji: Vec<_> = emoji.iter().map(|one| format!("  {}  {}\n", one.symbol, one.name)).collect();
    format!("{user} (device {device}) should see:\n{}The same, in the same order? [yes/no] ", emoji.concat())
}

/// Asks on the terminal; anything but a yes is a no. A thread of its own, since nothing ends a read from a terminal.
async fn ask(question: &str) -> bool {
    let mut out = io::stdout();
    if write!(out, "{question}").and_then(|()| out.flush()).is_err() {
        return false;
    }
    let (answer, answered) = oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let _ = answer.send(read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes"));
    });
    answered.await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use matrix_link::Emoji;
    use ruma::{owned_device_id, owned_user_id};

    use super::*;

    #[test]
    fn the_operator_sees_who_asks_and_what_to_compare() {
        let emoji =
            [("🐶", "Dog"), ("🔑", "Key")].map(|(symbol, name)| Emoji { symbol: symbol.into(), name: name.into() });
        let (user, device) = (owned_user_id!("@alice:example.org"), owned_device_id!("PHONE"));
        insta::assert_snapshot!(question(&Comparison { user, device, emoji: emoji.into() }), @r"
        @alice:example.org (device PHONE) should see:
          🐶  Dog
          🔑  Key
        The same, in the same order? [yes/no] 
        ");
    }
}
