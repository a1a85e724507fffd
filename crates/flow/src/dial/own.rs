//! The addresses that this process listens on itself. A server that is said to be there would be
//! this process: what comes in would be handed on to itself for ever.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use parking_lot::{Mutex, MutexGuard};
use tokio::net::{TcpStream, UnixStream};

static LISTENED_ON: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());

/// That the process listens on an address, until this goes.
#[derive(Debug)]
pub(crate) struct Listed(SocketAddr);

/// A connection leads to the process that has dialled it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeadsHere;

impl fmt::Display for LeadsHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this Weir itself listens there; name the server's own address")
    }
}

impl std::error::Error for LeadsHere {}

impl Listed {
    /// From when `address` is bound.
    pub(crate) fn new(address: SocketAddr) -> Self {
        all().push(address);
        Self(address)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut all = all();
        if let Some(at) = all.iter().position(|address| *address == self.0) {
            all.swap_remove(at);
        }
    }
}

fn all() -> MutexGuard<'static, Vec<SocketAddr>> {
    LISTENED_ON.lock()
}

/// Refuses a connection that leads to this process.
pub(super) fn refuse_own(stream: &TcpStream) -> io::Result<()> {
    let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
    let is_own = all().iter().any(|listener| takes(*listener, local, peer));
    if is_own { Err(io::Error::other(LeadsHere)) } else { Ok(()) }
}

/// The same of a Unix socket, whose listener the kernel knows (unix(7), `SO_PEERCRED`).
pub(super) fn refuse_own_unix(stream: &UnixStream) -> io::Result<()> {
    let own = i32::try_from(std::process::id()).ok();
    let listener = stream.peer_cred().ok().and_then(|peer| peer.pid());
    if listener.is_some() && listener == own { Err(io::Error::other(LeadsHere)) } else { Ok(()) }
}

/// Whether a listener of this machine has the other end of a connection from `local` to `peer`.
fn takes(listener: SocketAddr, local: SocketAddr, peer: SocketAddr) -> bool {
    let (at, to) = (listener.ip().to_canonical(), peer.ip().to_canonical());
    if listener.port() != peer.port() {
        return false;
    }
    match at {
        // It takes what comes to any address of this machine; a connection to one of those comes
        // from the same one.
        IpAddr::V4(all) if all.is_unspecified() => to.is_ipv4() && is_here(local, to),
        IpAddr::V6(all) if all.is_unspecified() => is_here(local, to),
        at => at == to,
    }
}

fn is_here(local: SocketAddr, peer: IpAddr) -> bool {
    peer.is_loopback() || local.ip().to_canonical() == peer
}

#[cfg(test)]
mod tests {
    use super::takes;

    #[test]
    fn a_wildcard_has_every_address_of_this_machine_and_none_of_another() {
        for (listener, local, peer, is_own) in [
            ("127.0.0.1:1", "127.0.0.1:9", "127.0.0.1:1", true),
            ("127.0.0.1:1", "127.0.0.1:9", "127.0.0.1:2", false),
            ("127.0.0.1:1", "127.0.0.1:9", "127.0.0.2:1", false),
            ("0.0.0.0:1", "127.0.0.1:9", "127.0.0.2:1", true),
            ("0.0.0.0:1", "10.0.0.1:9", "10.0.0.1:1", true),
            ("0.0.0.0:1", "10.0.0.1:9", "10.0.0.2:1", false),
            ("0.0.0.0:1", "[::1]:9", "[::1]:1", false),
            ("[::]:1", "[::1]:9", "[::1]:1", true),
            ("[::]:1", "10.0.0.1:9", "10.0.0.1:1", true),
            ("[::]:1", "[fd00::1]:9", "[fd00::2]:1", false),
            ("10.0.0.1:1", "10.0.0.1:9", "[::ffff:10.0.0.1]:1", true),
        ] {
            let read = |text: &str| text.parse().unwrap();
            assert_eq!(takes(read(listener), read(local), read(peer)), is_own, "{listener} {peer}");
        }
    }
}
