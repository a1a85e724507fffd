//! What one worker serves: pools, each at its addresses.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use flow::Worker;
use flow::drain::Drain;
use flow::endpoint::Endpoint;
use flow::front::Serving;
use flow::stream::Stream;
use tokio::task::JoinSet;

use super::listening::{At, OpenSocket, Socket};
use crate::pool::{Attending, Pool};
use crate::session::Session;

/// What changes for a worker.
pub(super) enum Change {
    /// It serves a pool at one more address.
    Opens {
        /// The pool that is served there.
        pool: Arc<Pool>,
        /// The address that the pool is served at.
        at: At,
        /// Its share of the socket.
        socket: Socket,
        /// Kept for as long as it has that.
        open: OpenSocket,
    },
    /// It serves a pool at an address no more. Clients that have come stay.
    Closes {
        /// The pool that was served there.
        pool: Arc<Pool>,
        /// The address that the pool was served at.
        at: At,
    },
    /// It serves a pool no more: its clients have their answers, and are closed.
    Leaves(Arc<Pool>),
}

/// What a worker serves.
pub(super) struct Served {
    worker: Worker,
    endpoint: Endpoint,
    pools: Vec<ServedPool>,
    /// What ends by itself: sockets until they are closed, and pools that have left.
    tasks: JoinSet<()>,
}

struct ServedPool {
    pool: Arc<Pool>,
    attending: Attending,
    /// What its clients and its sockets go by.
    drain: Drain,
    sockets: Vec<(At, Drain)>,
}

impl Served {
    /// A worker that serves no pool yet.
    pub(super) fn new(worker: Worker, endpoint: Endpoint) -> Self {
        Self { worker, endpoint, pools: Vec::new(), tasks: JoinSet::new() }
    }

    /// Does what has changed.
    pub(super) fn change(&mut self, change: Change) {
        while self.tasks.try_join_next().is_some() {}
        match change {
            Change::Opens { pool, at, socket, open } => self.open(&pool, at, socket, open),
            Change::Closes { pool, at } => {
                let Some(served) = self.pools.iter_mut().find(|of| of.is(&pool)) else { return };
                let closed = served.sockets.extract_if(.., |(of, _)| *of == at);
                closed.for_each(|(_, drain)| drain.trigger());
            }
            Change::Leaves(pool) => {
                let Some(place) = self.pools.iter().position(|of| of.is(&pool)) else { return };
                let ServedPool { pool, attending, drain, .. } = self.pools.swap_remove(place);
                let worker = self.worker.index;
                drain.trigger();
                self.tasks.spawn_local(async move {
                    drain.finished().await;
                    pool.leave(worker, attending).await.close();
                });
            }
        }
    }

    fn open(&mut self, pool: &Arc<Pool>, at: At, socket: Socket, open: OpenSocket) {
        let place = self.pools.iter().position(|of| of.is(pool));
        let place = place.unwrap_or_else(|| {
            self.pools.push(ServedPool {
                pool: Arc::clone(pool),
                attending: pool.attend(&self.worker),
                drain: self.worker.drain.part(),
                sockets: Vec::new(),
            });
            self.pools.len() - 1
        });
        let Some(served) = self.pools.get_mut(place) else { return };
        let (front, drain) = (Rc::clone(&served.attending.front), served.drain.clone());
        let serve = move |stream: Stream, from: Option<SocketAddr>| {
            let to = from.and_then(|_| stream.local_addr().ok());
            let session = Session::new(Rc::clone(&front), [from, to]);
            Rc::clone(&front.fabric).serve(stream, drain.clone(), session)
        };
        // It may be closed while its pool is served elsewhere still.
        let of_socket = served.drain.part();
        served.sockets.push((at, of_socket.clone()));
        let mut serving = Serving::new(&Worker { drain: of_socket, ..self.worker.clone() });
        match socket {
            Socket::Tcp(listener) => {
                let serve = move |stream, from| serve(stream, Some(from));
                serving.tcp(vec![listener], &self.endpoint, serve);
            }
            Socket::Unix(listener) => {
                serving.unix(vec![listener], &self.endpoint, move |stream| serve(stream, None));
            }
        }
        // Clients that the kernel has accepted already are let in before that.
        let guard = served.drain.guard();
        self.tasks.spawn_local(async move {
            serving.ended().await;
            drop((guard, open));
        });
    }

    /// Waits until no socket is open any more, which is when the worker drains. Clients may still
    /// be there.
    pub(super) async fn ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
        for ServedPool { pool, attending, .. } in self.pools {
            pool.leave(self.worker.index, attending).await;
        }
    }
}

impl ServedPool {
    fn is(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }
}
