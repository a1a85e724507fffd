//! A query of the embedded store on its way: worked on by a thread that it has a turn for, left
//! where it is while its client does not read, and gone on with by another thread.
//!
//! The one path: [`Execution::run`] makes pieces of the answer. While the client reads too slowly
//! for them the thread waits, for 100 ms at most; then turn and thread are given back, and what is
//! left of the query is parked until there is room for the next pieces.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use store::query::context::{Cancel, FlowControl};
use store::query::registry;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use super::parking::{Bounds, Parked, Parking};
use super::unsent::{UNREAD, Unsent};
use crate::embedded::{Arrival, Network, Turn, Turns};

/// How long a turn lasts before it may be due to another network's query.
const SLICE: Duration = Duration::from_millis(100);
/// How often is looked whether a query that waits was ended.
const LOOK: Duration = Duration::from_millis(100);
/// So little of a complete answer is not watched: the system takes it, read or not.
const SMALL_BYTES: usize = 16 << 10;

/// Holds a query up while its client does not read, or another's turn has come.
pub struct Gate {
    unsent: Arc<Unsent>,
    turns: Arc<Turns>,
    arrival: Arrival,
    /// When its turn began.
    since: Mutex<Instant>,
}

impl Gate {
    /// Of an answer and its place among the queries.
    pub fn new(unsent: Arc<Unsent>, turns: Arc<Turns>, arrival: Arrival) -> Arc<Self> {
        Arc::new(Self { unsent, turns, arrival, since: Mutex::new(Instant::now()) })
    }

    fn begin_turn(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_due_to_another(&self) -> bool {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.elapsed() >= SLICE && self.turns.is_due_to_another(self.arrival)
    }
}

impl FlowControl for Gate {
    fn may_send(&self) -> bool {
        self.unsent.has_room() && !self.is_due_to_another()
    }
}

/// A client whose answer is watched.
#[derive(Clone)]
pub struct Reader {
    /// What of its answer is not sent.
    pub unsent: Arc<Unsent>,
    /// Where it is put when it does not read.
    pub parking: Arc<Parking>,
    /// How much there may be.
    pub bounds: Bounds,
    /// The network that the client connects from.
    pub from: Network,
    /// Notified when the client's connection is to be closed.
    pub hang_up: Arc<Notify>,
}

impl Reader {
    /// Parks the answer of a client that does not read.
    pub fn park(&self, query_bytes: usize) -> super::parking::Spot {
        let parked = Parked {
            from: self.from,
            hang_up: Arc::clone(&self.hang_up),
            answer_bytes: self.unsent.held(),
            query_bytes,
        };
        self.parking.park(parked, self.bounds)
    }

    /// Watches an answer that is complete until all of it is sent.
    pub async fn watch(self) {
        while self.unsent.unread().await {
            let _spot = self.park(0);
            self.unsent.read().await;
        }
    }

    /// Watches an answer that a backend still makes, until all of it is sent.
    pub async fn watch_coming(self) {
        while !self.unsent.is_complete() {
            self.clone().watch().await;
            self.unsent.coming().await;
        }
        self.watch().await;
    }
}

/// A query under way.
pub struct Execution {
    /// Makes the answer; pending where the gate holds it up.
    pub query: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Holds the query up while its client does not read, or another's turn has come.
    pub gate: Arc<Gate>,
    /// Ends the query before its time.
    pub cancel: Cancel,
    /// Who waits for it.
    pub reader: Reader,
    /// Its place in the list of queries.
    pub place: Option<registry::QueryRegistration>,
    /// Keeps the answer from ending before it is known to be complete.
    pub pieces: mpsc::UnboundedSender<Bytes>,
    /// Where it waits, and finds its threads.
    pub control: Handle,
}

/// How far a query came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// The end of the query.
    End,
    /// What its client has not read.
    Unread,
    /// The end of its turn.
    TurnEnd,
}

impl Execution {
    /// Works on the query, for as long as its client reads and nobody else's turn has come. For a
    /// thread that may be held. A query that is to end needs no turn for that.
    pub fn run(mut self, turn: Option<Turn>) {
        self.gate.begin_turn();
        match self.work() {
            Reached::End => self.finish(turn),
            reached => {
                drop(turn);
                let control = self.control.clone();
                control.spawn(self.wait(reached));
            }
        }
    }

    fn work(&mut self) -> Reached {
        let mut context = Context::from_waker(Waker::noop());
        let unsent = &self.reader.unsent;
        loop {
            if self.query.as_mut().poll(&mut context).is_ready() {
                return Reached::End;
            }
            if unsent.has_room() {
                return Reached::TurnEnd;
            }
            let room = async { timeout(UNREAD, unsent.room()).await };
            if self.control.block_on(room).is_err() {
                return Reached::Unread;
            }
        }
    }

    fn finish(self, turn: Option<Turn>) {
        let Self { query, reader, place, pieces, control, .. } = self;
        drop((query, place, turn));
        reader.unsent.set_complete();
        drop(pieces);
        if reader.unsent.bytes() > SMALL_BYTES {
            control.spawn(reader.watch());
        }
    }

    /// Waits until there is something to do, and a turn for it.
    async fn wait(self, reached: Reached) {
        let spot = match reached {
            Reached::Unread => {
                self.cancel.set_parked(true);
                let held = usize::try_from(self.cancel.memory()).unwrap_or(usize::MAX);
                Some(self.reader.park(held))
            }
            Reached::TurnEnd | Reached::End => None,
        };
        let turn = async {
            if spot.is_some() {
                self.reader.unsent.room().await;
            }
            self.gate.turns.take(self.gate.arrival).await
        };
        let turn = tokio::select! {
            turn = turn => Some(turn),
            () = ended(&self.cancel) => None,
            // The client has gone, and all that was made of its answer.
            () = self.pieces.closed() => return,
        };
        self.cancel.set_parked(false);
        drop(spot);
        let control = self.control.clone();
        control.spawn_blocking(move || self.run(turn));
    }
}

/// Waits until a query is to end.
async fn ended(cancel: &Cancel) {
    while cancel.check().is_ok() {
        sleep(LOOK).await;
    }
}
