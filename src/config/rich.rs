//! What the agent posts besides text.

use ruma::OwnedRoomId;

use super::{error::ConfigError, reader::Reader};

/// Whether something is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// `[rich]`: messages with blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rich {
    /// Whether the model is offered `rich_send` and `rich_edit`.
    pub tools: Switch,
    /// Rooms that the model may name besides the one of the talk.
    pub rooms: Vec<OwnedRoomId>,
    /// Whether the agent sets the reactions that a message's buttons stand for.
    pub seed_reactions: Switch,
    /// Whether the text of a block is added to a text that leaves it out.
    pub complete_text: Switch,
    /// Edits of one message in all.
    pub max_edits: u32,
}

/// `[later]`: turns that the agent sets itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Later {
    /// Whether the model is offered `later`.
    pub tool: Switch,
    /// Turns to come in one conversation, at most.
    pub max_open: u32,
}

pub(super) const SWITCH: [(&str, Switch); 2] = [("on", Switch::On), ("off", Switch::Off)];

impl Rich {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut rich = reader.table("rich");
        Ok(Self {
            tools: rich.get("tools")?.choice(&SWITCH)?,
            rooms: rich.get("rooms")?.room_ids()?,
            seed_reactions: rich.get("seed_reactions")?.choice(&SWITCH)?,
            complete_text: rich.get("complete_text")?.choice(&SWITCH)?,
            max_edits: rich.get("max_edits")?.whole(1..=100_000)?,
        })
    }
}

impl Later {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut later = reader.table("later");
        Ok(Self { tool: later.get("tool")?.choice(&SWITCH)?, max_open: later.get("max_open")?.whole(1..=1000)? })
    }
}
