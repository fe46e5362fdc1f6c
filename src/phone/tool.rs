//! `phone_action`: proposes something to the person's phone, and waits for what comes of it.

use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::SignedDuration;
use phone_actions::{Card, CardId, Offer, Status, capability, check, no_answer_text, offer, result_text, tool};
use rand::Rng as _;
use ruma::{MilliSecondsSinceUnixEpoch, OwnedDeviceId, OwnedEventId};
use serde_json::{Value, json};

use super::{Phones, Verdict};
use crate::{
    model::{Case, Example, ToolSpec},
    outbox::Place,
    rich::Here,
    store::{Ask, AskKind, Call, Cause, NewLine, StoreError},
    tools::{Origin, Output, Refusal, Run, Tool},
};

/// What the model is told where a card was taken back before an answer.
const WITHDRAWN: &str = "The card was taken back; nothing was done on the phone.";

pub(super) struct PhoneAction {
    phones: Phones,
    here: Here,
    offer: Offer,
}

/// The person's message that is being answered, and where it was sent from.
struct Asked<'a> {
    event: &'a OwnedEventId,
    device: Option<&'a OwnedDeviceId>,
}

impl PhoneAction {
    /// The tool with what the person's phone can do; None where that is nothing.
    pub(super) async fn new(phones: Phones, here: Here) -> Option<Self> {
        let announced = phones.announcement(&here.person).await.unwrap_or_default();
        let offer = offer(|action| announced.as_ref().is_none_or(|phone| phone.actions.contains(&action)))?;
        Some(Self { phones, here, offer })
    }

    async fn begin(&self, arguments: &Value, asked: Asked<'_>) -> Result<Ask, Refusal> {
        let action = check(arguments).map_err(|refusal| Refusal::call(refusal.to_string()))?;
        let Self { phones, here, .. } = self;
        let parts = &phones.0;
        let call = Call { origin: here.origin.clone(), arguments: format!("phone_action {arguments}") };
        // A turn that is begun anew goes on with the card that stands there.
        if let Some(ask) = parts.store.ask_by_call(&call).await? {
            return self.post(ask, call, &asked).await;
        }
        let now = parts.clock.now();
        let (open, lately) =
            parts.store.count_asks(&here.person, AskKind::Card, now - SignedDuration::from_mins(1)).await?;
        if open > 0 {
            return Err(Refusal::call("another card waits for the person's answer: one at a time"));
        }
        if lately >= parts.settings.per_minute {
            return Err(Refusal::call("too many cards in the last minute: wait, or ask the person in words"));
        }
        let announced = phones.announcement(&here.person).await?;
        let phone = announced.filter(|phone| asked.device.is_some_and(|device| phone.is_on_phone(device.as_str())));
        if let Some(phone) = &phone
            && !phone.actions.contains(&action.name())
        {
            let able = phone.actions.join(", ");
            return Err(Refusal::call(format!("the person's phone can't do {}; it can do: {able}", action.name())));
        }
        let mut id = [0; 16];
        rand::rng().fill_bytes(&mut id);
        let card = Card::new(
            CardId::from_bytes(id),
            here.person.as_str(),
            asked.event.as_str(),
            phone.as_ref().map(|phone| phone.device.as_str()),
            action,
            parts.settings.wait,
        )
        .map_err(|error| Refusal::call(error.to_string()))?;
        let ask = Ask {
            id: card.id.as_str().to_owned(),
            kind: AskKind::Card,
            room: here.room.clone(),
            thread: here.thread.clone(),
            person: here.person.clone(),
            question: card.content(),
            event: None,
            // Until it is posted it waits for the homeserver, not for the person.
            expires_at: now.saturating_add(parts.settings.wait * 2).unwrap_or(now),
            verdict: None,
        };
        parts.store.ask(&ask, &call, now).await?;
        self.post(ask, call, &asked).await
    }

    /// Puts the card into the room, unless it stands there, and sees that it comes to an end.
    async fn post(&self, mut ask: Ask, call: Call, asked: &Asked<'_>) -> Result<Ask, Refusal> {
        let Self { phones, here, .. } = self;
        let parts = &phones.0;
        if ask.event.is_some() {
            return Ok(ask);
        }
        let direct = parts.rooms.is_direct(&here.room).await;
        let reply_to = (!direct || here.thread.is_some()).then(|| asked.event.clone());
        let place = Place { thread: here.thread.clone(), reply_to };
        let mut content = ask.question.clone();
        let by_hand = matches!(Card::read(&ask.question), Ok(Some(card)) if card.device.is_none());
        content[mxblocks::RICH_KEY] = blocks(&content, by_hand);
        let event = match parts.store.sent_by(&call).await? {
            Some(event) => event,
            None => {
                let cause = Some(Cause::Call(call));
                parts.outbox.send(here.room.clone(), place, content.clone(), cause).await?
            }
        };
        ask.expires_at = parts.clock.now().saturating_add(parts.settings.wait).unwrap_or(ask.expires_at);
        parts.store.asked(&ask.id, &event, ask.expires_at).await?;
        self.remember(&event, content["body"].as_str().unwrap_or_default()).await?;
        ask.event = Some(event.clone());
        phones.keep(ask.clone());
        for key in if by_hand { &["✅", "❌"][..] } else { &["❌"] } {
            parts.outbox.react(here.room.clone(), &event, key);
        }
        Ok(ask)
    }

    async fn remember(&self, event: &OwnedEventId, text: &str) -> Result<(), StoreError> {
        let parts = &self.phones.0;
        let own = parts.rooms.user_id().to_owned();
        let line = NewLine {
            event_id: event.clone(),
            thread: self.here.thread.clone(),
            name: parts.rooms.display_name(&self.here.room, &own).await,
            sender: own,
            text: text.to_owned(),
            reply_to: None,
            sent_at: MilliSecondsSinceUnixEpoch::now(),
        };
        parts.store.write_line(&self.here.room, &line).await.map(|_| ())
    }
}

/// The card as blocks: what it says, and how to answer where that is done by hand.
fn blocks(content: &Value, by_hand: bool) -> Value {
    let body = content["body"].as_str().unwrap_or_default();
    let (title, rest) = body.split_once('\n').unwrap_or((body, ""));
    let title: String = title.chars().take(200).collect();
    let text: String = rest.trim().chars().take(1000).collect();
    let mut card = json!({"type": "card", "title": title});
    if !text.is_empty() {
        card["text"] = text.into();
    }
    let mut actions = Vec::new();
    if by_hand {
        actions.push(json!({"label": "Done", "style": "primary", "action": {"type": "react", "key": "✅"}}));
    }
    actions.push(json!({"label": "No", "action": {"type": "react", "key": "❌"}}));
    card["actions"] = actions.into();
    json!({"v": mxblocks::RICH_VERSION, "blocks": [card]})
}

/// Takes a card back when nobody waits for it any more: its turn was stopped.
struct Waiting {
    phones: Phones,
    id: String,
    over: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (phones, id) = (self.phones.clone(), self.id.clone());
        // When the process ends nothing is spawned any more, and the card goes on at the next start.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = phones.0.asks.close(&id, &Verdict::Withdrawn.to_value()).await {
                    tracing::error!(error = &error as &dyn std::error::Error, "card not taken back");
                }
            });
        }
    }
}

async fn result(phones: Phones, id: String) -> Output {
    let mut waiting = Waiting { phones, id, over: false };
    let verdict = waiting.phones.0.asks.verdict(&waiting.id, &Verdict::Expired.to_value()).await;
    waiting.over = true;
    match Verdict::read(&verdict) {
        Verdict::Ended { status, message } => Output::new(result_text(Status::read(&status), message.as_deref())),
        Verdict::Expired => Output::new(no_answer_text()),
        Verdict::Withdrawn => Output::new(WITHDRAWN),
    }
}

#[async_trait]
impl Tool for PhoneAction {
    fn spec(&self) -> ToolSpec {
        let Offer { description, schema, cases, example } = self.offer.clone();
        let result = || result_text(Status::Done, None);
        let case = |case: phone_actions::Case| Case {
            key: "action".to_owned(),
            value: case.action,
            takes: case.takes,
            required: case.required,
        };
        ToolSpec {
            name: tool().name.clone(),
            description,
            parameters: schema,
            cases: cases.into_iter().map(case).collect(),
            example: example.map(|example| Example {
                ask: example.ask,
                arguments: example.arguments,
                result: result(),
                reply: example.reply,
            }),
        }
    }

    /// The contract's own check decides alone, where there is a phone: [`PhoneAction::begin`].
    fn check(&self, _arguments: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn run(&self, arguments: Value, origin: &Origin) -> Run {
        let asked = match origin {
            Origin::Person { event, device, capabilities } if capabilities.iter().any(|one| one == capability()) => {
                Asked { event, device: device.as_ref() }
            }
            Origin::Person { .. } | Origin::Unattended { .. } => {
                return Output::refused(tool().unavailable.clone()).into();
            }
        };
        match self.begin(&arguments, asked).await {
            Err(refusal) => Output::refused(refusal.to_string()).into(),
            Ok(ask) => Run::Asks(result(self.phones.clone(), ask.id).boxed()),
        }
    }
}
