//! `waybread check`: an operator's set-up, whole and broken.

use std::fs;

use serde_json::{Value, json};
use waybread::model::scripted::Step;

use crate::support::{AgentSetup, Checked, Homeserver, ModelServer, Person, Proxy, Trouble, Which, calls};

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
    assert!(checked.lines.contains("ok    store          opens with its key"), "{}", checked.lines);
    // The homeserver may bring the check's own room once more.
    let agent = setup.start().await;
    assert!(!agent.log().contains("ERROR"), "{}", agent.log());
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
    setup.refusal().await;
    let kept = fs::read_dir(setup.state()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let kept: Vec<_> = kept.filter(|name| name.starts_with("matrix") || name.starts_with("session")).collect();
    assert!(kept.is_empty(), "a login that failed leaves nothing: {kept:?}");

    model.add(native());
    setup.set("MATRIX_HOMESERVER", "http://127.0.0.1:1");
    let checked = setup.check(&[]).await;
    insta::assert_snapshot!("homeserver_down", checked.lines);
    assert!(!checked.works);

    model.add(native());
    setup.set("MATRIX_HOMESERVER", model.url().strip_suffix("/v1").unwrap());
    let checked = setup.check(&[]).await;
    assert!(!checked.works);
    assert_eq!(
        lines(&checked, "fail"),
        ["fail  homeserver     http://127.0.0.1:PORT/: that is no Matrix homeserver: it answers HTTP 404 -> check \
          matrix.homeserver: the address of the client API itself, and whether it runs"]
    );
    let refusal = setup.refusal().await;
    assert!(refusal.contains("that is no Matrix homeserver") && refusal.contains("HTTP 404"), "{refusal}");

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
    let mistyped = setup.check(&[]).await;
    let alice = Person::new(&Homeserver::relaxed(), "alice").await;
    fs::write(&file, alice.recovery_key()).unwrap();
    model.add(native());
    let other = setup.check(&[]).await;
    assert!(!missing.works && !mistyped.works && !other.works);
    let fails = [lines(&missing, "fail"), lines(&mistyped, "fail"), lines(&other, "fail")].concat();
    insta::assert_snapshot!("recovery_key", fails.join("\n"));
    let open = lines(&other, "warn");
    assert!(open.len() == 1 && open[0].contains("chmod go= STATE/recovery-key"), "{open:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limited_logins_are_told_with_the_wait() {
    let model = ModelServer::start(native()).await;
    let proxy = Proxy::start(&Homeserver::relaxed()).await;
    let setup = AgentSetup::new(&proxy.homeserver, &model).await;
    proxy.trouble(Which::Login, 0, usize::MAX, Trouble::Limit(90_000));
    let checked = setup.check(&[]).await;
    assert_eq!(
        lines(&checked, "fail"),
        ["fail  session        the homeserver limits logins: try again in 90 s -> wait, then check again"]
    );
    let refusal = setup.refusal().await;
    assert_eq!(refusal, "waybread: the homeserver limits logins: try again in 90 s");
    proxy.happened(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_homeserver_has_ended_is_told_with_what_to_do() {
    let (model, setup) = healthy().await;
    assert!(setup.check(&[]).await.works);
    Homeserver::relaxed().log_out_everywhere(&setup.account).await;
    model.add(native());
    let checked = setup.check(&[]).await;
    let ended = "the homeserver has ended it: it was logged out, or its device was deleted";
    let advice = "start once with --new-device: the agent logs in as a new device, with the password";
    assert_eq!(lines(&checked, "fail"), [format!("fail  session        {ended} -> {advice}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_token_has_ended_is_told_and_the_agent_mends_it_by_itself() {
    let model = ModelServer::start(native()).await;
    let proxy = Proxy::start(&Homeserver::relaxed()).await;
    let setup = AgentSetup::new(&proxy.homeserver, &model).await;
    assert!(setup.check(&[]).await.works);
    let kept = fs::read(setup.state().join("session.json")).unwrap();
    for which in [Which::WhoAmI, Which::Refresh] {
        proxy.trouble(which, 0, usize::MAX, Trouble::SoftLogout);
    }
    model.add(native());
    let checked = setup.check(&[]).await;
    let ended = "its token has ended; its device is still there";
    let advice = "start the agent: it logs in again by itself, with the password; then check again";
    assert_eq!(lines(&checked, "fail"), [format!("fail  session        {ended} -> {advice}")]);
    assert_eq!(fs::read(setup.state().join("session.json")).unwrap(), kept, "a check logs nobody in");
    proxy.peace();
    proxy.trouble(Which::Refresh, 0, 1, Trouble::SoftLogout);
    proxy.trouble(Which::Sync, 0, 1, Trouble::SoftLogout);
    let agent = setup.start().await;
    agent.logs("begins anew").await;
    drop(agent);
    model.add(native());
    assert!(setup.check(&[]).await.works);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_makes_no_session_in_a_restored_folder() {
    let (model, setup) = healthy().await;
    setup.start().await.kill();
    let file = |name: &str| setup.state().join(name);
    fs::remove_file(file("session.json")).unwrap();
    fs::remove_dir_all(file("matrix")).unwrap();
    let key = fs::read(file("store.key")).unwrap();
    let mut said = Vec::new();
    for damage in ["key of another", "no key", "whole", "no store"] {
        match damage {
            "key of another" => fs::write(file("store.key"), [7; 32]).unwrap(),
            "no key" => fs::remove_file(file("store.key")).unwrap(),
            "whole" => fs::write(file("store.key"), &key).unwrap(),
            _ => fs::remove_file(file("waybread.sqlite3")).unwrap(),
        }
        model.add(native());
        let checked = setup.check(&[]).await;
        assert!(!file("session.json").exists() && !file("matrix").exists());
        assert!(damage == "no key" || file("store.key").exists());
        let line = |name: &str| checked.lines.lines().find(|line| line[6..].starts_with(name)).unwrap().to_owned();
        said.extend([format!("{damage}:"), line("store "), line("session ")]);
    }
    insta::assert_snapshot!("restored_folder", said.join("\n"));
    setup.start_with(&["--new-device"]).await;
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
