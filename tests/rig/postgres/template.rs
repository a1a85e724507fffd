//! An initialised cluster that others are copied from, because `initdb` takes a second.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{PASSWORD, SUPERUSER, account};
use crate::places;

/// Where Debian keeps each version's programs.
const VERSIONS: &str = "/usr/lib/postgresql";

pub(super) fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let path = entry.path().join("bin").join(name);
            path.is_file().then_some((version, path))
        })
        .max();
    newest.map_or_else(|| places::need(name), |(_, path)| path)
}

/// A new cluster at `data`, which must not exist. Copies are of one identity, as replicas are; a
/// test that needs a cluster of another asks for one that is not a copy.
pub(super) fn make(data: &Path, copy: bool) {
    if !copy {
        return initialise(data);
    }
    let mut command = Command::new("cp");
    command.args(["--archive", "--reflink=auto", "--no-target-directory"]);
    account::run(command.arg(template()).arg(data));
}

/// The template, made once a process. It lies beside the programs of the build and is left for the
/// next run.
fn template() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let version = Command::new(program("postgres")).arg("--version").output();
        let version = version.expect("PostgreSQL can be run").stdout;
        let version = String::from_utf8_lossy(&version);
        let version: String = version.chars().filter(char::is_ascii_alphanumeric).collect();
        let dir = account::directory();
        let above = dir.path().parent().expect("a directory lies in another").to_owned();
        let template = above.join(format!("rig-template-{version}-1"));
        if !template.exists() {
            let made = dir.path().join("data");
            initialise(&made);
            // Another process may have been first, and then its copy serves as well.
            if let Err(error) = std::fs::rename(&made, &template) {
                assert!(template.exists(), "{}: {error}", template.display());
            }
        }
        template
    })
}

fn initialise(data: &Path) {
    let above = data.parent().expect("a cluster lies in a directory");
    let password = above.join("password");
    std::fs::write(&password, PASSWORD).expect("a file can be written");
    account::give(&password);
    let mut command = Command::new(program("initdb"));
    command.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
    // Of 16 MB by default, which each copy would have to write.
    command.arg("--wal-segsize=1").args(["--username", SUPERUSER, "--pgdata"]).arg(data);
    command.arg("--pwfile").arg(&password);
    account::run(&mut command);
}
