//! A worker's share of a front's sockets while it is served.

use std::io;
use std::net::SocketAddr;

use tokio::task::JoinSet;

use crate::endpoint::Endpoint;
use crate::stream::Stream;
use crate::workers::Worker;
use crate::{tcp, udp, unix};

/// Listeners that are served on this worker, each by a task of its own, until the worker drains.
pub struct Serving {
    worker: Worker,
    tasks: JoinSet<()>,
}

impl Serving {
    /// Serves on this worker; it accepts nobody before the first call of another method.
    pub fn new(worker: &Worker) -> Self {
        Self { worker: worker.clone(), tasks: JoinSet::new() }
    }

    /// Serves TCP clients: `handle` runs on each as a local task.
    pub fn tcp<H, F>(&mut self, listeners: Vec<tcp::Listener>, endpoint: &Endpoint, handle: H)
    where
        H: Fn(Stream, SocketAddr) -> F + Clone + 'static,
        F: Future<Output = ()> + 'static,
    {
        for listener in listeners {
            let (endpoint, worker, handle) =
                (endpoint.clone(), self.worker.clone(), handle.clone());
            self.serve(async move { endpoint.serve(listener, &worker, handle).await });
        }
    }

    /// Serves clients of Unix sockets, where nothing is encrypted.
    pub fn unix<H, F>(&mut self, listeners: Vec<unix::Listener>, endpoint: &Endpoint, handle: H)
    where
        H: Fn(Stream) -> F + Clone + 'static,
        F: Future<Output = ()> + 'static,
    {
        for listener in listeners {
            let (endpoint, worker, handle) =
                (endpoint.clone(), self.worker.clone(), handle.clone());
            self.serve(async move { endpoint.serve_unix(listener, &worker, handle).await });
        }
    }

    /// Takes the datagrams of a socket.
    pub fn udp(
        &mut self,
        socket: udp::Socket,
        endpoint: &udp::Endpoint,
        mut receive: impl udp::Receive + 'static,
    ) {
        let (endpoint, worker) = (endpoint.clone(), self.worker.clone());
        self.serve(async move { endpoint.serve(socket, &worker, &mut receive).await });
    }

    fn serve(&mut self, serve: impl Future<Output = io::Result<()>> + 'static) {
        let worker = self.worker.index;
        self.tasks.spawn_local(async move {
            if let Err(error) = serve.await {
                tracing::error!(%error, worker, "a listener cannot be served");
            }
        });
    }

    /// Waits until none is served any more, which is when the worker drains. Connections that were
    /// taken may still be open.
    pub async fn ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}
