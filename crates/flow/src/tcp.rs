//! TCP listeners, one for each worker on the same port.
//!
//! The kernel spreads connections over the workers by a hash of their addresses (`SO_REUSEPORT`,
//! socket(7)): evenly over many connections, by chance over few.

pub(crate) mod accept;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use watch::metrics::{Counter, Gauge, Registry};

use crate::limit::Limit;
use crate::progress::{Limits, Timeouts};
use crate::stream::Stream;
use crate::tls::ServerTls;
use crate::workers::Worker;

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
}

impl Listener {
    /// The address that is listened on; its port is never 0.
    pub fn address(&self) -> SocketAddr {
        self.address
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
    Ok(Listener { socket, address })
}

/// `[::]` takes IPv4, too, whatever the system's default, as Go's servers do.
pub(crate) fn only_v6(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    Ok(())
}

/// What all listeners of a front end have in common. Clones share limits and metrics.
#[derive(Clone, Debug)]
pub struct Endpoint {
    name: String,
    tls: Option<ServerTls>,
    limit: Limit,
    limits: Limits,
    refusal: &'static [u8],
    counts: Counts,
}

#[derive(Clone, Debug)]
struct Counts {
    accepted: Counter,
    open: Gauge,
    refused: Counter,
    errors: Counter,
    handshakes_failed: Counter,
    panics: Counter,
}

impl Endpoint {
    /// A front end's side of its connections: `name` is its label in metrics, `limit` how many
    /// connections there may be, over all workers and all front ends that share it.
    pub fn new(name: &str, limit: Limit, timeouts: &Timeouts, registry: &Registry) -> Self {
        Self {
            name: name.to_owned(),
            tls: None,
            limit,
            limits: Limits::new(name, timeouts, registry),
            refusal: b"",
            counts: Counts::new(name, registry),
        }
    }

    /// Encrypts its connections.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<ServerTls>) -> Self {
        self.tls = tls;
        self
    }

    /// What a client is sent that comes over the limit, before its connection is closed. Nothing
    /// is sent where connections are encrypted.
    #[must_use]
    pub fn with_refusal(mut self, refusal: &'static [u8]) -> Self {
        self.refusal = refusal;
        self
    }

    /// Accepts connections on this worker and runs `handle` on each as a local task, until the
    /// worker drains. Connections that are open then keep the drain waiting; `handle` learns of it
    /// from [`Worker::drain`].
    ///
    /// # Errors
    /// The listener can not be used with this runtime.
    pub async fn serve<H, F>(
        &self,
        listener: Listener,
        worker: &Worker,
        handle: H,
    ) -> io::Result<()>
    where
        H: Fn(Stream, SocketAddr) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        let acceptor = accept::Acceptor::new(self, worker, Rc::new(handle));
        acceptor.run(tokio::net::TcpListener::from_std(listener.socket)?).await
    }

    /// As [`serve`](Self::serve), on a Unix socket, where nothing is encrypted.
    ///
    /// # Errors
    /// The listener can not be used with this runtime.
    pub async fn serve_unix<H, F>(
        &self,
        listener: crate::unix::Listener,
        worker: &Worker,
        handle: H,
    ) -> io::Result<()>
    where
        H: Fn(Stream) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        let plain = self.clone().with_tls(None);
        let handle = move |stream, _: crate::unix::Peer| handle(stream);
        let acceptor = accept::Acceptor::new(&plain, worker, Rc::new(handle));
        // The socket's file goes with the last worker's share of it.
        let (listener, _file) = listener.into_parts()?;
        acceptor.run(listener).await
    }
}

impl Counts {
    fn new(name: &str, registry: &Registry) -> Self {
        let labels = [("listener", name)];
        let counter = |name, help| registry.counter(name, help, &labels);
        Self {
            accepted: counter("weir_connections_accepted_total", "Connections accepted."),
            open: registry.gauge("weir_connections_open", "Connections open now.", &labels),
            refused: counter(
                "weir_connections_refused_total",
                "Connections closed at once because there were too many.",
            ),
            errors: counter(
                "weir_connections_accept_errors_total",
                "Connections that could not be accepted, mostly for want of file descriptors.",
            ),
            handshakes_failed: counter(
                "weir_connections_handshakes_failed_total",
                "Connections closed because the TLS handshake failed or took too long.",
            ),
            panics: counter(
                "weir_connections_panics_total",
                "Connections that ended by a panic, which is a fault in Weir.",
            ),
        }
    }
}
