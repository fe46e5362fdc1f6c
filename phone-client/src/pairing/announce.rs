//! Tells each paired agent what the phone is: its device, what else is on it, and what it can do.

use matrix_link::{Link, Outgoing, Payload, Sender};
use phone_actions::Announcement;
use ruma::TransactionId;

use super::Agent;
use crate::cards::Phone;

/// Announces the phone to those paired agents that don't know it as it is, in the direct room with each.
///
/// # Errors
/// A device id is none, a message is not sent, or it can't be written down. What was sent is written down.
pub(crate) async fn to_all(link: &Link, phone: &Phone) -> anyhow::Result<()> {
    let content = {
        let pairings = phone.pairings();
        let linked: Vec<_> = pairings.chat_devices().iter().map(|device| device.as_str()).collect();
        Announcement::new(phone.device.as_str(), &linked, |action| phone.backend.can(action))?.content()
    };
    let is_behind = |agent: &Agent| agent.announced.as_ref() != Some(&content);
    let behind: Vec<_> = {
        let pairings = phone.pairings();
        pairings.agents().filter(|(_, agent)| is_behind(agent)).map(|(user, _)| user.clone()).collect()
    };
    for agent in behind {
        let Some(room) = link.direct_room_with(&agent) else {
            tracing::warn!(%agent, "not told of this phone: there is no direct room with it");
            continue;
        };
        let payload = Payload::Event { event_type: "m.room.message".to_owned(), content: content.clone() };
        Sender::send(link, &Outgoing { room, txn: TransactionId::new(), payload }).await?;
        phone.pairings().announced(&agent, content.clone())?;
    }
    Ok(())
}
