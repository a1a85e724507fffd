//! What a process has used, from `/proc`.

use std::time::Duration;

/// CPU time of all threads of a process so far, user and system (proc(5), `stat` fields 14 and 15).
pub fn of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name may hold spaces; what follows its parenthesis does not.
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Anonymous memory in MiB (`RssAnon`).
pub fn anonymous_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib =
        line.and_then(|l| l.split_whitespace().next()).and_then(|kib| kib.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1024.0
}

/// Bytes a process has had written to the disk (`/proc/pid/io`, `write_bytes`).
pub fn written_bytes(pid: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}
