//! Room commands: what a room allows its agent to run, and a secret that nobody sees but the one who is to have it.

use std::{fs, path::Path};

use matrix_link::ActError;
use ruma::{OwnedRoomId, RoomId, UserId};
use serde_json::{Value, json};

use crate::support::{Agent, AgentSetup, Homeserver, Hook, ModelServer, Person, Visitor, calls, say};

const LIST: &str = "dev.waybread.commands";
const TOKEN: &str = "wbt_9fKq27LmXz04RbN8dTgv";

/// The example of docs/room-commands.md: what the operator lists.
fn connect_git(hook: &str) -> String {
    format!(
        r#"
[room]
private_addresses = ["127.0.0.1"]

[[room.command]]
rooms = ["*"]
name = "connect-git"
description = "Connects a Git repository to this room. Opens a form for the repository and its access token."
when = [{{ secret = "git-token", is = "absent" }}]

[[room.command.actions]]
type = "form"
title = "Connect a Git repository"
text = "The token goes into my secret store. Nobody in the chat sees it, and neither does the model."
submit = "Connect"
scope = "room"
fields = [
    {{ name = "repository", label = "Repository", kind = "text", help = "Such as example/app." }},
    {{ name = "token", label = "Access token", kind = "secret", secret = "git-token" }},
    {{ name = "access", label = "Access", kind = "choice", choices = ["read", "write"] }},
]

[[room.command.actions]]
type = "webhook"
url = "{hook}"
headers = {{ Authorization = "Bearer {{{{secret:git-token}}}}" }}
body = {{ repository = "{{{{form:repository}}}}", access = "{{{{form:access}}}}" }}
"#
    )
}

struct Scene {
    // Before its folder goes.
    agent: Agent,
    homeserver: Homeserver,
    model: ModelServer,
    setup: AgentSetup,
    alice: Person,
    room: OwnedRoomId,
}

impl Scene {
    /// Alice and the agent in an encrypted group, which is alice's.
    async fn new(config: &str) -> Self {
        Self::with(config, |_| {}).await
    }

    async fn with(config: &str, change: impl FnOnce(&mut AgentSetup)) -> Self {
        let homeserver = Homeserver::relaxed();
        let model = ModelServer::start([]).await;
        let mut setup = AgentSetup::new(&homeserver, &model).await;
        setup.set("FORMS_LISTEN", "127.0.0.1:0");
        setup.configure(config);
        change(&mut setup);
        let agent = setup.start().await;
        let alice = Person::new(&homeserver, "alice").await;
        let room = alice.group_room(&[setup.user()]).await;
        Self { agent, homeserver, model, setup, alice, room }
    }

    fn bot(&self) -> &UserId {
        self.setup.user()
    }

    async fn says(&self, room: &RoomId, text: &str) {
        self.alice.say_to(room, self.bot(), text).await;
    }

    /// The address of the form that was sent to alice, and where.
    async fn form(&self) -> (OwnedRoomId, String) {
        let (room, text) = self.alice.finds(self.bot(), "This form is for you alone").await;
        let address = text.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
        (room, address)
    }

    async fn hears(&self, room: &RoomId, text: &str) {
        let said = |all: &[crate::support::Seen]| all.iter().any(|one| one.text().contains(text)).then_some(());
        self.alice.until(room, self.bot(), text, said).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_git_repository_is_connected_and_the_chat_never_sees_the_token() {
    let hook = Hook::start(&format!("Bearer {TOKEN}")).await;
    let all = "trace,matrix_sdk=trace,matrix_sdk_base=trace,matrix_sdk_crypto=trace,sqlx=trace";
    let scene = Scene::with(&connect_git(&hook.url), |setup| setup.set("LOG_FILTER", all)).await;
    let admin = scene.homeserver.admin().await;
    scene.model.add([calls("room_command", json!({"name": "connect-git"})), say("It is connected.", 0)]);
    scene.says(&scene.room, "Please connect our repository.").await;
    let (private, address) = scene.form().await;
    assert_ne!(private, scene.room);
    scene.hears(&scene.room, "I have sent").await;
    let visitor = Visitor::opens(&address).await;
    visitor.sends(&[("repository", "example/app"), ("token", TOKEN), ("access", "read")]).await;
    assert!(visitor.page().await.contains("Done."));
    scene.hears(&scene.room, "It is connected.").await;
    scene.hears(&private, "Stored: `git-token`").await;

    let got = hook.got();
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].authorization, format!("Bearer {TOKEN}"));
    assert_eq!(got[0].body, json!({"repository": "example/app", "access": "read"}));
    let shown = scene.model.shown();
    assert!(shown[1].contains(r#"repository, token (kept as the secret \"git-token\"), access"#), "{}", shown[1]);
    assert!(shown[1].contains("127.0.0.1 has answered 200 OK"), "{}", shown[1]);

    // A further word, so that what came back has had time to be written down and shown.
    scene.model.add([say("You are welcome.", 0)]);
    scene.says(&scene.room, "Thank you!").await;
    scene.hears(&scene.room, "You are welcome.").await;
    for (what, text) in [
        ("the homeserver's rooms", format!("{:?}", scene.homeserver.everything(&admin).await)),
        ("what alice's client has decrypted", scene.alice.everything()),
        ("what the model was asked", scene.model.requests().join("\n")),
        ("the log", scene.agent.log()),
    ] {
        assert!(text.len() > 1000, "{what}: there is something to look through");
        assert_nowhere(what, text.as_bytes());
    }
    assert!(scene.agent.log().contains("TRACE"), "the log is whole");
    let files = files_in(&scene.setup.state());
    assert!(files.iter().any(|file| file.ends_with("waybread.sqlite3")), "{files:?}");
    for file in files {
        assert_nowhere(&file.display().to_string(), &fs::read(&file).unwrap());
    }
    let address = address.rsplit('/').next().unwrap();
    assert!(!scene.model.requests().join("\n").contains(address) && !scene.agent.log().contains(address));
}

/// The token in the forms in which something may write it.
fn assert_nowhere(what: &str, bytes: &[u8]) {
    let hex: String = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect();
    // Base64 of the middle, at each of the three places where it can begin.
    let base64 =
        ["d2J0XzlmS3EyN0xtWHowNFJiTjhkVGd2", "idF85ZktxMjdMbVh6MDRSYk44ZFRnd", "YnRfOWZLcTI3TG1YejA0UmJOOGRUZ3"];
    for needle in [TOKEN, &hex].into_iter().chain(base64) {
        let found = bytes.windows(needle.len()).position(|part| part == needle.as_bytes());
        assert!(found.is_none(), "{what}: the token stands there, as {needle}, at {found:?}");
    }
}

fn files_in(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_in(&path)) } else { files.push(path) }
    }
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_listed_not_now_or_not_here_is_refused_with_the_reason() {
    let hook = Hook::start("Bearer another").await;
    let scene = Scene::new(&connect_git(&hook.url)).await;
    let call = |name: &str| calls("room_command", json!({ "name": name }));
    let asks = async |step, answer: &'static str| {
        scene.model.add([step, say(answer, 0)]);
        scene.says(&scene.room, answer).await;
        scene.hears(&scene.room, answer).await;
        scene.model.shown().last().unwrap().clone()
    };
    let shown = asks(call("format-disk"), "Not that.").await;
    assert!(shown.contains(r#"there is no command \"format-disk\" here; the commands are: connect-git"#), "{shown}");

    // The hook refuses: the chain stops there, and what was done before it is told.
    scene.model.add([call("connect-git"), say("The server refused the token.", 0)]);
    scene.says(&scene.room, "connect").await;
    let (private, address) = scene.form().await;
    Visitor::opens(&address).await.sends(&[("repository", "a/b"), ("token", TOKEN), ("access", "read")]).await;
    scene.hears(&scene.room, "The server refused the token.").await;
    let shown = scene.model.shown().last().unwrap().clone();
    assert!(
        shown.contains("connect-git stopped at action 2 of 2 (calls 127.0.0.1): 127.0.0.1 has answered 401"),
        "{shown}"
    );
    assert!(!shown.contains(TOKEN));

    let shown = asks(call("connect-git"), "Not now.").await;
    assert!(shown.contains(r#"can't run now: the secret \"git-token\" is there already"#), "{shown}");

    // What is undone in the private room works again.
    scene.alice.say(&private, "!forget git-token").await;
    scene.hears(&private, "is deleted").await;
    scene.says(&scene.room, "!commands").await;
    scene.hears(&scene.room, "What I may run in this room").await;
    let answer = scene.alice.messages(&scene.room, scene.bot()).pop().unwrap();
    assert!(!answer.text().contains("not now, for you"), "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rooms_own_list_counts_when_its_admin_has_confirmed_it_and_not_before() {
    let scene = Scene::new("").await;
    let bob = Person::new(&scene.homeserver, "bob").await;
    let room = scene.alice.group_room(&[scene.bot(), &bob.user]).await;
    let list = json!({"v": 1, "commands": [
        {"name": "hello", "description": "Says hello.", "actions": [{"type": "post", "text": "Hello, all."}]},
    ]});
    let refused = bob.sets(&room, LIST, list.clone()).await;
    assert!(matches!(refused, Err(ActError::Refused(_))), "{refused:?}");

    scene.model.add([say("I have nothing to run.", 0)]);
    scene.says(&room, "say hello").await;
    scene.hears(&room, "I have nothing to run.").await;
    assert!(!scene.model.requests()[0].contains("room_command"));

    scene.alice.sets(&room, LIST, list).await.unwrap();
    let card = |all: &[crate::support::Seen]| all.iter().find(|one| one.text().contains("`yes ")).cloned();
    let card = scene.alice.until(&room, scene.bot(), "the card", card).await;
    let code = card.text().split_once("`yes ").unwrap().1.split('`').next().unwrap().to_owned();
    let bobs = bob.until(&room, scene.bot(), "the card", |all| all.iter().find(|one| one.id == card.id).cloned()).await;
    bob.reply(&room, &bobs.id, &format!("yes {code}")).await;
    scene.hears(&room, "Only somebody who may change").await;
    scene.alice.reply(&room, &card.id, &format!("yes {code}")).await;
    scene.hears(&room, "Confirmed:").await;

    scene.model.add([calls("room_command", json!({"name": "hello"})), say("[no reply]", 0)]);
    scene.says(&room, "say hello").await;
    scene.hears(&room, "Hello, all.").await;

    // The room of another list, or of none, is not touched by it.
    scene.model.add([say("Nothing here.", 0)]);
    scene.says(&scene.room, "say hello").await;
    scene.hears(&scene.room, "Nothing here.").await;
    assert!(!scene.model.requests().last().unwrap().contains("room_command"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_acts_in_a_real_room_as_far_as_person_and_agent_may() {
    let entry = r#"
[[room.command]]
rooms = ["*"]
name = "set-up"
description = "Sets the room up."
inputs = { properties = { who = { type = "string" } }, required = ["who"] }
actions = [
    { type = "post", text = "Welcome.", payload = { v = 1, blocks = [{ type = "table", columns = ["a"], rows = [["b"]] }] } },
    { type = "pin", message = "posted" },
    { type = "topic", text = "Set up for {{input:who}}" },
    { type = "widget", id = "board", title = "Board", url = "https://board.example.org/" },
    { type = "invite", user = "{{input:who}}" },
]

[[room.command]]
rooms = ["*"]
name = "tidy"
description = "Takes the board away."
actions = [{ type = "widget_close", id = "board" }]
"#;
    let scene = Scene::new(entry).await;
    let bob = Person::new(&scene.homeserver, "bob").await;
    let set_up = format!("!run set-up who={}", bob.user);
    scene.says(&scene.room, &set_up).await;
    scene.hears(&scene.room, "set-up stopped at action 2 of 5 (pins a message): the homeserver does not let me.").await;

    let mut levels = scene.alice.state(&scene.room, "m.room.power_levels", "").await.unwrap();
    levels["users"][scene.bot().as_str()] = 60.into();
    scene.alice.sets(&scene.room, "m.room.power_levels", levels).await.unwrap();
    scene.says(&scene.room, &set_up).await;
    scene.hears(&scene.room, "set-up is done:").await;
    bob.joined(&scene.room, &bob.user).await;
    let is = |key: &'static str| move |content: &Value| content.get(key).is_some();
    let topic = scene.alice.until_state(&scene.room, "m.room.topic", "", is("topic")).await;
    assert_eq!(topic["topic"], format!("Set up for {}", bob.user));
    let pinned = scene.alice.until_state(&scene.room, "m.room.pinned_events", "", is("pinned")).await;
    assert_eq!(pinned["pinned"].as_array().unwrap().len(), 1);
    let widget = "im.vector.modular.widgets";
    scene.alice.until_state(&scene.room, widget, "waybread-board", is("url")).await;
    scene.says(&scene.room, "!run tidy").await;
    scene.alice.until_state(&scene.room, widget, "waybread-board", |content| content == &json!({})).await;

    // Bob has no power there, and so the agent does nothing for him, whatever it may itself.
    bob.say_to(&scene.room, scene.bot(), "!run tidy").await;
    scene.hears(&scene.room, "which bob").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_form_outlives_a_kill_and_its_chain_goes_on() {
    let hook = Hook::start(&format!("Bearer {TOKEN}")).await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut scene = Scene::with(&connect_git(&hook.url), |setup| setup.set("FORMS_LISTEN", &port.to_string())).await;
    scene.model.add([calls("room_command", json!({"name": "connect-git"}))]);
    scene.says(&scene.room, "connect").await;
    let (private, address) = scene.form().await;
    let visitor = Visitor::opens(&address).await;
    scene.agent.stop();
    scene.model.add([calls("room_command", json!({"name": "connect-git"})), say("It is connected.", 0)]);
    scene.agent = scene.setup.start().await;
    scene.model.asked(2).await;
    visitor.sends(&[("repository", "example/app"), ("token", TOKEN), ("access", "write")]).await;
    scene.hears(&scene.room, "It is connected.").await;
    scene.hears(&private, "Stored: `git-token`").await;
    assert_eq!(hook.got().len(), 1);
    let forms =
        scene.alice.messages(&private, scene.bot()).iter().filter(|one| one.text().contains("Connect a Git")).count();
    assert_eq!(forms, 1, "no second form");
}
