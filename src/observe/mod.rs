//! What the operator sees from outside: whether the agent is well ([`Health`]), its figures ([`metrics`]), and its log.
//!
//! - No secret that the store keeps is written into the log ([`Guard`]);
//! - nothing here holds a person's words, and no line of the log does either;
//! - every figure has a bounded number of series, whatever people, rooms and models do;
//! - a turn's lines carry its span (`room`, `turn`, `event`), at every level of the log.
//!
//! `http` tells health and figures; `model` watches a model without the model's knowing.

mod guard;
mod health;
pub mod metrics;
mod model;
#[cfg(test)]
mod tests;

use ruma::{EventId, RoomId};
use tracing::Span;

pub use guard::{Guard, GuardedLog, GuardedWriter};
pub use health::Health;
pub use model::Watched;

/// The span of a turn on a message. It is an error's span, so that the filter "error" lets it through as well.
pub fn turn_span(room: &RoomId, event: &EventId) -> Span {
    let turn = rand::random::<u32>();
    tracing::error_span!("turn", %room, turn = %format_args!("{turn:08x}"), %event)
}
