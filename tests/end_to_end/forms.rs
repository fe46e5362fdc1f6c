//! One-time forms in a real browser.

use ruma::OwnedRoomId;

use crate::support::{Agent, AgentSetup, Browser, Homeserver, ModelServer, Person, Seen};

const TOKEN: &str = "wbt_browser_7Kq2mXz04RbN";

const COMMAND: &str = r#"
[[room.command]]
rooms = ["*"]
name = "connect-git"
description = "Connects a Git repository."

[[room.command.actions]]
type = "form"
title = "Connect a Git repository"
text = "The token goes into my secret store. Nobody in the chat sees it, and neither does the model."
submit = "Connect"
fields = [
    { name = "repository", label = "Repository", kind = "text", max = 40, help = "Such as example/app." },
    { name = "token", label = "Access token", kind = "secret", secret = "git-token", help = "Made under Settings, Access tokens." },
    { name = "access", label = "Access", kind = "choice", choices = [
        { value = "read", label = "Read only" },
        { value = "write", label = "Read and write" },
    ] },
    { name = "agree", label = "I may share this repository with this room", kind = "checkbox" },
    { name = "key", label = "Deploy key", kind = "file", secret = "git-key", optional = true },
]
"#;

struct Scene {
    // Before its folder goes.
    _agent: Agent,
    setup: AgentSetup,
    _model: ModelServer,
    alice: Person,
    room: OwnedRoomId,
    address: String,
}

/// Alice has run the command in her direct room, and has the address of her form.
async fn scene(open_seconds: &str) -> Scene {
    let homeserver = Homeserver::relaxed();
    let model = ModelServer::start([]).await;
    let mut setup = AgentSetup::new(&homeserver, &model).await;
    setup.set("FORMS_LISTEN", "127.0.0.1:0");
    setup.set("FORMS_OPEN_SECONDS", open_seconds);
    setup.configure(COMMAND);
    let agent = setup.start().await;
    let account = homeserver.account("alice").await;
    homeserver.is_called(&account, "Alice").await;
    homeserver.is_called(&setup.account, "Waybread").await;
    let alice = Person::at(&homeserver, &account).await;
    let room = alice.direct_room(setup.user()).await;
    alice.say(&room, "!run connect-git").await;
    let (there, text) = alice.finds(setup.user(), "This form is for you alone").await;
    assert_eq!(there, room, "the direct room is the private one");
    assert!(text.contains("The address works only on the machine that I run on"), "{text}");
    let address = text.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    Scene { _agent: agent, setup, _model: model, alice, room, address }
}

impl Scene {
    async fn hears(&self, text: &str) -> String {
        let said = |all: &[Seen]| all.iter().find(|one| one.text().contains(text)).map(|one| one.text().to_owned());
        self.alice.until(&self.room, self.setup.user(), text, said).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_fills_a_form_in_with_a_slip_and_sends_it_once() {
    let Some(browser) = Browser::start().await else { return };
    let scene = scene("600").await;
    browser.is_a_phone("light").await;
    browser.goes_to(&scene.address).await;
    browser.shows("h1", "Connect a Git repository").await;
    browser.pictures("form-first").await;
    browser.clicks("button").await;

    browser.types("[name=repository]", "an address that is much longer than this field takes").await;
    browser.types("[name=token]", TOKEN).await;
    browser.clicks("[value=read]").await;
    browser.pictures("form").await;
    browser.clicks("button").await;
    browser.shows("#field-repository-fault", "This is too long: 40 characters at most.").await;
    browser.shows("#field-agree-fault", "Please tick this box.").await;
    assert_eq!(browser.value("[name=token]").await, "", "a secret is not kept in a page");
    assert!(!browser.source().await.contains(TOKEN));
    assert!(browser.value("[name=repository]").await.starts_with("an address"), "what else was typed is kept");
    assert_eq!(browser.looks("return document.querySelector('[value=read]').checked").await, true);
    browser.is_a_phone("dark").await;
    browser.pictures("form-dark").await;
    let wide = "return document.documentElement.scrollWidth <= window.innerWidth";
    assert_eq!(browser.looks(wide).await, true, "nothing is wider than a phone");

    browser.looks("document.querySelector('[name=repository]').value = ''").await;
    browser.types("[name=repository]", "example/app").await;
    browser.types("[name=token]", TOKEN).await;
    browser.clicks("[name=agree]").await;
    browser.clicks("button").await;
    browser.shows("h1", "Connect a Git repository: done").await;
    browser.pictures("form-done").await;
    let stored = scene.hears("Stored: `git-token`").await;
    assert!(stored.contains("from Chrome or Chromium on"), "{stored}");
    scene.hears("connect-git is done").await;
    assert!(!scene.alice.everything().contains(TOKEN));

    // Again: the same address says that it is done, and nothing is sent twice.
    browser.goes_to(&scene.address).await;
    browser.shows("h1", "Connect a Git repository: done").await;
    browser.goes_back().await;
    let back = browser.source().await;
    assert!(!back.contains(TOKEN) && !back.contains("name=\"token\""), "{back}");
    let told = scene.alice.messages(&scene.room, scene.setup.user());
    assert_eq!(told.iter().filter(|one| one.text().contains("Stored:")).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_back_button_leads_to_what_was_done_and_no_script_sends_anything() {
    let Some(browser) = Browser::start().await else { return };
    let scene = scene("600").await;
    browser.goes_to(&scene.address).await;
    browser.clicks("button").await;
    let fill = async |repository: &str| {
        browser.types("[name=repository]", repository).await;
        browser.types("[name=token]", TOKEN).await;
        browser.clicks("[value=write]").await;
        browser.clicks("[name=agree]").await;
    };
    fill("example/first").await;
    // A script that got into the page could send nothing anywhere.
    let second = "const form = new FormData(document.querySelector('form')); form.set('repository', 'example/second'); \
                  fetch(location.href, {method: 'POST', body: form}); return true";
    browser.looks(second).await;
    browser.clicks("button").await;
    browser.shows("h1", "Connect a Git repository: done").await;
    browser.goes_back().await;
    assert!(!browser.source().await.contains(TOKEN));
    browser.goes_to(&scene.address).await;
    browser.shows("h1", "Connect a Git repository: done").await;
    scene.hears("Stored: `git-token`").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_browser_on_the_same_link_sees_nothing_of_the_form() {
    let (Some(first), Some(second)) = (Browser::start().await, Browser::start().await) else { return };
    let scene = scene("600").await;
    // Both look, as a preview would; the one that opens it first has it.
    first.goes_to(&scene.address).await;
    second.goes_to(&scene.address).await;
    second.shows("h1", "Connect a Git repository").await;
    first.clicks("button").await;
    first.types("[name=repository]", "example/app").await;
    second.clicks("button").await;
    second.shows("h1", "Open in another browser").await;
    assert!(!second.source().await.contains("name=\"token\""));
    assert_eq!(first.value("[name=repository]").await, "example/app");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_whose_time_is_over_takes_nothing() {
    let Some(browser) = Browser::start().await else { return };
    let scene = scene("10").await;
    browser.goes_to(&scene.address).await;
    browser.clicks("button").await;
    browser.types("[name=repository]", "example/app").await;
    browser.types("[name=token]", TOKEN).await;
    browser.clicks("[value=read]").await;
    browser.clicks("[name=agree]").await;
    scene.hears("has not sent the form within 10 seconds").await;
    browser.clicks("button").await;
    browser.shows("h1", "This form is closed").await;
    scene.alice.say(&scene.room, "!secrets").await;
    scene.hears("I keep no secrets here.").await;
}
