//! What a gateway stands on whose requests ride lanes: it knows its protocol, its keys and what
//! may be asked again; everything else of a request's way is here.
//!
//! The one path: [`Fabric`] holds a worker's servers and clients. [`Fabric::serve`] reads what a
//! client sends and has the gateway's [`Dialogue`] cut requests off it; each is asked through its
//! [`Client`], which has an [`AnswerPlace`](crate::answers::AnswerPlace) for the answer and puts
//! the request on a lane, or on the client's lease; [`Ticket`] goes along with it and brings the
//! reply back. A request that finds no lane waits in its client, and with it all that the client
//! asks later.

mod again;
mod apart;
mod asking;
mod client;
mod events;
mod fabric;
mod holding;
mod joining;
mod lease;
mod pause;
mod request;
mod room;
mod sift;
mod talk;
mod ticket;
mod unread;

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};

pub use apart::Apart;
pub use client::{Client, ClientFigures};
pub use events::ClientEvent;
pub use fabric::{Fabric, Figures, LaneFigures};
pub use pause::Pause;
pub use request::{Affinity, Again, Effect, Judge, Request, Route};
pub use ticket::Ticket;

use crate::lane::Protocol;
use crate::lanes::ServerRecord;
use crate::memory::Memory;
use crate::pool::Budget;

/// A gateway's protocol and its servers, which are numbered from 0.
pub trait Service: Sized + 'static {
    /// A connection to a server.
    type Connection: AsyncRead + AsyncWrite + Unpin + 'static;
    /// Where its replies end.
    type Protocol: Protocol + 'static;
    /// What is known of the server at its end.
    type Record: ServerRecord + 'static;
    /// Why a server can not be reached.
    type Error: Clone + 'static;
    /// What comes of something that a client does [apart](Apart), for its dialogue.
    type Outcome: 'static;

    /// Opens a connection, up to where requests may be sent.
    fn connect(
        self: Rc<Self>,
        server: usize,
    ) -> impl Future<Output = Result<Self::Connection, Self::Error>> + 'static;

    /// Whether a server that could not be reached for this reason said so at once: then a
    /// request that comes a moment later tries again.
    fn is_told_at_once(&self, error: &Self::Error) -> bool {
        let _ = error;
        false
    }

    /// A new connection's protocol, and what is known of its server.
    fn known(&self, connection: &Self::Connection) -> (Self::Protocol, Self::Record);

    /// Whether two servers by their numbers are one, so that what is in flight at one is to be
    /// answered before the other is asked: else a client would not read its own writes.
    fn are_one(&self, server: usize, other: usize) -> bool {
        server == other
    }

    /// Whether a client that asks the one has written through the connections of the other, where
    /// these are one: then the end of any of them may be that of what it wrote.
    fn are_of_one(&self, server: usize, other: usize) -> bool {
        self.are_one(server, other)
    }

    /// What the connections to a server count towards, those of other servers by their numbers
    /// among them. Asked once for a server.
    fn budget(&self, server: usize) -> Option<Budget> {
        let _ = server;
        None
    }

    /// Whether there is a client that may ask a server: else it is the first to make room.
    fn is_wanted(&self, server: usize) -> bool {
        let _ = server;
        true
    }

    /// A server has ended a connection on which requests of several clients waited for it.
    fn lost(&self, server: usize) {
        let _ = server;
    }

    /// Whether a connection that idled is to be used still: its server may be another one by now.
    fn is_good(&self, connection: &Self::Connection) -> bool {
        let _ = connection;
        true
    }

    /// Since when a server is asked for nothing new: what is on its way there is answered, and what
    /// a client has there for itself ends after [`drain`](Settings::drain).
    fn left(&self, server: usize) -> Option<Instant> {
        let _ = server;
        None
    }

    /// Undoes what a lease may have left on a connection; false where that can not be known.
    fn restore(self: Rc<Self>, connection: &mut Self::Connection) -> impl Future<Output = bool>;

    /// What is to be asked in the place of a request whose reply begins with this line, its end
    /// included; `None`: the reply is the client's. Only of what is
    /// judged [by it](Judge::Service), and only so often.
    fn again(&self, request: &Request, line: &[u8]) -> Option<Again> {
        let _ = (request, line);
        None
    }

    /// What a client hears in the place of an error that begins with this line, its end included;
    /// `None`: the error itself. Asked of whatever begins with `-` and is not asked
    /// [again](Self::again).
    fn instead(&self, request: &Request, line: &[u8]) -> Option<Vec<u8>> {
        let _ = (request, line);
        None
    }

    /// Where a request is to go now whose server can not be reached, and to which nothing was sent;
    /// `None`: nowhere else.
    fn elsewhere(&self, request: &Request) -> Option<usize> {
        let _ = request;
        None
    }

    /// The first piece of the answer to a request has come.
    #[inline]
    fn begins(&self, request: &Request, bytes: &[u8]) {
        let _ = (request, bytes);
    }

    /// How many bytes an answer will have that begins so, where it says that. Asked of those that
    /// come in pieces; of more than `most` no more is read than its client takes.
    fn announces(&self, request: &Request, bytes: &[u8], most: u64) -> Option<u64> {
        let _ = (request, bytes, most);
        None
    }

    /// A server has answered a request, whole.
    #[inline]
    fn answered(&self, request: &Request, took: Took) {
        let _ = (request, took);
    }

    /// A number that changes whenever what is asked from now on may go to another server than what
    /// was asked before: a client's later requests then wait for the answers to its earlier ones,
    /// of which some may have to follow.
    fn placement(&self) -> u64 {
        0
    }

    /// What a client hears in the place of an answer.
    fn words(&self, why: &Unanswered<Self::Error>) -> Vec<u8>;
}

/// What an answer took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Took {
    /// From when the request came until its server had it to itself; `None` where that is no
    /// matter of the server's, as of what [waits for others](Route::OwnWaiting).
    pub queued: Option<Duration>,
    /// From then to the end of the answer.
    pub ran: Duration,
    /// Bytes of the answer.
    pub bytes: u64,
    /// It went by its client's own connection.
    pub is_leased: bool,
    /// It is the answer to an equal request of another client, with which this one was asked: the
    /// server has answered once.
    pub is_shared: bool,
    /// Its client's number on this worker.
    pub client: u64,
}

/// Why a request has no answer of its server's.
#[derive(Debug, Clone)]
pub enum Unanswered<E> {
    /// The server can not be reached. Nothing was sent.
    Unreachable {
        /// The number of the server.
        server: usize,
        /// Why no connection to it was opened.
        error: E,
    },
    /// Its connection broke. Nothing was sent, and is not sent again: a request before it may yet
    /// take effect.
    NotSent {
        /// The number of the server.
        server: usize,
    },
    /// It had no effect where it was sent, and what its client asked later has had one: asked
    /// again it would come too late.
    Overtaken {
        /// The number of the server.
        server: usize,
    },
    /// Its connection broke, and the server may have run it.
    MayHaveRun {
        /// The number of the server.
        server: usize,
    },
    /// The answer took too long.
    Late {
        /// The number of the server.
        server: usize,
        /// Whether the server may have run it.
        may_have_run: bool,
    },
    /// Other clients had all connections for themselves that there may be.
    NoLease {
        /// The number of the server.
        server: usize,
    },
    /// Its client, or an operator, has cancelled it.
    Cancelled,
    /// Its client is closed by an operator.
    Killed,
    /// Weir stops, and its client had long enough to come to an end.
    Draining,
    /// More of this client's answers wait than may.
    TooMuchWaits,
    /// A request is larger than may be.
    TooLarge,
    /// The parts of its answer are more than may wait for each other.
    PartsTooLarge,
    /// All clients together hold as much as they may.
    OutOfMemory,
    /// The connection that the client had for itself has ended.
    LeaseLost {
        /// The number of the server.
        server: usize,
    },
}

/// A gateway's side of one client: what it makes of the bytes that come.
pub trait Dialogue<S: Service>: 'static {
    /// The client is there, and has said nothing yet.
    fn begins(&mut self, client: &Rc<Client<S>>) {
        let _ = client;
    }

    /// Cuts one request off the front of `bytes` and asks it through `client`. Gives how many
    /// bytes it took; 0: more are wanted, or what it has done [apart](Client::apart) comes first.
    ///
    /// # Errors
    /// The client is closed once it has its answers and, behind them, these words.
    fn next(&mut self, bytes: &[u8], client: &Rc<Client<S>>) -> Result<usize, Vec<u8>>;

    /// Whether the client has to say who it is: it has as long for that as for the rest of a
    /// request.
    fn is_stranger(&self) -> bool {
        false
    }

    /// Something has become of what was asked: told before the next request is cut off.
    ///
    /// # Errors
    /// The client is closed with these words.
    fn hears(&mut self, event: ClientEvent<S>, client: &Rc<Client<S>>) -> Result<(), Vec<u8>> {
        let _ = (event, client);
        Ok(())
    }

    /// The connection to a server that the client had for itself has ended, and with it what was on
    /// it.
    ///
    /// # Errors
    /// The client is closed with these words.
    fn lease_lost(&mut self, server: usize, client: &Rc<Client<S>>) -> Result<(), Vec<u8>>;
}

/// How a fabric is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many lanes a server has, and how they are run.
    pub lanes: crate::lanes::Limits,
    /// How a lane is run.
    pub lane: crate::lane::Limits,
    /// After how long the lanes of a server end on which nothing was put; `None`: they stay.
    pub idle: Option<Duration>,
    /// How leased connections are kept.
    pub pool: crate::pool::Settings,
    /// Connections to one server that clients may have for themselves at a time: fewer than those
    /// of the pool, so that lanes find one.
    pub leases: usize,
    /// How long a request may take to be sent, and then to be answered, until its client is told
    /// that it is late.
    pub timeout: Duration,
    /// When Weir stops, or a server [leaves](Service::left): how long clients may take to come to
    /// an end.
    pub drain: Duration,
    /// Bytes of answers that wait for their turn, for one client.
    pub waiting: usize,
    /// Bytes of answers that a client has not taken, at which it is cut off.
    pub spill: usize,
    /// Bytes that a request may have, of those that are not streamed.
    pub request: usize,
    /// Bytes of requests and answers that all clients may hold together, little ones aside.
    pub memory: Memory,
}
