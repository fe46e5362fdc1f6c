//! Ctrl-C, a closed terminal or a polite kill is an error like any other: every wait of this program
//! returns it, it unwinds, and what was started is ended on the way by `Drop`, last started first.

use std::{
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag,
};

/// The shell's code for "ended by Ctrl-C".
pub const EXIT_CODE: u8 = 130;

/// How often a wait looks at what it waits for.
const POLL: Duration = Duration::from_millis(50);

static SIGNALLED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Somebody wants this program to end.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// From here on the signals are noted instead of ending the process.
pub fn listen() -> Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&SIGNALLED)).context("can't listen for signals")?;
    }
    Ok(())
}

/// Fails once a signal has come.
pub fn check() -> Result<()> {
    if SIGNALLED.load(Ordering::Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
}

/// One short wait between two looks at something.
pub fn pause() -> Result<()> {
    check()?;
    thread::sleep(POLL);
    check()
}
