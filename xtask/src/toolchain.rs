//! What a run needs from the machine, checked before anything long begins.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::{cache::Cache, python::Python};

/// What every task works with.
pub struct Tools {
    /// Installs what comes by pip.
    pub python: Python,
    /// Keeps it.
    pub cache: Cache,
}

impl Tools {
    /// Looks for all of it, and says what is missing.
    pub fn find() -> Result<Self> {
        let python = Python::find()?;
        check_compilers()?;
        Ok(Self { python, cache: Cache::open()? })
    }
}

/// The bot's TLS and SQLite are C, the embedded model's engine is C++.
fn check_compilers() -> Result<()> {
    for compiler in [compiler("CC", "cc"), compiler("CXX", "c++")] {
        let mut probe = Command::new(&compiler);
        probe.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !probe.status().is_ok_and(|status| status.success()) {
            bail!(
                "no C/C++ compiler: \"{compiler}\" does not run. Install one:\n  \
                 Debian, Ubuntu: apt-get install build-essential\n  \
                 Fedora: dnf install gcc gcc-c++\n  \
                 macOS: xcode-select --install"
            );
        }
    }
    Ok(())
}

fn compiler(variable: &str, default: &str) -> String {
    std::env::var(variable).ok().filter(|name| !name.is_empty()).unwrap_or_else(|| default.to_owned())
}
