//! The PostgreSQL gateway: one primary and any number of replicas behind one address, with the
//! statements of many clients in flight at once on a few server connections.
//!
//! It keeps no data, never runs a statement twice whose first run may hold, and never sends one to
//! a replica that was not proven to be a read.
//!
//! The one path: a client's task reads a statement, `plan` says what it is, and it goes out by a
//! lane (shared, many in flight), in a batch (writes of many in one transaction) or by a lease (a
//! server connection of the client's own for a while).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

// Where it is decided (files below this folder, or below `crates` where a crate is named first):
//   a statement gets its way: lane, batch or lease: session/way.rs
//   what is judged of a round need not be looked up again: pipeline/judgement.rs
//   a read is proven: plan/proof.rs, by the facts that plan/facts.sql asks for
//   a client's message on its lease goes out, waits or is refused: pipeline/lease/gate.rs; what an
//     answer has done: pipeline/lease/answer.rs; what becomes of a client that ends, is closed or
//     has notifications waiting: pipeline/lease/client.rs
//   a server is picked for a read: backends/view.rs: new enough; backends/choose.rs: the least
//     busy
//   a connection must be cleaned for its next client: plan/leaves.rs
//   who is the primary: backends/roles.rs
//   the answer of a commit that many share waits for a mark: commit/need.rs; commit/mark.rs says
//     what a mark proves; session/relay/commit.rs says which COMMIT need not wait
//   a client is let in: door.rs; auth/client.rs has the conversation
//   whom a cancel of PostgreSQL's reaches: shared.rs finds the client's worker, worker.rs its
//     lane or lease, server/cancel.rs tells the server

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   gateway: opens, binds, runs the workers, reloads and drains
//   session: a client from its first packet on, and the way of each of its rounds
//   batches: writes of many in one transaction
//   worker: what the clients of one worker share; opens leases and lanes
//   shared: what the gateway and its workers share
//   status: what `/status` shows
//   console: what operators ask and order
//   lanes: reads of many in flight on one connection
//   client: what a client's task and the lanes that answer it share
//   connection: a server connection that one client has for itself
//   slow: the log of slow statements
//   database: plans and counts of a database, on one worker
//   catalogue: the facts that plans are made by
//   notify, door, backends: who listens, who comes in, which servers there are
//   server: how a server is reached, logged in to and asked
//   migrate: another pooler's configuration as Weir's
//   auth: proving who somebody is
//   metrics: what is counted
//   pipeline: what a client's messages become on a connection that others use too
//   commit: when a commit that many share is told
//   plan: what a statement is and does
//   settings

pub mod auth;
pub mod backends;
mod batches;
mod catalogue;
mod client;
pub mod commit;
mod connection;
pub mod console;
mod database;
pub mod door;
mod gateway;
mod lanes;
mod metrics;
pub mod migrate;
mod notify;
mod pipeline;
pub mod plan;
pub mod server;
mod session;
pub mod settings;
mod shared;
mod slow;
pub mod status;
mod worker;

pub use gateway::Gateway;
pub use settings::Settings;
pub use shared::OpenError;
