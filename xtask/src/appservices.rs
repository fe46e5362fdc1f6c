//! Registrations of appservices for tests: made by the agent's own program, read by the homeserver at its start. A test takes
//! one and runs its agents with it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    homeserver::SERVER_NAME,
    net,
    process::{self, Output},
    secret,
};

/// As many as there are tests that run at once and some.
const COUNT: usize = 12;
/// Where the homeserver finds them: below the ports that systems give to clients, of which one could be in the way.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Makes them in a folder of their own each, for the homeserver with this address. Gives the registrations.
pub fn make(program: &Path, folder: &Path, homeserver: &str) -> Result<Vec<PathBuf>> {
    // Not all at the beginning, where another run on this machine looks too.
    let offset = u16::try_from(std::process::id() % 11_000)?;
    let mut ports = PORTS.cycle().skip(offset.into()).take(PORTS.len());
    (0..COUNT)
        .map(|number| {
            let port = net::first_free(ports.by_ref()).context("no free port for an appservice")?;
            register(program, &folder.join(number.to_string()), &configuration(number, port, homeserver))
        })
        .collect()
}

fn register(program: &Path, folder: &Path, configuration: &str) -> Result<PathBuf> {
    secret::folder(folder)?;
    fs::write(folder.join("config.toml"), configuration)?;
    let mut command = Command::new(program);
    command.arg("registration").current_dir(folder);
    process::run("waybread registration", &command, Output::Log(&folder.join("registration.log")))?;
    Ok(folder.join("registration.yaml"))
}

fn configuration(number: usize, port: u16, homeserver: &str) -> String {
    let url = net::local_url(port);
    format!(
        "mode = \"appservice\"\n\
         [matrix]\nhomeserver = \"{homeserver}\"\nuser = \"@appservice-{number}:{SERVER_NAME}\"\n\
         [appservice]\nid = \"test-{number}\"\nurl = \"{url}\"\nlisten = \"127.0.0.1:{port}\"\nprefix = \"test-{number}-\"\n\
         [[agent]]\nlocalpart = \"test-{number}-main\"\n"
    )
}
