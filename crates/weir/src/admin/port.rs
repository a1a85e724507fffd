//! The admin port's socket: its connections, and how long each may last.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flow::tls::ServerTls;
use http_body_util::Either;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};

use super::access::Access;
use super::answers::{Sources, answer};
use crate::config::admin::Settings;
use crate::exit::Failure;

/// Connections served at once; what comes beyond waits in the kernel's queue.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// The head of a request, in bytes.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a client may take to send the head of a request, an idle connection included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection is closed after this long whatever it does: the longest profile and some.
const CONNECTION_LIFE_MAX: Duration = Duration::from_secs(600);
/// What the kernel keeps of answers for a client that does not read: some frames of a stream.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// How long to wait after an error of accept(2), as when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The port, bound and not served yet.
pub struct Port {
    listener: TcpListener,
    tls: Option<ServerTls>,
    access: Access,
}

impl Port {
    /// Binds it where the configuration has one.
    ///
    /// # Errors
    /// The address can't be had; a certificate or a secret can't be read.
    pub async fn bind(settings: &Settings) -> Result<Option<Self>, Failure> {
        let Some(address) = settings.address().map_err(Failure::other)? else {
            return Ok(None);
        };
        let tls = settings.tls.as_ref().map(|tls| ServerTls::new(tls, &["http/1.1"])).transpose();
        let tls = tls.map_err(|error| Failure::other(format!("admin.tls: {error}")))?;
        let access = Access::new(settings, address).map_err(Failure::other)?;
        let bound = TcpListener::bind(address).await;
        let listener = bound.map_err(|error| unbound(address, &error))?;
        let address = listener.local_addr().map_err(|error| unbound(address, &error))?;
        tracing::info!(%address, tls = tls.is_some(), "the admin port answers");
        Ok(Some(Self { listener, tls, access }))
    }

    /// The address that it listens on.
    #[cfg(test)]
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// Its certificate, which a reload reads anew.
    pub fn tls(&self) -> Option<ServerTls> {
        self.tls.clone()
    }

    /// Answers for ever; dropping the future ends every connection.
    pub async fn serve(self, sources: Arc<Sources>) {
        let Self { listener, tls, access } = self;
        let access = Arc::new(access);
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // Where the system refuses, a slow viewer sees older seconds.
                    let _ = set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
                    let (sources, access) = (Arc::clone(&sources), Arc::clone(&access));
                    let tls = tls.clone();
                    connections.spawn(async move {
                        accepted(stream, peer, tls.as_ref(), &access, &sources).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the admin port can't accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }
}

fn unbound(address: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::other(format!(
        "admin.listen = \"{address}\" can't be had: {error}; is another Weir running? `ss -ltnp` \
         shows who has it"
    ))
}

async fn accepted(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<&ServerTls>,
    access: &Access,
    sources: &Sources,
) {
    let Some(tls) = tls else {
        return connection(stream, peer.ip(), access, sources).await;
    };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.shake(stream)).await {
        Ok(Ok((stream, _))) => connection(stream, peer.ip(), access, sources).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "the admin port's TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, "the admin port's TLS handshake took too long"),
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: IpAddr,
    access: &Access,
    sources: &Sources,
) {
    let viewing = Viewing::default();
    let service = service_fn(async |request| {
        let answer = answer(&request, peer, access, sources).await;
        if let Either::Right(viewer) = answer.body() {
            viewing.begin(viewer.stuck());
        }
        Ok::<_, Infallible>(answer)
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = served => if let Err(error) = ended {
            tracing::debug!(%error, "an admin connection ended early");
        },
        () = viewing.over(CONNECTION_LIFE_MAX) => {
            tracing::debug!("an admin connection was open for too long");
        }
    }
}

/// Whether a connection has a stream, which has no end of its own.
#[derive(Default)]
struct Viewing {
    begun: Notify,
    stuck: Mutex<Option<Arc<Notify>>>,
}

impl Viewing {
    /// A stream begins, whose viewer is told to go in this way.
    fn begin(&self, stuck: Arc<Notify>) {
        *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) = Some(stuck);
        self.begun.notify_one();
    }

    /// Waits until the connection has to be closed: after its life, or where there is a stream once
    /// the viewer takes nothing of it.
    async fn over(&self, life: Duration) {
        if tokio::time::timeout(life, self.begun.notified()).await.is_err() {
            return;
        }
        let stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner).take();
        match stuck {
            Some(stuck) => stuck.notified().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_stream_outlives_its_connections_time_and_ends_once_it_is_stuck() {
        let viewing = Viewing::default();
        viewing.over(LIFE).await;
        let stuck = Arc::new(Notify::new());
        viewing.begin(Arc::clone(&stuck));
        let mut over = std::pin::pin!(viewing.over(LIFE));
        assert!(tokio::time::timeout(10 * LIFE, &mut over).await.is_err(), "the stream was ended");
        stuck.notify_one();
        tokio::time::timeout(Duration::from_secs(60), over).await.unwrap();
    }
}
