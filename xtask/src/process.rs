//! Commands that end with this program (see [`guard`](crate::guard)), their logs and their exit codes.

use std::{
    fmt,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::interrupt;

/// Lines of a log that an error shows.
const TAIL_LINES: usize = 20;

/// How much of a log's end is read for them.
const TAIL_BYTES: u64 = 16 * 1024;

/// What a command in the terminal's foreground gets to end by itself after Ctrl-C.
const FOREGROUND_GRACE: Duration = Duration::from_secs(5);

/// How often its state is looked at meanwhile.
const FOREGROUND_POLL: Duration = Duration::from_millis(50);

/// A command ended, and not well.
#[derive(Debug)]
pub struct Failed {
    name: String,
    code: u8,
    log: Option<PathBuf>,
}

impl Failed {
    fn new(name: &str, status: ExitStatus, log: Option<&Path>) -> Self {
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        Self { name: name.to_owned(), code, log: log.map(Path::to_path_buf) }
    }

    /// The command's own exit code.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ended with exit code {}", self.name, self.code)?;
        match &self.log {
            Some(log) => write!(f, "\n{}", Tail(log)),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failed {}

/// A log's last lines and where the rest is.
pub struct Tail<'a>(pub &'a Path);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = read_end(self.0).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(TAIL_LINES)) {
            writeln!(f, "  | {line}")?;
        }
        write!(f, "The whole log: {}", self.0.display())
    }
}

fn read_end(path: &Path) -> Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut end = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}

/// Where a command's output goes.
#[derive(Clone, Copy)]
pub enum Output<'a> {
    /// To this program's own stdout and stderr.
    Inherit,
    /// Both streams to the end of a file.
    Log(&'a Path),
    /// stdout to a new file, stderr to this program's own.
    Capture(&'a Path),
}

/// A running command. It is ended, with its children, when this is dropped.
#[must_use = "a process is ended when its handle is dropped"]
pub struct Process {
    name: String,
    guard: Child,
    lifeline: Option<ChildStdin>,
    log: Option<PathBuf>,
}

impl Process {
    /// Starts `command` under a guard. Its program, arguments, environment and folder are taken over.
    pub fn start(name: &str, command: &Command, output: Output<'_>) -> Result<Self> {
        let mut guarded = Command::new(own_program()?);
        guarded.arg("guard").arg(command.get_program()).args(command.get_args()).stdin(Stdio::piped());
        if let Some(folder) = command.get_current_dir() {
            guarded.current_dir(folder);
        }
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => guarded.env(key, value),
                None => guarded.env_remove(key),
            };
        }
        let log = match output {
            Output::Inherit => None,
            Output::Capture(path) => {
                guarded.stdout(File::create(path)?);
                None
            }
            Output::Log(path) => {
                let file = File::options().create(true).append(true).open(path)?;
                guarded.stdout(file.try_clone()?).stderr(file);
                Some(path.to_path_buf())
            }
        };
        // The guard is out of reach of the terminal's Ctrl-C, like the command.
        guarded.process_group(0);
        let mut guard = guarded.spawn().with_context(|| format!("can't start {name}"))?;
        let lifeline = guard.stdin.take();
        Ok(Self { name: name.to_owned(), guard, lifeline, log })
    }

    /// Fails when the command has ended: for what is meant to run on.
    fn ensure_running(&mut self) -> Result<()> {
        match self.guard.try_wait()? {
            None => Ok(()),
            Some(status) => Err(Failed::new(&self.name, status, self.log.as_deref()).into()),
        }
    }

    /// Waits for a good end. `tick` is called now and then meanwhile.
    pub fn wait(mut self, limit: Option<Duration>, mut tick: impl FnMut()) -> Result<()> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.guard.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                return Err(Failed::new(&self.name, status, self.log.as_deref()).into());
            }
            if limit.is_some_and(|limit| start.elapsed() > limit) {
                bail!("{} took longer than {} s", self.name, start.elapsed().as_secs());
            }
            interrupt::pause()?;
            tick();
        }
    }

    /// Polls `ready` until it gives something. Fails when the command ends first or the limit is over.
    pub fn wait_until<T>(&mut self, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(value) = ready() {
                return Ok(value);
            }
            self.ensure_running()?;
            if Instant::now() > deadline {
                let log = self.log.as_deref().map(|log| format!("\n{}", Tail(log))).unwrap_or_default();
                bail!("{} was not ready after {} s{log}", self.name, limit.as_secs());
            }
            interrupt::pause()?;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The guard ends the command, within its own time limit, when the pipe closes.
        drop(self.lifeline.take());
        let _ = self.guard.wait();
    }
}

/// Runs a command to its end.
pub fn run(name: &str, command: &Command, output: Output<'_>) -> Result<()> {
    Process::start(name, command, output)?.wait(None, || {})
}

/// Runs a command that has the terminal: stdin too, and Ctrl-C reaches it by itself. It is of no use without
/// `needed`: when that one ends, it is ended.
pub fn run_in_foreground(name: &str, command: &mut Command, needed: &mut Process) -> Result<()> {
    let mut child = command.spawn().with_context(|| format!("can't start {name}"))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Err(reason) = interrupt::pause().and_then(|()| needed.ensure_running()) {
            end_foreground(&mut child);
            return Err(reason);
        }
    };
    interrupt::check()?;
    if status.success() { Ok(()) } else { Err(Failed::new(name, status, None).into()) }
}

fn end_foreground(child: &mut Child) {
    // The terminal may have told it already, by Ctrl-C; it is told again.
    let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
    let deadline = Instant::now() + FOREGROUND_GRACE;
    while Instant::now() < deadline {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(FOREGROUND_POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// This very program, also after a build has replaced its file.
fn own_program() -> Result<PathBuf> {
    let image = Path::new("/proc/self/exe");
    if image.exists() { Ok(image.to_path_buf()) } else { Ok(std::env::current_exe()?) }
}

/// Begins a log anew.
pub fn clear_log(path: &Path) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::create(path).with_context(|| format!("can't write {}", path.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_error_shows_the_last_lines_of_the_log_and_its_path() {
        let path = std::env::temp_dir().join(format!("xtask-tail-{}", std::process::id()));
        let lines: Vec<String> = (1..=30).map(|n| format!("line {n}")).collect();
        fs::write(&path, lines.join("\n")).unwrap();
        let shown = Tail(&path).to_string();
        fs::remove_file(&path).unwrap();
        let expected: Vec<String> = (11..=30).map(|n| format!("  | line {n}")).collect();
        assert_eq!(shown, format!("{}\nThe whole log: {}", expected.join("\n"), path.display()));
    }
}
