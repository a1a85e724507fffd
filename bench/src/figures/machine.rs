//! The machine that figures are measured on.

use std::fmt;
use std::path::Path;

use rig::places;

use super::Machine;

impl Machine {
    pub fn this() -> Self {
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let cpus = read("/proc/cpuinfo");
        let cpu = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let memory = read("/proc/meminfo");
        let kib = memory.lines().find_map(|line| {
            line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok()
        });
        let dir = places::directory();
        Self {
            cpu: cpu.map_or("unknown processor", |(_, model)| model).trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: kib.map(|kib| kib / 1_024),
            kernel: Some(read("/proc/sys/kernel/osrelease").trim().to_owned()),
            file_system: file_system(&read("/proc/self/mountinfo"), dir.path()),
            name: None,
        }
    }

    /// The same without its kernel, which changes while the machine stays.
    pub fn without_kernel(&self) -> Self {
        Self { kernel: None, ..self.clone() }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cores of {}", self.cores, self.cpu)?;
        if let Some(mib) = self.memory_mib {
            write!(f, ", {:.1} GiB of memory", mib as f64 / 1_024.0)?;
        }
        write!(f, ", {}", self.file_system)?;
        if let Some(kernel) = &self.kernel {
            write!(f, ", Linux {kernel}")?;
        }
        match &self.name {
            Some(name) => write!(f, "; {name}"),
            None => Ok(()),
        }
    }
}

/// The type of the file system that a directory lies on, by `mountinfo` (proc(5)): the mount point
/// is field 5, and the type comes behind the field that is a single dash.
fn file_system(mounts: &str, dir: &Path) -> String {
    let mounted = mounts.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = Path::new(mount.split(' ').nth(4)?);
        dir.starts_with(point).then(|| (point.components().count(), kind.split(' ').next()))
    });
    // The deepest, and of those the one that was mounted last, hides the others.
    let kind = mounted.max_by_key(|(depth, _)| *depth).and_then(|(_, kind)| kind);
    kind.unwrap_or("unknown file system").to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::file_system;

    #[test]
    fn the_file_system_is_that_of_the_deepest_mount() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/a rw\n\
                      23 22 0:5 / /tmp rw - tmpfs tmpfs rw\n";
        assert_eq!(file_system(mounts, Path::new("/srv/x")), "ext4");
        assert_eq!(file_system(mounts, Path::new("/tmp/x")), "tmpfs");
    }
}
