//! Takes every event once, in order, and hands it to the conversations that it bears on.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use matrix_link::{Event, EventKind, Message, MessageKind, Protection};
use ruma::{EventId, OwnedEventId, OwnedRoomId, RoomId};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::timeout,
};

use super::{
    Input, Key, Prompt, Shared,
    commands::{self, Command},
    gate::{Facts, Reason, addressed, is_stop_word, without_mention},
    receipt::Receipt,
    task::{Mail, Pending, Task},
};
use crate::{
    observe::metrics::{self, Ignored},
    outbox::Earlier,
    room_commands,
    store::{NewLine, StoreError},
    turn::Origin,
};

/// Conversations that are kept in memory; beyond it idle ones are let go, which loses nothing.
const MAX_CONVERSATIONS: usize = 4096;
/// How long a lookup of a message that another refers to may take: all events wait for it.
const LOOKUP_WITHIN: Duration = Duration::from_secs(5);
/// The largest message that is written down, in bytes: the size of the largest event.
const MAX_TEXT: usize = 65_536;
/// A command that arrives later than this is not carried out: what it was meant for is over.
const COMMAND_WITHIN: Duration = Duration::from_secs(120);

const UNREADABLE: &str = "🔒 I can't read your last message: its key has not reached me. I answer when it comes. \
                          If your device is new, verify it, or send the message again.";

/// The sign that stops a turn, as a reaction to its draft.
const STOP_SIGN: &str = "🛑";

/// Takes events and keeps the conversations.
pub struct Hub {
    pub(super) shared: Arc<Shared>,
    conversations: HashMap<Key, Conversation>,
    /// Rooms and sessions that were told that a message can't be read.
    told_unreadable: HashSet<(OwnedRoomId, String)>,
    /// Turns that were set for later, and have begun in this run.
    pub(super) begun_later: BTreeSet<i64>,
    /// Those that have ended, and are still in the store.
    pub(super) over_later: BTreeSet<i64>,
    /// Told when one has ended.
    pub(super) ended_later: (mpsc::UnboundedSender<i64>, mpsc::UnboundedReceiver<i64>),
    began: Timestamp,
}

/// When an event has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Before this run has heard of the homeserver, or with what it heard first: it was said to nobody.
    Backlog,
    /// While the agent listened.
    Live,
    /// Before its device was there, and it has spoken behind it: it is read, and not answered again.
    Answered,
}

struct Conversation {
    mailbox: mpsc::Sender<Mail>,
    /// Every mail that is not done with holds a clone of this.
    pending: Arc<()>,
}

impl Hub {
    /// A hub without conversations.
    pub fn new(shared: Arc<Shared>) -> Self {
        let began = shared.clock.now();
        Self::since(shared, began)
    }

    /// A hub without conversations, whose agent is spoken to since this time.
    pub fn since(shared: Arc<Shared>, began: Timestamp) -> Self {
        Self {
            shared,
            conversations: HashMap::new(),
            told_unreadable: HashSet::new(),
            begun_later: BTreeSet::new(),
            over_later: BTreeSet::new(),
            // As many as there are such turns: the store bounds them.
            ended_later: mpsc::unbounded_channel(),
            began,
        }
    }

    /// Takes one event. `receipt` is dropped when it is done with, which can be long after this returns.
    ///
    /// # Errors
    /// When the store fails; then the event is to be brought again, and the receipt is void.
    pub async fn handle(&mut self, event: &Event, arrival: Arrival, receipt: Receipt) -> Result<(), StoreError> {
        let taken = self.take(event, arrival, &receipt).await;
        if taken.is_err() {
            receipt.void();
        }
        taken
    }

    async fn take(&mut self, event: &Event, arrival: Arrival, receipt: &Receipt) -> Result<(), StoreError> {
        let own = event.sender == self.shared.rooms.user_id();
        if own && let EventKind::Message(message) = &event.kind {
            return self.own_message(event, message).await;
        }
        if own && !matches!(event.kind, EventKind::Redaction { .. }) {
            return Ok(());
        }
        if let EventKind::Undecryptable { session } = &event.kind {
            self.unreadable(event, session.as_deref(), arrival).await;
            return Ok(());
        }
        let encrypted = self.shared.rooms.is_encrypted(&event.room).await;
        if !event.counts(encrypted, self.shared.trust()) {
            tracing::warn!(room = %event.room, event = %event.id, sender = %event.sender,
                protection = ?event.protection, "event does not count: passed over");
            match (&event.kind, &event.protection) {
                (EventKind::Undecryptable { .. }, _) => {}
                (_, Protection::Clear) => metrics::ignored(Ignored::Clear),
                (_, Protection::Encrypted { .. }) => metrics::ignored(Ignored::UntrustedDevice),
            }
            return Ok(());
        }
        if self.may_talk(event)
            && (self.shared.phones.answered(event).await?
                || self.shared.phones.announced(event).await?
                || self.shared.commands.answered(event).await?)
        {
            return Ok(());
        }
        match &event.kind {
            EventKind::Message(message) => self.message(event, message, arrival, receipt).await,
            EventKind::Edit { target, message } => self.edit(event, target, message).await,
            EventKind::Redaction { target } => self.redaction(event, target).await,
            EventKind::Reaction { target, key } => {
                if !self.may_talk(event) {
                    return Ok(());
                }
                if key.trim_end_matches('\u{fe0f}') == STOP_SIGN && !self.is_old(event) {
                    self.tell_room(&event.room, &Input::StopSign(target.clone()));
                }
                self.press(event, target, key, arrival, receipt).await
            }
            EventKind::Other { event_type } if event_type == room_commands::STATE_TYPE => {
                self.shared.commands.look(&event.room).await
            }
            EventKind::Membership { .. } | EventKind::Undecryptable { .. } | EventKind::Other { .. } => Ok(()),
        }
    }

    async fn message(
        &mut self,
        event: &Event,
        message: &Message,
        arrival: Arrival,
        receipt: &Receipt,
    ) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let own = shared.rooms.user_id();
        let key = Key { room: event.room.clone(), thread: message.thread.clone() };
        let direct = shared.rooms.is_direct(&event.room).await;
        let own_name = shared.rooms.display_name(&event.room, own).await;
        let words = without_mention(&message.body, own, &own_name);
        let command = Command::parse(words).filter(|_| message.kind == MessageKind::Text && self.may_talk(event));
        if command == Some(Command::Stop) {
            if self.is_carried_out(event, arrival) {
                let stopped = shared.commands.stop(event, message.thread.as_ref()).await?;
                let addressed =
                    !stopped && (direct || words != message.body.trim() || message.mentions_user(own) == Some(true));
                self.tell(key, Input::Stop { addressed }, receipt);
            }
            return Ok(());
        }
        if message.kind == MessageKind::Other {
            return Ok(());
        }
        if self.may_talk(event) && shared.commands.pasted(event, message).await? {
            return Ok(());
        }
        // Only for people who may talk: others must not be able to make everybody wait for a lookup.
        if self.may_talk(event) {
            for target in message.reply_to.iter().chain(&message.thread) {
                self.fetch_line(&event.room, target).await?;
            }
        }
        let reason = addressed(
            message,
            Facts {
                own,
                direct,
                reply_to_own: match &message.reply_to {
                    Some(target) => {
                        shared.store.line(&event.room, target).await?.is_some_and(|one| one.line.sender == own)
                    }
                    None => false,
                },
                in_own_thread: match &message.thread {
                    Some(root) => shared.store.takes_part_in(&event.room, root).await?,
                    None => false,
                },
            },
        );
        if let (Some(command), Some(_)) = (command, reason) {
            if self.is_carried_out(event, arrival) {
                self.command(command, &key, event, message).await;
            }
            return Ok(());
        }
        let pressed = self.pressed(event, message).await?;
        let presses = pressed.is_some() && message.kind != MessageKind::Notice;
        let reason = reason.or(presses.then_some(Reason::Reply));
        let mut line = self.line(event, message).await;
        if let Some(pressed) = pressed {
            line.text = format!("{} {pressed}", line.text);
        }
        let handle = shared.store.write_line(&event.room, &line).await?;
        let speaker = self.speaker(event, message.kind == MessageKind::Notice);
        let expired = self.is_over(event, arrival);
        if !self.may_talk(event) || (expired && shared.outbox.earlier(&event.id).await? == Earlier::Nothing) {
            return Ok(());
        }
        match reason {
            None if is_stop_word(words) => self.tell(key, Input::StopWord(event.sender.clone()), receipt),
            None => {}
            // What is not the task's to stop; a turn that runs here ends too.
            Some(_) if is_stop_word(words) && shared.commands.stop(event, key.thread.as_ref()).await? => {
                self.tell(key, Input::Stop { addressed: false }, receipt);
            }
            Some(_) => {
                let mut capabilities = capabilities(message);
                if shared.phones.sent_from_phone(event, message).await? {
                    shared.phones.chat(&event.room, key.thread.as_ref()).await?;
                    let phone = phone_actions::capability();
                    if !capabilities.iter().any(|one| one == phone) {
                        capabilities.push(phone.to_owned());
                    }
                }
                let origin = Origin::Person { event: event.id.clone(), device: event.device().cloned(), capabilities };
                let prompt = Prompt {
                    handle,
                    event: event.id.clone(),
                    about: Some(event.id.clone()),
                    person: event.sender.clone(),
                    text: words.to_owned(),
                    direct,
                    expired,
                    origin,
                };
                self.prompt(key, prompt, speaker, receipt);
            }
        }
        Ok(())
    }

    /// Who speaks; a person's word gives bots their turns back.
    pub(super) fn speaker(&mut self, event: &Event, notice: bool) -> Speaker {
        if notice || self.shared.settings.access.is_bot(&event.sender) {
            return Speaker::Bot;
        }
        self.shared.bots.person(self.shared.rooms.user_id(), &event.room);
        Speaker::Person
    }

    /// Hands over what is for the agent, unless bots have had their turns.
    pub(super) fn prompt(&mut self, key: Key, prompt: Prompt, speaker: Speaker, receipt: &Receipt) {
        let most = self.shared.settings.access.max_bot_turns;
        let own = self.shared.rooms.user_id();
        if speaker == Speaker::Bot && !self.shared.bots.bot(own, &key.room, most) {
            tracing::warn!(room = %key.room, sender = %prompt.person, "bots have had their turns: waiting for a person");
            return;
        }
        self.tell(key, Input::Prompt(prompt), receipt);
    }

    async fn edit(&self, event: &Event, target: &OwnedEventId, message: &Message) -> Result<(), StoreError> {
        if self.may_talk(event) && self.shared.commands.pasted(event, message).await? {
            self.shared.store.strike_line(&event.room, target).await?;
            return Ok(());
        }
        let text = text_of(message);
        if self.shared.store.rewrite_line(&event.room, target, &event.sender, &text).await? {
            self.tell_room(&event.room, &Input::Edited(target.clone()));
        }
        Ok(())
    }

    /// Takes an event's words out of all that is kept. When it was an edit, the message has its earlier text again.
    async fn redaction(&self, event: &Event, target: &OwnedEventId) -> Result<(), StoreError> {
        let store = &self.shared.store;
        let edited = store.edited_by(target).await?;
        store.strike_line(&event.room, target).await?;
        if let Some(edited) = edited
            && let Some(version) = store.newest_version(&edited).await?
            && let Some(message) = version.message()
        {
            store.rewrite_line(&event.room, &edited, &version.sender, &text_of(message)).await?;
            self.tell_room(&event.room, &Input::Edited(edited));
        }
        self.shared.phones.redacted(event, target).await?;
        self.shared.commands.redacted(event, target).await?;
        self.tell_room(&event.room, &Input::Redacted(target.clone()));
        Ok(())
    }

    async fn command(&self, command: Command<'_>, key: &Key, event: &Event, message: &Message) {
        if let Some(answer) = commands::answer(command, &self.shared, key, event, message).await {
            self.shared.notice(key, &answer);
        }
    }

    /// Writes a message down that another one refers to, where it is not there yet. That it can't be fetched is no
    /// reason to hold up the one that is here.
    async fn fetch_line(&self, room: &RoomId, id: &EventId) -> Result<(), StoreError> {
        if self.shared.store.line(room, id).await?.is_some() {
            return Ok(());
        }
        let event = match timeout(LOOKUP_WITHIN, self.shared.rooms.event(room, id)).await {
            Ok(Ok(event)) => event,
            Err(_) => {
                tracing::debug!(%room, event = %id, "target not fetched in time");
                return Ok(());
            }
            Ok(Err(error)) => {
                tracing::debug!(%room, event = %id, error = &error as &dyn std::error::Error, "target not fetched");
                return Ok(());
            }
        };
        let encrypted = self.shared.rooms.is_encrypted(room).await;
        if let EventKind::Message(message) = &event.kind
            && event.counts(encrypted, self.shared.trust())
        {
            self.shared.store.write_line(room, &self.line(&event, message).await).await?;
        }
        Ok(())
    }

    pub(super) async fn line(&self, event: &Event, message: &Message) -> NewLine {
        NewLine {
            event_id: event.id.clone(),
            thread: message.thread.clone(),
            sender: event.sender.clone(),
            name: self.shared.rooms.display_name(&event.room, &event.sender).await,
            text: text_of(message),
            reply_to: message.reply_to.clone(),
            sent_at: event.sent_at,
        }
    }

    /// A message whose key has not come. Where all messages are for the agent, the room is told, once a session; elsewhere
    /// it may be for others.
    async fn unreadable(&mut self, event: &Event, session: Option<&str>, arrival: Arrival) {
        tracing::warn!(room = %event.room, event = %event.id, sender = %event.sender, "no key for an event (yet)");
        let told = (event.room.clone(), session.unwrap_or_default().to_owned());
        if !self.may_talk(event)
            || self.is_over(event, arrival)
            || self.told_unreadable.contains(&told)
            || !self.shared.rooms.is_direct(&event.room).await
        {
            return;
        }
        if self.told_unreadable.len() >= MAX_CONVERSATIONS {
            self.told_unreadable.clear();
        }
        self.told_unreadable.insert(told);
        let (shared, event) = (self.shared.clone(), event.clone());
        tokio::spawn(async move {
            tokio::time::sleep(shared.settings.inbox.unreadable_after).await;
            match shared.store.is_undecrypted(&event.id).await {
                Ok(true) => shared.notice(&Key { room: event.room, thread: None }, UNREADABLE),
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "what waits for a key can't be read");
                }
            }
        });
    }

    pub(super) fn may_talk(&self, event: &Event) -> bool {
        self.shared.settings.access.allow.allows(&event.sender)
    }

    /// Too old to be answered.
    fn is_old(&self, event: &Event) -> bool {
        older(event, self.shared.clock.now(), self.shared.settings.inbox.answer_within)
    }

    /// Answered before this device was there, or too old to be answered.
    pub(super) fn is_over(&self, event: &Event, arrival: Arrival) -> bool {
        arrival == Arrival::Answered || self.is_old(event)
    }

    /// Whether a command is meant for this run. By its time too: a homeserver may answer the first round of sync with what
    /// it had ready for the run before, so that the backlog comes in two.
    fn is_carried_out(&self, event: &Event, arrival: Arrival) -> bool {
        let meant = arrival == Arrival::Live
            && !older(event, self.began, Duration::ZERO)
            && !older(event, self.shared.clock.now(), COMMAND_WITHIN);
        if !meant {
            tracing::info!(room = %event.room, event = %event.id, "command of an earlier time left out");
        }
        meant
    }

    /// Tells a conversation, which begins by it if it must. Says to the room what it can't take.
    fn tell(&mut self, key: Key, input: Input, receipt: &Receipt) {
        if self.hand(&key, input, receipt) == Err(Refusal::Full) {
            tracing::warn!(room = %key.room, "conversation is full: message refused");
            self.shared
                .notice(&key, "⚠ Too much at once: I have left your last message out. Please send it again later.");
        }
    }

    /// Puts something into a conversation's mailbox.
    pub(super) fn hand(&mut self, key: &Key, input: Input, receipt: &Receipt) -> Result<(), Refusal> {
        if self.conversations.len() >= MAX_CONVERSATIONS {
            self.conversations.retain(|_, conversation| Arc::strong_count(&conversation.pending) > 1);
        }
        let conversation = self.conversations.entry(key.clone()).or_insert_with_key(|key| {
            let (mailbox, mails) = mpsc::channel(self.shared.settings.turn.max_waiting);
            tokio::spawn(Task::new(self.shared.clone(), key.clone(), mails).run());
            Conversation { mailbox, pending: Arc::new(()) }
        });
        let handed = conversation.put(input, Some(receipt.clone()));
        // Its task has ended in a panic: the next message begins it anew, and this one does not cost another.
        if handed == Err(Refusal::Gone) {
            tracing::error!(room = %key.room, "the conversation's task is gone");
            self.conversations.remove(key);
        }
        handed
    }

    /// Tells all conversations of a room, if they are there.
    fn tell_room(&self, room: &RoomId, input: &Input) {
        for (key, conversation) in &self.conversations {
            if key.room == room && conversation.put(input.clone(), None).is_err() {
                tracing::warn!(%room, "conversation is full: signal lost");
            }
        }
    }
}

impl Conversation {
    /// Puts something into the mailbox.
    fn put(&self, input: Input, receipt: Option<Receipt>) -> Result<(), Refusal> {
        let pending = Pending { _conversation: self.pending.clone(), _receipt: receipt };
        self.mailbox.try_send(Mail { input, pending }).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::Full,
            TrySendError::Closed(_) => Refusal::Gone,
        })
    }
}

/// Why a mailbox did not take something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Full,
    Gone,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    Person,
    Bot,
}

fn older(event: &Event, than: Timestamp, by: Duration) -> bool {
    let sent_at = i64::from(event.sent_at.get());
    let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    than.as_millisecond().saturating_sub(sent_at) > by
}

/// What the sending device says it can do (docs/wire.md).
fn capabilities(message: &Message) -> Vec<String> {
    message.content["dev.waybread.capabilities"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str().map(str::to_owned))
        .take(16)
        .collect()
}

fn text_of(message: &Message) -> String {
    let text = match message.kind {
        MessageKind::Emote => format!("* {}", message.body),
        MessageKind::Media => format!("(sent a file: {})", message.body),
        MessageKind::Text | MessageKind::Notice | MessageKind::Other => message.body.clone(),
    };
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}
