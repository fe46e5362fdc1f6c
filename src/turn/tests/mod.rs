//! Turns from the question to the room, and what the model is shown next.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answers;
mod faults;
mod limits;
mod steering;
mod stopping;
mod streaming;
mod tools;
