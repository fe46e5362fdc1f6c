//! What rooms allow the agent to run, one-time forms, and secrets.

use std::{net::SocketAddr, time::Duration};

use ipnet::IpNet;
use regex::Regex;
use reqwest::Url;

use super::{
    error::ConfigError,
    reader::Reader,
    rich::{SWITCH, Switch},
};
use crate::room_commands::{Listed, Scope};

/// `[room]`: room commands.
#[derive(Debug, Clone)]
pub struct Room {
    /// Whether the model is offered `room_command`.
    pub tool: Switch,
    /// Whether a list in a room's own state counts once it is confirmed.
    pub state_lists: Switch,
    /// Addresses of local networks that a webhook may call.
    pub private_addresses: Vec<IpNet>,
    /// What the operator lists: each `[[room.command]]`.
    pub commands: Vec<Listed>,
}

/// `[forms]`: one-time forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forms {
    /// Where they are served, once one is opened.
    pub listen: SocketAddr,
    /// The address that people reach it at; without it `listen` itself.
    pub public_url: Option<Url>,
    /// How long a form is open.
    pub open_for: Duration,
    /// Whether a proxy stands before it and names who asks.
    pub behind_proxy: bool,
}

/// `[secrets]`: secrets that people give.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// What is kept out of log and transcript besides the secrets that are known.
    pub redact: Vec<Regex>,
}

impl Room {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut commands: Vec<Listed> = Vec::new();
        for (place, value) in reader.tables("room.command")? {
            let wrong = |rule| ConfigError::Conflict { place: place.clone(), rule };
            let listed = Listed::read(&value).map_err(wrong)?;
            if commands.iter().any(|one| one.entry.name == listed.entry.name && overlap(&one.rooms, &listed.rooms)) {
                return Err(wrong(format!("the name \"{}\" is taken in one of its rooms", listed.entry.name)));
            }
            commands.push(listed);
        }
        let mut room = reader.table("room");
        Ok(Self {
            tool: room.get("tool")?.choice(&SWITCH)?,
            state_lists: room.get("state_lists")?.choice(&SWITCH)?,
            private_addresses: room.get("private_addresses")?.networks()?,
            commands,
        })
    }
}

fn overlap(one: &Scope, other: &Scope) -> bool {
    match (one, other) {
        (Scope::These(one), Scope::These(other)) => one.iter().any(|room| other.contains(room)),
        _ => true,
    }
}

impl Forms {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut forms = reader.table("forms");
        Ok(Self {
            listen: forms.get("listen")?.address()?,
            public_url: forms.find("public_url").map(|found| found.url()).transpose()?,
            open_for: forms.get("open_seconds")?.seconds(10..=3600)?,
            behind_proxy: forms.get("behind_proxy")?.choice(&SWITCH)? == Switch::On,
        })
    }
}

impl Secrets {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self { redact: reader.table("secrets").get("redact")?.patterns()? })
    }
}
