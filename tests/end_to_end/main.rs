//! End to end: the agent's own program, a real Synapse, encrypted rooms, people with real clients; only the model is a
//! script. `cargo xtask test` starts the homeservers and names them in the environment.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
#![recursion_limit = "256"]

mod appservice;
mod appservice_rooms;
mod check;
mod contexts;
mod crash;
mod faults;
mod forms;
mod gaps;
mod homeserver_faults;
mod identity;
mod invites;
mod late_keys;
mod limits;
mod phone;
mod phone_client;
mod restart;
mod rich;
mod road;
mod room_commands;
mod session;
mod steering;
mod stop;
mod support;
mod verification;
mod who_counts;
