//! `waybread check`: an operator's set-up, whole and broken.

use std::fs;

use serde_json::{Value, json};
use waybread::model::scripted::Step;

use crate::support::{AgentSetup, Checked, Homeserver, ModelServer, calls};

/// What the probe wants to see of a model that calls tools natively.
fn native() -> [Step; 2] {
    [calls("echo", json!({"value": 7})), calls("echo", json!({"value": 7}))]
}

async fn healthy() -> (ModelServer, AgentSetup) {
    let model = ModelServer::start(native()).await;
    let setup = AgentSetup::new(&Homeserver::relaxed(), &model).await;
    (model, setup)
}

/// The lines of that status, without what changes from run to run.
fn lines(checked: &Checked, status: &str) -> Vec<String> {
    checked.lines.lines().filter(|line| line.starts_with(status)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_set_up_is_all_ok_at_the_first_login_and_later() {
    let (model, setup) = healthy().await;
    let first = setup.check(&[]).await;
    insta::assert_snapshot!("first_login", first.lines);
    assert!(first.works);

    model.add(native());
    let second = setup.check(&[]).await;
    insta::assert_snapshot!("restored", second.lines);
    assert!(second.works);

    let secret = fs::read_to_string(setup.state().join("recovery-key")).unwrap();
    for text in [&first.raw, &second.raw] {
        assert!(!text.contains(secret.trim()) && !text.contains(&setup.account.password), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checked_set_up_runs_and_a_used_one_can_be_checked() {
    let (model, setup) = healthy().await;
    assert!(setup.check(&[]).await.works);
    let agent = setup.start().await;
    assert!(!agent.log().contains("WARN"), "{}", agent.log());
    agent.kill();
    model.add(native());
    let checked = setup.check(&[]).await;
    assert_eq!((lines(&checked, "warn"), lines(&checked, "fail")), (vec![], vec![]));
    assert!(checked.lines.contains("ok    store          opens"), "{}", checked.lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_accounts_limits_are_seen_and_waited_out() {
    let model = ModelServer::start(native()).await;
    let setup = AgentSetup::new(&Homeserver::default_limits(), &model).await;
    let checked = setup.check(&[]).await;
    assert!(checked.works, "{}", checked.lines);
    assert_eq!(lines(&checked, "warn"), Vec::<String>::new());
    assert!(checked.lines.contains("ok    limits         ordinary account limits"), "{}", checked.lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_is_told_with_what_to_do() {
    let (model, mut setup) = healthy().await;
    setup.set("MATRIX_PASSWORD", "wrong");
    let checked = setup.check(&[]).await;
    insta::assert_snapshot!("wrong_password", checked.lines);
    assert!(!checked.works);

    model.add(native());
    setup.set("MATRIX_HOMESERVER", "http://127.0.0.1:1");
    let checked = setup.check(&[]).await;
    insta::assert_snapshot!("homeserver_down", checked.lines);
    assert!(!checked.works);

    setup.set("MATRIX_STATE_DIR", "");
    let checked = setup.check(&[]).await;
    insta::assert_snapshot!("bad_configuration", checked.lines);
    assert!(!checked.works);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_down_is_told() {
    let (model, setup) = healthy().await;
    drop(model);
    let checked = setup.check(&[]).await;
    assert!(!checked.works);
    insta::assert_snapshot!("model_down", lines(&checked, "fail").join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_key_that_is_missing_or_another_ones_is_told() {
    let (model, setup) = healthy().await;
    assert!(setup.check(&[]).await.works);
    let file = setup.state().join("recovery-key");
    let key = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    model.add(native());
    let missing = setup.check(&[]).await;
    fs::write(&file, key.chars().rev().collect::<String>()).unwrap();
    model.add(native());
    let other = setup.check(&[]).await;
    assert!(!missing.works && !other.works);
    let fails = [lines(&missing, "fail"), lines(&other, "fail")].concat();
    insta::assert_snapshot!("recovery_key", fails.join("\n"));
    let open = lines(&other, "warn");
    assert!(open.len() == 1 && open[0].contains("chmod go= STATE/recovery-key"), "{open:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_agent_is_noticed_and_left_alone() {
    let (_model, setup) = healthy().await;
    let mut agent = setup.start().await;
    let checked = setup.check(&[]).await;
    assert!(!checked.works);
    insta::assert_snapshot!("state_folder_in_use", checked.lines);
    let second = setup.run_to_end().await;
    assert!(second.contains("another waybread runs with this state folder"), "{second}");
    assert!(agent.is_running());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_is_told_as_json() {
    let (model, setup) = healthy().await;
    let checked = setup.check(&["--json"]).await;
    let whole: Value = serde_json::from_str(&checked.raw).unwrap();
    assert!(checked.works);
    assert_eq!(whole["works"], true);
    let checks = whole["checks"].as_array().unwrap();
    assert!(checks.len() > 15 && checks.iter().all(|check| check["status"] == "ok"), "{whole:#}");

    drop(model);
    let checked = setup.check(&["--json"]).await;
    let whole: Value = serde_json::from_str(&checked.raw).unwrap();
    assert!(!checked.works);
    assert_eq!(whole["works"], false);
    let failed = whole["checks"].as_array().unwrap().iter().find(|check| check["status"] == "fail").unwrap();
    assert_eq!(failed["check"], "model");
    assert!(failed["advice"].as_str().unwrap().starts_with("check model.url"), "{failed}");
}
