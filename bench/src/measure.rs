//! What the kernel says of a process and of the disk.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use rig::process::anonymous_mib;
use rig::wait;

use crate::Outcome;

/// Clock ticks a second in `/proc`: fixed by the kernel's interface for user space (proc(5)).
const TICKS_PER_SECOND: u64 = 100;

/// CPU time of a process so far, all threads, ended ones too.
pub fn cpu(pid: u32) -> Duration {
    ProcessStat::of(pid).own
}

/// CPU time of a process and its children so far, ended ones too.
pub fn family_cpu(pid: u32) -> Duration {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children = all.map(ProcessStat::of).filter(|of| of.parent == Some(pid));
    let family = ProcessStat::of(pid);
    family.own + family.ended + children.map(|of| of.own + of.ended).sum::<Duration>()
}

/// CPU time of the children of this process that have ended.
pub fn ended_children_cpu() -> Duration {
    ProcessStat::of(std::process::id()).ended
}

/// What `/proc/PID/stat` says of a process; nothing where there is none.
struct ProcessStat {
    parent: Option<u32>,
    /// CPU time of itself.
    own: Duration,
    /// That of its children which have ended.
    ended: Duration,
}

impl ProcessStat {
    fn of(pid: u32) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name, in parentheses, may hold spaces.
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        // Field 3, the state, is the first of these; ppid is field 4, utime and stime are 14 and
        // 15, cutime and cstime 16 and 17.
        let field = |number: usize| rest.split(' ').nth(number - 3)?.parse::<u64>().ok();
        let time = |fields: [usize; 2]| {
            let ticks: u64 = fields.into_iter().filter_map(field).sum();
            Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
        };
        let parent = field(4).and_then(|parent| parent.try_into().ok());
        Self { parent, own: time([14, 15]), ended: time([16, 17]) }
    }
}

/// Runs something, and gives the CPU time of the children that have ended meanwhile.
///
/// # Errors
/// As it has.
pub fn with_children_cpu<T>(run: impl FnOnce() -> Outcome<T>) -> Outcome<(T, Duration)> {
    let before = ended_children_cpu();
    let done = run()?;
    Ok((done, ended_children_cpu().saturating_sub(before)))
}

/// How long the host has had the CPUs although there was work for them (`steal` in proc(5)), a
/// CPU on average.
pub fn stolen() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let cpus = stat.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1);
    let all = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    let ticks: u64 = all.unwrap_or(0);
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND / cpus.max(1) as u64)
}

/// Memory that is not a file's, in MiB, once it changes no more.
pub fn settled_mib(pid: u32) -> f64 {
    let mut last = 0.0;
    wait::until("memory has settled", wait::LONG, || {
        let now = anonymous_mib(pid);
        let settled = now == last;
        last = now;
        settled
    });
    last
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
    /// Takes the first sample of the process.
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

/// The most memory a process has had while this watched it.
pub struct Peak {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Peak {
    /// Watches from now on.
    pub fn begin(pid: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut most: f64 = 0.0;
            while !stopped.load(Ordering::Relaxed) {
                most = most.max(anonymous_mib(pid));
                // A look at another process now and then, on a thread of its own.
                thread::sleep(Duration::from_millis(20));
            }
            most
        });
        Self { stop, thread }
    }

    /// MiB that are no file's.
    pub fn end_mib(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(f64::NAN)
    }
}

/// Bytes that a directory takes on the disk, as blocks.
pub fn disk_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => disk_bytes(&entry.path()),
        Ok(data) => data.blocks() * 512,
        // Files come and go while they are counted.
        Err(_) => 0,
    });
    bytes.sum()
}

/// MB a second that the disk takes in pieces of 1 MiB, each synced.
///
/// # Errors
/// As the disk's.
pub fn synced_mb_per_second(dir: &Path) -> io::Result<f64> {
    const PIECES: u64 = 64;
    let file = std::fs::File::create(dir.join("probe"))?;
    let piece = vec![b'x'; 1 << 20];
    let begun = Instant::now();
    for _ in 0..PIECES {
        io::Write::write_all(&mut &file, &piece)?;
        file.sync_data()?;
    }
    Ok(PIECES as f64 * 1.048_576 / begun.elapsed().as_secs_f64())
}
