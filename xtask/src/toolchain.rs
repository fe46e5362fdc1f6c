//! What a run needs from the machine, checked before anything long begins.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// The bot's TLS and SQLite are C, the embedded model's engine is C++.
pub fn check_compilers() -> Result<()> {
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
