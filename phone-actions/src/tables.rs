//! The contract as data: `loop.json` and `tools/phone_action.json`, read once and checked against each other.
//!
//! The code knows kinds of fields ([`Rule`]) and ways to show them ([`Form`]), and no action by its name. What an action
//! is called, reads and needs, and how it is told to people and to the model, stands in the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::{rule::Rule, template::Template, tool::Tool};

const LOOP: &str = include_str!("../loop.json");
const TOOL: &str = include_str!("../tools/phone_action.json");

/// The tables that are compiled in. Broken ones would be empty and offer nothing; a test sees to it that they are not.
pub(crate) fn tables() -> &'static Tables {
    static TABLES: LazyLock<Tables> = LazyLock::new(|| Tables::load(LOOP, TOOL).unwrap_or_default());
    &TABLES
}

/// The contract, ready for use.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) capability: String,
    pub(crate) wait: Duration,
    pub(crate) message_max_chars: usize,
    /// In the contract's order.
    pub(crate) actions: Vec<ActionRow>,
    /// In check order.
    pub(crate) checks: Vec<CheckRow>,
    pub(crate) texts: Texts,
    pub(crate) card: CardTexts,
    pub(crate) messages: Messages,
    pub(crate) tool: Tool,
}

/// An action.
#[derive(Debug)]
pub(crate) struct ActionRow {
    pub(crate) name: String,
    pub(crate) fields: Vec<String>,
    pub(crate) required: Vec<Entry>,
    /// What a field that is left out means.
    pub(crate) defaults: BTreeMap<String, Value>,
    pub(crate) shown: Shown,
}

/// A checked field.
#[derive(Debug)]
pub(crate) struct CheckRow {
    pub(crate) field: String,
    pub(crate) rule: Rule,
    /// What it should be, in words for the model.
    pub(crate) what: String,
}

/// What an action can't do without.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Entry {
    /// This field.
    Field(String),
    /// Any one of these.
    AnyOf(Vec<String>),
}

impl Entry {
    pub(crate) fn fields(&self) -> &[String] {
        match self {
            Self::Field(field) => std::slice::from_ref(field),
            Self::AnyOf(fields) => fields,
        }
    }
}

/// Texts for the model.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Texts {
    pub(crate) unknown_action: Template,
    pub(crate) missing: Template,
    pub(crate) bad: Template,
    pub(crate) too_large: String,
    pub(crate) done: String,
    pub(crate) declined: String,
    pub(crate) failed: String,
    pub(crate) says: Template,
    pub(crate) no_answer: String,
}

/// How an action is told to the person.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shown {
    pub(crate) icon: String,
    /// Its gaps are fields of the action.
    pub(crate) title: Template,
    pub(crate) rows: Vec<Row>,
    /// What is left to the person once the phone has done it.
    pub(crate) on_phone: Option<String>,
    /// The words of a link that opens the action's fields as an e-mail.
    pub(crate) mailto: Option<String>,
}

/// One detail of an action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) field: String,
    #[serde(default, rename = "as")]
    pub(crate) form: Form,
}

/// How a detail is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// On one line, as its rule suggests.
    #[default]
    Line,
    /// E-mail addresses, as links.
    Mail,
    /// A text of several lines.
    Quote,
}

/// Texts of the card.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CardTexts {
    #[serde(default)]
    actions: BTreeMap<String, Shown>,
    /// By field and value, what to say instead of the value.
    pub(crate) words: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) summary: String,
    pub(crate) message: String,
    pub(crate) on_phone: Template,
    pub(crate) by_hand: Template,
    pub(crate) states: States,
}

/// How a card begins once it is closed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct States {
    pub(crate) done: Template,
    pub(crate) declined: Template,
    pub(crate) failed: Template,
    pub(crate) expired: Template,
    pub(crate) withdrawn: Template,
}

/// Texts of the phone's own messages.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Messages {
    pub(crate) announced: Template,
    pub(crate) taken: String,
    pub(crate) done: String,
    pub(crate) declined: String,
    pub(crate) failed: String,
}

/// What is wrong with the data files.
#[derive(Debug, Error)]
pub(crate) enum TableError {
    #[error("the file is not of the form that is read: {0}")]
    Form(#[from] serde_json::Error),
    #[error("{0}")]
    Content(String),
}

#[derive(Deserialize)]
struct LoopFile {
    phone: PhoneSection,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhoneSection {
    capability: String,
    wait_seconds: u64,
    message_max_chars: usize,
    actions: Vec<String>,
    fields: BTreeMap<String, Vec<String>>,
    required: BTreeMap<String, Vec<Entry>>,
    defaults: BTreeMap<String, BTreeMap<String, Value>>,
    check_order: Vec<String>,
    checks: BTreeMap<String, Rule>,
    what: BTreeMap<String, Template>,
    texts: Texts,
    card: CardTexts,
    messages: Messages,
}

impl Tables {
    /// Reads the two files and checks that they fit together.
    pub(crate) fn load(loop_json: &str, tool_json: &str) -> Result<Self, TableError> {
        let LoopFile { phone: mut section } = serde_json::from_str(loop_json)?;
        let tool: Tool = serde_json::from_str(tool_json)?;
        let mut actions = Vec::new();
        for name in std::mem::take(&mut section.actions) {
            actions.push(ActionRow {
                fields: take(&mut section.fields, &name, "fields")?,
                required: take(&mut section.required, &name, "required")?,
                defaults: section.defaults.remove(&name).unwrap_or_default(),
                shown: take(&mut section.card.actions, &name, "card.actions")?,
                name,
            });
        }
        let mut checks = Vec::new();
        for field in std::mem::take(&mut section.check_order) {
            let rule = take(&mut section.checks, &field, "checks")?.with_values(|| tool.values_of(&field));
            let what: Template = take(&mut section.what, &field, "what")?;
            let gaps: &[_] = if matches!(rule, Rule::Choice { .. }) { &["values"] } else { &[] };
            has_gaps(&what, gaps)?;
            checks.push(CheckRow { what: what.fill(|_| rule.values().join(", ")), rule, field });
        }
        nothing_left(section.fields.keys().chain(section.required.keys()).chain(section.defaults.keys()))?;
        nothing_left(section.card.actions.keys().chain(section.checks.keys()).chain(section.what.keys()))?;
        let tables = Self {
            capability: section.capability,
            wait: Duration::from_secs(section.wait_seconds),
            message_max_chars: section.message_max_chars,
            actions,
            checks,
            texts: section.texts,
            card: section.card,
            messages: section.messages,
            tool,
        };
        tables.validate()?;
        Ok(tables)
    }

    pub(crate) fn action(&self, name: &str) -> Option<&ActionRow> {
        self.actions.iter().find(|action| action.name == name)
    }

    pub(crate) fn rule(&self, field: &str) -> Option<&Rule> {
        self.checks.iter().find(|check| check.field == field).map(|check| &check.rule)
    }

    fn validate(&self) -> Result<(), TableError> {
        let names: Vec<_> = self.actions.iter().map(|action| action.name.as_str()).collect();
        ensure(self.tool.values_of("action") == names, "the schema's actions are not those of loop.json")?;
        let told: BTreeSet<_> = self.tool.actions.keys().map(String::as_str).collect();
        ensure(told == names.into_iter().collect(), "the tool does not tell of just the actions of loop.json")?;
        let read: BTreeSet<_> = self.actions.iter().flat_map(|action| &action.fields).map(String::as_str).collect();
        let offered: BTreeSet<_> =
            self.tool.properties().filter(|property| !["action", "summary"].contains(property)).collect();
        ensure(offered == read, "the schema's fields are not those that the actions read")?;
        for check in &self.checks {
            let field = &check.field;
            ensure(read.contains(field.as_str()), &format!("no action reads the checked field {field}"))?;
            if let Rule::Choice { values } = &check.rule {
                ensure(!values.is_empty(), &format!("the schema has no values for {field}"))?;
                let words = self.card.words.get(field);
                let named = |value: &String| words.is_some_and(|words| words.contains_key(value));
                ensure(values.iter().all(named), &format!("card.words lacks a value of {field}"))?;
            }
        }
        self.actions.iter().try_for_each(ActionRow::validate)?;
        self.validate_gaps()
    }

    fn validate_gaps(&self) -> Result<(), TableError> {
        let (texts, card, states) = (&self.texts, &self.card, &self.card.states);
        let title = ["title"];
        for (template, gaps) in [
            (&texts.unknown_action, &["actions"] as &[_]),
            (&texts.missing, &["action", "fields"]),
            (&texts.bad, &["field", "what"]),
            (&texts.says, &["message"]),
            (&card.on_phone, &["wait"]),
            (&card.by_hand, &["wait"]),
            (&states.done, &title),
            (&states.declined, &title),
            (&states.failed, &title),
            (&states.expired, &title),
            (&states.withdrawn, &title),
            (&self.messages.announced, &["actions"]),
        ] {
            has_gaps(template, gaps)?;
        }
        Ok(())
    }
}

impl ActionRow {
    /// What is asked for and shown is read, and what is read is shown: the person sees all that the phone gets.
    fn validate(&self) -> Result<(), TableError> {
        let read: BTreeSet<_> = self.fields.iter().map(String::as_str).collect();
        let shown: BTreeSet<_> =
            self.shown.rows.iter().map(|row| row.field.as_str()).chain(self.shown.title.gaps()).collect();
        ensure(shown == read, &format!("the card of {} does not show just the fields that it reads", self.name))?;
        let required =
            || self.required.iter().filter_map(|entry| entry.fields().first().filter(|_| entry.fields().len() == 1));
        let sure = |gap: &str| required().any(|field| field == gap);
        ensure(self.shown.title.gaps().all(sure), &format!("the title of {} may lack a field", self.name))?;
        let mut needed = self.required.iter().flat_map(Entry::fields).chain(self.defaults.keys());
        ensure(needed.all(|field| read.contains(field.as_str())), &format!("{} needs what it does not read", self.name))
    }
}

fn take<T>(map: &mut BTreeMap<String, T>, key: &str, table: &str) -> Result<T, TableError> {
    map.remove(key).ok_or_else(|| TableError::Content(format!("{table} lacks {key}")))
}

fn nothing_left<'a>(mut keys: impl Iterator<Item = &'a String>) -> Result<(), TableError> {
    match keys.next() {
        None => Ok(()),
        Some(key) => Err(TableError::Content(format!("{key} stands in a table and is not listed"))),
    }
}

fn has_gaps(template: &Template, gaps: &[&str]) -> Result<(), TableError> {
    let found: Vec<_> = template.gaps().collect();
    ensure(found == gaps, &format!("a text has the gaps {found:?} instead of {gaps:?}"))
}

fn ensure(holds: bool, fault: &str) -> Result<(), TableError> {
    if holds { Ok(()) } else { Err(TableError::Content(fault.to_owned())) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_files_are_whole_and_fit_together() {
        let tables = Tables::load(LOOP, TOOL).unwrap();
        assert_eq!(tables.actions.len(), 16);
        assert_eq!(tables.checks.len(), 18);
        assert_eq!((tables.wait, tables.message_max_chars), (Duration::from_secs(120), 500));
    }

    #[test]
    fn files_that_do_not_fit_together_are_refused_with_the_reason() {
        let broken = |from: &str, to: &str| {
            let (contract, tool) = (LOOP.replacen(from, to, 1), TOOL.replacen(from, to, 1));
            assert!(contract != LOOP || tool != TOOL, "{from} stands nowhere");
            Tables::load(&contract, &tool).unwrap_err().to_string()
        };
        for (from, to, fault) in [
            (r#""alarm": ["time", "label", "days"],"#, "", "fields lacks alarm"),
            (r#""torch": ["on"],"#, r#""torch": ["on", "label"],"#, "the card of torch does not show just the fields"),
            (r#""field": "near""#, r#""field": "mode""#, "the card of search_nearby does not show just the fields"),
            (r#""dial": ["number"],"#, r#""dial": ["number"], "fax": [],"#, "fax stands in a table and is not listed"),
            (r#"["stop", "destination"]"#, r#"["destination"]"#, "the title of add_stop may lack a field"),
            (r#""media": ["command"],"#, r#""media": ["command", "volume"],"#, "the schema's fields are not those"),
            (r#""enum": ["me", "route"],"#, r#""enum": ["me", "moon"],"#, "card.words lacks a value of near"),
            (r#""enum": ["me", "route"],"#, "", "the schema has no values for near"),
            (r#"{{field}} must be {{what}}."#, "{{field}} is wrong.", "a text has the gaps"),
            (r#""torch": "the torch"#, r#""light": "the torch"#, "the tool does not tell of just the actions"),
            (r#""wait_seconds": 120"#, r#""wait_seconds": "long""#, "the file is not of the form that is read"),
        ] {
            let found = broken(from, to);
            assert!(found.starts_with(fault), "{from}: {found}");
        }
    }

    #[test]
    fn an_action_is_added_by_data_alone() {
        let contract = LOOP
            .replacen(r#""actions": ["#, r#""actions": ["hum", "#, 1)
            .replacen(r#""fields": {"#, r#""fields": {"hum": ["seconds"], "#, 1)
            .replacen(r#""required": {"#, r#""required": {"hum": ["seconds"], "#, 1)
            .replacen(
                r#""card": {
      "actions": {"#,
                r#""card": {"actions": {"hum": {"icon": "🎶", "title": "Hum for {{seconds}}", "rows": []}, "#,
                1,
            );
        let tool = TOOL.replacen(r#""actions": {"#, r#""actions": {"hum": "hums for `seconds`", "#, 1).replacen(
            r#""enum": ["#,
            r#""enum": ["hum", "#,
            1,
        );
        let tables = Tables::load(&contract, &tool).unwrap();
        let call = serde_json::json!({"action": "hum", "seconds": 90});
        let action = crate::check::check_by(&tables, &call).unwrap();
        let text = crate::text::text_of(&tables, &action, crate::text::Frame::ByHand { wait: tables.wait });
        assert_eq!(text.plain().lines().next(), Some("🎶 Hum for 1 minute 30 seconds"));
        let refusal = crate::check::check_by(&tables, &serde_json::json!({"action": "hum"})).unwrap_err();
        assert_eq!(refusal.to_string(), "hum needs seconds.");
    }
}
