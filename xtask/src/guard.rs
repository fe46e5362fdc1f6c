//! `xtask guard COMMAND`: runs a command, and ends it as soon as the pipe on stdin closes.
//!
//! The pipe's other end belongs to the xtask that started the guard, and closes however that one ends:
//! return, error, panic, even SIGKILL. So nothing that xtask starts can outlive it. The command leads a
//! process group of its own: a Ctrl-C in the terminal reaches xtask alone, which then decides the order
//! of ending; and a command's own children (compilers under pip) are ended with it.

use std::{
    ffi::OsString,
    io::{self, Read},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// What a command gets to end by itself after SIGTERM; then it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// How often the command's state is looked at.
const POLL: Duration = Duration::from_millis(20);

/// Runs `program` until it ends or `lifeline` does, and returns its exit code.
pub fn run(program: &Path, arguments: &[OsString], lifeline: impl Read + Send + 'static) -> Result<ExitCode> {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("can't start {}", program.display()))?;
    let status = watch(child, lifeline)?;
    Ok(ExitCode::from(code(status)))
}

fn watch(mut child: Child, mut lifeline: impl Read + Send + 'static) -> Result<ExitStatus> {
    let (sender, closed) = mpsc::channel::<()>();
    thread::spawn(move || {
        // Nothing is ever written to the pipe: both an end and an error mean that the owner is gone.
        let _ = io::copy(&mut lifeline, &mut io::sink());
        drop(sender);
    });
    let group = Pid::from_raw(child.id().cast_signed());
    while let Err(RecvTimeoutError::Timeout) = closed.recv_timeout(POLL) {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
    }
    // A group that is gone already is what we want.
    let _ = killpg(group, Signal::SIGTERM);
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline && child.try_wait()?.is_none() {
        thread::sleep(POLL);
    }
    let _ = killpg(group, Signal::SIGKILL);
    Ok(child.wait()?)
}

/// The shell's rule: the exit code, or 128 and the signal.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdout(Stdio::null()).process_group(0).spawn().unwrap()
    }

    #[test]
    fn a_command_that_ends_by_itself_gives_its_exit_code() {
        let (lifeline, _owner) = io::pipe().unwrap();
        assert_eq!(code(watch(shell("exit 7"), lifeline).unwrap()), 7);
    }

    #[test]
    fn a_command_and_its_children_end_when_the_owner_is_gone() {
        let (lifeline, owner) = io::pipe().unwrap();
        let child = shell("sleep 600 & wait");
        let group = Pid::from_raw(child.id().cast_signed());
        drop(owner);
        assert_eq!(code(watch(child, lifeline).unwrap()), 128 + 15);
        // The orphaned child is a zombie until init has reaped it.
        let deadline = Instant::now() + Duration::from_secs(10);
        while killpg(group, None).is_ok() && Instant::now() < deadline {
            thread::yield_now();
        }
        assert!(killpg(group, None).is_err(), "the group still has a member");
    }
}
