//! `cargo xtask test`: format, clippy, and all tests against two real homeservers, one with Synapse's own
//! rate limits and one without, and with a real browser where there is one.

use std::{
    ffi::OsString,
    process::{Command, ExitCode},
    thread,
};

use anyhow::anyhow;

use crate::{
    browser::Browser,
    cargo,
    homeserver::Synapse,
    process::{self, Output},
    progress::{Step, say},
    testbed::Testbed,
    toolchain::Tools,
};

/// How long the tests may take.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// A few minutes.
    Usual,
    /// Some minutes longer: what is tried at random is tried often.
    Long,
}

impl Length {
    /// How often the agent is killed at a random point.
    fn crashes(self) -> u32 {
        match self {
            Self::Usual => 3,
            Self::Long => 50,
        }
    }

    /// How many cards are open at once.
    fn cards(self) -> u32 {
        match self {
            Self::Usual => 80,
            Self::Long => 1000,
        }
    }
}

/// Runs every step, and stops at the first that fails. `arguments` are for `cargo test`.
pub fn run(length: Length, arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let Tools { python, cache } = Tools::find()?;
    let _hold = cache.hold_target()?;
    let browser = Browser::find();
    untried(&browser);

    step("format", &cargo::command(&cache, ["fmt", "--all", "--check"]))?;
    // pip waits for the network while clippy needs the cores.
    let synapse = thread::scope(|scope| {
        let install = scope.spawn(|| Synapse::install(&cache, &python, Step::begin_in_lines));
        let clippy = cargo::command(&cache, ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]);
        step("clippy", &clippy)?;
        install.join().map_err(|_| anyhow!("the installation of Synapse broke off"))?
    })?;

    say("\n== programs");
    // Cargo builds a program for the tests of its own package alone.
    let programs = cargo::build_programs(&cache)?;
    let testbed = Testbed::start(&synapse, &programs.bot)?;
    let mut tests = cargo::command(&cache, ["test", "--workspace"]);
    tests.args(arguments);
    tests.envs(testbed.environment()).env("WAYBREAD_TEST_CRASHES", length.crashes().to_string());
    tests.env("WAYBREAD_TEST_CARDS", length.cards().to_string());
    tests.env("WAYBREAD_TEST_PHONE", programs.phone);
    if let Ok(browser) = &browser {
        tests.envs(browser.environment());
    }
    step("cargo test", &tests)?;
    untried(&browser);
    Ok(ExitCode::SUCCESS)
}

/// Says what the tests do not look at: at the beginning, and again at the end, where it is read.
fn untried(browser: &Result<Browser, String>) {
    if let Err(reason) = browser {
        say(format_args!("\n== NOT TRIED: forms in a real browser: {reason}"));
    }
}

fn step(name: &str, command: &Command) -> anyhow::Result<()> {
    say(format_args!("\n== {name}"));
    process::run(name, command, Output::Inherit)
}
