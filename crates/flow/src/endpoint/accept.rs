//! Accepting connections on one worker.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::spawn_local;

use super::{Counts, Endpoint};
use crate::backoff::Backoff;
use crate::dial;
use crate::drain::Guard;
use crate::limit::{Limit, Permit};
use crate::progress::Limits;
use crate::stream::{Socket, Stream};
use crate::workers::{ACCEPT, HANDSHAKE, Worker};

/// How long accepting rests when the process or the machine has no file descriptor left; a
/// connection that ends meanwhile frees one.
const REST: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How long a refused client may take to read why, and how many may do so at a time.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_MAX: usize = 64;

/// One worker's side of an [`Endpoint`].
pub(super) struct Acceptor<H> {
    endpoint: Endpoint,
    worker: Worker,
    limits: Rc<Limits>,
    handle: Rc<H>,
    lingering: Limit,
}

/// What is to be undone when a connection ends, however it ends.
struct ConnectionGuard {
    counts: Counts,
    _permit: Permit,
    _guard: Guard,
}

impl ConnectionGuard {
    fn new(counts: Counts, permit: Permit, guard: Guard) -> Self {
        counts.open.inc();
        Self { counts, _permit: permit, _guard: guard }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.counts.open.dec();
        if std::thread::panicking() {
            self.counts.panics.inc();
        }
    }
}

/// A listening socket on its worker.
pub(crate) trait ClientListener {
    /// Where a client comes from.
    type Peer: fmt::Debug + 'static;

    /// Waits for a client.
    async fn accept(&self) -> io::Result<(Socket, Self::Peer)>;

    /// The address of a client, where it has one.
    fn address(peer: &Self::Peer) -> Option<SocketAddr>;

    /// Whether the process itself has dialled a connection.
    fn is_own(socket: &Socket, peer: &Self::Peer) -> bool;

    /// Stops listening, and gives the clients that the kernel has accepted already.
    fn empty(self) -> io::Result<Vec<(Socket, Self::Peer)>>;
}

impl ClientListener for TcpListener {
    type Peer = SocketAddr;

    async fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        Ok((Socket::Tcp(stream), peer))
    }

    fn address(peer: &SocketAddr) -> Option<SocketAddr> {
        Some(*peer)
    }

    fn is_own(socket: &Socket, peer: &SocketAddr) -> bool {
        match socket {
            Socket::Tcp(stream) => dial::is_own(*peer, || stream.local_addr()),
            Socket::Unix(_) => false,
        }
    }

    fn empty(self) -> io::Result<Vec<(Socket, SocketAddr)>> {
        let listener = self.into_std()?;
        let mut accepted = Vec::new();
        while let Ok((stream, peer)) = listener.accept() {
            stream.set_nonblocking(true)?;
            accepted.push((Socket::Tcp(TcpStream::from_std(stream)?), peer));
        }
        Ok(accepted)
    }
}

impl<H> Acceptor<H> {
    pub(super) fn new(endpoint: &Endpoint, worker: &Worker, handle: Rc<H>) -> Self {
        Self {
            limits: Rc::new(endpoint.limits.clone()),
            endpoint: endpoint.clone(),
            worker: worker.clone(),
            handle,
            lingering: Limit::new(LINGER_MAX),
        }
    }

    pub(super) async fn run<L, F>(&self, listener: L) -> io::Result<()>
    where
        L: ClientListener,
        H: Fn(Stream, L::Peer) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        let mut started = std::pin::pin!(self.worker.drain.started());
        let mut rest = Backoff::new(REST.0, REST.1);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut started => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, peer)) => {
                    rest.reset();
                    self.admit_stranger::<L, F>(socket, peer);
                }
                Err(error) if is_the_clients(&error) => self.endpoint.counts.errors.inc(),
                Err(error) => {
                    self.endpoint.counts.errors.inc();
                    let listener = &self.endpoint.name;
                    tracing::error!(listener, %error, "accepting connections failed, resting");
                    tokio::select! {
                        () = &mut started => break,
                        () = rest.wait() => {}
                    }
                }
            }
        }
        // To close the listener would reset those.
        let accepted = listener.empty()?;
        accepted.into_iter().for_each(|(socket, peer)| self.admit_stranger::<L, F>(socket, peer));
        Ok(())
    }

    /// Admits whoever is not this process itself, which would answer itself for ever.
    fn admit_stranger<L, F>(&self, socket: Socket, peer: L::Peer)
    where
        L: ClientListener,
        H: Fn(Stream, L::Peer) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        if L::is_own(&socket, &peer) {
            let listener = &self.endpoint.name;
            tracing::error!(
                listener,
                ?peer,
                "this Weir has dialled itself: a server's address leads to its own listener; the \
                 connection is closed"
            );
            return;
        }
        let address = L::address(&peer);
        self.admit(socket, address, peer);
    }

    fn admit<R, F>(&self, socket: Socket, address: Option<SocketAddr>, peer: R)
    where
        R: fmt::Debug + 'static,
        H: Fn(Stream, R) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        let _stage = self.worker.pulse.enter(&ACCEPT);
        let counts = self.endpoint.counts.clone();
        counts.accepted.inc();
        let Some(permit) = self.endpoint.limit.take() else {
            counts.refused.inc();
            return self.refuse(socket);
        };
        let held = ConnectionGuard::new(counts, permit, self.worker.drain.guard());
        let handle = Rc::clone(&self.handle);
        let opened = self.worker.connections.open(&self.limits, address);
        let stream = Stream::plain(socket, opened);
        let Some(tls) = self.endpoint.tls.clone() else {
            let serving = handle(stream, peer);
            spawn_local(async move {
                let _held = held;
                serving.await;
            });
            return;
        };
        let pulse = self.worker.pulse.clone();
        spawn_local(async move {
            // The handshake's own limit holds until it is done.
            stream.progress().serving();
            match pulse.during(&HANDSHAKE, stream.start_tls(&tls)).await {
                Ok(stream) => {
                    stream.progress().idle();
                    handle(stream, peer).await;
                }
                Err(error) => {
                    held.counts.handshakes_failed.inc();
                    tracing::debug!(?peer, %error, "TLS handshake failed");
                }
            }
        });
    }

    /// Says why, when there is something to say, and waits a moment for the client to read it: to
    /// close with bytes unread would reset the connection and lose the answer.
    fn refuse(&self, socket: Socket) {
        let refusal = self.endpoint.refusal;
        if refusal.is_empty() || self.endpoint.tls.is_some() {
            return;
        }
        let Some(permit) = self.lingering.take() else {
            return;
        };
        spawn_local(async move {
            let _permit = permit;
            let _ = tokio::time::timeout(LINGER, linger(socket, refusal)).await;
        });
    }
}

/// Where a client of a Unix socket comes from: such sockets have no addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer;

impl ClientListener for UnixListener {
    type Peer = Peer;

    async fn accept(&self) -> io::Result<(Socket, Peer)> {
        let (stream, _) = Self::accept(self).await?;
        Ok((Socket::Unix(stream), Peer))
    }

    fn address(_: &Peer) -> Option<SocketAddr> {
        None
    }

    /// Who dials looks at that, and knows it for certain.
    fn is_own(_: &Socket, _: &Peer) -> bool {
        false
    }

    fn empty(self) -> io::Result<Vec<(Socket, Peer)>> {
        let listener = self.into_std()?;
        let mut accepted = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true)?;
            accepted.push((Socket::Unix(UnixStream::from_std(stream)?), Peer));
        }
        Ok(accepted)
    }
}

async fn linger(mut socket: Socket, refusal: &[u8]) -> io::Result<()> {
    socket.write_all(refusal).await?;
    socket.shutdown().await?;
    let mut sink = [0; 1024];
    while socket.read(&mut sink).await? > 0 {}
    Ok(())
}

/// Whether only that one connection is lost (accept(2)), so that accepting goes on at once.
fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted
            | Kind::ConnectionReset
            | Kind::Interrupted
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::TimedOut
    )
}
