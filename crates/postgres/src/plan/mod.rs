//! What a statement is, before it is sent anywhere: a proven read, transaction control, a change of
//! the session, or what goes to the primary on a server connection of the client's own.
//!
//! It never calls anything a read that it cannot prove to be one from its tokens and from the
//! catalogue's facts; it never asks a server, and never parses more than it must.
//!
//! The one path: [`Planner::plan`] looks the text's normal form up among the plans it has; on a
//! miss the statement is cut into tokens, its first words say what kind it is, and what begins as a
//! query does has to pass `proof`, where each token needs a reason to be harmless.

mod block;
mod contains;
mod effects;
mod facts;
mod frame;
mod keyword;
mod kind;
mod leaves;
mod modes;
mod moment;
mod names;
mod planner;
mod point;
mod proof;
mod query;
mod reason;
mod schema_change;
mod sequences;
mod session;
mod setting;
mod statement;
mod study;
mod traps;
mod words;

#[cfg(test)]
pub(crate) mod tests;

pub use contains::Contains;
pub use effects::Effects;
pub use facts::{Facts, FactsError, Resting};
pub use kind::{BeginForm, Deallocate, Discard, Isolation, Kind, Pin, Unsettles};
pub use leaves::Leaves;
pub use moment::{names_moment, reads_moment};
pub use planner::{Plan, Planner, Scope};
pub use reason::Reason;
pub use sequences::{Asks, Sequences, is_literal};
pub use setting::{SettingChange, pins};
pub use study::Studied;
pub use wire::sql::Directive;
