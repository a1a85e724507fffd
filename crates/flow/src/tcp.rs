//! TCP listeners, one for each worker on the same port.
//!
//! The kernel spreads connections over the workers by a hash of their addresses (`SO_REUSEPORT`,
//! socket(7)): evenly over many connections, by chance over few.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::dial::Listed;

/// Connections that wait to be accepted; the kernel's `net.core.somaxconn` may cut it.
const BACKLOG: i32 = 4096;
/// A peer that is silent for this long is asked whether it still lives.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Why a port could not be had.
#[derive(Debug, thiserror::Error)]
#[error("listening on {address} failed: {source}{}", hint(.source))]
pub struct BindError {
    /// The address asked for.
    pub address: SocketAddr,
    /// What the kernel said.
    #[source]
    pub source: io::Error,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there, or another Weir",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE, or choose a higher one"
        }
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}

/// A worker's share of a listening port.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    listed: Listed,
}

impl Listener {
    /// The address that is listened on; its port is never 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listener, and what is to go with it.
    pub(crate) fn into_parts(self) -> (TcpListener, Listed) {
        (self.socket, self.listed)
    }
}

/// Opens `count` listeners on `address`, one for each worker. With port 0 the kernel chooses one
/// for all of them.
///
/// # Errors
/// The address can not be listened on, also when another process already does.
pub fn bind(address: SocketAddr, count: usize) -> Result<Vec<Listener>, BindError> {
    let failed = |source| BindError { address, source };
    probe(address).map_err(failed)?;
    let mut listeners: Vec<Listener> = Vec::with_capacity(count);
    for _ in 0..count {
        let at = listeners.first().map_or(address, Listener::address);
        listeners.push(listen(at).map_err(failed)?);
    }
    Ok(listeners)
}

/// `SO_REUSEPORT` would let a second Weir of the same user take half of the connections: a bind
/// without it tells whether the port is taken.
fn probe(address: SocketAddr) -> io::Result<()> {
    if address.port() == 0 {
        return Ok(());
    }
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    only_v6(&socket, address)?;
    socket.bind(&address.into())
}

fn listen(address: SocketAddr) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    only_v6(&socket, address)?;
    // Accepted sockets inherit these two, which saves their system calls.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    socket.set_keepalive(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let socket = TcpListener::from(socket);
    let address = socket.local_addr()?;
    Ok(Listener { socket, address, listed: Listed::new(address) })
}

/// `[::]` takes IPv4, too, whatever the system's default, as Go's servers do.
pub(crate) fn only_v6(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    Ok(())
}
