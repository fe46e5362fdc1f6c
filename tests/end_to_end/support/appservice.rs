//! An appservice: the agent's own program with many agents.

use std::{fs, path::PathBuf};

use ruma::{OwnedUserId, UserId};
use serde_json::{Value, json};

use super::{Account, AgentSetup, Homeserver, ModelServer};

/// An appservice that a homeserver knows; can be started again with the same state.
pub struct Appservice {
    pub setup: AgentSetup,
    folder: PathBuf,
    /// The configuration as the registration was made with, without agents.
    shared: String,
    prefix: String,
}

impl Appservice {
    /// With these agents, the main one first.
    pub fn new(homeserver: &Homeserver, model: &ModelServer, agents: &[&str]) -> Self {
        let folder = homeserver.appservice();
        let configuration = fs::read_to_string(folder.join("config.toml")).unwrap();
        let shared = configuration.split("[[agent]]").next().unwrap().to_owned();
        let prefix = value(&shared, "prefix");
        // Nobody logs in as one of them: they have no password and no token.
        let account = Account {
            user: UserId::parse(format!("@{prefix}{}:localhost", agents[0])).unwrap(),
            password: String::new(),
            token: String::new(),
        };
        let setup = AgentSetup::in_folder(account, folder.clone(), model);
        let appservice = Self { setup, folder, shared, prefix };
        appservice.set_agents(agents);
        appservice
    }

    /// Other agents from the next start on.
    pub fn set_agents(&self, agents: &[&str]) {
        let table = |name: &&str| {
            format!(
                "[[agent]]\nlocalpart = \"{0}{name}\"\ndisplay_name = \"The {name}\"\nsystem_prompt = \"You are the {name}.\"\n",
                self.prefix
            )
        };
        let agents: String = agents.iter().map(table).collect();
        fs::write(self.folder.join("config.toml"), format!("{}{agents}", self.shared)).unwrap();
    }

    /// The user id of an agent.
    pub fn agent(&self, name: &str) -> OwnedUserId {
        UserId::parse(format!("@{}{name}:localhost", self.prefix)).unwrap()
    }

    /// What an agent keeps beside the store.
    pub fn state_of(&self, name: &str) -> PathBuf {
        self.setup.state().join("agents").join(format!("{}{name}", self.prefix))
    }

    /// Pushes a transaction, as the homeserver does; gives the status of the answer.
    pub async fn push(&self, id: &str, events: &[Value]) -> u16 {
        let token = fs::read_to_string(self.folder.join("secrets/hs-token")).unwrap();
        let url = format!("{}/_matrix/app/v1/transactions/{id}", value(&self.shared, "url"));
        let request = reqwest::Client::new().put(url).bearer_auth(token.trim()).json(&json!({ "events": events }));
        request.send().await.unwrap().status().as_u16()
    }
}

/// A text in the configuration.
fn value(configuration: &str, key: &str) -> String {
    let line = configuration.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix("= \""));
    line.unwrap().trim_end_matches('"').to_owned()
}
