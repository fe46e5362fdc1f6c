//! Conversations through the hub: which message is answered, and in which context.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod addressing;
mod commands;
mod conformance;
mod contexts;
mod crowds;
mod later;
mod restored;
