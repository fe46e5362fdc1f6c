//! `cargo xtask test`: format, clippy, and all tests against two real homeservers, one with Synapse's own
//! rate limits and one without.

use std::{
    ffi::OsString,
    path::PathBuf,
    process::{Command, ExitCode},
    thread,
};

use anyhow::{Result, anyhow};

use crate::{
    cache::{self, Cache},
    cargo,
    homeserver::{Homeserver, Limits, REGISTRATION_SECRET, Synapse},
    net,
    process::{self, Output},
    progress::{Step, say},
    python::Python,
    secret, toolchain,
};

/// Runs every step, and stops at the first that fails. `arguments` are for `cargo test`.
pub fn run(arguments: &[OsString]) -> Result<ExitCode> {
    let python = Python::find()?;
    toolchain::check_compilers()?;
    let cache = Cache::open()?;
    let _hold = cache.hold_target()?;

    step("format", &cargo::command(&cache, ["fmt", "--all", "--check"]))?;
    // pip waits for the network while clippy needs the cores.
    let synapse = thread::scope(|scope| {
        let install = scope.spawn(|| Synapse::install(&cache, &python, Step::begin_in_lines));
        let clippy = cargo::command(&cache, ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
        step("clippy", &clippy)?;
        install.join().map_err(|_| anyhow!("the installation of Synapse broke off"))?
    })?;

    let folder = Scratch::make()?;
    let registration_secret = secret::generate();
    let start = |name: &str, limits| {
        let data = folder.0.join(name);
        secret::folder(&data)?;
        secret::write(&data.join(REGISTRATION_SECRET), &registration_secret)?;
        synapse.start(&data, net::any_free()?, limits)
    };
    let mut relaxed = start("relaxed", Limits::Relaxed)?;
    let mut default = start("default", Limits::Default)?;
    let starting = Step::begin("Starting two homeservers");
    starting.finish(relaxed.wait_until_ready().and_then(|()| default.wait_until_ready()))?;

    let mut tests = cargo::command(&cache, ["test", "--workspace"]);
    tests.args(arguments);
    tests.envs(environment(&relaxed, &default, &registration_secret));
    step("cargo test", &tests)?;
    Ok(ExitCode::SUCCESS)
}

fn step(name: &str, command: &Command) -> Result<()> {
    say(format_args!("\n== {name}"));
    process::run(name, command, Output::Inherit)
}

/// How the tests find the homeservers; they make their users by the admin API.
fn environment(
    relaxed: &Homeserver<'_>,
    default: &Homeserver<'_>,
    registration_secret: &str,
) -> [(&'static str, String); 3] {
    [
        ("WAYBREAD_TEST_HOMESERVER", relaxed.url().to_owned()),
        ("WAYBREAD_TEST_HOMESERVER_DEFAULT_LIMITS", default.url().to_owned()),
        ("WAYBREAD_TEST_REGISTRATION_SECRET", registration_secret.to_owned()),
    ]
}

/// A folder of this run, gone at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("waybread-test-{}", secret::generate()));
        secret::folder(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the system's temporary folder is all that a failure here can mean.
        let _ = cache::remove(&self.0);
    }
}
