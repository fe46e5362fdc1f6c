//! The phone_action contract: what a model may ask of a person's phone, the card, and the answer.
//!
//! A model proposes one action by a call of the [`tool`]. [`check`] decides whether the call is one, and gives the
//! [`Action`] that a phone receives. It travels in a [`Card`], a Matrix message that reads well without any client of
//! ours; the phone shows it, and does nothing before the person confirms. What came of it comes back as an [`Answer`],
//! and [`result_text`] is what the model is told.
//!
//! The contract is data: `loop.json` has the actions, their fields, the checks and all texts, `tools/phone_action.json`
//! the tool's definition. An action is added there, and nowhere in this crate. Nothing here does I/O, keeps time or
//! takes random numbers, and nothing knows Matrix beyond JSON: ids are texts of which the shape is checked.
//!
//! ```
//! use phone_actions::{Card, CardId, Status, check, result_text, wait};
//!
//! let call = serde_json::json!({"action": "alarm", "summary": "Wake up", "time": "07:30"});
//! let action = check(&call)?;
//! let card = Card::new(CardId::from_bytes([0; 16]), "@alice:example.org", "$question", None, action, wait())?;
//! assert!(card.text(None).plain().starts_with("⏰ Set an alarm for 07:30 (7:30 am)"));
//! assert!(result_text(Status::Done, None).starts_with("Done"));
//!
//! let refusal = check(&serde_json::json!({"action": "add_stop"})).unwrap_err();
//! assert_eq!(refusal.to_string(), "add_stop needs stop and destination.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod action;
mod announce;
mod answer;
mod card;
mod check;
mod id;
mod rule;
mod tables;
mod template;
mod text;
mod tool;
mod wire;

pub use action::Action;
pub use announce::{Announcement, MAX_CHAT_DEVICES, capability, declare_phone, declares_phone};
pub use answer::{Answer, Status, no_answer_text, result_text};
pub use card::{Card, CardError, MAX_WAIT, Outcome, State};
pub use check::{Refusal, check};
pub use id::CardId;
pub use text::Text;
pub use tool::{Case, Example, Offer, Tool, offer, tool};
pub use wire::{ANSWER_KEY, CAPABILITIES_KEY, CARD_KEY, Malformed, PHONE_KEY, VERSION};

use std::time::Duration;

/// How long the agent waits for an answer, unless it is configured otherwise.
#[must_use]
pub fn wait() -> Duration {
    tables::tables().wait
}
