//! `waybread-phone run`: shows the cards of paired agents, until Ctrl-C or STOP.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use anyhow::{Context, bail};
use matrix_link::Link;
use tokio::{
    io::{AsyncBufReadExt, BufReader, stdin},
    signal::unix::{SignalKind, signal},
};

use crate::{
    account::Identity,
    backend::{
        self,
        terminal::{Keyboard, Terminal},
    },
    cards::{Desk, Phone, Waiting},
    pairing::{Pairings, announce},
    prompt,
    settings::Settings,
    sink::{Received, ToChannel},
};

/// The phone's parts that a client needs to show cards.
pub(crate) struct Cards {
    pub(crate) desk: Desk,
    pub(crate) waiting: Waiting,
    pub(crate) keyboard: Keyboard,
    pub(crate) phone: Arc<Phone>,
}

impl Cards {
    /// Opens the back end that the settings ask for.
    ///
    /// # Errors
    /// The settings are wrong, or the back end can't be opened.
    pub(crate) fn open(link: &Link, identity: &Identity, state_dir: &Path) -> anyhow::Result<Self> {
        let settings = Settings::load(state_dir)?;
        let terminal = Terminal::new(io::stdout());
        let keyboard = terminal.keyboard();
        let backend = backend::open(&settings, state_dir, terminal).context("the back end")?;
        let phone = Arc::new(Phone {
            matrix: Arc::new(link.clone()),
            user: identity.user.clone(),
            device: link.device_id().context("no device")?,
            pairings: Mutex::new(Pairings::load(state_dir)?),
            backend,
            guard: settings.heat_guard,
        });
        let (desk, waiting) = Desk::new(phone.clone(), state_dir);
        Ok(Self { desk, waiting, keyboard, phone })
    }
}

/// Runs until Ctrl-C, a termination or STOP: what is open then is declined first.
///
/// # Errors
/// Nobody has logged in, nobody is paired, the settings are wrong, or the session is over.
pub(crate) async fn run(state_dir: &Path) -> anyhow::Result<()> {
    let identity = Identity::of(None, None, state_dir)?;
    let agents: Vec<_> = Pairings::load(state_dir)?.agents().map(|(user, _)| user.clone()).collect();
    if agents.is_empty() {
        bail!("no agent is paired: waybread-phone pair @agent:server");
    }
    let link = identity.open(state_dir, None, agents.clone()).await?;
    if !link.establish_trust().await.device_signed {
        bail!("this device is not verified, so no agent listens to it: waybread-phone login");
    }
    let Cards { desk, waiting, keyboard, phone } = Cards::open(&link, &identity, state_dir)?;
    let (sink, mut received) = ToChannel::new();
    let work = async {
        received.recv().await.context("the sync has ended")?;
        announce::to_all(&link, &phone).await?;
        let names: Vec<_> = agents.iter().map(ToString::to_string).collect();
        prompt::line(&format!("ready: shows the cards of {}; Ctrl-C ends it", names.join(", ")));
        let cards = desk.clone();
        tokio::select! {
            () = cards.run(waiting) => Ok(()),
            ended = see(&desk, &mut received) => ended,
            () = read(keyboard) => Ok(()),
            () = stopped(&desk) => Ok(()),
        }
    };
    tokio::select! {
        ended = link.run_sync(&sink) => ended.context("the sync has ended"),
        ended = work => ended,
    }
}

async fn see(desk: &Desk, received: &mut Received) -> anyhow::Result<()> {
    loop {
        for event in &received.recv().await.context("the sync has ended")?.events {
            desk.see(event).await;
        }
    }
}

/// Hands the terminal's lines to the card that asks; without one they mean nothing. Never ends.
async fn read(keyboard: Keyboard) {
    let mut lines = BufReader::new(stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        keyboard.offer(line);
    }
    keyboard.end();
    std::future::pending().await
}

/// Asks the desk to stop when the process is asked to. Never ends: the desk's own end is the end.
async fn stopped(desk: &Desk) {
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    if let (Ok(mut interrupt), Ok(mut terminate)) = (interrupt, terminate) {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        desk.stop();
    }
    std::future::pending().await
}
