//! The processes of a server. Each has a session of its own, so that no group holds them together.

use rustix::process::{Pid, Signal, kill_process};

/// Sends `signal` to the children of process `of`.
pub(super) fn signal(of: u32, signal: Signal) {
    for child in all(of) {
        let _ = kill_process(child, signal);
    }
}

/// Whether a process has ended, be it that nobody has taken note of that yet.
pub(super) fn has_ended(id: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
    // proc(5): a process that is dead holds nothing any more.
    stat.ok().is_none_or(|stat| {
        stat.rsplit_once(") ").is_none_or(|(_, after)| after.starts_with(['Z', 'X']))
    })
}

/// The children of process `of`, as the kernel knows them.
pub(super) fn all(of: u32) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted");
    let children = entries.flatten().filter_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // proc(5): pid (comm) state ppid; the name may have spaces and parentheses in it.
        let (_, after) = stat.rsplit_once(") ")?;
        let parent: u32 = after.split(' ').nth(1)?.parse().ok()?;
        (parent == of).then(|| Pid::from_raw(id))?
    });
    children.collect()
}
