//! What the kernel says about this process, read from `/proc` at each scrape (proc(5)).

use crate::metrics::{Encoder, Registry};

/// Shows memory, CPU time, open files and threads under the names Prometheus' own clients use.
/// What can not be read is left out.
pub fn register(registry: &Registry) {
    let start = start_time();
    registry.collect(move |encoder| collect(encoder, start));
}

/// Memory of the process that no file backs, in bytes: `RssAnon` of `/proc/self/status`.
pub fn anonymous_memory() -> Option<u64> {
    status_bytes(&std::fs::read_to_string("/proc/self/status").ok()?, "RssAnon:")
}

/// Memory of the process in RAM, in bytes: `VmRSS` of `/proc/self/status`.
pub fn resident_memory() -> Option<u64> {
    status_bytes(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

fn collect(encoder: &mut Encoder, start: Option<f64>) {
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        if let Some(bytes) = status_bytes(&status, "RssAnon:") {
            let help = "Memory that no file backs, in bytes.";
            encoder.gauge("process_resident_memory_anonymous_bytes", help, &[], bytes);
        }
        if let Some(bytes) = status_bytes(&status, "VmRSS:") {
            let help = "Memory in RAM, in bytes.";
            encoder.gauge("process_resident_memory_bytes", help, &[], bytes);
        }
        if let Some(threads) = field(&status, "Threads:") {
            encoder.gauge("process_threads", "Threads.", &[], threads);
        }
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        // The directory itself is open while it is read.
        let open = (files.count() as u64).saturating_sub(1);
        encoder.gauge("process_open_fds", "Open file descriptors.", &[], open);
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if let Some(max) = limit.current {
        encoder.gauge("process_max_fds", "File descriptors allowed.", &[], max);
    }
    if let Some(seconds) = cpu_seconds() {
        let help = "User and system CPU time.";
        encoder.counter("process_cpu_seconds_total", help, &[], seconds);
    }
    if let Some(start) = start {
        let help = "When the process started, in seconds since 1970.";
        encoder.gauge("process_start_time_seconds", help, &[], start);
    }
}

/// A field of `/proc/self/status` in kB, as bytes.
fn status_bytes(status: &str, name: &str) -> Option<u64> {
    Some(field(status, name)? * 1024)
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system CPU time of all threads so far, in seconds.
pub fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // utime and stime are fields 14 and 15, counted from 1.
    Some((stat_field(&stat, 14)? + stat_field(&stat, 15)?) / ticks())
}

/// Seconds since 1970 at which the process started.
pub fn start_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let system = std::fs::read_to_string("/proc/stat").ok()?;
    let boot = field(&system, "btime")? as f64;
    // starttime is field 22, counted from 1.
    Some(boot + stat_field(&stat, 22)? / ticks())
}

fn ticks() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

/// Field `number` of `/proc/self/stat`, counted from 1. The second is the program's name in
/// brackets and may hold blanks, so counting starts behind it.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{field, stat_field};
    use crate::metrics::Registry;

    #[test]
    fn what_the_kernel_says_is_shown() {
        let registry = Registry::new();
        super::register(&registry);
        let text = registry.render();
        for name in [
            "process_resident_memory_anonymous_bytes",
            "process_resident_memory_bytes",
            "process_threads",
            "process_open_fds",
            "process_max_fds",
            "process_cpu_seconds_total",
            "process_start_time_seconds",
        ] {
            let line = text.lines().find(|l| l.starts_with(&format!("{name} ")));
            let value = line.and_then(|l| l.rsplit(' ').next()?.parse::<f64>().ok());
            assert!(value.is_some_and(|v| v >= 0.0), "{name} in\n{text}");
        }
        assert!(super::anonymous_memory().is_some_and(|bytes| bytes > 100_000));
        assert!(super::resident_memory() > super::anonymous_memory());
    }

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_fields() {
        let stat = "1 (a ) b) S 2 3";
        assert_eq!(stat_field(stat, 4), Some(2.0));
        assert_eq!(stat_field(stat, 9), None);
        assert_eq!(field("VmRSS:\t  12 kB\n", "VmRSS:"), Some(12));
    }
}
