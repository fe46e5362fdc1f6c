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
        Self::in_folder(homeserver.appservice(), model, agents)
    }

    /// The one whose agents log in.
    pub fn that_logs_in(homeserver: &Homeserver, model: &ModelServer, agents: &[&str]) -> Self {
        Self::in_folder(homeserver.appservice_that_logs_in(), model, agents)
    }

    fn in_folder(folder: PathBuf, model: &ModelServer, agents: &[&str]) -> Self {
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
        let agents: String = agents.iter().map(|name| self.table(name)).collect();
        fs::write(self.folder.join("config.toml"), format!("{}{agents}", self.shared)).unwrap();
    }

    /// One agent with more in its table, from the next start on.
    pub fn set_agent_tables(&self, name: &str, more: &str) {
        fs::write(self.folder.join("config.toml"), format!("{}{}{more}", self.shared, self.table(name))).unwrap();
    }

    fn table(&self, name: &str) -> String {
        format!(
            "[[agent]]\nlocalpart = \"{0}{name}\"\ndisplay_name = \"The {name}\"\nsystem_prompt = \"You are the {name}.\"\n",
            self.prefix
        )
    }

    /// The user id of an agent.
    pub fn agent(&self, name: &str) -> OwnedUserId {
        UserId::parse(format!("@{}{name}:localhost", self.prefix)).unwrap()
    }

    /// The account that its store belongs to.
    pub fn technical_user(&self) -> OwnedUserId {
        UserId::parse(value(&self.shared, "user")).unwrap()
    }

    /// What an agent keeps beside the store.
    pub fn state_of(&self, name: &str) -> PathBuf {
        self.setup.state().join("agents").join(format!("{}{name}", self.prefix))
    }

    /// Pushes a transaction, as the homeserver does; gives the status of the answer.
    pub async fn push(&self, id: &str, events: &[Value]) -> u16 {
        let body = json!({ "events": events }).to_string();
        self.push_body(id, Some(self.hs_token()), body).await.unwrap()
    }

    /// Pushes anything; gives the status of the answer, where there is one.
    pub async fn push_body(&self, id: &str, token: Option<String>, body: String) -> Option<u16> {
        let url = format!("{}/_matrix/app/v1/transactions/{id}", value(&self.shared, "url"));
        let mut request = reqwest::Client::new().put(url).body(body);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        Some(request.send().await.ok()?.status().as_u16())
    }

    /// The homeserver's token.
    pub fn hs_token(&self) -> String {
        fs::read_to_string(self.folder.join("secrets/hs-token")).unwrap().trim().to_owned()
    }
}

/// A text in the configuration.
fn value(configuration: &str, key: &str) -> String {
    let line = configuration.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix("= \""));
    line.unwrap().trim_end_matches('"').to_owned()
}
