//! One conversation: one turn at a time, and told of everything that bears on it.

use std::{collections::VecDeque, pin::pin, sync::Arc};

use ruma::{MilliSecondsSinceUnixEpoch, OwnedEventId};
use tokio::sync::mpsc;
use tracing::Instrument;

use super::{
    Input, Key, Prompt, Shared,
    commands::chosen,
    gate::is_stop_word,
    later,
    perception::{Fence, RoomPerception},
    receipt::Receipt,
};
use crate::{
    observe::{metrics, turn_span},
    outbox::{Answer, Earlier, Place, Post, PostEvent, Text},
    rich::Here,
    store::NewLine,
    tools::Toolbox,
    turn::{self, DraftSettings, Origin, Seat, Signal, Turn},
};

/// Signals to a running turn that it has not read yet. It reads them at once, or is about to end.
const MAX_SIGNALS: usize = 64;

const RESTARTED: &str = "⏹ I was restarted while I wrote this, and came back too late to finish. Please ask again.";

const FULL: &str = "⚠ Too many are waiting: I leave out what comes now. Please send it again when I have answered.";

const NOTHING_RUNS: &str = "Nothing is running here.";

/// An input, until it is done with.
pub(super) struct Mail {
    pub input: Input,
    pub pending: Pending,
}

/// Held while something is not done with: its conversation is not let go, and its event is not acknowledged.
pub(super) struct Pending {
    pub _conversation: Arc<()>,
    pub _receipt: Option<Receipt>,
}

/// A prompt that waits for its turn.
struct Waiting {
    prompt: Prompt,
    _pending: Pending,
}

/// The task of a conversation.
pub(super) struct Task {
    shared: Arc<Shared>,
    key: Key,
    mails: mpsc::Receiver<Mail>,
    waiting: VecDeque<Waiting>,
    fence: Fence,
}

/// What a running turn can be told.
struct Running {
    signals: mpsc::Sender<Signal>,
    draft: PostEvent,
    prompt: Prompt,
    /// Messages of the same person since the prompt.
    steered: VecDeque<Waiting>,
    /// Whether somebody was refused already: it is said once a turn.
    refused: bool,
}

impl Task {
    pub(super) fn new(shared: Arc<Shared>, key: Key, mails: mpsc::Receiver<Mail>) -> Self {
        Self { shared, key, mails, waiting: VecDeque::new(), fence: Fence::new() }
    }

    /// Runs until nobody can write to it any more.
    pub(super) async fn run(mut self) {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                let span = turn_span(&self.key.room, &next.prompt.event);
                self.turn(next).instrument(span).await;
            } else if let Some(mail) = self.mails.recv().await {
                self.when_idle(mail);
            } else {
                return;
            }
        }
    }

    fn when_idle(&mut self, mail: Mail) {
        match mail.input {
            Input::Stop { addressed: true } => self.shared.notice(&self.key, NOTHING_RUNS),
            Input::Stop { addressed: false } => {}
            Input::Prompt(prompt) if prompt.is_attended() && is_stop_word(&prompt.text) => {
                self.shared.notice(&self.key, NOTHING_RUNS);
            }
            Input::Prompt(prompt) => self.waiting.push_back(Waiting { prompt, _pending: mail.pending }),
            Input::StopWord(_) | Input::StopSign(_) | Input::Edited(_) | Input::Redacted(_) => {}
        }
    }

    async fn turn(&mut self, waiting: Waiting) {
        let (signals, told) = mpsc::channel(MAX_SIGNALS);
        let prompt = waiting.prompt.clone();
        let place = place(&self.key, &prompt);
        self.shared.outbox.taken_up(&self.key.room).await;
        let draft = match self.shared.outbox.earlier(&prompt.event).await {
            Ok(Earlier::Finished) => return,
            Ok(Earlier::Nothing) => None,
            Ok(Earlier::Draft(draft)) => Some(draft),
            Ok(Earlier::Decided(answer)) => return self.deliver_again(&prompt, &answer).await,
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "what was sent can't be read");
                None
            }
        };
        let room = self.key.room.clone();
        let post = self.shared.outbox.answer_post(room, place.clone(), prompt.event.clone(), draft);
        if prompt.expired {
            return self.end_expired(&prompt, post).await;
        }
        // What the same person has written since is for this turn too.
        let (steered, others) = self.waiting.drain(..).partition(|one| one.prompt.steers(&prompt));
        self.waiting = others;
        let mut running =
            Running { signals, draft: post.first_event(), prompt: prompt.clone(), steered, refused: false };
        for waiting in &running.steered {
            running.steer(&waiting.prompt);
        }
        let shared = self.shared.clone();
        let (key, fence) = (self.key.clone(), self.fence.clone());
        let mut work = pin!(async move {
            let mut told = told;
            let seat = tokio::select! {
                seat = Seat::take(&shared.places) => seat?,
                () = stopped(&mut told) => return None,
            };
            let turn = tokio::select! {
                turn = prepare(shared.clone(), key, &prompt, fence) => turn?,
                () = stopped(&mut told) => return None,
            };
            Some(turn::run(turn, post, prompt.handle, told, seat).await)
        });
        let outcome = loop {
            tokio::select! {
                outcome = &mut work => break outcome,
                Some(mail) = self.mails.recv() => self.while_running(&mut running, mail),
            }
        };
        let Some(outcome) = outcome else { return };
        tracing::info!(end = metrics::end_of(&outcome.end), "turn ended");
        self.remember(&outcome.text, outcome.events.first()).await;
        self.delivered(&waiting.prompt).await;
        // What the turn did not see is for the next one, before the words of others.
        while let Some(unseen) = running.steered.pop_back() {
            if unseen.prompt.handle > outcome.seen {
                self.waiting.push_front(unseen);
            }
        }
    }

    fn while_running(&mut self, running: &mut Running, mail: Mail) {
        match mail.input {
            // The store bounds how many there are.
            Input::Prompt(prompt) if !prompt.is_attended() => {
                self.waiting.push_back(Waiting { prompt, _pending: mail.pending });
            }
            Input::Prompt(prompt) if is_stop_word(&prompt.text) => running.stop(),
            Input::Prompt(prompt) if prompt.steers(&running.prompt) => {
                if running.steered.len() >= self.shared.settings.turn.max_waiting {
                    // Its words stand in the transcript, where the turn on a later one reads them.
                    running.steered.pop_front();
                }
                running.steer(&prompt);
                running.steered.push_back(Waiting { prompt, _pending: mail.pending });
            }
            Input::Prompt(prompt) => self.wait(Waiting { prompt, _pending: mail.pending }, &mut running.refused),
            Input::Stop { .. } => running.stop(),
            Input::StopWord(person) if person == running.prompt.person => running.stop(),
            Input::StopSign(target) if running.draft.get() == Some(target.clone()) => running.stop(),
            Input::Edited(event) if event == running.prompt.event => running.tell(Signal::Replaced),
            Input::Redacted(event) if event == running.prompt.event => running.stop(),
            Input::Redacted(event) => {
                self.waiting.retain(|one| one.prompt.event != event);
                running.steered.retain(|one| one.prompt.event != event);
            }
            Input::StopWord(_) | Input::StopSign(_) | Input::Edited(_) => {}
        }
    }

    fn wait(&mut self, waiting: Waiting, refused: &mut bool) {
        if self.waiting.len() < self.shared.settings.turn.max_waiting {
            self.waiting.push_back(waiting);
            return;
        }
        tracing::warn!(room = %self.key.room, "conversation is full: message refused");
        if !std::mem::replace(refused, true) {
            self.shared.notice(&self.key, FULL);
        }
    }

    /// Brings to the room what an earlier run has decided to say.
    async fn deliver_again(&mut self, prompt: &Prompt, answer: &Answer) {
        tracing::info!("answer of an earlier run is delivered");
        let sent = self.shared.outbox.draft_of(&prompt.event).await;
        let post =
            self.shared.outbox.answer_post(answer.room.clone(), answer.place.clone(), prompt.event.clone(), sent);
        match self.shared.outbox.deliver(post, answer).await {
            Ok(events) => {
                let text = answer.remembered.as_deref().unwrap_or_default();
                self.remember(text, events.first()).await;
                self.delivered(prompt).await;
            }
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "answer lost"),
        }
    }

    /// Ends a draft of an earlier run whose question is too old to be answered now.
    async fn end_expired(&mut self, prompt: &Prompt, post: Post) {
        let answer = Answer {
            origin: Some(prompt.event.clone()),
            room: self.key.room.clone(),
            place: place(&self.key, prompt),
            parts: vec![Text::notice(RESTARTED)],
            remembered: None,
        };
        if let Err(error) = self.shared.outbox.deliver(post, &answer).await {
            tracing::error!(error = &error as &dyn std::error::Error, "draft not ended");
        }
        self.delivered(prompt).await;
    }

    async fn delivered(&self, prompt: &Prompt) {
        if let Err(error) = self.shared.store.delivered(&prompt.event).await {
            tracing::error!(error = &error as &dyn std::error::Error, "delivery not noted");
        }
    }

    /// Writes down what was said.
    async fn remember(&self, text: &str, event: Option<&OwnedEventId>) {
        let Some(event_id) = event.cloned().filter(|_| !text.is_empty()) else { return };
        let own = self.shared.rooms.user_id().to_owned();
        let line = NewLine {
            event_id,
            thread: self.key.thread.clone(),
            name: self.shared.rooms.display_name(&self.key.room, &own).await,
            sender: own,
            text: text.to_owned(),
            reply_to: None,
            sent_at: MilliSecondsSinceUnixEpoch::now(),
        };
        if let Err(error) = self.shared.store.write_line(&self.key.room, &line).await {
            tracing::error!(error = &error as &dyn std::error::Error, "own answer not written down");
        }
    }
}

impl Prompt {
    /// Whether somebody has said something; else the agent has told it to itself.
    fn is_attended(&self) -> bool {
        matches!(self.origin, Origin::Person { .. })
    }

    /// Whether it is more of what a turn is about: the same person's words. What the agent has set itself stands alone.
    fn steers(&self, running: &Self) -> bool {
        self.is_attended() && self.person == running.person
    }
}

impl Running {
    /// The person has said more: the turn takes it in at its next step.
    fn steer(&self, prompt: &Prompt) {
        self.tell(Signal::Steer { handle: prompt.handle, origin: prompt.origin.clone() });
    }

    /// Ends the turn, and with it what the person had added before. What is said after the stop is for a new turn.
    fn stop(&mut self) {
        self.steered.clear();
        self.tell(Signal::Stop);
    }

    /// A turn that does not read any more is about to end by itself.
    fn tell(&self, signal: Signal) {
        let _ = self.signals.try_send(signal);
    }
}

/// Where the answer to a prompt stands: in a group it is a reply, so that people see to what.
fn place(key: &Key, prompt: &Prompt) -> Place {
    Place { thread: key.thread.clone(), reply_to: prompt.about.clone().filter(|_| !prompt.direct) }
}

async fn stopped(told: &mut mpsc::Receiver<Signal>) {
    while let Some(signal) = told.recv().await {
        if signal == Signal::Stop {
            return;
        }
    }
    std::future::pending().await
}

/// What the model can do in a turn there.
pub(super) async fn toolbox(shared: &Arc<Shared>, here: &Here) -> Toolbox {
    let mut own_tools = shared.rich.tools(here).await;
    own_tools.extend(later::tool(shared, here));
    own_tools.extend(shared.phones.tool(here).await);
    own_tools.extend(shared.commands.tool(here).await);
    shared.tools.with(own_tools)
}

async fn prepare(shared: Arc<Shared>, key: Key, prompt: &Prompt, fence: Fence) -> Option<Turn> {
    let model = match chosen(&shared, &key).await {
        Ok(model) => model.or(shared.models.first())?.model.clone(),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the room's model can't be read");
            shared.models.first()?.model.clone()
        }
    };
    let here = Here {
        room: key.room.clone(),
        thread: key.thread.clone(),
        person: prompt.person.clone(),
        origin: prompt.event.clone(),
    };
    let tools = toolbox(&shared, &here).await;
    let settings = &shared.settings;
    let attended = matches!(prompt.origin, Origin::Person { .. });
    let draft = DraftSettings {
        room: key.room.clone(),
        origin: Some(prompt.event.clone()),
        place: place(&key, prompt),
        mentions: if prompt.direct || !attended { Vec::new() } else { vec![prompt.person.clone()] },
        agents: settings.access.agents.clone(),
        first_after: settings.draft.first_after,
        max_event_bytes: settings.outbox.max_event_bytes,
        buttons: settings.rich.tools,
        seeds: settings.rich.seed_reactions,
    };
    Some(Turn {
        origin: prompt.origin.clone(),
        model,
        tools: tools.clone(),
        outbox: shared.outbox.clone(),
        typing: shared.typing.clone(),
        draft,
        limits: settings.turn.clone(),
        perception: Arc::new(RoomPerception::new(shared.clone(), key, prompt, fence, tools)),
    })
}
