//! What the system says of a process.

use std::{fs, time::Duration};

/// Clock ticks of `/proc/PID/stat` in a second: the same on every Linux, whatever the kernel's own clock is.
const TICKS: u32 = 100;
/// A process is at rest when it has used no CPU for so many looks in a row.
const LOOKS: u32 = 8;
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Looks at most.
const MAX_LOOKS: u32 = 120;

/// The memory that a process has, in MB (10^6 bytes).
pub struct Memory {
    /// All its pages that are in memory.
    pub resident: f64,
    /// The same, with pages that others have too counted in part.
    pub proportional: f64,
}

impl Memory {
    pub fn of(pid: u32) -> Self {
        let sums = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
        let kib = |name: &str| {
            let line = sums.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse::<f64>().unwrap()
        };
        Self { resident: kib("Rss:") * 1.024e-3, proportional: kib("Pss:") * 1.024e-3 }
    }
}

/// The CPU time that a process has used so far.
pub fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Behind the program's name, which may hold anything: utime and stime are fields 14 and 15 of all.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u32>().unwrap()).sum::<u32>();
    Duration::from_secs(1) * ticks / TICKS
}

/// Waits until a process is at rest.
pub async fn rest(pid: u32) {
    let (mut used, mut quiet) = (cpu(pid), 0);
    for _ in 0..MAX_LOOKS {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = cpu(pid);
        quiet = if now == used { quiet + 1 } else { 0 };
        used = now;
        if quiet == LOOKS {
            return;
        }
    }
    eprintln!("process {pid} does not come to rest");
}
