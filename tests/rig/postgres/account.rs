//! The account that servers run under, and directories that it can reach.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::SUPERUSER;
use crate::places;

/// The account's user and group ids; `None` where this process is not root and runs them itself.
fn ids() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let all = std::fs::read_to_string("/etc/passwd").expect("a list of users");
    let line = all.lines().find(|line| line.split(':').next() == Some(SUPERUSER));
    let line = line.expect("the user postgres is missing; `make test` installs PostgreSQL");
    let id = |n| line.split(':').nth(n).and_then(|id| id.parse().ok()).expect("a user's numbers");
    Some((id(2), id(3)))
}

/// Has `command` run under the account.
pub(super) fn set(command: &mut Command) {
    // The directory of the caller may be out of the account's reach.
    command.current_dir("/");
    if let Some((user, group)) = ids() {
        command.gid(group).uid(user);
    }
}

/// Runs `command` under the account.
///
/// # Panics
/// With what it said when it fails.
pub(super) fn run(command: &mut Command) {
    set(command);
    let done = command.stdin(Stdio::null()).output();
    let done = done.unwrap_or_else(|error| panic!("{command:?} can't be started: {error}"));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {}\n{said}", done.status);
}

/// Gives `path` to the account.
pub(super) fn give(path: &Path) {
    if let Some((user, group)) = ids() {
        chown(path, Some(user), Some(group)).expect("root may give files away");
    }
}

/// A directory of the account's, on the disk of the build where the account can reach that.
///
/// # Panics
/// When none can be made.
pub fn directory() -> TempDir {
    let dir = places::directory();
    let reached = dir
        .path()
        .ancestors()
        .skip(1)
        .all(|above| above.metadata().is_ok_and(|about| about.mode() & 0o001 != 0));
    let dir = if reached || ids().is_none() {
        dir
    } else {
        tempfile::Builder::new().prefix("rig-").tempdir_in("/var/tmp").expect("a directory")
    };
    give(dir.path());
    dir
}

/// A directory of the account's whose path is short: a Unix socket's takes 107 bytes at most.
pub(super) fn short_directory() -> TempDir {
    let dir = tempfile::Builder::new().prefix("rig-").tempdir_in("/tmp").expect("a directory");
    give(dir.path());
    // Anybody may connect, as to Debian's own.
    let anybody = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), anybody).expect("our own directory");
    dir
}
