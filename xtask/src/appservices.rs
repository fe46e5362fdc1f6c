//! Registrations of appservices: made by the agent's own program, read by the homeserver at its start. A test takes one of
//! many and runs its agents with it; the demo has one with three agents.

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

const CONFIG: &str = "config.toml";

/// As many as there are tests with one and some.
const COUNT: usize = 24;
/// The one whose agents log in.
const LOGS_IN: &str = "logs-in";
/// Where the homeserver finds them: below the ports that systems give to clients, of which one could be in the way.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Makes them in a folder of their own each, for the homeserver with this address. Gives the registrations.
pub fn make(program: &Path, folder: &Path, homeserver: &str) -> Result<Vec<PathBuf>> {
    // Not all at the beginning, where another run on this machine looks too.
    let offset = u16::try_from(std::process::id() % 11_000)?;
    let mut ports = PORTS.cycle().skip(offset.into()).take(PORTS.len());
    (0..COUNT)
        .map(|number| (number.to_string(), ""))
        .chain([(LOGS_IN.to_owned(), "devices = \"logged_in\"\n")])
        .map(|(name, more)| {
            let port = net::first_free(ports.by_ref()).context("no free port for an appservice")?;
            register(program, &folder.join(&name), &configuration(&name, port, homeserver, more))
        })
        .collect()
}

/// The main agent of the demo.
pub const MAIN: &str = "waybread-main";
/// Its other agents.
pub const OTHERS: [&str; 2] = ["waybread-cook", "waybread-guide"];

/// The demo's three agents.
pub struct Trio {
    /// Their configuration.
    pub config: PathBuf,
    /// The file for the homeserver.
    pub registration: PathBuf,
}

/// Makes them in a folder, for the homeserver with this address and the person who may talk to them; it is to push to this
/// port. The secrets of an earlier time stay.
pub fn trio(program: &Path, folder: &Path, homeserver: &str, push: u16, person: &str) -> Result<Trio> {
    let registration = register(program, folder, &trio_configuration(homeserver, push, person))?;
    Ok(Trio { config: folder.join(CONFIG), registration })
}

fn trio_configuration(homeserver: &str, push: u16, person: &str) -> String {
    let url = net::local_url(push);
    let [cook, guide] = OTHERS;
    format!(
        "mode = \"appservice\"\n\
         \n[matrix]\nhomeserver = \"{homeserver}\"\nuser = \"@waybread:{SERVER_NAME}\"\n\
         \n[appservice]\nurl = \"{url}\"\nlisten = \"127.0.0.1:{push}\"\n\
         \n[access]\nallow = [\"{person}\"]\n\
         \n[[agent]]\nlocalpart = \"{MAIN}\"\ndisplay_name = \"Waybread\"\n\
         \n[[agent]]\nlocalpart = \"{cook}\"\ndisplay_name = \"Cook\"\n\
         system_prompt = \"You are {{name}} and know all about cooking. Answer briefly.\"\n\
         \n[[agent]]\nlocalpart = \"{guide}\"\ndisplay_name = \"Guide\"\n\
         system_prompt = \"You are {{name}} and know all about travelling. Answer briefly.\"\n"
    )
}

fn register(program: &Path, folder: &Path, configuration: &str) -> Result<PathBuf> {
    secret::folder(folder)?;
    fs::write(folder.join(CONFIG), configuration)?;
    let mut command = Command::new(program);
    command.args(["registration", "--replace"]).current_dir(folder);
    process::run("waybread registration", &command, Output::Log(&folder.join("registration.log")))?;
    Ok(folder.join("registration.yaml"))
}

fn configuration(name: &str, port: u16, homeserver: &str, more: &str) -> String {
    let url = net::local_url(port);
    format!(
        "mode = \"appservice\"\n\
         [matrix]\nhomeserver = \"{homeserver}\"\nuser = \"@appservice-{name}:{SERVER_NAME}\"\n\
         [appservice]\nid = \"test-{name}\"\nurl = \"{url}\"\nlisten = \"127.0.0.1:{port}\"\nprefix = \"test-{name}-\"\n{more}\
         [[agent]]\nlocalpart = \"test-{name}-main\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demos_agents_are_three_and_listen_on_loopback() {
        let configuration = trio_configuration("http://127.0.0.1:8008", 8092, "@alice:localhost");
        assert_eq!(configuration.matches("[[agent]]").count(), 1 + OTHERS.len());
        for line in ["listen = \"127.0.0.1:8092\"", "allow = [\"@alice:localhost\"]", "localpart = \"waybread-main\""] {
            assert!(configuration.lines().any(|one| one == line), "{line}\n{configuration}");
        }
    }
}
