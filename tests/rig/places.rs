//! Programs, ports and directories.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::{machine, wait};

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

/// Listens at an address of [`free_address`].
///
/// A program that another test starts at this moment has a copy of each of this process's sockets,
/// the one that has looked whether the port is free among them, until it runs.
///
/// # Panics
/// When another program has the port.
pub fn listen(address: SocketAddr) -> TcpListener {
    wait::value("the port is free", wait::LONG, || TcpListener::bind(address).ok())
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
/// The latter is built with faults, which do nothing but where a test asks for them.
///
/// # Panics
/// When it can't be built.
pub fn weir() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let built = || BUILT.get_or_init(build).clone();
    std::env::var_os("WEIR_BIN").map_or_else(built, PathBuf::from)
}

/// Builds Weir as `cargo test --workspace` has built its parts: with the whole workspace selected,
/// so that every crate has the same features and nothing is compiled twice.
fn build() -> PathBuf {
    let profile = beside_the_build();
    let target = profile.parent().expect("a profile lies in the target directory");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--workspace", "--bin", "weir", "--target-dir"]);
    command.arg(target).current_dir(root());
    if profile.ends_with("release") {
        command.arg("--release");
    }
    // What cargo tells a test of its package would have build scripts run again.
    for name in std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()) {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    let status = command.status().expect("cargo can be started");
    assert!(status.success(), "weir can't be built");
    // A disk that is still busy with what was built answers no sync for longer than Weir waits.
    rustix::fs::sync();
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
/// On the disk of the build, because `/tmp` may be memory, where a sync costs nothing. With it a
/// test begins to use the machine, beside others unless it is [`machine::alone`].
pub fn directory() -> tempfile::TempDir {
    machine::share();
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

/// Copies a directory with all that is in it.
///
/// # Panics
/// When that fails.
pub fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory can be made");
    for entry in std::fs::read_dir(from).expect("the directory can be read") {
        let path = entry.expect("the directory can be read").path();
        let at = to.join(path.file_name().unwrap_or_default());
        match path.is_dir() {
            true => copy_directory(&path, &at),
            false => drop(std::fs::copy(&path, &at).expect("the file can be copied")),
        }
    }
}
