//! What the kernel says of a process and of the disk.

use std::time::{Duration, Instant};

/// Clock ticks a second in `/proc`: fixed by the kernel's interface for user space (proc(5)).
const TICKS_PER_SECOND: u64 = 100;

/// CPU time of a process so far, all threads, ended ones too.
pub fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold spaces.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    // Field 3, the state, is the first of these; utime and stime are fields 14 and 15. Some of
    // those between are negative for a process without a terminal.
    let ticks: u64 = rest.split(' ').skip(11).take(2).filter_map(|f| f.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}

/// Memory that is no file's, in MiB.
pub fn anonymous_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1_024.0
}

/// Bytes a process has caused to be written to disks.
pub fn written_bytes(pid: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let value = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// What a process used between two moments.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pid: u32,
    cpu: Duration,
    written: u64,
    at: Instant,
}

impl Usage {
    /// The first moment.
    pub fn begin(pid: u32) -> Self {
        Self { pid, cpu: cpu(pid), written: written_bytes(pid), at: Instant::now() }
    }

    /// CPU time since then.
    pub fn cpu(&self) -> Duration {
        cpu(self.pid).saturating_sub(self.cpu)
    }

    /// MB a second written since then.
    pub fn disk_mb_per_second(&self) -> f64 {
        let bytes = written_bytes(self.pid).saturating_sub(self.written);
        bytes as f64 / 1e6 / self.at.elapsed().as_secs_f64()
    }
}
