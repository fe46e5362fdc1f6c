//! Runs a program: no shell, its own process group, bounded time and output.

use std::{io, process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, copy, sink},
    process::{Child, Command},
    time::timeout,
};

/// What of an output is kept, in bytes; the rest is read and dropped, so that the program is not held up.
const MAX_OUTPUT: u64 = 64 * 1024;

/// How long an output is still read after its program's end: a child may hold the pipe open for ever.
const AFTER_END: Duration = Duration::from_millis(200);

/// The most characters of a line that is passed on.
const MAX_LINE: usize = 500;

/// A program that has ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Its exit code; none if a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

impl Ended {
    /// The first line of the output that says something, without control characters.
    pub(super) fn first_line(&self) -> Option<String> {
        let clean = |line: &str| line.chars().filter(|c| !c.is_control()).take(MAX_LINE).collect::<String>();
        self.out.lines().map(|line| clean(line.trim())).find(|line| !line.is_empty())
    }
}

/// Why a program has no end to tell of.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error("no program is named")]
    Unnamed,
    #[error("{program} can't be started: {reason}")]
    Start { program: String, reason: io::Error },
    #[error("{program} was ended after {} s", .limit.as_secs())]
    TooLong { program: String, limit: Duration },
    #[error("{program}: {reason}")]
    Wait { program: String, reason: io::Error },
}

/// Runs a program with its arguments and waits for its end. At the end of its time, and when the future is dropped, it is
/// killed, and all that it has started in its group.
pub(super) async fn run(argv: &[String], stdin: &[u8], limit: Option<Duration>) -> Result<Ended, RunError> {
    let (program, arguments) = argv.split_first().ok_or(RunError::Unnamed)?;
    let named = || program.clone();
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|reason| RunError::Start { program: named(), reason })?;
    // Dropped before the child is: a process that is not waited for keeps its number.
    let mut group = Group::of(&child);
    let ended = async {
        match limit {
            None => Ok(wait(&mut child, stdin).await),
            Some(limit) => timeout(limit, wait(&mut child, stdin)).await.map_err(|_| limit),
        }
    };
    match ended.await {
        Ok(Ok(ended)) => {
            group.0 = None;
            Ok(ended)
        }
        Ok(Err(reason)) => Err(RunError::Wait { program: named(), reason }),
        Err(limit) => Err(RunError::TooLong { program: named(), limit }),
    }
}

async fn wait(child: &mut Child, stdin: &[u8]) -> io::Result<Ended> {
    let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut input) = input {
            // A program need not read what it is told.
            let _ = input.write_all(stdin).await;
        }
    };
    let (mut out_text, mut err_text) = (Vec::new(), Vec::new());
    let status = {
        let mut io = std::pin::pin!(async {
            tokio::join!(write, read(out, &mut out_text), read(err, &mut err_text));
        });
        tokio::select! {
            status = child.wait() => {
                let _ = timeout(AFTER_END, io.as_mut()).await;
                status?
            }
            () = io.as_mut() => child.wait().await?,
        }
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ended { code: status.code(), out: text(&out_text), err: text(&err_text) })
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    // What was read before an error counts.
    if (&mut pipe).take(MAX_OUTPUT).read_to_end(kept).await.is_ok() {
        let _ = copy(&mut pipe, &mut sink()).await;
    }
}

/// A process group that is killed when this is dropped, unless it has been let go.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).filter(|id| *id > 1).map(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // A group that is gone already is what we want.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Instant;

    use nix::sys::signal::kill;

    use super::*;

    fn sh(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[tokio::test]
    async fn a_program_gets_its_input_and_tells_its_code_and_lines() {
        let ended = run(&sh("cat; echo >&2 no; exit 3"), b"\n \x1b[1mfirst\x07\nsecond", None).await.unwrap();
        assert_eq!((ended.code, ended.err.as_str()), (Some(3), "no\n"));
        assert_eq!(ended.first_line().unwrap(), "[1mfirst");
    }

    #[tokio::test]
    async fn an_argument_is_text_whatever_it_looks_like() {
        let odd = ["-n", "--es", "'\"", "; true", "$(id)", "`id`", "a\nb", ""].map(str::to_owned);
        let script = sh("for a; do printf '<%s>' \"$a\"; done");
        let argv: Vec<_> = script.into_iter().chain(["sh".to_owned()]).chain(odd).collect();
        let ended = run(&argv, b"", None).await.unwrap();
        assert_eq!(ended.out, "<-n><--es><'\"><; true><$(id)><`id`><a\nb><>");
    }

    #[tokio::test]
    async fn an_endless_output_is_cut_and_the_program_not_held_up() {
        let ended = run(&sh("head -c 300000 /dev/zero | tr '\\0' x; echo end >&2"), b"", None).await.unwrap();
        assert_eq!((ended.out.len(), ended.err.as_str()), (64 * 1024, "end\n"));
    }

    #[tokio::test]
    async fn at_the_end_of_its_time_or_when_nobody_waits_any_more_a_program_is_killed_with_its_children() {
        let (folder, moment) = (tempfile::tempdir().unwrap(), Duration::from_millis(500));
        let file = folder.path().join("pid");
        let script = sh(&format!("sleep 60 & echo $! > '{}'; wait", file.display()));
        for is_dropped in [false, true] {
            let start = Instant::now();
            if is_dropped {
                assert!(timeout(moment, run(&script, b"", None)).await.is_err());
            } else {
                assert!(matches!(run(&script, b"", Some(moment)).await, Err(RunError::TooLong { .. })));
            }
            let child = Pid::from_raw(std::fs::read_to_string(&file).unwrap().trim().parse().unwrap());
            while kill(child, None).is_ok() && !is_zombie(child) {
                assert!(start.elapsed() < Duration::from_secs(10), "the child lives on");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// Killed, and not yet taken off the list by whoever has inherited it.
    fn is_zombie(process: Pid) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
    }

    #[tokio::test]
    async fn a_child_that_holds_the_output_open_does_not_hold_up_the_answer() {
        let start = Instant::now();
        let ended = run(&sh("sleep 5 & echo done"), b"", None).await.unwrap();
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "done\n"));
        assert!(start.elapsed() < Duration::from_secs(4));
    }

    #[tokio::test]
    async fn what_can_t_be_started_is_said() {
        let none = run(&["/nonexistent/program".to_owned()], b"", None).await.unwrap_err();
        assert!(none.to_string().starts_with("/nonexistent/program can't be started"), "{none}");
        let nul = run(&["true".to_owned(), "a\0b".to_owned()], b"", None).await;
        assert!(matches!(nul, Err(RunError::Start { .. })));
    }
}
