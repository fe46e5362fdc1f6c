//! The chat: what is said, and what comes back. It is a phone too: the cards of a paired agent are shown in it.

use std::{collections::BTreeSet, io::IsTerminal, path::Path, time::Duration};

use anyhow::{Context, bail};
use matrix_link::{Batch, Event, EventKind, Link, Message, Outgoing, Payload, Sender, Trust};
use phone_actions::declare_phone;
use ruma::{OwnedEventId, OwnedRoomId, TransactionId, UserId};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, stdin},
    time::{Instant, timeout_at},
};

use crate::{
    account::Identity,
    backend::terminal::Keyboard,
    cards::Desk,
    cli::Chat,
    pairing::{
        Pairings, announce,
        pair::{self, Compare},
    },
    room,
    run::Cards,
    screen::Screen,
    sink::{Received, ToChannel},
};

/// Marks a message that is still being written (MSC4357).
const LIVE: &str = "org.matrix.msc4357.live";
/// An answer is complete when nothing more came for so long: the sign that the agent goes on comes a moment later.
const CALM: Duration = Duration::from_secs(1);

/// Talks to the agent, until the lines or the input end, or STOP.
pub(crate) async fn run(chat: &Chat, identity: &Identity, link: Link, state_dir: &Path) -> anyhow::Result<()> {
    let (sink, mut received) = ToChannel::new();
    tokio::select! {
        ended = link.run_sync(&sink) => ended.context("the sync has ended"),
        ended = talk(chat, identity, &link, state_dir, &mut received) => ended,
    }
}

async fn talk(
    chat: &Chat,
    identity: &Identity,
    link: &Link,
    state_dir: &Path,
    received: &mut Received,
) -> anyhow::Result<()> {
    let room = room::with_agent(link, &chat.agent, received).await?;
    if chat.pair {
        pair::with(link, &identity.user, &chat.agent, &mut Pairings::load(state_dir)?, Compare::Nobody).await?;
    }
    let Cards { desk, waiting, keyboard, phone } = Cards::open(link, identity, state_dir)?;
    let paired = phone.pairings().key(&chat.agent).is_some();
    if paired {
        announce::to_all(link, &phone).await?;
    }
    let mut talk = Talk {
        link,
        agent: &chat.agent,
        room,
        screen: Screen::new(&chat.agent),
        agent_types: false,
        raw: chat.raw,
        paired,
        desk: desk.clone(),
        cards: BTreeSet::new(),
    };
    let said = async {
        if chat.say.is_empty() {
            return talk.with_a_person(received, &keyboard).await;
        }
        let answers = answer_cards(&keyboard);
        let lines = async {
            for line in &chat.say {
                talk.screen.said(line)?;
                talk.say(line).await?;
                talk.answer(received, Instant::now() + chat.answer_within()).await?;
            }
            Ok(())
        };
        tokio::select! {
            ended = lines => ended,
            () = answers => Ok(()),
        }
    };
    tokio::select! {
        ended = said => ended,
        () = desk.run(waiting) => Ok(()),
    }
}

/// Reads lines for cards alone, each when a card asks. Never ends.
async fn answer_cards(keyboard: &Keyboard) {
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        keyboard.asked().await;
        match lines.next_line().await {
            Ok(Some(line)) => {
                keyboard.offer(line);
            }
            Ok(None) | Err(_) => break,
        }
    }
    keyboard.end();
    std::future::pending().await
}

struct Talk<'a> {
    link: &'a Link,
    agent: &'a UserId,
    room: OwnedRoomId,
    screen: Screen,
    agent_types: bool,
    raw: bool,
    paired: bool,
    desk: Desk,
    /// The cards that the phone has taken: no answers of the agent.
    cards: BTreeSet<OwnedEventId>,
}

impl Talk<'_> {
    async fn with_a_person(&mut self, received: &mut Received, keyboard: &Keyboard) -> anyhow::Result<()> {
        let mut lines = BufReader::new(stdin()).lines();
        if std::io::stdin().is_terminal() {
            self.screen.hint("Write a line and press Enter; Ctrl-D or Ctrl-C ends the chat. !help says more.")?;
        }
        self.screen.prompt()?;
        loop {
            tokio::select! {
                batch = received.recv() => {
                    self.see(&batch.context("the sync has ended")?).await?;
                }
                line = lines.next_line() => match line.context("the terminal can't be read")? {
                    None => return Ok(()),
                    Some(line) => match keyboard.offer(line) {
                        None => {}
                        Some(line) if line.trim().is_empty() => self.screen.prompt()?,
                        Some(line) => self.say(&line).await?,
                    },
                },
            }
        }
    }

    /// Waits for the agent's finished answer and shows it.
    ///
    /// It is complete when no message of it is live, no card is open, and the agent has stopped typing: a long answer comes
    /// in parts.
    async fn answer(&mut self, received: &mut Received, deadline: Instant) -> anyhow::Result<()> {
        let mut answered = false;
        loop {
            let complete = answered && !self.agent_types && !self.screen.is_live() && !self.desk.is_busy();
            let until = if complete { deadline.min(Instant::now() + CALM) } else { deadline };
            match timeout_at(until, received.recv()).await {
                Ok(batch) => answered |= self.see(&batch.context("the sync has ended")?).await?,
                Err(_) if complete => return Ok(()),
                Err(_) => bail!("no answer in time"),
            }
        }
    }

    async fn say(&self, line: &str) -> anyhow::Result<()> {
        let mut content = json!({"msgtype": "m.text", "body": line, "m.mentions": {}});
        if let (true, Some(content)) = (self.paired, content.as_object_mut()) {
            declare_phone(content);
        }
        let outgoing = Outgoing {
            room: self.room.clone(),
            txn: TransactionId::new(),
            payload: Payload::Event { event_type: "m.room.message".to_owned(), content },
        };
        self.link.send(&outgoing).await.context("not sent")?;
        Ok(())
    }

    /// Shows what the agent has said; says whether a finished message was among it.
    async fn see(&mut self, batch: &Batch) -> anyhow::Result<bool> {
        for typing in batch.typing.iter().filter(|typing| typing.room == self.room) {
            self.agent_types = typing.users.iter().any(|user| user == self.agent);
        }
        let mut finished = false;
        for event in &batch.events {
            if self.desk.see(event).await {
                self.cards.insert(event.id.clone());
                self.print_raw(event)?;
            } else if event.room == self.room && event.sender == self.agent {
                finished |= self.show(event)?;
            }
        }
        Ok(finished)
    }

    /// Shows an event; says whether it is a finished message. The room is encrypted: what came in clear need not be the
    /// agent's.
    fn show(&mut self, event: &Event) -> anyhow::Result<bool> {
        if !matches!(event.kind, EventKind::Undecryptable { .. }) && !event.counts(true, Trust::Any) {
            self.screen.hint("(not shown: it came unencrypted, so anybody at the homeserver may have written it)")?;
            return Ok(false);
        }
        let (id, message) = match &event.kind {
            EventKind::Message(message) => (&event.id, message),
            EventKind::Edit { target, message } => (target, message),
            EventKind::Undecryptable { .. } => {
                self.screen.hint("(a message that can't be decrypted)")?;
                return Ok(false);
            }
            _ => return Ok(false),
        };
        let live = is_live(message);
        self.screen.show(id, &message.body, live)?;
        if !live {
            self.print_raw(event)?;
        }
        Ok(!live && !self.cards.contains(id))
    }

    fn print_raw(&mut self, event: &Event) -> anyhow::Result<()> {
        if let (true, Some(message)) = (self.raw, event.message()) {
            let raw = json!({"type": "m.room.message", "event_id": event.id, "sender": event.sender,
                "content": message.content});
            self.screen.hint(&serde_json::to_string_pretty(&raw)?)?;
        }
        Ok(())
    }
}

fn is_live(message: &Message) -> bool {
    message.content.get(LIVE).is_some()
}
