//! A network of its own for a part of a test: what happens to its ports happens to nobody else's.

use std::cell::Cell;
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

/// Runs a test in a network of its own, or says that it can't be had. Of `ports` as [`apart`].
pub fn test_apart(ports: Option<RangeInclusive<u16>>, test: impl FnOnce() + Send) {
    // It may have to be built, for which there is no network there.
    places::weir();
    if let Err(error) = apart(ports, test) {
        eprintln!("NOT TESTED: a network of its own can't be had, it needs root: {error}");
    }
}

thread_local! {
    /// Whether the thread has entered a network of its own.
    static IS_APART: Cell<bool> = const { Cell::new(false) };
}

/// What a server sends is dropped on its way, until this goes: nobody hears a reset either.
#[derive(Debug)]
pub struct Silence {
    port: u16,
}

impl Silence {
    /// Of the TCP server at a port of the network that the thread runs [`apart`] in.
    ///
    /// # Panics
    /// The thread has no network of its own.
    pub fn of(port: u16) -> Self {
        assert!(IS_APART.get(), "nobody else's network is to be silent");
        // Rules before that of the addresses of this machine.
        if !rule("list").contains("100:") {
            rule("add pref 100 table local");
            rule("del pref 0");
        }
        rule(&format!("add pref 10 ipproto tcp sport {port} blackhole"));
        Self { port }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        rule(&format!("del pref 10 ipproto tcp sport {} blackhole", self.port));
    }
}

/// Runs `ip rule` and gives what it prints.
fn rule(words: &str) -> String {
    let mut command = Command::new(places::need("ip"));
    let output = command.arg("rule").args(words.split(' ')).output().expect("ip is run");
    assert!(output.status.success(), "ip rule {words}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Puts the calling thread into a network of its own.
fn enter() -> io::Result<()> {
    IS_APART.set(true);
    #[expect(deprecated, reason = "what is in its place is unsafe for tables of files alone")]
    rustix::thread::unshare(UnshareFlags::NEWNET)?;
    let up = Command::new(places::need("ip")).args(["link", "set", "lo", "up"]).status()?;
    if up.success() { Ok(()) } else { Err(io::Error::other("loopback can't be had")) }
}
