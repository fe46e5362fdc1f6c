//! The appservice and its homeserver: whether each knows the other's token and reaches the other.

use matrix_link::{Appservice, AppserviceError};

use super::{Report, STEP, because, within};
use crate::{
    config::Config,
    http::push::{Guard, PushEndpoint},
};

/// The checks in this file.
pub(super) const CHECKS: [&str; 2] = ["appservice", "push"];

/// None where the homeserver does not know it.
pub(super) async fn check(report: &mut Report, config: &Config) -> Option<Appservice> {
    let appservice = known(report, config).await;
    match &appservice {
        Some(appservice) => push(report, config, appservice).await,
        None => report.not_checked("push"),
    }
    appservice
}

/// Our token, by which the main agent is made where it is not there yet.
async fn known(report: &mut Report, config: &Config) -> Option<Appservice> {
    let Some(token) = config.appservice.as_token.secret.clone() else {
        let file = config.appservice.as_token.file.display();
        report.fail("appservice", format!("no token in {file}"), "run: waybread registration");
        return None;
    };
    let agent = config.agents.first()?.user();
    let registered = within(STEP, async {
        let appservice = Appservice::open(config.matrix.homeserver.as_str(), token, config.appservice.devices).await?;
        appservice.register(agent).await?;
        anyhow::Ok(appservice)
    });
    match registered.await {
        Ok(appservice) => {
            report.ok("appservice", format!("the homeserver takes its token; {agent} is there"));
            Some(appservice)
        }
        Err(error) => {
            let advice = match error.downcast_ref() {
                Some(AppserviceError::Token) => {
                    "name the registration in the homeserver's configuration and restart it; waybread registration \
                     --replace writes it"
                }
                _ => "see whether the registration that the homeserver has is the newest, and look into its log",
            };
            report.fail("appservice", super::told(&error), advice);
            None
        }
    }
}

/// Lets the homeserver ask us, where a run listens.
async fn push(report: &mut Report, config: &Config, appservice: &Appservice) {
    let (listen, url) = (config.appservice.listen, &config.appservice.url);
    let Some(token) = config.appservice.hs_token.secret.clone() else {
        let file = config.appservice.hs_token.file.display();
        report.fail("push", format!("no token in {file}"), "run: waybread registration");
        return;
    };
    let endpoint = match PushEndpoint::open(listen).await {
        Ok(endpoint) => endpoint,
        Err(error) => {
            let what = because(format!("{listen} can't be listened on"), &error.into());
            report.fail("push", what, "see what else listens there, or set appservice.listen");
            return;
        }
    };
    let pinged = tokio::select! {
        pinged = within(STEP, appservice.ping(&config.appservice.id)) => pinged,
        ended = endpoint.serve_pings(Guard { token, in_address: config.appservice.token_in_address }) => Err(ended.err().map_or_else(|| anyhow::anyhow!("nobody listens"), Into::into)),
    };
    match pinged {
        Ok(took) => report.ok("push", format!("the homeserver reaches us at {url} in {} ms", took.as_millis())),
        Err(error) => report.fail(
            "push",
            because(format!("the homeserver does not reach us at {url}"), &error),
            "check appservice.url and appservice.listen, and that the homeserver has the newest registration",
        ),
    }
}
