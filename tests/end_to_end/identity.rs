//! Keys and identity: what others have trusted is never replaced unasked, and lost keys are noticed.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{AgentSetup, Homeserver, ModelServer, Person, Talk, say};

async fn answers(setup: &AgentSetup, homeserver: &Homeserver) {
    let alice = Person::new(homeserver, "alice").await;
    let room = alice.direct_room(setup.user()).await;
    alice.say(&room, "hello").await;
    assert_eq!(alice.answer(&room, setup.user(), 1).await.text(), "Hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_of_another_device_is_kept_and_taken_up_with_the_recovery_key() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Hello.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let owner = Person::at(&homeserver, &setup.account).await;

    let refusal = setup.refusal().await;
    assert!(refusal.contains("has made the account's cross-signing identity"), "{refusal}");
    assert!(refusal.contains("recovery-key (chmod 600)") && refusal.contains("--reset-identity"), "{refusal}");

    let file = setup.state().join("recovery-key");
    fs::write(&file, owner.recovery_key().replacen(' ', "", 2).split_off(3)).unwrap();
    let refusal = setup.refusal().await;
    assert!(refusal.contains("is no recovery key: it is mistyped"), "{refusal}");
    let stranger = Person::new(&homeserver, "stranger").await;
    fs::write(&file, stranger.recovery_key()).unwrap();
    let refusal = setup.refusal().await;
    assert!(refusal.contains("is another account's, or an earlier one"), "{refusal}");
    fs::write(&file, owner.recovery_key()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let agent = setup.start().await;
    assert!(!agent.log().contains("not signed"), "{}", agent.log());
    answers(&setup, &homeserver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_of_another_device_is_replaced_when_asked_for() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([say("Hello.", 0)]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    let owner = Person::at(&homeserver, &setup.account).await;

    let agent = setup.start_with(&["--reset-identity"]).await;
    assert!(!agent.log().contains("not signed"), "{}", agent.log());
    let key = fs::read_to_string(setup.state().join("recovery-key")).unwrap();
    assert_ne!(key, owner.recovery_key());
    answers(&setup, &homeserver).await;
    agent.kill();
    let agent = setup.start().await;
    assert!(!agent.log().contains("not signed"), "{}", agent.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_is_not_touched_when_the_password_is_wrong() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([]).await;
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    setup.start().await.kill();
    let file = setup.state().join("recovery-key");
    let key = fs::read_to_string(&file).unwrap();
    let backup = homeserver.key_backup(&setup.account).await;
    assert!(backup["version"].is_string(), "{backup}");

    setup.set("MATRIX_PASSWORD", "wrong");
    let refusal = setup.refusal_with(&["--reset-identity"]).await;
    assert!(refusal.contains("does not accept the account's password: nothing was changed"), "{refusal}");
    assert_eq!(fs::read_to_string(&file).unwrap(), key);
    assert_eq!(homeserver.key_backup(&setup.account).await["version"], backup["version"]);
    let checked = setup.check(&[]).await;
    for check in ["recovery key", "key backup", "own device"] {
        assert!(checked.lines.contains(&format!("ok    {check}")), "{}", checked.lines);
    }

    setup.set("MATRIX_PASSWORD", &setup.account.password.clone());
    let agent = setup.start_with(&["--reset-identity"]).await;
    assert!(!agent.log().contains("not signed"), "{}", agent.log());
    assert_ne!(fs::read_to_string(&file).unwrap(), key);
    model.add([say("Hello.", 0)]);
    answers(&setup, &homeserver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_key_that_was_made_and_not_written_down_is_replaced_at_the_next_start() {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([]).await;
    let setup = AgentSetup::new(&homeserver, &model).await;
    setup.start().await.kill();
    let file = setup.state().join("recovery-key");
    let lost = fs::read_to_string(&file).unwrap();
    // What a crash leaves behind between the two.
    fs::write(&file, "").unwrap();
    setup.start().await.kill();
    let key = fs::read_to_string(&file).unwrap();
    assert!(!key.is_empty() && key != lost);
    let checked = setup.check(&[]).await;
    assert!(checked.lines.contains("ok    recovery key   STATE/recovery-key opens"), "{}", checked.lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_recovery_key_alone_a_new_device_answers_what_is_open_and_nothing_again() {
    let model = ModelServer::start([say("One.", 0), say("Two.", 0), say("Three.", 0)]).await;
    // What comes from the key backup vouches for no device.
    let mut talk = Talk::with(model, |setup| setup.set("ACCESS_TRUST", "any")).await;
    talk.say("first").await;
    talk.answer(1).await;
    Homeserver::relaxed().until_backed_up(&talk.setup.account, 2).await;
    talk.agent.stop();
    talk.say("second").await;

    for entry in fs::read_dir(talk.setup.state()).unwrap().map(Result::unwrap) {
        match entry.file_name().to_str().unwrap() {
            "recovery-key" => {}
            "matrix" => fs::remove_dir_all(entry.path()).unwrap(),
            _ => fs::remove_file(entry.path()).unwrap(),
        }
    }
    talk.agent = talk.setup.start_with(&["--new-device"]).await;
    assert_eq!(talk.answer(2).await.text(), "Two.");
    talk.agent.logs("decrypted late").await;
    talk.until_keys_are_shown().await;
    talk.say("third").await;
    assert_eq!(talk.answer(3).await.text(), "Three.");
    let shown = talk.model.shown();
    assert_eq!(shown.len(), 3, "{shown:#?}");
    assert!(shown[1].contains("second"), "{}", shown[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_whose_keys_are_lost_is_refused_and_a_new_one_takes_its_place() {
    let mut talk = Talk::begin([]).await;
    talk.goes_on(1).await;
    talk.agent.stop();
    let session = fs::read(talk.setup.state().join("session.json")).unwrap();
    fs::remove_dir_all(talk.setup.state().join("matrix")).unwrap();

    let refusal = talk.setup.refusal().await;
    assert!(refusal.contains("matrix is missing") && refusal.contains("--new-device"), "{refusal}");
    talk.agent = talk.setup.start_with(&["--new-device"]).await;
    assert!(!talk.agent.log().contains("not signed"), "{}", talk.agent.log());
    talk.until_keys_are_shown().await;
    talk.goes_on(2).await;
    assert_ne!(fs::read(talk.setup.state().join("session.json")).unwrap(), session);
    talk.agent.stop();

    // An empty store beside the session of a device that has keys.
    let store = talk.setup.state().join("matrix");
    fs::remove_dir_all(&store).unwrap();
    fs::create_dir(&store).unwrap();
    fs::write(store.join("matrix-sdk-crypto.sqlite3"), b"").unwrap();
    let refusal = talk.setup.refusal().await;
    assert!(refusal.contains("the homeserver has other keys") && refusal.contains("--new-device"), "{refusal}");
}
