//! `form`: a one-time page for the person alone. What is secret on it goes into the secret store and nowhere else.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use ruma::OwnedEventId;
use serde_json::Value;

use super::{Action, By, Fields, Kind, Made, Reading, Refusal, Source, Step};
use crate::{
    http::forms::{Field, FieldKind, FormSpec, FormVerdict, MAX_FILE, MAX_TEXT, NewForm, Opened},
    outbox::{Place, Text},
    room_commands::{
        Commands,
        fields::{name, text},
    },
    store::{Ask, Call, Cause, SecretOwner, StoreError},
};

pub(super) const KIND: Kind = Kind { name: "form", by: By::Anybody, read };

const MAX_FIELDS: usize = 16;
const MAX_CHOICES: usize = 30;
/// What a file may have where the list names no size, in bytes.
const DEFAULT_FILE: i64 = 64 * 1024;
const DEFAULT_TEXT: i64 = 500;

/// Whose the secrets of a form become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Person,
    Room,
}

#[derive(Debug)]
struct Form {
    spec: FormSpec,
    scope: Scope,
}

fn read(fields: &Fields<'_>, reading: &mut Reading<'_>) -> Result<Arc<dyn Action>, String> {
    let scope = fields.choice("scope", &[("person", Scope::Person), ("room", Scope::Room)])?;
    if scope == Scope::Room && reading.source != Source::Operator {
        return Err("scope \"room\" is for the operator's configuration only".to_owned());
    }
    let mut spec = FormSpec {
        title: fields.text("title", 1..=80)?,
        text: fields.maybe_text("text", 1..=1000)?,
        submit: fields.maybe_text("submit", 1..=40)?.unwrap_or_else(|| "Send".to_owned()),
        fields: Vec::new(),
    };
    for (index, value) in fields.list("fields", 1..=MAX_FIELDS)?.into_iter().enumerate() {
        let field = field(value).map_err(|reason| format!("field {}: {reason}", index + 1))?;
        if spec.fields.iter().any(|one| one.name == field.name) {
            return Err(format!("field {}: the name is taken", index + 1));
        }
        if matches!(field.kind, FieldKind::Text { .. } | FieldKind::Choice { .. } | FieldKind::Checkbox) {
            reading.form_fields.push(field.name.clone());
        }
        spec.fields.push(field);
    }
    Ok(Arc::new(Form { spec, scope }))
}

fn field(value: &Value) -> Result<Field, String> {
    let fields = Fields::of(value)?;
    let own = name("name", fields.get("name")?)?;
    let secret = || match fields.find("secret") {
        None => Ok(own.clone()),
        Some(value) => name("secret", value),
    };
    let kind = match fields.text("kind", 1..=20)?.as_str() {
        "text" => {
            let max = fields.maybe_whole("max", 1..=MAX_TEXT as i64)?.unwrap_or(DEFAULT_TEXT);
            FieldKind::Text { max: usize::try_from(max).unwrap_or(MAX_TEXT) }
        }
        "secret" => FieldKind::Secret { secret: secret()? },
        "choice" => {
            let choice = |value: &&Value| match value {
                Value::String(_) => text("choices", value, 1..=100).map(|one| (one.clone(), one)),
                _ => {
                    let fields = Fields::of(value)?;
                    let choice = (fields.text("value", 1..=100)?, fields.text("label", 1..=100)?);
                    fields.done().map(|()| choice)
                }
            };
            let choices = fields.list("choices", 1..=MAX_CHOICES)?;
            FieldKind::Choice { choices: choices.iter().map(choice).collect::<Result<_, _>>()? }
        }
        "checkbox" => FieldKind::Checkbox,
        "file" => {
            let max = fields.maybe_whole("max_bytes", 1..=MAX_FILE as i64)?.unwrap_or(DEFAULT_FILE);
            FieldKind::File { secret: secret()?, max_bytes: usize::try_from(max).unwrap_or(MAX_FILE) }
        }
        _ => return Err("kind must be \"text\", \"secret\", \"choice\", \"checkbox\" or \"file\"".to_owned()),
    };
    let field = Field {
        label: fields.maybe_text("label", 1..=80)?.unwrap_or_else(|| own.clone()),
        help: fields.maybe_text("help", 1..=300)?,
        required: !fields.flag("optional")?,
        name: own,
        kind,
    };
    fields.done()?;
    Ok(field)
}

#[async_trait]
impl Action for Form {
    fn summary(&self) -> String {
        format!("opens the form {:?} for the person", self.spec.title)
    }

    fn asks(&self) -> bool {
        true
    }

    async fn run(&self, step: &Step<'_>, made: &mut Made) -> Result<String, Refusal> {
        let call = step.call("form");
        // What was begun anew goes on with the form that is open.
        let ask = match step.store().ask_by_call(&call).await? {
            Some(ask) if ask.event.is_some() => ask,
            Some(ask) => self.sent(step, ask, &call).await?,
            None => self.open(step, &call).await?,
        };
        let person = step.rooms().display_name(&step.here.room, &step.here.person).await;
        let mut waiting = Waiting { commands: step.commands.clone(), id: ask.id.clone(), over: false };
        let verdict = step.commands.parts().asks.verdict(&ask.id, &FormVerdict::Expired.to_value()).await;
        waiting.over = true;
        match FormVerdict::read(&verdict) {
            FormVerdict::Given(given) => {
                let mut fields = Vec::new();
                for field in &self.spec.fields {
                    if !given.fields.contains(&field.name) {
                        continue;
                    }
                    fields.push(match &field.kind {
                        FieldKind::Secret { secret } | FieldKind::File { secret, .. } => {
                            format!("{} (kept as the secret {secret:?})", field.name)
                        }
                        _ => field.name.clone(),
                    });
                }
                made.form.extend(given.plain);
                let fields = if fields.is_empty() { "nothing".to_owned() } else { fields.join(", ") };
                Ok(format!("{person} has sent the form; given: {fields}"))
            }
            FormVerdict::Expired => {
                Err(Refusal::call(format!("{person} has not sent the form within {}", step.commands.form_time())))
            }
            FormVerdict::Withdrawn => Err(Refusal::call("the form was taken back before it was sent")),
        }
    }
}

impl Form {
    /// Makes the form and sends its address to the person, alone.
    async fn open(&self, step: &Step<'_>, call: &Call) -> Result<Ask, Refusal> {
        let parts = step.commands.parts();
        let here = step.here;
        let room = parts.rooms.private_room(&here.person, &here.room).await.map_err(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "no private room for a form");
            Refusal::call("no private room with the person can be had, so no form can be shown to them alone")
        })?;
        let base = parts.forms.address().await.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "forms can't be served");
            Refusal::call("forms can't be shown now: my operator must look at forms.listen")
        })?;
        let owner = match self.scope {
            Scope::Person => SecretOwner::Person(here.person.clone()),
            Scope::Room => SecretOwner::Room(here.room.clone()),
        };
        let own = parts.rooms.user_id().to_owned();
        let opened = Opened {
            spec: self.spec.clone(),
            owner,
            command: step.entry.name.clone(),
            asked_in: here.room.clone(),
            agent: parts.rooms.display_name(&here.room, &own).await,
            person: parts.rooms.display_name(&here.room, &here.person).await,
            room_name: parts.rooms.name(&here.room).await,
            digest: String::new(),
        };
        let new = NewForm { opened, room: room.clone(), person: here.person.clone() };
        let (ask, address) = parts.forms.open(new, &base, call).await?;
        let minutes = step.commands.form_time();
        let text = format!(
            "🔐 **{}**\n\nThis form is for you alone: {address}\n\nIt is open for {minutes}, for one browser, and can be sent \
             once. What is secret on it goes into my secret store: don't write it into the chat.{}",
            self.spec.title,
            if parts.forms.is_local() {
                "\n\n⚠ The address works only on the machine that I run on: my operator has set no forms.public_url."
            } else {
                ""
            },
        );
        let content = Text { mentions: vec![here.person.clone()], ..Text::notice(text) }.content();
        let place = Place { thread: here.thread.clone().filter(|_| room == here.room), reply_to: None };
        let sent = parts.outbox.send(room.clone(), place, content, Some(Cause::Call(call.clone()))).await;
        let event = match sent {
            Ok(event) => event,
            Err(error) => {
                parts.asks.close(&ask.id, &FormVerdict::Withdrawn.to_value()).await?;
                return Err(error.into());
            }
        };
        if room != here.room {
            let person = parts.rooms.display_name(&here.room, &here.person).await;
            let title = &self.spec.title;
            step.commands.say(&here.room, here.thread.clone(), &format!("🔐 I have sent {person} a form: {title}."));
        }
        posted(step, ask, event).await
    }

    /// A form of an earlier run, which ended before it was known that its address is sent.
    async fn sent(&self, step: &Step<'_>, ask: Ask, call: &Call) -> Result<Ask, Refusal> {
        let parts = step.commands.parts();
        parts.outbox.taken_up(&ask.room).await;
        match parts.store.sent_by(call).await? {
            Some(event) => posted(step, ask, event).await,
            // The address is known to nobody any more: the store has its digest.
            None => {
                parts.asks.close(&ask.id, &FormVerdict::Withdrawn.to_value()).await?;
                Err(Refusal::call("I was restarted before the form was sent; run the command again"))
            }
        }
    }
}

/// The address of a form stands in the private room: from now on its time runs.
async fn posted(step: &Step<'_>, ask: Ask, event: OwnedEventId) -> Result<Ask, Refusal> {
    let parts = step.commands.parts();
    let until = parts.clock.now().saturating_add(parts.forms.open_for()).unwrap_or(ask.expires_at);
    parts.store.asked(&ask.id, &event, until).await?;
    let ask = Ask { event: Some(event), expires_at: until, ..ask };
    keep(step.commands.clone(), ask.clone());
    Ok(ask)
}

/// Takes a form back when nobody waits for it any more: its turn was stopped.
struct Waiting {
    commands: Commands,
    id: String,
    over: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (commands, id) = (self.commands.clone(), self.id.clone());
        // When the process ends nothing is spawned any more, and the form goes on at the next start.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = commands.parts().asks.close(&id, &FormVerdict::Withdrawn.to_value()).await {
                    tracing::error!(error = &error as &dyn std::error::Error, "form not taken back");
                }
            });
        }
    }
}

/// Goes on with the forms that an earlier run has left open, or has not told the end of.
pub(in crate::room_commands) async fn resume(commands: &Commands, at_least: Duration) -> Result<(), StoreError> {
    for ask in commands.parts().store.untold_forms().await? {
        if ask.verdict.is_none() && ask.event.is_some() {
            // Who was about to send it when the process ended gets a moment more.
            commands.parts().asks.prolong(&ask, at_least).await?;
        }
        keep(commands.clone(), ask);
    }
    Ok(())
}

/// Brings a form to its end in the private room, whoever waits for it: the address goes, and what was stored is told.
fn keep(commands: Commands, ask: Ask) {
    let Some(event) = ask.event.clone() else { return };
    tokio::spawn(async move {
        let verdict = commands.parts().asks.verdict(&ask.id, &FormVerdict::Expired.to_value()).await;
        if let Err(error) = tell(&commands, &ask, event, &FormVerdict::read(&verdict)).await {
            tracing::error!(error = &error as &dyn std::error::Error, "a form's end is not told");
        }
    });
}

async fn tell(commands: &Commands, ask: &Ask, event: OwnedEventId, verdict: &FormVerdict) -> Result<(), Refusal> {
    let parts = commands.parts();
    let title = ask.question["spec"]["title"].as_str().unwrap_or("Form").to_owned();
    let (end, outcome) = match verdict {
        FormVerdict::Given(_) => ("✔ Sent.", "given"),
        FormVerdict::Expired => ("Not sent in time: the address does nothing any more.", "expired"),
        FormVerdict::Withdrawn => ("Taken back: the address does nothing any more.", "withdrawn"),
    };
    tracing::info!(room = %ask.room, person = %ask.person, outcome, "form closed");
    let closed = Text::notice(format!("🔐 **{title}**\n\n{end}")).content();
    if let Err(error) = parts.outbox.edit(ask.room.clone(), event, closed).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "a form's end is not shown");
    }
    if let FormVerdict::Given(given) = verdict {
        let names: Vec<_> = given.secrets.iter().map(|name| format!("`{name}`")).collect();
        let undo: Vec<_> = given.secrets.iter().map(|name| format!("`!forget {name}`")).collect();
        let from = format!("from {}, {}", given.browser, commands.time_of_day(given.at));
        let text = if names.is_empty() {
            format!("✔ Your form came in, {from}. It held no secret.")
        } else {
            format!("✔ Stored: {}, {from}. If that was not you, or to undo it: {}.", names.join(", "), undo.join(", "))
        };
        let call = Call { origin: event_of(ask), arguments: format!("form told {}", ask.id) };
        if parts.store.sent_by(&call).await?.is_none() {
            let content = Text::notice(text).content();
            parts.outbox.send(ask.room.clone(), Place::default(), content, Some(Cause::Call(call))).await?;
        }
    }
    parts.store.form_told(&ask.id).await?;
    Ok(())
}

/// What the messages about a form are sent for.
fn event_of(ask: &Ask) -> OwnedEventId {
    let made = OwnedEventId::try_from(format!("$form-{}", ask.id));
    made.unwrap_or_else(|_| unreachable!("it begins with a dollar sign"))
}
