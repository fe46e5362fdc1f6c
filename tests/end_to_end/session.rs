//! The session and its sync loop stay alive: tokens that end, a homeserver that is silent.

use std::fs;

use serde_json::Value;

use crate::support::{Health, Homeserver, ModelServer, Talk, Trouble, Which};

/// A talk whose agent's rounds of sync may take three seconds.
async fn talk() -> Talk {
    Talk::with(ModelServer::start([]).await, |setup| setup.set("MATRIX_SYNC_TIMEOUT_SECONDS", "3")).await
}

impl Talk {
    fn session(&self) -> Value {
        serde_json::from_slice(&fs::read(self.setup.state().join("session.json")).unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_that_never_answers_is_begun_anew_and_shown_as_degraded_when_it_goes_on() {
    let talk = talk().await;
    talk.goes_on(1).await;
    talk.proxy.trouble(Which::Sync, 0, 3, Trouble::Swallow);
    talk.agent.logs("sync is degraded").await;
    talk.agent.logs("sync works again").await;
    talk.goes_on(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_degraded_sync_is_seen_from_outside_until_it_works_again() {
    let mut health = None;
    let talk = Talk::with(ModelServer::start([]).await, |setup| health = Some(Health::of(setup))).await;
    let health = health.unwrap();
    health.ready(200).await;
    talk.proxy.trouble(Which::Sync, 0, usize::MAX, Trouble::BadGateway);
    let trouble = health.ready(503).await;
    assert!(trouble.starts_with("not synced for ") && trouble.ends_with(" s\n"), "{trouble}");
    talk.proxy.peace();
    health.ready(200).await;
    talk.goes_on(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_is_refreshed_and_the_fresh_ones_outlive_a_restart() {
    let mut talk = talk().await;
    let before = talk.session();
    assert!(before["refresh_token"].is_string());
    talk.proxy.trouble(Which::Sync, 0, 1, Trouble::SoftLogout);
    talk.proxy.happened(1).await;
    talk.goes_on(1).await;
    let after = talk.session();
    assert_eq!(after["device_id"], before["device_id"]);
    for token in ["access_token", "refresh_token"] {
        assert_ne!(after[token], before[token], "{token}");
    }
    assert!(!talk.agent.log().contains("begins anew"));
    talk.start_again(&[]).await;
    talk.goes_on(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_soft_logout_the_same_device_logs_in_again() {
    let talk = talk().await;
    talk.goes_on(1).await;
    let before = talk.session();
    talk.proxy.trouble(Which::Refresh, 0, 1, Trouble::SoftLogout);
    talk.proxy.trouble(Which::Sync, 0, 1, Trouble::SoftLogout);
    talk.agent.logs("soft logout").await;
    talk.agent.logs("begins anew").await;
    talk.goes_on(2).await;
    let after = talk.session();
    assert_eq!(after["device_id"], before["device_id"]);
    assert_ne!(after["access_token"], before["access_token"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_hard_logout_the_agent_ends_and_says_what_to_do() {
    let mut talk = talk().await;
    talk.goes_on(1).await;
    Homeserver::relaxed().log_out_everywhere(&talk.setup.account).await;
    talk.agent.ended().await;
    let last = talk.setup.last_word();
    assert!(last.contains("the homeserver has ended this session") && last.contains("--new-device"), "{last}");
    talk.agent = talk.setup.start_with(&["--new-device"]).await;
    talk.until_keys_are_shown().await;
    talk.goes_on(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_device_with_a_wrong_password_leaves_the_session_in_its_place() {
    let mut talk = talk().await;
    talk.goes_on(1).await;
    let before = talk.session();
    talk.agent.stop();
    talk.setup.set("MATRIX_PASSWORD", "wrong");
    let refusal = talk.setup.refusal_with(&["--new-device"]).await;
    assert!(refusal.contains("does not accept the password"), "{refusal}");
    assert!(!talk.setup.state().join("old-devices").exists());
    talk.start_again(&[]).await;
    talk.goes_on(2).await;
    assert_eq!(talk.session()["device_id"], before["device_id"]);
}
