//! `cargo xtask demo`: a chat with the agent, every part of it real and on this machine.
//!
//! stdout is the conversation's alone, so that `--say` can be scripted; what this program says goes to stderr.
//! The order of starting is model, homeserver, agent, chat; they end in the opposite order.

use std::{
    ffi::OsString,
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;

use crate::{
    appservices::{self, Trio},
    cache,
    cargo::{self, Programs},
    homeserver::{Homeserver, Limits, SERVER_NAME, Synapse},
    model::{Model, Variable},
    net,
    process::{self, Output, Process},
    progress::{Step, say},
    secret,
    toolchain::Tools,
};

/// The homeserver's port, or the first free one after it.
const FIRST_PORT: u16 = 8008;
const PORTS: u16 = 100;

/// Login, keys and a first sync on a loaded machine.
const AGENT_START_LIMIT: Duration = Duration::from_secs(120);

/// How the agent's line begins that says it is at work.
const READY: &str = "ready:";

/// Where the appservice listens, or the first free port after it.
const FIRST_PUSH_PORT: u16 = 8092;

const AGENT: &str = "waybread";
const PERSON: &str = "alice";

/// What can be asked of a demo.
#[derive(Args)]
pub struct Options {
    /// Send this line, print the answer, and exit at the end. Repeatable.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    say: Vec<String>,
    /// Answer from this file instead of a language model.
    #[arg(long, value_name = "FILE", env = "WAYBREAD_MODEL_SCRIPT")]
    script: Option<PathBuf>,
    /// Print the agent's messages as the events that they are, too.
    #[arg(long)]
    raw: bool,
    /// Three agents under one registration of the homeserver, instead of one with an account.
    #[arg(long)]
    appservice: bool,
    /// Forget the earlier demo: new homeserver, new accounts, new room.
    #[arg(long)]
    fresh: bool,
}

/// Runs the demo to the end of the chat.
pub fn run(options: Options) -> Result<ExitCode> {
    let Tools { python, cache } = Tools::find()?;
    let folder = Folder::open(if options.appservice { "demo-appservice" } else { "demo" }, options.fresh)?;
    let synapse = Synapse::install(&cache, &python, Step::begin)?;
    let programs = {
        let _hold = cache.hold_target()?;
        say("  Building the agent (about 5 minutes the first time)");
        cargo::build_programs(&cache)?
    };
    let model = Model::get(options.script, &cache, &python)?;
    let port = folder.port()?;
    let trio = if options.appservice { Some(register(&programs, &folder, port)?) } else { None };
    let homeserver = start_homeserver(&synapse, &folder, port, trio.as_ref())?;
    let mut agent = start_agent(&programs, &folder, &homeserver, &model, trio.as_ref())?;
    say(invitation(&folder, homeserver.url(), &model, trio.as_ref())?);
    let mut chat = Command::new(&programs.phone);
    let with = user_id(if trio.is_some() { appservices::MAIN } else { AGENT });
    chat.args(chat_arguments(&folder, homeserver.url(), &with, &options.say));
    if options.raw {
        chat.arg("--raw");
    }
    process::run_in_foreground("the chat", &mut chat, &mut agent)?;
    Ok(ExitCode::SUCCESS)
}

/// What a demo keeps for the next one. One demo at a time.
struct Folder {
    root: PathBuf,
    _lock: fs::File,
}

impl Folder {
    fn open(name: &str, fresh: bool) -> Result<Self> {
        let root = cargo::workspace().join("target").join(name);
        fs::create_dir_all(cargo::workspace().join("target"))?;
        let lock = cache::lock(&root.with_added_extension("lock"))?;
        if fresh {
            cache::remove(&root)?;
        }
        secret::folder(&root)?;
        Ok(Self { root, _lock: lock })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn password_file(&self, user: &str) -> PathBuf {
        self.path(&format!("{user}.password"))
    }

    /// The port of the earlier demo if it is free, so that Element finds the homeserver again.
    fn port(&self) -> Result<u16> {
        let file = self.path("port");
        let earlier = fs::read_to_string(&file).ok().and_then(|port| port.trim().parse().ok());
        let port = net::first_free(earlier.into_iter().chain(FIRST_PORT..FIRST_PORT + PORTS))
            .with_context(|| format!("no free port from {FIRST_PORT} on"))?;
        fs::write(&file, format!("{port}\n"))?;
        Ok(port)
    }
}

/// Three agents, known to the homeserver that will be at this port.
fn register(programs: &Programs, folder: &Folder, port: u16) -> Result<Trio> {
    let push = net::first_free(FIRST_PUSH_PORT..FIRST_PUSH_PORT + PORTS)
        .with_context(|| format!("no free port from {FIRST_PUSH_PORT} on"))?;
    appservices::trio(&programs.bot, &folder.path("appservice"), &net::local_url(port), push, &user_id(PERSON))
}

fn start_homeserver<'a>(
    synapse: &'a Synapse,
    folder: &Folder,
    port: u16,
    trio: Option<&Trio>,
) -> Result<Homeserver<'a>> {
    let step = Step::begin("Starting the homeserver");
    let registrations: Vec<_> = trio.map(|trio| trio.registration.clone()).into_iter().collect();
    let people: &[&str] = if trio.is_some() { &[PERSON] } else { &[AGENT, PERSON] };
    let start = || {
        let mut homeserver = synapse.start(&folder.path("homeserver"), port, Limits::Default, &registrations)?;
        homeserver.wait_until_ready()?;
        for user in people {
            homeserver.ensure_user(user, &folder.password_file(user))?;
        }
        Ok(homeserver)
    };
    step.finish(start())
}

fn start_agent(
    programs: &Programs,
    folder: &Folder,
    homeserver: &Homeserver<'_>,
    model: &Model,
    trio: Option<&Trio>,
) -> Result<Process> {
    let log = folder.path("agent.log");
    process::clear_log(&log)?;
    let mut command = Command::new(&programs.bot);
    command.arg("run").arg("--config");
    match trio {
        Some(trio) => command.arg(&trio.config),
        None => command.arg(cargo::workspace().join("config.toml")).envs(agent_environment(folder, homeserver.url())),
    };
    command.envs(model.environment());
    let step = Step::begin(if trio.is_some() { "Starting the agents" } else { "Starting the agent" });
    let mut agent = Process::start("the agent", &command, Output::Log(&log))?;
    let ready = || fs::read_to_string(&log).ok()?.lines().any(|line| line.starts_with(READY)).then_some(());
    step.finish(agent.wait_until(AGENT_START_LIMIT, ready))?;
    Ok(agent)
}

fn agent_environment(folder: &Folder, homeserver: &str) -> [Variable; 5] {
    [
        ("WAYBREAD_MATRIX_HOMESERVER", homeserver.into()),
        ("WAYBREAD_MATRIX_USER", user_id(AGENT).into()),
        ("WAYBREAD_MATRIX_PASSWORD_FILE", folder.password_file(AGENT).into()),
        ("WAYBREAD_MATRIX_STATE_DIR", folder.path("agent").into()),
        ("WAYBREAD_ACCESS_ALLOW", user_id(PERSON).into()),
    ]
}

fn chat_arguments(folder: &Folder, homeserver: &str, agent: &str, say: &[String]) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec![
        "chat".into(),
        "--homeserver".into(),
        homeserver.into(),
        "--user".into(),
        user_id(PERSON).into(),
        "--password-file".into(),
        folder.password_file(PERSON).into(),
        "--state-dir".into(),
        phone_folder(folder).into(),
        "--agent".into(),
        agent.into(),
        // Both ends are this program's.
        "--pair".into(),
    ];
    for text in say {
        // One word, so that a text may begin with a dash.
        arguments.push(format!("--say={text}").into());
    }
    arguments
}

fn phone_folder(folder: &Folder) -> PathBuf {
    folder.path("phone")
}

fn user_id(name: &str) -> String {
    format!("@{name}:{SERVER_NAME}")
}

/// What the person reads before the chat begins.
fn invitation(folder: &Folder, homeserver: &str, model: &Model, trio: Option<&Trio>) -> Result<String> {
    let password = secret::in_file(&folder.password_file(PERSON))?;
    let agent = user_id(if trio.is_some() { appservices::MAIN } else { AGENT });
    let others = if trio.is_some() { others() } else { String::new() };
    Ok(format!(
        "
  Model: {model}
  The agent's log: {log}

  To join with Element, on this machine (its homeserver listens on loopback: a phone can't reach it):
    homeserver    {homeserver}
    user name     {PERSON}
    password      {password}
    recovery key  in {recovery_key}
    room          the direct chat with {agent}
  The agent listens to devices that you have signed: when Element asks to verify, use the recovery key.
{others}",
        model = model.describe(),
        log = folder.path("agent.log").display(),
        recovery_key = recovery_key(folder).display(),
    ))
}

/// What the person can do besides talking to the main agent.
fn others() -> String {
    let [one, other] = appservices::OTHERS.map(user_id);
    format!(
        "
  There are two more agents: start a chat with {one} or {other}.
  Or make a room with {main} and say there: {main}: !agents
  and then: {main}: !invite cook
",
        main = user_id(appservices::MAIN),
    )
}

/// Where the chat keeps the person's recovery key, after its first start.
fn recovery_key(folder: &Folder) -> PathBuf {
    phone_folder(folder).join("recovery-key")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn folder() -> Folder {
        Folder { root: "/demo".into(), _lock: fs::File::open("/dev/null").unwrap() }
    }

    #[test]
    fn the_agent_is_told_its_homeserver_account_and_person() {
        assert_eq!(
            agent_environment(&folder(), "http://127.0.0.1:8009"),
            [
                ("WAYBREAD_MATRIX_HOMESERVER", "http://127.0.0.1:8009".into()),
                ("WAYBREAD_MATRIX_USER", "@waybread:localhost".into()),
                ("WAYBREAD_MATRIX_PASSWORD_FILE", "/demo/waybread.password".into()),
                ("WAYBREAD_MATRIX_STATE_DIR", "/demo/agent".into()),
                ("WAYBREAD_ACCESS_ALLOW", "@alice:localhost".into()),
            ]
        );
    }

    #[test]
    fn the_chat_gets_every_line_to_say_as_one_word() {
        let say = ["What is 2+2?".to_owned(), "-- well?".to_owned()];
        let arguments = chat_arguments(&folder(), "http://127.0.0.1:8008", "@waybread:localhost", &say);
        let expected = [
            "chat",
            "--homeserver",
            "http://127.0.0.1:8008",
            "--user",
            "@alice:localhost",
            "--password-file",
            "/demo/alice.password",
            "--state-dir",
            "/demo/phone",
            "--agent",
            "@waybread:localhost",
            "--pair",
            "--say=What is 2+2?",
            "--say=-- well?",
        ];
        assert_eq!(arguments, expected.map(OsString::from));
    }
}
