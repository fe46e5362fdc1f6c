//! The loop of a turn.

use std::{future::ready, sync::Arc};

use futures_util::{FutureExt, StreamExt, future::join_all};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    DraftSettings, End, Limit, NO_REPLY, Origin, Outcome, Perception, Signal, TurnError,
    draft::{Draft, Memory},
    limits::{LoopBreaker, Verdict},
    seat::Seat,
    steering::{Interruption, Steering},
    typing::Typing,
};
use crate::{
    config,
    model::{Delta, Finish, Message, Model, Request, ToolCall},
    observe::metrics::{self, RunningTurn},
    outbox::{Outbox, Post},
    tools::{Begun, Output, Toolbox, WorkingTime},
};

/// Tool calls of one step that are run; a model that writes more is told so.
const MAX_CALLS: usize = 16;

const CIRCLES: &str = "You have done this before in this turn, and nothing new came of it. \
                       Do something else, or answer with what you know.";
const ANSWER_CUT: &str = "⏹ Cut off: the answer reached its limit.";

/// All that a turn works with.
pub struct Turn {
    /// Where it comes from.
    pub origin: Origin,
    /// Who thinks.
    pub model: Arc<dyn Model>,
    /// What it can do.
    pub tools: Toolbox,
    /// What it sees.
    pub perception: Arc<dyn Perception>,
    /// The way out.
    pub outbox: Outbox,
    /// Shows that it is at work.
    pub typing: Typing,
    /// Where and how the answer is posted.
    pub draft: DraftSettings,
    /// Its bounds.
    pub limits: config::Turn,
}

/// What a step came to.
enum Step {
    Said { calls: Vec<ToolCall>, finish: Finish },
    Replaced,
    Ended(End),
}

/// Runs a turn into `post`. `up_to` is the handle of the newest prompt taken; `seat` is given back when the model's work
/// is done, since delivery can take as long as the homeserver is away.
pub async fn run(turn: Turn, post: Post, up_to: i64, signals: mpsc::Receiver<Signal>, mut seat: Seat<'_>) -> Outcome {
    let running = RunningTurn::begin();
    let outcome = work(turn, post, up_to, signals, &mut seat).await;
    running.ended(&outcome.end);
    outcome
}

async fn work(turn: Turn, post: Post, up_to: i64, signals: mpsc::Receiver<Signal>, seat: &mut Seat<'_>) -> Outcome {
    let mut steering = Steering::new(signals, turn.origin.clone());
    let typing = turn.typing.begin(turn.draft.room.clone());
    let mut draft = Draft::new(turn.outbox.clone(), post, turn.draft.clone());
    let mut seen = up_to;
    let (end, mark) = match turn.steps(&mut draft, &mut seen, &mut steering, seat).await {
        Ok((end, mark)) => (end, mark),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "turn failed");
            (End::Failed(error.to_string()), Some(error.for_people()))
        }
    };
    seat.give_back();
    let nothing = Outcome { end: end.clone(), seen, text: String::new(), events: Vec::new() };
    if end == End::NoReply {
        draft.discard();
        typing.end().await;
        return nothing;
    }
    let memory = if matches!(end, End::Failed(_)) { Memory::Forgotten } else { Memory::Remembered };
    let delivered = draft.finish(mark, memory).await;
    typing.end().await;
    match delivered {
        Ok(finished) => Outcome { text: finished.text, events: finished.events, ..nothing },
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "answer lost");
            Outcome { end: error.into(), ..nothing }
        }
    }
}

impl Turn {
    async fn steps(
        &self,
        draft: &mut Draft,
        seen: &mut i64,
        steering: &mut Steering,
        seat: &mut Seat<'_>,
    ) -> Result<(End, Option<&'static str>), TurnError> {
        let mut deadline = Instant::now() + self.limits.max_time;
        let prompt = *seen;
        let mut breaker = LoopBreaker::new(self.limits.loop_hints);
        let mut record: Vec<Message> = Vec::new();
        let ended = |end: End| {
            let mark = end.mark();
            Ok((end, mark))
        };
        for _ in 0..self.limits.max_steps {
            // Read anew at each step: what was edited or taken back meanwhile is so for the model too.
            let history = self.perception.history(Some(prompt)).await?.messages;
            let mut messages: Vec<_> = history.into_iter().chain(record.iter().cloned()).collect();
            match breaker.situation(&messages) {
                Verdict::New => {}
                Verdict::Hint => {
                    let hint = Message::User(CIRCLES.to_owned());
                    messages.push(hint.clone());
                    record.push(hint);
                }
                Verdict::Stop => return ended(End::Limit(Limit::Loop)),
            }
            let request = Request { messages, tools: self.tools.offer() };
            let (calls, finish) = match self.step(request, draft, steering, deadline).await? {
                Step::Said { calls, finish } => (calls, finish),
                Step::Ended(end) => return ended(end),
                Step::Replaced => {
                    draft.restart_step();
                    // The question is another one: what was tried for the old one says nothing.
                    breaker = LoopBreaker::new(self.limits.loop_hints);
                    continue;
                }
            };
            let said = draft.end_step();
            if calls.is_empty() {
                if said == NO_REPLY && draft.text().is_empty() && !draft.is_begun() {
                    return ended(End::NoReply);
                }
                if draft.text().is_empty() {
                    return Err(TurnError::Empty);
                }
                return Ok((End::Answered, (finish == Finish::Length).then_some(ANSWER_CUT)));
            }
            record.push(Message::Assistant { text: said, calls: calls.clone() });
            let outputs = match self.call(&calls, steering, seat, &mut deadline).await {
                Ok(outputs) => outputs,
                Err(end) => return ended(end),
            };
            for (call, output) in calls.iter().zip(outputs) {
                let mut text = output.text.clone();
                match breaker.call(call, &output) {
                    Verdict::New => {}
                    Verdict::Hint => text = format!("{text}\n({CIRCLES})"),
                    Verdict::Stop => return ended(End::Limit(Limit::Loop)),
                }
                record.push(Message::ToolResult { id: call.id.clone(), name: call.name.clone(), text });
            }
            if let Some((lines, newest)) = self.perception.news(*seen).await? {
                record.push(Message::User(lines));
                *seen = newest;
                steering.taken_in(newest);
            }
        }
        ended(End::Limit(Limit::Steps))
    }

    /// One model call: text into the draft, calls collected.
    async fn step(
        &self,
        request: Request,
        draft: &mut Draft,
        steering: &mut Steering,
        deadline: Instant,
    ) -> Result<Step, TurnError> {
        let mut stream = self.model.stream(request);
        let mut calls = Vec::new();
        loop {
            let due = draft.due();
            tokio::select! {
                biased;
                Some(interruption) = steering.interruption() => return Ok(match interruption {
                    Interruption::Stop => Step::Ended(End::Stopped),
                    Interruption::Replaced => Step::Replaced,
                }),
                () = sleep_until(deadline) => return Ok(Step::Ended(End::Limit(Limit::Time))),
                () = sleep_until(due.unwrap_or(deadline)), if due.is_some() => draft.show(),
                delta = stream.next() => match delta {
                    Some(Ok(Delta::Text(text))) => draft.push(&text),
                    Some(Ok(Delta::Call(call))) => calls.push(call),
                    Some(Ok(Delta::Restart)) => {
                        draft.restart_step();
                        calls.clear();
                    }
                    Some(Ok(Delta::Done { finish, usage })) => {
                        if let Some(usage) = usage {
                            metrics::room_tokens(&self.draft.room, usage);
                        }
                        return Ok(Step::Said { calls, finish });
                    }
                    Some(Err(error)) => return Err(error.into()),
                    None => return Err(crate::model::ModelError::Cut.into()),
                },
            }
        }
    }

    /// Runs the calls of a step: begun in their order, and then all awaited. An edit of the prompt is seen at the next
    /// step: the calls were made in good faith. While a person is awaited the deadline moves on, and others have the place.
    async fn call(
        &self,
        calls: &[ToolCall],
        steering: &mut Steering,
        seat: &mut Seat<'_>,
        deadline: &mut Instant,
    ) -> Result<Vec<Output>, End> {
        let origin = steering.origin().clone();
        let beginning = async {
            let mut begun = Vec::new();
            for (index, call) in calls.iter().enumerate() {
                begun.push(if index < MAX_CALLS {
                    self.tools.begin(call, &origin).await
                } else {
                    let refusal = Output::refusal(format!("at most {MAX_CALLS} calls in one step"));
                    Begun { output: ready(refusal).boxed(), time: WorkingTime::Runs }
                });
            }
            begun
        };
        let begun = unless_stopped(beginning, steering, Some(*deadline)).await?;
        let asks = begun.iter().any(|one| one.time == WorkingTime::Stands);
        let outputs = join_all(begun.into_iter().map(|one| one.output));
        if !asks {
            return unless_stopped(outputs, steering, Some(*deadline)).await;
        }
        let asked_at = Instant::now();
        seat.give_back();
        let outputs = async {
            let outputs = outputs.await;
            seat.retake().await;
            outputs
        };
        let outputs = unless_stopped(outputs, steering, None).await?;
        *deadline += asked_at.elapsed();
        Ok(outputs)
    }
}

/// Awaits something, unless the turn is stopped or its time is over.
async fn unless_stopped<T>(
    work: impl Future<Output = T>,
    steering: &mut Steering,
    deadline: Option<Instant>,
) -> Result<T, End> {
    tokio::pin!(work);
    let over = async {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    loop {
        tokio::select! {
            biased;
            Some(interruption) = steering.interruption() => if interruption == Interruption::Stop {
                return Err(End::Stopped);
            },
            () = &mut over => return Err(End::Limit(Limit::Time)),
            done = &mut work => return Ok(done),
        }
    }
}
