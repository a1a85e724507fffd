//! Many in, few out: workers, listeners, limits and drain, on which every front end stands.
//!
//! It never looks into the bytes of a protocol, and holds no policy of one: a front end says in
//! which [`progress::Phase`] a connection is, and what is too slow is closed here.
//!
//! The one path: [`tcp::bind`] opens a listener for each worker before any starts;
//! [`workers::Workers::start`] runs a thread per core; on each, [`tcp::Endpoint::serve`] accepts
//! connections and hands a [`stream::Stream`] to the front end's function, which lives and dies on
//! that worker; [`workers::Workers::drain`] stops accepting and lets what is under way finish.
//! Towards a server, requests of many clients share a [`lane`]; a reply goes from the lane's read
//! buffer to the client's [`outlet`].

pub mod backoff;
mod buffer;
pub mod clock;
pub mod drain;
pub mod health;
pub mod lane;
pub mod limit;
pub mod memory;
pub mod nofile;
pub mod outlet;
pub mod poll_set;
pub mod pool;
pub mod progress;
pub mod rate;
pub mod scratch;
pub mod stream;
pub mod tcp;
pub mod tls;
pub mod udp;
pub mod unix;
pub mod workers;

pub use workers::{Worker, Workers};
