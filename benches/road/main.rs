//! What the road costs: delays, memory, requests and CPU of the agent's own program, with a real Synapse, encrypted
//! rooms and a model that answers at once. Prints Markdown on standard output; `cargo xtask bench` starts the
//! homeservers, runs it, and puts what it prints into docs/performance.md.
//!
//! Absolute times are those of one machine in one hour. What can be compared is how they stand to the homeserver's own
//! send time of the same run, so that stands beside them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]
#![recursion_limit = "256"]

mod appservice;
mod cards;
mod crowd;
mod delays;
mod figures;
mod memory;
mod meter;
mod observer;
mod process;
mod requests;
#[path = "../../tests/end_to_end/support/mod.rs"]
mod support;

use std::{fs, thread};

use support::{AgentSetup, Homeserver, ModelServer};

#[tokio::main]
async fn main() {
    let today = jiff::fmt::strtime::format("%F", jiff::Timestamp::now()).unwrap();
    println!("Measured on {today}, {}.\n", machine());
    if is_asked_for("delays") {
        eprintln!("Delays ...");
        delays::measure().await;
    }
    if is_asked_for("cards") {
        eprintln!("Cards ...");
        cards::measure().await;
    }
    if is_asked_for("requests") {
        eprintln!("Requests ...");
        requests::measure().await;
    }
    if is_asked_for("memory") {
        eprintln!("Memory ...");
        memory::measure().await;
    }
    if is_asked_for("crowd") {
        eprintln!("Many at once (up to {} minutes) ...", crowd::LIMIT.as_secs() / 60);
        crowd::measure().await;
    }
    if is_asked_for("appservice") {
        eprintln!("An appservice (about 10 minutes) ...");
        appservice::measure().await;
    }
}

/// All is measured, or what is named behind `--`. Cargo adds an option of its own.
fn is_asked_for(name: &str) -> bool {
    let mut named = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    named.peek().is_none() || named.any(|one| one == name)
}

/// The machine in general words, and how busy it was.
fn machine() -> String {
    let cores = thread::available_parallelism().unwrap();
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    let load = load.split(' ').next().unwrap().to_owned();
    format!("{cores} cores shared by homeserver, people and agent; load before the run: {load}")
}

/// An agent whose operator has lifted its limits and told it so.
async fn unlimited_agent(homeserver: &Homeserver, model: &ModelServer) -> AgentSetup {
    let mut setup = AgentSetup::new(homeserver, model).await;
    setup.set("LOG_FILTER", "info");
    setup.set("OUTBOX_EVENTS_PER_SECOND", "1000");
    setup.set("OUTBOX_BURST", "1000");
    setup
}
