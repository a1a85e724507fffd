//! Accepting connections on one worker.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use watch::watchdog::Stage;

use super::{Counts, Endpoint, Listener};
use crate::backoff::Backoff;
use crate::drain::Guard;
use crate::limit::{Limit, Permit};
use crate::progress::Limits;
use crate::stream::Stream;
use crate::tls::ServerTls;
use crate::workers::Worker;

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
struct Held {
    counts: Counts,
    _permit: Permit,
    _guard: Guard,
}

impl Held {
    fn new(counts: Counts, permit: Permit, guard: Guard) -> Self {
        counts.open.inc();
        Self { counts, _permit: permit, _guard: guard }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.counts.open.dec();
        if std::thread::panicking() {
            self.counts.panics.inc();
        }
    }
}

impl<H, F> Acceptor<H>
where
    H: Fn(Stream, SocketAddr) -> F + 'static,
    F: Future<Output = ()> + 'static,
{
    pub(super) fn new(endpoint: &Endpoint, worker: &Worker, handle: Rc<H>) -> Self {
        Self {
            limits: Rc::new(endpoint.limits.clone()),
            endpoint: endpoint.clone(),
            worker: worker.clone(),
            handle,
            lingering: Limit::new(LINGER_MAX),
        }
    }

    pub(super) async fn run(&self, listener: Listener) -> io::Result<()> {
        let listener = TcpListener::from_std(listener.socket)?;
        let mut started = std::pin::pin!(self.worker.drain.started());
        let mut rest = Backoff::new(REST.0, REST.1);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut started => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    rest.reset();
                    self.admit(stream, peer);
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
        self.empty(listener)
    }

    /// Takes what the kernel has accepted already: closing the listener would reset those.
    fn empty(&self, listener: TcpListener) -> io::Result<()> {
        let listener = listener.into_std()?;
        while let Ok((stream, peer)) = listener.accept() {
            stream.set_nonblocking(true)?;
            self.admit(TcpStream::from_std(stream)?, peer);
        }
        Ok(())
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let _stage = self.worker.pulse.enter(Stage::Accept);
        let counts = self.endpoint.counts.clone();
        counts.accepted.inc();
        let Some(permit) = self.endpoint.limit.take() else {
            counts.refused.inc();
            return self.refuse(stream);
        };
        let held = Held::new(counts, permit, self.worker.drain.guard());
        let handle = Rc::clone(&self.handle);
        match &self.endpoint.tls {
            None => {
                let opened = self.worker.connections.open(&self.limits);
                let serving = handle(Stream::plain(stream, opened), peer);
                spawn_local(async move {
                    let _held = held;
                    serving.await;
                });
            }
            Some(tls) => self.encrypt(tls.clone(), stream, peer, held),
        }
    }

    fn encrypt(&self, tls: ServerTls, stream: TcpStream, peer: SocketAddr, held: Held) {
        let handle = Rc::clone(&self.handle);
        let pulse = self.worker.pulse.clone();
        let (connections, limits) = (self.worker.connections.clone(), Rc::clone(&self.limits));
        let within = self.endpoint.handshake.unwrap_or(Duration::MAX);
        spawn_local(async move {
            let accepting = pulse.during(Stage::Handshake, tls.accept(stream));
            let error = match tokio::time::timeout(within, accepting).await {
                Ok(Ok(stream)) => {
                    let opened = connections.open(&limits);
                    return handle(Stream::tls(stream, opened), peer).await;
                }
                Ok(Err(error)) => error,
                Err(_) => io::ErrorKind::TimedOut.into(),
            };
            held.counts.handshakes_failed.inc();
            tracing::debug!(%peer, %error, "TLS handshake failed");
        });
    }

    /// Says why, when there is something to say, and waits a moment for the client to read it: to
    /// close with bytes unread would reset the connection and lose the answer.
    fn refuse(&self, stream: TcpStream) {
        let refusal = self.endpoint.refusal;
        if refusal.is_empty() || self.endpoint.tls.is_some() {
            return;
        }
        let Some(permit) = self.lingering.take() else {
            return;
        };
        spawn_local(async move {
            let _permit = permit;
            let _ = tokio::time::timeout(LINGER, linger(stream, refusal)).await;
        });
    }
}

async fn linger(stream: TcpStream, refusal: &[u8]) -> io::Result<()> {
    stream.writable().await?;
    // Into an empty socket buffer a refusal fits whole.
    stream.try_write(refusal)?;
    socket2::SockRef::from(&stream).shutdown(Shutdown::Write)?;
    let mut sink = [0; 1024];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut sink) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
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
