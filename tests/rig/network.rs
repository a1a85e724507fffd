//! A network of its own for a part of a test: what happens to its ports happens to nobody else's.

use std::io;
use std::ops::RangeInclusive;
use std::process::Command;
use std::thread;

use rustix::thread::UnshareFlags;

use crate::places;

/// Runs something in a network where loopback is up and nothing else is there. All that it starts,
/// threads and processes, is in that network, too. Where `ports` are given, connections have no
/// others, and a port that was used is not taken again while its last connection may be
/// remembered (TIME_WAIT).
///
/// # Errors
/// It takes root, or whoever else may make one.
///
/// # Panics
/// When `what` does.
pub fn apart<T: Send>(
    ports: Option<RangeInclusive<u16>>,
    what: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    let within = || {
        enter()?;
        if let Some(ports) = ports {
            let range = format!("{} {}", ports.start(), ports.end());
            std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", range)?;
            std::fs::write("/proc/sys/net/ipv4/tcp_tw_reuse", "0")?;
        }
        Ok(what())
    };
    thread::scope(|scope| match scope.spawn(within).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Puts the calling thread into a network of its own.
fn enter() -> io::Result<()> {
    #[expect(deprecated, reason = "what is in its place is unsafe for tables of files alone")]
    rustix::thread::unshare(UnshareFlags::NEWNET)?;
    let up = Command::new(places::need("ip")).args(["link", "set", "lo", "up"]).status()?;
    if up.success() { Ok(()) } else { Err(io::Error::other("loopback can't be had")) }
}
