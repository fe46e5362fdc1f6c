//! Loopback: free ports, and small HTTP questions to servers on this machine.

use std::{
    net::{Ipv4Addr, TcpListener},
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::Value;

/// A server on this machine answers within this time, or counts as not there.
const LOCAL_ANSWER: Duration = Duration::from_secs(1);

/// The first of these ports that nobody listens on.
pub fn first_free(ports: impl IntoIterator<Item = u16>) -> Option<u16> {
    ports.into_iter().find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
}

/// A free port that the system chooses.
pub fn any_free() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    Ok(listener.local_addr()?.port())
}

/// The address of a server on this machine.
pub fn local_url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Does this address answer with a success?
pub fn answers(url: &str) -> bool {
    agent().get(url).call().is_ok()
}

/// The JSON at this address, if a server there answers with some.
pub fn json(url: &str) -> Option<Value> {
    agent().get(url).call().ok()?.body_mut().read_json().ok()
}

/// Without a proxy: what is asked here is on this machine.
fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().timeout_global(Some(LOCAL_ANSWER)).proxy(None).build().into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_taken_port_is_passed_over() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken_port = taken.local_addr().unwrap().port();
        let free = any_free().unwrap();
        assert_eq!(first_free([taken_port, free]), Some(free));
        assert_eq!(first_free([taken_port]), None);
    }
}
