//! The InfluxDB gateway: takes writes as InfluxDB 1.x does, acknowledges them from the journal, and
//! delivers them to any number of backends, each at its own pace.
//!
//! It keeps no points but in the journal, never sends a client's credentials to a backend, and
//! never lets one backend wait for another.
//!
//! The one path: [`Gateway`] serves a worker's connections (`front`), a write is admitted as a
//! [`record`] of the journal (`admission`) and answered once that is acknowledged; a task for each
//! backend (`delivery`) reads the journal at its own cursor, sends batches and judges the answers;
//! the [`catalogue`] is what all of them know of databases and retention policies.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

// Where it is decided (files below this folder, or below `crates` where a crate is named first):
//   a write is taken or refused: front/write.rs checks the request, admission/worker.rs its
//     points, journal/src/log/gate.rs says whether there is room; front/refusals.rs has the 503
//   names that nobody knows are made: admission/names.rs
//   a backend's answer is understood: client/answer.rs
//   a point becomes a dead letter: delivery/halving.rs finds it, delivery/settle.rs gives it up
//   a reload begins and ends deliveries: backends/list.rs finds which, delivery_tasks.rs does it
//   a user may read or write a database: front/auth.rs
//   a point overwrites another one: collisions/window.rs; collisions/share.rs says at how many of
//     them it is looked
//   a point lies in a set of a cluster: placement/table.rs; delivery/intake.rs takes a member's own
//   a member has the cluster's table: placement/agreement.rs; placement/tools/plan.rs puts it there
//   a query can have points in a set: placement/reach.rs; front/routing.rs asks those sets
//   a query finds a backend: backends/mod.rs; the store's is answered by front/ask.rs

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   cluster
//   front
//   admission, assembly
//   delivery_tasks
//   embedded
//   delivery
//   backends
//   collisions
//   placement
//   catalogue, client, record, settings, via
//   aside, clock, migrate

mod admission;
mod aside;
mod assembly;
mod backends;
mod catalogue;
mod client;
mod clock;
pub mod cluster;
mod collisions;
pub mod delivery;
mod delivery_tasks;
mod embedded;
mod front;
pub mod migrate;
mod placement;
mod record;
pub mod settings;
mod via;

pub use front::{Gateway, OpenError, STAGES};
pub use settings::Settings;
