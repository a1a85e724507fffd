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

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   front: what a process serves, as a whole
//   endpoint, udp: what is served, with what comes from each peer
//   workers, unix, tcp: where it is served
//   service: the whole way of a request that rides a lane
//   answers, lanes: a client's answers in order, and the lanes that are alike
//   pool, lane, outlet, poll_set: connections of many, and to one
//   dial: how one is reached
//   health, stream, progress, tls
//   buffer, scratch, drain, limit, logins, rate, backoff, clock, memory, nofile

pub mod answers;
pub mod backoff;
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
