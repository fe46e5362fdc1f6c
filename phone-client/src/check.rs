//! `waybread-phone check`: whether everything would work, one line for each thing, with what to do.

use std::{io, path::Path};

use anyhow::bail;
use matrix_link::Link;
use phone_actions::Announcement;

use crate::{
    account::Identity,
    backend::{self, Backend, terminal::Terminal},
    pairing::{Agent, Pairings},
    prompt,
    settings::Settings,
};

/// Looks, and says what it sees.
///
/// # Errors
/// When something would not work.
pub(crate) async fn check(state_dir: &Path) -> anyhow::Result<()> {
    let mut report = Report::default();
    let backend = Settings::load(state_dir)
        .map_err(anyhow::Error::from)
        .and_then(|settings| Ok(backend::open(&settings, state_dir, Terminal::new(io::stdout()))?));
    report.say("settings", backend.as_ref().map(|backend| can(&**backend)));
    let identity = Identity::of(None, None, state_dir);
    report.say("account", identity.as_ref().map(|identity| format!("{} at {}", identity.user, identity.homeserver)));
    let pairings = Pairings::load(state_dir).map_err(anyhow::Error::from);
    if let (Ok(identity), Ok(pairings)) = (&identity, &pairings) {
        match identity.open(state_dir, None, []).await {
            Ok(link) => {
                let device = link.device_id().map(|device| device.to_string()).unwrap_or_default();
                report.say("session", Ok::<_, &str>(format!("device {device}")));
                let trust = link.establish_trust().await;
                let verified = if trust.device_signed { Ok("yes") } else { Err("no: waybread-phone login") };
                report.say("verified", verified);
                for (user, agent) in pairings.agents() {
                    report.say(user.as_str(), paired(&link, user, agent).await);
                }
            }
            Err(error) => report.say("session", Err::<&str, _>(format!("{error:#}"))),
        }
    }
    match pairings {
        Ok(pairings) if pairings.agents().next().is_none() => {
            report.say("agents", Err::<&str, _>("none is paired: waybread-phone pair @agent:server"));
        }
        Ok(_) => {}
        Err(error) => report.say("agents", Err::<&str, _>(error)),
    }
    if report.failed { bail!("something would not work") } else { Ok(()) }
}

/// Which actions the back end does.
fn can(backend: &dyn Backend) -> String {
    match Announcement::new("PHONE", &[], |action| backend.can(action)) {
        Ok(Announcement { actions, .. }) if !actions.is_empty() => format!("can do {}", actions.join(", ")),
        _ => "can do nothing".to_owned(),
    }
}

async fn paired(link: &Link, user: &ruma::UserId, agent: &Agent) -> Result<String, String> {
    match link.identity_key(user).await {
        Some(key) if key != agent.key => Err(format!("has another key now: waybread-phone pair {user}")),
        None => Err("its key can't be seen".to_owned()),
        Some(_) if link.direct_room_with(user).is_none() => {
            Err("there is no direct room with it: write to it once".to_owned())
        }
        Some(_) if agent.announced.is_none() => Ok("paired; waybread-phone run tells it of this phone".to_owned()),
        Some(_) => Ok("paired, and knows this phone".to_owned()),
    }
}

#[derive(Default)]
struct Report {
    failed: bool,
}

impl Report {
    fn say(&mut self, what: &str, found: Result<impl std::fmt::Display, impl std::fmt::Display>) {
        match found {
            Ok(found) => prompt::line(&format!("ok    {what}: {found}")),
            Err(problem) => {
                self.failed = true;
                prompt::line(&format!("FAIL  {what}: {problem:#}"));
            }
        }
    }
}
