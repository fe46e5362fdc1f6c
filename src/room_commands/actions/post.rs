//! `post`: posts a text, with blocks where the list has some, into the room or thread of the talk.

use std::sync::Arc;

use async_trait::async_trait;
use mxblocks_tools::{RICH_SEND, plan};
use serde_json::{Map, Value, json};

use super::{Action, By, Fields, Kind, Made, Reading, Refusal, Step, Template, filled};

pub(super) const KIND: Kind = Kind { name: "post", by: By::Anybody, read };

const MAX_TEXT: usize = 4000;

#[derive(Debug)]
struct Post {
    text: Template,
    payload: Option<Filling>,
}

/// JSON whose texts are templates.
#[derive(Debug)]
pub(super) enum Filling {
    Plain(Value),
    Text(Template),
    List(Vec<Filling>),
    Object(Vec<(String, Filling)>),
}

impl Filling {
    pub(super) fn read(value: &Value, text: &dyn Fn(&str) -> Result<Template, String>) -> Result<Self, String> {
        Ok(match value {
            Value::String(one) => Self::Text(text(one)?),
            Value::Array(values) => {
                Self::List(values.iter().map(|one| Self::read(one, text)).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let member = |(key, one): (&String, &Value)| Ok((key.clone(), Self::read(one, text)?));
                Self::Object(map.iter().map(member).collect::<Result<_, String>>()?)
            }
            plain => Self::Plain(plain.clone()),
        })
    }

    pub(super) fn fill(&self, text: &dyn Fn(&Template) -> String) -> Value {
        match self {
            Self::Plain(value) => value.clone(),
            Self::Text(template) => text(template).into(),
            Self::List(list) => list.iter().map(|one| one.fill(text)).collect(),
            Self::Object(members) => {
                Value::Object(members.iter().map(|(key, one)| (key.clone(), one.fill(text))).collect::<Map<_, _>>())
            }
        }
    }
}

fn read(fields: &Fields<'_>, reading: &mut Reading<'_>) -> Result<Arc<dyn Action>, String> {
    let written = fields.text("text", 1..=MAX_TEXT)?;
    let text = reading.with_inputs(&written)?;
    let payload = match fields.find("payload") {
        None => None,
        Some(payload) => {
            plan(RICH_SEND, &json!({ "payload": payload, "fallback": written }))?;
            Some(Filling::read(payload, &|text| reading.with_inputs(text))?)
        }
    };
    reading.has_post = true;
    Ok(Arc::new(Post { text, payload }))
}

#[async_trait]
impl Action for Post {
    fn summary(&self) -> String {
        "posts a message".to_owned()
    }

    async fn run(&self, step: &Step<'_>, made: &mut Made) -> Result<String, Refusal> {
        let text = filled(&self.text, step);
        let payload = self.payload.as_ref().map(|payload| payload.fill(&|template| filled(template, step)));
        let posted = step.desk().post(step.here, text, payload, step.call("post")).await?;
        made.posted = Some(posted.event);
        Ok(format!("a message is posted as [{}]", posted.handle))
    }
}
