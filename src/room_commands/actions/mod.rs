//! What a command can do. One file each: a new one is a file and its line in [`KINDS`].
//!
//! An action is read once, when its list is, and checked as a whole there: what it names is declared, what it posts is
//! valid. When it runs it has the person's rights to look at no more ([`Action::needs`] was asked before the chain began),
//! and says in one line what it has done.

mod form;
mod invite;
mod pin;
mod post;
mod topic;
mod webhook;
mod widget;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

pub(super) use form::resume as resume_forms;
pub(super) use webhook::Web;

use super::{
    chain::{Made, Step},
    fields::{Fields, quoted},
    inputs::{Inputs, written},
    list::Source,
    template::{From, Template},
};
use crate::tools::Refusal;

/// Every kind of action.
const KINDS: [Kind; 8] =
    [form::KIND, post::KIND, webhook::KIND, widget::KIND, widget::CLOSE, invite::KIND, pin::KIND, topic::KIND];

/// One action of a chain.
#[async_trait]
pub(super) trait Action: fmt::Debug + Send + Sync {
    /// What it does, as a predicate: "sets the topic".
    fn summary(&self) -> String;

    /// What the person must be allowed to do in the room for it.
    fn needs(&self) -> Need {
        Need::Nothing
    }

    /// Whether it waits for the person.
    fn asks(&self) -> bool {
        false
    }

    /// Whether a second time does nothing new, so that it can be begun again after a crash.
    fn can_repeat(&self) -> bool {
        true
    }

    /// Does it, and says what was done.
    async fn run(&self, step: &Step<'_>, made: &mut Made) -> Result<String, Refusal>;
}

/// A right of the person's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    SetState(&'static str),
    Invite,
}

/// A kind of action: how it is called in a list, who may list it, how it is read.
pub(super) struct Kind {
    name: &'static str,
    by: By,
    read: fn(&Fields<'_>, &mut Reading<'_>) -> ReadAction,
}

/// An action, or what is wrong with it.
type ReadAction = Result<Arc<dyn Action>, String>;

/// Who may list an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Anybody,
    OperatorOnly,
}

/// What is known of a command while its actions are read, in their order.
pub(super) struct Reading<'a> {
    pub(super) source: Source,
    pub(super) inputs: &'a Inputs,
    /// The plain fields of the forms so far.
    pub(super) form_fields: Vec<String>,
    /// Whether something was posted so far.
    pub(super) has_post: bool,
}

/// Reads an action.
pub(super) fn read(value: &Value, reading: &mut Reading<'_>) -> Result<Arc<dyn Action>, String> {
    let fields = Fields::of(value)?;
    let named = fields.get("type")?.as_str().unwrap_or_default();
    let Some(kind) = KINDS.iter().find(|kind| kind.name == named) else {
        let known: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        return Err(format!("there is no action {}; there are: {}", quoted(named), known.join(", ")));
    };
    if kind.by == By::OperatorOnly && reading.source != Source::Operator {
        return Err(format!("{} is for the operator's configuration only", kind.name));
    }
    let in_kind = |reason| format!("{}: {reason}", kind.name);
    let action = (kind.read)(&fields, reading).map_err(in_kind)?;
    fields.done().map_err(in_kind)?;
    Ok(action)
}

impl Reading<'_> {
    /// Reads a text with places for inputs.
    fn with_inputs(&self, text: &str) -> Result<Template, String> {
        Template::read(text, &|from, name| match from {
            From::Input => self.input(name),
            From::Form | From::Secret => Err(format!("{{{{{from}:...}}}} can't stand here")),
        })
    }

    fn input(&self, name: &str) -> Result<(), String> {
        if self.inputs.has(name) { Ok(()) } else { Err(format!("there is no input {}", quoted(name))) }
    }

    fn form_field(&self, name: &str) -> Result<(), String> {
        let known = self.form_fields.iter().any(|field| field == name);
        if known { Ok(()) } else { Err(format!("no form before has a plain field {}", quoted(name))) }
    }
}

/// The text with the step's inputs in it; what was not given is empty.
fn filled(template: &Template, step: &Step<'_>) -> String {
    let input = |_: From, name: &str| Ok::<_, std::convert::Infallible>(step.input(name));
    template.fill(input).unwrap_or_default()
}

impl Step<'_> {
    /// An input as text; empty where it was not given.
    fn input(&self, name: &str) -> String {
        self.inputs.get(name).map(written).unwrap_or_default()
    }
}
