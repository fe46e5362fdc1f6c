//! The homeserver and the session there.

use matrix_link::{Appservice, Link, OpenError, Session, homeserver_versions, keeps_session};

use super::{Report, STEP, because, files::State, within};
use crate::{app, config::Config};

/// The first version with the endpoints that the agent uses.
const OLDEST: (u32, u32) = (1, 1);

/// Whether there is one that the agent can talk to.
pub(super) async fn homeserver(report: &mut Report, config: &Config) -> bool {
    let address = &config.matrix.homeserver;
    let versions = match within(STEP, homeserver_versions(address.as_str())).await {
        Ok(versions) => versions,
        Err(error) => {
            let advice = "check matrix.homeserver: the address of the client API itself, and whether it runs";
            report.fail("homeserver", because(address, &error), advice);
            return false;
        }
    };
    match newest(&versions) {
        Some((major, minor)) if (major, minor) >= OLDEST => {
            report.ok("homeserver", format!("{address} speaks Matrix up to v{major}.{minor}"));
            true
        }
        _ => {
            let spoken = versions.join(", ");
            report.fail(
                "homeserver",
                format!("{address} speaks no version from v{}.{} on: {spoken}", OLDEST.0, OLDEST.1),
                "bring the homeserver up to date",
            );
            false
        }
    }
}

fn newest(versions: &[String]) -> Option<(u32, u32)> {
    let parse = |version: &String| {
        let (major, minor) = version.strip_prefix('v')?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    versions.iter().filter_map(parse).max()
}

/// The session, restored or made.
pub(super) async fn open(
    report: &mut Report,
    config: &Config,
    state: &State,
    appservice: Option<&Appservice>,
) -> Option<Link> {
    let new_device = match appservice {
        Some(_) => "start the agent: its appservice makes a new device by itself; then check again",
        None => app::open::NEW_DEVICE,
    };
    let restored = keeps_session(state.path());
    if !restored && let Some(kept) = state.of_an_earlier_device().await {
        report.warn(
            "session",
            format!("none, and a check makes none beside {kept} of an earlier device"),
            match appservice {
                Some(_) => new_device,
                None => "start the agent, after a loss or on a new machine with --new-device; then check again",
            },
        );
        return None;
    }
    let position = match state.store() {
        Some(store) => store.position().await.ok().flatten(),
        None => None,
    };
    let link = match tokio::time::timeout(STEP, Link::open(app::open::account(config, appservice), position)).await {
        Ok(Ok(link)) => link,
        Ok(Err(error)) => {
            let advice = app::open::advice(&error, config, new_device).unwrap_or_else(|| match error {
                OpenError::RateLimited(_) => "wait, then check again".to_owned(),
                OpenError::OtherAccount { .. } => "set matrix.state_dir".to_owned(),
                OpenError::StoreLost { .. } => "docs/operate.md, \"When something is wrong\"".to_owned(),
                _ => format!("check {} and matrix.homeserver", state.path().display()),
            });
            report.fail("session", super::told(&error.into()), advice);
            return None;
        }
        Err(_) => {
            report.fail("session", format!("does not open within {} s", STEP.as_secs()), "check the homeserver's load");
            return None;
        }
    };
    match within(STEP, link.session()).await {
        Ok(Session::Stands) => {
            let device = link.device_id().map(|device| device.to_string()).unwrap_or_default();
            let how = if restored { "restored" } else { "first login" };
            report.ok("session", format!("{how}: {}, device {device}", config.matrix.user));
            Some(link)
        }
        Ok(Session::Expired) => {
            let advice = "start the agent: it logs in again by itself, with the password; then check again";
            report.fail("session", "its token has ended; its device is still there", advice);
            None
        }
        Ok(Session::Ended) => {
            let what = "the homeserver has ended it: it was logged out, or its device was deleted";
            report.fail("session", what, new_device);
            None
        }
        Err(error) => {
            report.fail("session", because("it can't be tried", &error), "check matrix.homeserver, then check again");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_found_by_number() {
        let versions = ["r0.6.1", "v1.9", "v1.12", "odd", "v1.x"].map(str::to_owned);
        assert_eq!(newest(&versions), Some((1, 12)));
        assert_eq!(newest(&versions[..1]), None);
    }
}
