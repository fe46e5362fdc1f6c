//! The chat: what is said, and what comes back.

use std::{collections::BTreeSet, io::IsTerminal};

use anyhow::{Context, bail};
use async_trait::async_trait;
use matrix_link::{
    Batch, Event, EventKind, Link, Message, Outgoing, Payload, Sender, Sink, SinkError, Trust, Undecrypted,
};
use ruma::{OwnedEventId, OwnedRoomId, RoomId, TransactionId, UserId};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, stdin},
    sync::mpsc,
    time::{Instant, timeout_at},
};

use crate::{cli::Chat, room, screen::Screen};

/// Batches that wait to be shown; the sync waits for a place.
const MAX_BATCHES: usize = 64;
/// Marks a message that is still being written (MSC4357).
const LIVE: &str = "org.matrix.msc4357.live";

/// What the sync brings.
pub(crate) type Received = mpsc::Receiver<Batch>;

struct ToChat(mpsc::Sender<Batch>);

#[async_trait]
impl Sink for ToChat {
    async fn commit(&self, batch: &Batch) -> Result<(), SinkError> {
        self.0.send(batch.clone()).await.map_err(|error| SinkError(Box::new(error)))
    }

    async fn kept(&self, _: &RoomId, _: &[OwnedEventId]) -> Result<Option<BTreeSet<OwnedEventId>>, SinkError> {
        Ok(None)
    }

    async fn undecrypted(&self, _: Option<&str>, _: u32) -> Result<Vec<Undecrypted>, SinkError> {
        Ok(Vec::new())
    }

    async fn decrypted(&self, _: &Event) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Talks to the agent, until the lines or the input end.
pub(crate) async fn run(chat: &Chat) -> anyhow::Result<()> {
    let link = chat.open().await?;
    let (sink, mut received) = mpsc::channel(MAX_BATCHES);
    let sink = ToChat(sink);
    tokio::select! {
        ended = link.run_sync(&sink) => ended.context("the sync has ended"),
        ended = talk(chat, &link, &mut received) => ended,
    }
}

async fn talk(chat: &Chat, link: &Link, received: &mut Received) -> anyhow::Result<()> {
    let room = room::with_agent(link, &chat.agent, received).await?;
    let mut talk =
        Talk { link, agent: &chat.agent, room, screen: Screen::new(&chat.agent), agent_types: false, raw: chat.raw };
    if chat.say.is_empty() {
        return talk.with_a_person(received).await;
    }
    for line in &chat.say {
        talk.screen.said(line)?;
        talk.say(line).await?;
        talk.answer(received, Instant::now() + chat.answer_within()).await?;
    }
    Ok(())
}

struct Talk<'a> {
    link: &'a Link,
    agent: &'a UserId,
    room: OwnedRoomId,
    screen: Screen,
    agent_types: bool,
    raw: bool,
}

impl Talk<'_> {
    async fn with_a_person(&mut self, received: &mut Received) -> anyhow::Result<()> {
        let mut lines = BufReader::new(stdin()).lines();
        if std::io::stdin().is_terminal() {
            self.screen.hint("Write a line and press Enter; Ctrl-D or Ctrl-C ends the chat. !help says more.")?;
        }
        self.screen.prompt()?;
        loop {
            tokio::select! {
                batch = received.recv() => {
                    for event in self.of_the_agent(&batch.context("the sync has ended")?) {
                        self.show(&event)?;
                    }
                }
                line = lines.next_line() => match line.context("the terminal can't be read")? {
                    None => return Ok(()),
                    Some(line) if line.trim().is_empty() => self.screen.prompt()?,
                    Some(line) => self.say(&line).await?,
                },
            }
        }
    }

    /// Waits for the agent's finished answer and shows it.
    ///
    /// It is complete when no message of it is live and the agent has stopped typing: a long answer comes in parts.
    async fn answer(&mut self, received: &mut Received, deadline: Instant) -> anyhow::Result<()> {
        let mut answered = false;
        while !answered || self.agent_types || self.screen.is_live() {
            let batch = match timeout_at(deadline, received.recv()).await {
                Ok(batch) => batch.context("the sync has ended")?,
                Err(_) => bail!("no answer in time"),
            };
            for event in self.of_the_agent(&batch) {
                answered |= self.show(&event)?;
            }
        }
        Ok(())
    }

    async fn say(&self, line: &str) -> anyhow::Result<()> {
        let content = json!({"msgtype": "m.text", "body": line, "m.mentions": {}});
        let outgoing = Outgoing {
            room: self.room.clone(),
            txn: TransactionId::new(),
            payload: Payload::Event { event_type: "m.room.message".to_owned(), content },
        };
        self.link.send(&outgoing).await.context("not sent")?;
        Ok(())
    }

    fn of_the_agent(&mut self, batch: &Batch) -> Vec<Event> {
        for typing in batch.typing.iter().filter(|typing| typing.room == self.room) {
            self.agent_types = typing.users.iter().any(|user| user == self.agent);
        }
        let here = |event: &&Event| event.room == self.room && event.sender == self.agent;
        batch.events.iter().filter(here).cloned().collect()
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
        if self.raw && !live {
            let raw = json!({"type": "m.room.message", "event_id": event.id, "sender": event.sender,
                "content": message.content});
            self.screen.hint(&serde_json::to_string_pretty(&raw)?)?;
        }
        Ok(!live)
    }
}

fn is_live(message: &Message) -> bool {
    message.content.get(LIVE).is_some()
}
