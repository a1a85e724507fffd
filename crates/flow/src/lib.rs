//! Many in, few out: workers, listeners, limits and drain, on which every front end stands.
//!
//! It never looks into the bytes of a protocol, and holds no policy of one: a front end says in
//! which [`progress::Phase`] a connection is, and what is too slow is closed here.
//!
//! The one path: [`front::Fronts`] binds all sockets of all front ends, then runs a thread per
//! core ([`workers`]); on each, [`front::Serving`] accepts connections and hands a
//! [`stream::Stream`] to the front end's function, which lives and dies on that worker; at the end
//! it stops accepting and lets what is under way finish. A server is reached by [`dial`]. Requests
//! of many clients share a [`lane`] to it; a reply goes from the lane's read buffer to the client's
//! [`outlet`]. A gateway that needs no more than that stands on [`service`].
#![warn(missing_docs)]

// Where it is decided (files below this folder, or below `crates` where a crate is named first):
//   a lane is picked: lanes/group.rs: Group::pick; postgres/src/lanes/group.rs says which lanes
//     are alike
//   a request's connection broke before its answer: answers/line.rs: Line::orphaned;
//     postgres/src/lanes/ticket.rs and service/client.rs act
//   an answer changes something for its gateway: answers/noted.rs keeps the order,
//     service/events.rs tells of it
//   with a read that is asked again, all that its client sent behind it is asked again:
//     answers/line.rs: Line::take_back; postgres/src/session/ride.rs asks
//   a server cannot be reached, and why: dial/error.rs
//   a lane is opened, and ends: lanes/opening.rs; lanes/upkeep.rs says which lanes finish, and
//     who makes room
//   equal requests are asked once: lane/state.rs: Lane::push_or_join; service/joining.rs says
//     whose may join, redis/src/session/replicas.rs which
//   how long others wait behind a large reply: lane/patience.rs
//   a Redis command is asked again by its reply: service/ticket.rs; for scripts
//     redis/src/scripts.rs
//   a request is given up rather than asked again, because a later one has overtaken it:
//     service/again.rs
//   requests are held back by a `PAUSE`, or refused because they take too much memory:
//     service/pause.rs, service/holding.rs
//   a commit shares a mark with others, and what a mark covers: barrier/state.rs
//   a login is slowed: logins/slowing.rs; redis/src/session/login.rs and
//     postgres/src/shared/logins.rs act on it
//   a client's next requests wait while its earlier ones move to another server:
//     service/client.rs: is_fenced
//   a front end is added: it implements Front in front.rs; weir/src/serve/fronts.rs lists them,
//     weir/src/config.rs has a section for each; flow/tests/toy/ is a small one
//   a server is taken for silent, or an address for Weir's own: dial/silence.rs; dial/own.rs, and
//     weir/src/config/validate/own.rs for the file

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   front: what a process serves, as a whole
//   endpoint, udp: what is served, with what comes from each peer
//   workers, unix, tcp: where it is served
//   service: the whole way of a request that rides a lane
//   answers, lanes: a client's answers in order, and the lanes that are alike
//   pool, lane, barrier, outlet, poll_set: connections of many, to one, and what waits for others
//   dial: how one is reached
//   health, stream, progress, tls
//   buffer, scratch, drain, limit, logins, rate, backoff, clock, memory, nofile

pub mod answers;
pub mod backoff;
pub mod barrier;
mod buffer;
pub mod clock;
pub mod dial;
pub mod drain;
pub mod endpoint;
pub mod front;
pub mod health;
pub mod lane;
pub mod lanes;
pub mod limit;
pub mod logins;
pub mod memory;
pub mod nofile;
pub mod outlet;
pub mod poll_set;
pub mod pool;
pub mod progress;
pub mod rate;
pub mod scratch;
pub mod service;
pub mod stream;
pub mod tcp;
pub mod tls;
pub mod udp;
pub mod unix;
pub mod workers;

pub use workers::{Worker, Workers};
