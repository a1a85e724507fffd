//! Who else writes to the device of an append-only file. Only this machine's processes can be
//! known, and of these only what the system lets Weir see.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Open files of one process that are looked at.
const FILES_MAX: usize = 4096;
/// Flags of an open file that may be written, in `fdinfo`: `O_WRONLY` and `O_RDWR`.
const WRITES: u32 = 0o3;

/// A process that writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writing {
    pub process: u32,
    /// What the system calls it.
    pub name: String,
    /// What it writes each second, to all devices together.
    pub bytes_per_second: u64,
    /// What is on the device.
    pub path: PathBuf,
}

/// Looks at the machine's processes again and again: a rate takes two looks.
#[derive(Debug, Default)]
pub struct Processes {
    before: Option<(Instant, HashMap<u32, u64>)>,
    /// Those that write fast enough now, with what each writes a second.
    fast: Vec<(u32, u64)>,
}

impl Processes {
    /// Looks how much each process has written, if the last look is `every` ago; those beyond
    /// `most` bytes a second are fast.
    pub fn look(&mut self, most: u64, every: Duration) {
        if self.before.as_ref().is_some_and(|(then, _)| then.elapsed() < every) {
            return;
        }
        let now: HashMap<u32, u64> =
            processes().filter_map(|process| Some((process, written(process)?))).collect();
        let at = Instant::now();
        self.fast.clear();
        if let Some((then, before)) = &self.before {
            let seconds = at.duration_since(*then).as_secs_f64();
            self.fast = fast(before, &now, seconds, most);
        }
        self.before = Some((at, now));
    }

    /// The fast ones that have a file open for writing on the device of `path`, but for `own` and
    /// their children, as one that rewrites is; the fastest first.
    pub fn on_device_of(&self, path: &Path, own: &[u32]) -> Vec<Writing> {
        let Ok(device) = fs::metadata(path).map(|of| of.dev()) else { return Vec::new() };
        let is_own = |process: u32| {
            own.contains(&process) || parent(process).is_some_and(|parent| own.contains(&parent))
        };
        let others = self.fast.iter().filter(|(process, _)| !is_own(*process));
        let writing = others.filter(|(process, _)| has_open_on(*process, device));
        let shown = writing.map(|(process, bytes)| Writing {
            process: *process,
            name: name(*process),
            bytes_per_second: *bytes,
            path: path.to_owned(),
        });
        shown.collect()
    }
}

/// Whether a process of this machine has `dir` as its directory, as a server has: the numbers of
/// processes in a container are not those here.
pub fn is_here(process: u32, dir: &Path) -> bool {
    fs::read_link(format!("/proc/{process}/cwd")).is_ok_and(|cwd| cwd == dir)
}

fn fast(
    before: &HashMap<u32, u64>,
    now: &HashMap<u32, u64>,
    seconds: f64,
    most: u64,
) -> Vec<(u32, u64)> {
    let rate = |(process, bytes): (&u32, &u64)| {
        // One that has come since has written all of it since.
        let then = before.get(process).copied().unwrap_or_default();
        let rate = bytes.saturating_sub(then) as f64 / seconds.max(1e-3);
        (*process, rate as u64)
    };
    let mut fast: Vec<_> = now.iter().map(rate).filter(|(_, rate)| *rate > most).collect();
    fast.sort_by_key(|(process, rate)| (std::cmp::Reverse(*rate), *process));
    fast
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Bytes that a process has had written to devices since it began.
fn written(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok())
}

fn name(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

fn parent(process: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

fn has_open_on(process: u32, device: u64) -> bool {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    entries.take(FILES_MAX).any(|entry| {
        let is_there =
            fs::metadata(entry.path()).is_ok_and(|of| of.is_file() && of.dev() == device);
        is_there && {
            let number = entry.file_name();
            let about = format!("/proc/{process}/fdinfo/{}", number.to_string_lossy());
            fs::read_to_string(about).is_ok_and(|about| may_write(&about))
        }
    })
}

fn may_write(about: &str) -> bool {
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & WRITES != 0)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;

    use super::{fast, has_open_on, is_here, may_write, name, parent, processes};

    #[test]
    fn those_that_write_fast_are_found_the_fastest_first() {
        let before = HashMap::from([(1, 0), (2, 1000), (3, 5)]);
        let now = HashMap::from([(1, 500), (2, 21_000), (3, 5), (4, 90_000)]);
        assert_eq!(fast(&before, &now, 10.0, 1000), [(4, 9000), (2, 2000)]);
        let restarted = HashMap::from([(2, 10)]);
        assert_eq!(fast(&before, &restarted, 10.0, 0), [], "a number that came again");
    }

    #[test]
    fn an_open_file_is_found_on_its_device_only_where_it_may_be_written() {
        assert!(may_write("pos:\t0\nflags:\t0100001\n") && may_write("flags:\t02\n"));
        assert!(
            !may_write("pos:\t0\nflags:\t0100000\n") && !may_write("") && !may_write("flags: x")
        );
        let own = std::process::id();
        let file = tempfile::tempfile().unwrap();
        let device = file.metadata().unwrap().dev();
        assert!(has_open_on(own, device));
        assert!(!has_open_on(own, u64::MAX));
        let _read_only = File::open("/proc/self/exe").unwrap();
        assert!(processes().any(|process| process == own) && !name(own).is_empty());
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
        assert!(is_here(own, &std::env::current_dir().unwrap()));
        assert!(!is_here(own, std::path::Path::new("/nowhere")));
    }
}
