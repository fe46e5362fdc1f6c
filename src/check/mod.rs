//! `waybread check`: tries all that a run needs, and says of each what to do about it.
//!
//! The story, one file each: the state folder is ours and closed to others (`files`); the homeserver is there, with an
//! appservice each reaches the other (`appservice`), and the session opens (`session`), of an appservice that of its main
//! agent; the account's keys are in order (`keys`); the model can be asked (`model`); a message makes
//! the round trip through a private encrypted room (`round_trip`), which also shows the account's limits (`limits`).
//!
//! - What can't be tried because something before it failed is said to be not checked: a report has no gaps.
//! - Every step has an end: `STEP`, or a bound of its own.
//! - It opens the session as a run does. So a first check makes the first login, and keeps what a first run would keep.
//!   In a folder that holds anything of an earlier device it makes none: whether that one's place is taken is for the
//!   operator to say.
//! - It receives nothing in the agent's place: a later run receives all of it from where its own store ends.
//! - No secret is in a report.

mod appservice;
mod files;
mod keys;
mod limits;
mod model;
mod report;
mod round_trip;
mod session;

use std::{fmt::Display, time::Duration};

pub use report::{Finding, Output, Report, Status};

use crate::config::{Config, ConfigError, Mode};

/// No step takes longer, the model's probe excepted.
const STEP: Duration = Duration::from_secs(60);

/// Checks what the configuration describes and prints what it finds; `source` says where that came from.
pub async fn run(config: Result<Config, ConfigError>, source: &str, output: Output) -> Report {
    let mut report = Report::new(output);
    match config {
        Ok(config) => {
            configured(&mut report, &config, source);
            check(&mut report, &config).await;
        }
        Err(error) => report.fail("config", error, "correct that, then check again"),
    }
    report.end();
    report
}

fn configured(report: &mut Report, config: &Config, source: &str) {
    if config.access.allow == matrix_link::AccessList::default() {
        report.warn("config", format!("{source}: access.allow admits nobody"), "name yourself in access.allow");
    } else {
        report.ok("config", source);
    }
}

async fn check(report: &mut Report, config: &Config) {
    let state = files::check(report, config).await;
    let mut reachable = session::homeserver(report, config).await;
    let (mut state, mut config, mut appservice) = (state, config, None);
    if let (Mode::Appservice, Some(main)) = (config.mode, config.agents.first()) {
        if reachable {
            appservice = appservice::check(report, config).await;
        } else {
            appservice::CHECKS.into_iter().for_each(|check| report.not_checked(check));
        }
        reachable = appservice.is_some();
        state = state.map(|state| state.of_agent(&main.config.matrix));
        config = &main.config;
    }
    let link = match &state {
        Some(state) if reachable => session::open(report, config, state, appservice.as_ref()).await,
        _ => {
            report.not_checked("session");
            None
        }
    };
    match &link {
        Some(link) => keys::check(report, config, link).await,
        None => keys::CHECKS.into_iter().for_each(|check| report.not_checked(check)),
    }
    model::check(report, config, state.as_ref().and_then(files::State::store)).await;
    match &link {
        Some(link) => round_trip::check(report, link).await,
        None => ["round trip", "limits"].into_iter().for_each(|check| report.not_checked(check)),
    }
}

/// A step's outcome, with an end to it.
async fn within<T, E: Into<anyhow::Error>>(
    limit: Duration,
    step: impl Future<Output = Result<T, E>>,
) -> anyhow::Result<T> {
    match tokio::time::timeout(limit, step).await {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(_) => Err(anyhow::anyhow!("no end within {} s", limit.as_secs())),
    }
}

/// An error with its causes, each said once: libraries repeat a cause in their own words.
fn told(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// `what`, and why it is not so.
fn because(what: impl Display, error: &anyhow::Error) -> String {
    format!("{what}: {}", told(error))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_that_the_error_repeats_is_said_once() {
        let error = anyhow!("refused").context("no connection: refused").context("no homeserver");
        assert_eq!(told(&error), "no homeserver: no connection: refused");
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_has_an_end() {
        let error = within(STEP, std::future::pending::<anyhow::Result<()>>()).await.unwrap_err();
        assert_eq!(told(&error), "no end within 60 s");
    }
}
