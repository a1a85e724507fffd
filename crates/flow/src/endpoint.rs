//! Serving connections on one worker: those of [`tcp`](crate::tcp) and of [`unix`](crate::unix).

mod accept;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use watch::metrics::{Counter, Gauge, Registry};

use crate::limit::Limit;
use crate::progress::{Limits, Timeouts};
use crate::stream::Stream;
use crate::tls::ServerTls;
use crate::workers::Worker;
use crate::{tcp, unix};

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

    /// Takes clients only by TLS, with this certificate; `None` takes them in the clear.
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
        listener: tcp::Listener,
        worker: &Worker,
        handle: H,
    ) -> io::Result<()>
    where
        H: Fn(Stream, SocketAddr) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        let acceptor = accept::Acceptor::new(self, worker, Rc::new(handle));
        let (listener, _listed) = listener.into_parts();
        acceptor.run(tokio::net::TcpListener::from_std(listener)?).await
    }

    /// As [`serve`](Self::serve), on a Unix socket, where nothing is encrypted.
    ///
    /// # Errors
    /// The listener can not be used with this runtime.
    pub async fn serve_unix<H, F>(
        &self,
        listener: unix::Listener,
        worker: &Worker,
        handle: H,
    ) -> io::Result<()>
    where
        H: Fn(Stream) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        let plain = self.clone().with_tls(None);
        let handle = move |stream, _: accept::Peer| handle(stream);
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
