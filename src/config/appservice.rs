//! Many agents on one homeserver, which pushes what happens: the appservice, and its `[[agent]]` tables.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use matrix_link::{AccessList, Devices};
use reqwest::Url;
use ruma::{OwnedUserId, UserId};
use secrecy::SecretString;

use super::{
    Config,
    error::ConfigError,
    reader::{Reader, Table},
    rich::{SWITCH, Switch},
    value::Found,
};

/// An agent of an appservice has no limit; where its homeserver sets one all the same, the outbox learns it from here.
const EVENTS_PER_SECOND: f64 = 1000.0;
const BURST: u32 = 1000;

/// `mode`: how the homeserver knows the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As an account like a person's.
    Bot,
    /// As virtual users of an appservice, one for each `[[agent]]`.
    Appservice,
}

impl Mode {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        reader.table("").get("mode")?.choice(&[("bot", Self::Bot), ("appservice", Self::Appservice)])
    }
}

/// `[appservice]`: what the homeserver is told of it.
#[derive(Debug, Clone)]
pub struct Appservice {
    /// Its name on the homeserver.
    pub id: String,
    /// Where the homeserver reaches it.
    pub url: Url,
    /// Where it listens for the homeserver.
    pub listen: SocketAddr,
    /// What the localparts of its agents begin with, and those of nobody else.
    pub prefix: String,
    /// By which the homeserver knows it.
    pub as_token: Token,
    /// By which it knows the homeserver.
    pub hs_token: Token,
    /// The file that the homeserver is given.
    pub registration: PathBuf,
    /// How its agents come to their devices.
    pub devices: Devices,
    /// Whether the homeserver may have its token in the address, as before version 1.4 of the specification.
    pub token_in_address: Switch,
    /// Agents that are open at once, at most.
    pub max_open: usize,
    /// An agent that had nothing to do for so long is closed.
    pub close_after: Duration,
}

/// One of the two secrets that an appservice and its homeserver share.
#[derive(Debug, Clone)]
pub struct Token {
    /// The secret; none before it is made.
    pub secret: Option<SecretString>,
    /// The file that it is made in.
    pub file: PathBuf,
}

/// One `[[agent]]`: a virtual user.
#[derive(Debug, Clone)]
pub struct Persona {
    /// The name that people see; without it, the localpart.
    pub display_name: Option<String>,
    /// The picture that people see.
    pub avatar: Option<Avatar>,
    /// What it runs with: the account is its own, the rest is its own where its table says so.
    pub config: Config,
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Avatar {
    /// Its file.
    pub file: PathBuf,
    /// What kind of picture it is, such as `image/png`.
    pub content_type: &'static str,
}

/// An agent as the main one knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Colleague {
    /// The account.
    pub user: OwnedUserId,
    /// The name that people see.
    pub name: String,
    /// Its localpart without what all agents' begin with.
    pub short_name: String,
    /// Who may talk to it.
    pub allow: AccessList,
}

impl From<&Persona> for Colleague {
    fn from(persona: &Persona) -> Self {
        let localpart = persona.user().localpart();
        let prefix = &*persona.config.appservice.prefix;
        Self {
            user: persona.user().to_owned(),
            short_name: localpart.strip_prefix(prefix).unwrap_or(localpart).to_owned(),
            name: persona.display_name.clone().unwrap_or_else(|| localpart.to_owned()),
            allow: persona.config.access.allow.clone(),
        }
    }
}

impl Persona {
    /// Its user id.
    pub fn user(&self) -> &UserId {
        &self.config.matrix.user
    }
}

impl Appservice {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut appservice = reader.table("appservice");
        Ok(Self {
            id: appservice.get("id")?.text(1..=100)?,
            url: appservice.get("url")?.url()?,
            listen: appservice.get("listen")?.address()?,
            prefix: appservice.get("prefix")?.localpart()?,
            as_token: Token::read(&mut appservice, "as_token")?,
            hs_token: Token::read(&mut appservice, "hs_token")?,
            registration: appservice.get("registration")?.path()?,
            devices: appservice.get("devices")?.choice(&[("made", Devices::Made), ("logged_in", Devices::LoggedIn)])?,
            token_in_address: appservice.get("token_in_address")?.choice(&SWITCH)?,
            max_open: appservice.get("max_open")?.whole(1..=10_000)?,
            close_after: appservice.get("close_after_seconds")?.seconds(1..=86_400)?,
        })
    }
}

impl Token {
    fn read(appservice: &mut Table<'_>, name: &str) -> Result<Self, ConfigError> {
        Ok(Self { secret: appservice.secret(name)?, file: appservice.secret_file(name)? })
    }
}

/// The `[[agent]]` tables, each with what all of them share. The first is the main one, who knows the others.
pub(super) fn agents(reader: &mut Reader, shared: &Config) -> Result<Vec<Persona>, ConfigError> {
    let count = reader.agents();
    let read = |index| reader.agent(index, |reader| persona(reader, shared));
    let mut personas: Vec<Persona> = (0..count).map(read).collect::<Result<_, _>>()?;
    let agents: Arc<BTreeSet<OwnedUserId>> = Arc::new(personas.iter().map(|one| one.user().to_owned()).collect());
    for persona in &mut personas {
        persona.config.access.agents = agents.clone();
    }
    if let [main, others @ ..] = &mut *personas {
        main.config.colleagues = others.iter().map(Colleague::from).collect();
        for other in others {
            other.config.access.host = Some(main.user().to_owned());
        }
    }
    Ok(personas)
}

fn persona(reader: &mut Reader, shared: &Config) -> Result<Persona, ConfigError> {
    let mut config = Config::read_one(reader)?;
    let mut agent = reader.table("agent");
    let display_name = agent.find("display_name").map(|found| found.text(1..=200)).transpose()?;
    let avatar = agent.find("avatar").map(Found::picture).transpose()?;
    let (localpart, user) = agent.get("localpart")?.user_id_on(shared.matrix.user.server_name())?;
    config.matrix.state_dir = shared.matrix.state_dir.join("agents").join(localpart);
    config.matrix.user = user;
    if config.appservice.devices == Devices::Made {
        (config.outbox.events_per_second, config.outbox.burst) = (EVENTS_PER_SECOND, BURST);
    }
    Ok(Persona { display_name, avatar, config })
}

/// What must hold between keys.
pub(super) fn check(reader: &mut Reader, config: &Config) -> Result<(), ConfigError> {
    match (config.mode, config.agents.is_empty()) {
        (Mode::Bot, true) => return Ok(()),
        (Mode::Bot, false) => {
            return Err(reader.conflict("agent", "mode", "[[agent]] needs mode = \"appservice\"".to_owned()));
        }
        (Mode::Appservice, true) => {
            return Err(reader.conflict("mode", "mode", "\"appservice\" needs an [[agent]] at least".to_owned()));
        }
        (Mode::Appservice, false) => {}
    }
    let prefix = &config.appservice.prefix;
    let mut taken = BTreeSet::from([config.matrix.user.as_ref()]);
    for (index, persona) in config.agents.iter().enumerate() {
        let user = persona.user();
        let rule = if !user.localpart().starts_with(prefix) {
            Some(format!("must begin with appservice.prefix (\"{prefix}\")"))
        } else if !taken.insert(user) {
            Some(format!("{user} is taken: by another [[agent]], or as matrix.user"))
        } else {
            None
        };
        reader.agent(index, |reader| match rule {
            Some(rule) => Err(reader.conflict("agent.localpart", "agent.localpart", rule)),
            None => persona.config.model.check(reader),
        })?;
    }
    Ok(())
}
