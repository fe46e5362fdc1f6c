//! `widget`: puts a page into the room, for clients that show widgets; `widget_close` takes it away again.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Url;
use serde_json::{Value, json};

use super::{Action, By, Fields, Kind, Made, Need, Reading, Refusal, Step};
use crate::room_commands::fields::name;

pub(super) const KIND: Kind = Kind { name: "widget", by: By::Anybody, read: open };
pub(super) const CLOSE: Kind = Kind { name: "widget_close", by: By::Anybody, read: close };

/// The type that clients read; `m.widget` is still a proposal.
const WIDGET: &str = "im.vector.modular.widgets";

#[derive(Debug)]
struct Open {
    id: String,
    title: String,
    url: Url,
}

#[derive(Debug)]
struct Close {
    id: String,
}

fn open(fields: &Fields<'_>, _: &mut Reading<'_>) -> Result<Arc<dyn Action>, String> {
    let id = name("id", fields.get("id")?)?;
    let title = fields.text("title", 1..=100)?;
    let url = Url::parse(&fields.text("url", 1..=2000)?).ok().filter(|url| url.scheme() == "https" && url.has_host());
    let url = url.ok_or("url must be an https:// address")?;
    Ok(Arc::new(Open { id, title, url }))
}

fn close(fields: &Fields<'_>, _: &mut Reading<'_>) -> Result<Arc<dyn Action>, String> {
    Ok(Arc::new(Close { id: name("id", fields.get("id")?)? }))
}

/// The state key: apart from widgets that others have made.
fn key(id: &str) -> String {
    format!("waybread-{id}")
}

#[async_trait]
impl Action for Open {
    fn summary(&self) -> String {
        format!("adds the widget {:?}", self.title)
    }

    fn needs(&self) -> Need {
        Need::SetState(WIDGET)
    }

    async fn run(&self, step: &Step<'_>, _made: &mut Made) -> Result<String, Refusal> {
        let Self { id, title, url } = self;
        let content = json!({
            "type": "m.custom",
            "id": key(id),
            "name": title,
            "url": url.as_str(),
            "creatorUserId": step.rooms().user_id(),
            "data": {},
        });
        step.set_state(WIDGET, &key(id), content).await?;
        Ok(format!("the widget {title:?} is in the room"))
    }
}

#[async_trait]
impl Action for Close {
    fn summary(&self) -> String {
        format!("takes the widget {:?} away", self.id)
    }

    fn needs(&self) -> Need {
        Need::SetState(WIDGET)
    }

    async fn run(&self, step: &Step<'_>, _made: &mut Made) -> Result<String, Refusal> {
        let now = step.rooms().state_event(&step.here.room, WIDGET, &key(&self.id)).await;
        // What was taken away is an empty object.
        if now.is_none_or(|event| event.content.as_object().is_none_or(serde_json::Map::is_empty)) {
            return Ok(format!("the widget {:?} was not there", self.id));
        }
        step.set_state(WIDGET, &key(&self.id), Value::Object(serde_json::Map::new())).await?;
        Ok(format!("the widget {:?} is taken away", self.id))
    }
}
