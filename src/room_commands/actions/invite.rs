//! `invite`: asks somebody into the room.

use std::sync::Arc;

use async_trait::async_trait;
use ruma::UserId;

use super::{Action, By, Fields, Kind, Made, Need, Reading, Refusal, Step, Template, filled};

pub(super) const KIND: Kind = Kind { name: "invite", by: By::Anybody, read };

#[derive(Debug)]
struct Invite(Template);

fn read(fields: &Fields<'_>, reading: &mut Reading<'_>) -> Result<Arc<dyn Action>, String> {
    let written = fields.text("user", 1..=255)?;
    let user = reading.with_inputs(&written)?;
    if !written.contains("{{") && UserId::parse(&written).is_err() {
        return Err("user must be a full user id such as \"@bob:example.org\"".to_owned());
    }
    Ok(Arc::new(Invite(user)))
}

#[async_trait]
impl Action for Invite {
    fn summary(&self) -> String {
        "invites somebody".to_owned()
    }

    fn needs(&self) -> Need {
        Need::Invite
    }

    async fn run(&self, step: &Step<'_>, _made: &mut Made) -> Result<String, Refusal> {
        let user = filled(&self.0, step);
        let user = UserId::parse(user.trim())
            .map_err(|_| Refusal::call(format!("{:?} is no full user id such as \"@bob:example.org\"", user.trim())))?;
        let rooms = step.rooms();
        if rooms.power(&step.here.room, &user).await.is_some() {
            return Ok(format!("{user} is here already"));
        }
        rooms.invite(&step.here.room, &user).await?;
        Ok(format!("{user} is invited"))
    }
}
