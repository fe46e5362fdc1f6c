//! Python: found on the machine, and virtual environments made with it.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Result, bail};

use crate::{
    cache::Cache,
    process::{self, Output, Process},
    progress::Step,
};

/// What Synapse and the embedded model's engine need.
const OLDEST: (u32, u32) = (3, 10);

const HOW_TO_INSTALL: &str = "Install it:\n  \
    Debian, Ubuntu: apt-get install python3 python3-venv\n  \
    Fedora: dnf install python3\n  \
    macOS: brew install python";

/// A Python that can make virtual environments.
pub struct Python {
    program: &'static str,
}

impl Python {
    /// Looks for one in the path.
    pub fn find() -> Result<Self> {
        let mut found = Vec::new();
        for program in ["python3", "python"] {
            let Some(version) = version(program) else { continue };
            if version < OLDEST {
                found.push(format!("{program} is {}.{}", version.0, version.1));
            } else if evaluate(program, "import ensurepip, venv").is_none() {
                // Debian keeps these two in a package of their own.
                found.push(format!("{program} has no venv module"));
            } else {
                return Ok(Self { program });
            }
        }
        let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
        bail!("Python {}.{} or newer with venv is needed (found: {found}). {HOW_TO_INSTALL}", OLDEST.0, OLDEST.1)
    }

    /// The virtual environment `name`, which is good when it has `module`. `install` fills a new one.
    pub fn venv(
        &self,
        cache: &Cache,
        name: &str,
        module: &str,
        begin: fn(String) -> Step,
        install: impl FnOnce(&Venv) -> Result<()>,
    ) -> Result<Venv> {
        let log = cache.log(name);
        let venv = |root: &Path| Venv { root: root.to_path_buf(), log: log.clone() };
        // Looked for, not only expected: the Python that made the environment may have gone since.
        let is_good = |root: &Path| venv(root).has(module);
        let root = cache.entry(name, is_good, |staging| {
            process::clear_log(&log)?;
            let mut make = Command::new(self.program);
            make.args(["-m", "venv"]).arg(staging);
            let step = begin(format!("Making a Python environment for {name}"));
            step.finish(process::run("python -m venv", &make, Output::Log(&log)))?;
            install(&venv(staging))
        })?;
        Ok(venv(&root))
    }
}

/// A virtual environment. Its programs are run as `python -m MODULE`: the scripts in its `bin` have
/// the path written into them under which it was built.
pub struct Venv {
    root: PathBuf,
    log: PathBuf,
}

impl Venv {
    /// `python -m MODULE`
    pub fn module(&self, module: &str) -> Command {
        let mut command = self.python();
        command.args(["-m", module]);
        command
    }

    /// Runs a few lines of Python within a time limit.
    pub fn script(
        &self,
        script: &str,
        arguments: &[OsString],
        limit: Option<Duration>,
        tick: impl FnMut(),
    ) -> Result<()> {
        let mut command = self.python();
        command.args(["-c", script]).args(arguments);
        Process::start("a Python script", &command, Output::Log(&self.log))?.wait(limit, tick)
    }

    /// Runs pip within a time limit.
    pub fn pip<const N: usize>(&self, arguments: [&str; N], limit: Option<Duration>, tick: impl FnMut()) -> Result<()> {
        let mut command = self.module("pip");
        command.args(arguments).args(["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]);
        let name = format!("pip {}", arguments.first().unwrap_or(&""));
        Process::start(&name, &command, Output::Log(&self.log))?.wait(limit, tick)
    }

    fn python(&self) -> Command {
        let mut command = Command::new(self.root.join("bin/python"));
        command.env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        command
    }

    fn has(&self, module: &str) -> bool {
        let script = format!("from importlib.util import find_spec; assert find_spec('{module}')");
        let mut python = self.python();
        python.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    }
}

fn version(program: &str) -> Option<(u32, u32)> {
    parse_version(&evaluate(program, "import sys; print('%d.%d' % sys.version_info[:2])")?)
}

fn parse_version(printed: &str) -> Option<(u32, u32)> {
    let (major, minor) = printed.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// What a line of Python prints; nothing when it fails.
fn evaluate(program: &str, line: &str) -> Option<String> {
    let output = Command::new(program).args(["-c", line]).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert_eq!(parse_version("3.10\n"), Some((3, 10)));
        assert!(parse_version("3.9") < Some(OLDEST));
        assert_eq!(parse_version("Python 3"), None);
    }
}
