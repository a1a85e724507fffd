//! Programs, ports and directories.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::wait;

/// The lowest port that is given away.
const LOWEST_PORT: u16 = 10_000;
/// There are to be so many at least.
const PORTS_MIN: u16 = 5_000;

/// A loopback address whose port no other test of this process has been given.
///
/// The port is free for TCP and UDP at this moment; a server that is started again needs to know it
/// beforehand, so port 0 would not do. It lies below those that the kernel takes for connections
/// and for port 0, which might come to be this one while its server is not running.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let below = kernels_lowest_port().saturating_sub(LOWEST_PORT);
    let ports = u32::from(if below < PORTS_MIN { u16::MAX - LOWEST_PORT } else { below });
    wait::value("a free port", wait::LONG, || {
        // Other processes of tests begin elsewhere.
        let n = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let at = std::process::id().wrapping_mul(7_919).wrapping_add(n) % ports;
        let port = LOWEST_PORT + u16::try_from(at).expect("a port is below 65536");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        TcpListener::bind(address).ok()?;
        UdpSocket::bind(address).ok()?;
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        given.get_or_insert_default().insert(port).then_some(address)
    })
}

/// From here on ports may be any connection's.
fn kernels_lowest_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let lowest = range.ok().and_then(|range| range.split_whitespace().next()?.parse().ok());
    lowest.unwrap_or(32_768)
}

/// The program of that name on the `PATH`, or where Debian keeps servers.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let servers = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(servers).map(|dir| dir.join(program)).find(|p| p.is_file())
}

/// The same, for what a test cannot do without.
///
/// # Panics
/// When the program is missing: a test that silently does nothing proves nothing.
pub fn need(program: &str) -> PathBuf {
    find(program).unwrap_or_else(|| {
        panic!("{program} is missing; `make test` installs it (see scripts/setup)")
    })
}

/// The Weir to test: `WEIR_BIN`, or the one built beside the running program, brought up to date.
///
/// # Panics
/// When it can't be built.
pub fn weir() -> PathBuf {
    std::env::var_os("WEIR_BIN").map_or_else(|| built().plain.clone(), PathBuf::from)
}

/// The same with a disk that can be made to fail: `WEIR_FAULTS_BIN`, or built likewise.
///
/// # Panics
/// When it can't be built.
pub fn weir_with_faults() -> PathBuf {
    std::env::var_os("WEIR_FAULTS_BIN").map_or_else(|| built().faults.clone(), PathBuf::from)
}

struct Built {
    plain: PathBuf,
    faults: PathBuf,
}

/// `cargo test` builds no program of another package, so this asks for both, once. The plain one
/// comes last, because cargo gives both the same place.
fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let faults = build(&["--features", "journal/faults,store/faults"]);
        let kept = faults.with_file_name("weir-with-faults");
        put_aside(&faults, &kept);
        Built { plain: build(&[]), faults: kept }
    })
}

/// Copies a program to where the one of before may still run: one that runs can't be written to,
/// but its name can be another file's.
///
/// `cp` does it, because whatever another thread starts meanwhile holds what this process has open
/// for writing for a moment, and nothing runs a file that anybody has open for writing.
fn put_aside(program: &Path, kept: &Path) {
    let new = kept.with_extension(std::process::id().to_string());
    let copied = Command::new("cp").arg(program).arg(&new).status().expect("cp can be started");
    assert!(copied.success(), "{} can't be copied", program.display());
    std::fs::rename(&new, kept).expect("a file can be renamed");
}

fn build(features: &[&str]) -> PathBuf {
    let profile = beside_the_build();
    let target = profile.parent().expect("a profile lies in the target directory");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--package", "weir", "--target-dir"]).arg(target);
    command.args(features).current_dir(root());
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().expect("cargo can be started");
    assert!(status.success(), "weir can't be built");
    profile.join("weir")
}

/// Where the programs of this build are, and what is kept for as long as they are.
///
/// # Panics
/// When the running program is of no build of cargo's.
pub fn beside_the_build() -> PathBuf {
    let exe = std::env::current_exe().expect("a running program has a path");
    let mut profile = exe.parent().expect("a program lies in a directory");
    if profile.ends_with("deps") {
        profile = profile.parent().expect("deps lies in a profile's directory");
    }
    profile.to_owned()
}

/// The root of the source tree.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("this package lies in the workspace").to_owned()
}

/// A directory for one server or test, removed with the value.
///
/// On the disk of the build, because `/tmp` may be memory, where a sync costs nothing.
pub fn directory() -> tempfile::TempDir {
    let exe = std::env::current_exe().expect("a running program has a path");
    let dir = exe.parent().expect("a program lies in a directory");
    tempfile::Builder::new().prefix("rig-").tempdir_in(dir).expect("a directory can be made")
}

/// Lets this process have as many open files as it may.
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{directory, need, put_aside};

    #[test]
    fn a_program_is_put_aside_while_the_one_of_before_runs() {
        let dir = directory();
        let (program, kept) = (need("sleep"), dir.path().join("kept"));
        put_aside(&program, &kept);
        let mut running = Command::new(&kept).arg("60").spawn().unwrap();
        std::fs::copy(&program, &kept).expect_err("it runs");
        put_aside(&program, &kept);
        running.kill().unwrap();
        running.wait().unwrap();
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
