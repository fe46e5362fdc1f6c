//! Waybread: an LLM agent that lives in Matrix rooms and reaches the phone in your pocket.
//!
//! The rooms of the house, in the order in which a message passes through them (docs/architecture.md tells the road):
//!
//! - `matrix-link`, a crate of its own: the homeserver's events as ours, ours as requests;
//! - [`inbox`]: received, on disk, handled once;
//! - [`conversation`]: who is addressed, what the model sees, which turn runs;
//! - [`turn`]: the loop of model and tools ([`model`], [`tools`]);
//! - [`outbox`]: paced and durable, the one way out ([`render`] makes the HTML).
//!
//! Beside the road: [`config`], [`store`], [`clock`], [`observe`] and [`http`] (health, figures); [`state_dir`] (one process
//! at a time); [`app`] puts them together, and [`check`] finds out beforehand what would not work.

// Futures that hold the SDK's sync are nested too deep for the default limit.
#![recursion_limit = "256"]

pub mod app;
pub mod asks;
pub mod check;
pub mod clock;
pub mod config;
pub mod conversation;
pub mod http;
pub mod inbox;
pub mod model;
pub mod observe;
pub mod outbox;
pub mod phone;
pub mod render;
pub mod rich;
pub mod room_commands;
pub mod state_dir;
pub mod store;
#[cfg(test)]
pub(crate) mod testing;
pub mod tools;
pub mod turn;
