//! The embedded time-series store: what the journal holds, in a form that can be queried.
//!
//! It has no log of its own: the journal is. It speaks no protocol but InfluxQL and opens no
//! socket.
//!
//! The one path: records of the journal are applied in their order ([`Store::apply_points`]) to
//! memtables; a flush writes these as Parquet files and switches the manifest to them by one
//! rename, together with the journal position they reach. A query takes a [`Snapshot`], scans
//! memtables and files as one ([`PolicyView::scan`]), and [`query`] makes series of it.
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

// Where it is decided (files below this folder, or below `crates` where a crate is named first):
//   points of the store become files: store/flush.rs; manifest.rs puts them in force
//   what of a damaged file is served, and said to be missing: file/lost.rs finds what is lost,
//     archive/repair.rs writes it down, query/mod.rs: read runs anew what met it
//   a type of a field is promised, and the promise is void: claims.rs;
//     influx/src/embedded/settling.rs says when

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   gathered
//   checker, query
//   store
//   snapshot
//   view
//   compaction, data, inspect
//   notices
//   archive
//   manifest
//   memtable, series_log
//   file
//   outline, tombstone
//   overreach
//   condition
//   claims, scan
//   catalogue, go_regex, math, partition, schema, series, settings
//   predicate, refusal, value

mod archive;
pub mod catalogue;
mod checker;
mod claims;
pub mod compaction;
pub mod condition;
mod data;
pub mod file;
mod gathered;
mod go_regex;
pub mod inspect;
pub mod manifest;
mod math;
mod memtable;
pub mod notices;
pub mod outline;
pub mod overreach;
mod partition;
pub mod predicate;
pub mod query;
mod refusal;
pub mod scan;
pub mod schema;
pub mod series;
pub mod series_log;
mod settings;
mod snapshot;
mod store;
pub mod tombstone;
pub mod value;
mod view;

pub use archive::{AcceptError, Archive, Missing, PolicyVersion, Version, accept};
pub use checker::{Basis, Checked, Checker, LOOKUPS_AT_ONCE_MAX, PromiseHold, Undecided};
pub use gathered::{Gathered, GatheredSeries, TooManySeriesError};
pub use refusal::QueryError;
pub use settings::{MEMORY_MIN, Settings, SettingsError};
pub use snapshot::{NameError, Snapshot};
pub use store::{Applied, FlushError, OpenError, Store, StoreSize};
pub use view::{PolicyView, Scan};

#[cfg(test)]
pub(crate) use store::testing;
