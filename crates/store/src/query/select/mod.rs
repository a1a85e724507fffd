//! `SELECT`: from the statement to rows.
//!
//! The one path: [`compile`] finds out whether the statement is sound and what its times and
//! windows are; [`prepare`] gives its names their types and expands `*`; [`plan`] turns calls
//! into steps; [`execute`] finds the series of each group ([`feeds`]), reads their chunks
//! ([`batch`]) into the windows of the functions ([`slots`]), as far as that is not spared
//! ([`spared`]), or merges them by time ([`merged`]), and makes rows of what comes out
//! ([`rows`]). A sub-query's rows are read like a series ([`inner`]). Points that other servers
//! bring in order pass through ([`streamed`]); of their partial results the rest of a statement is
//! worked out ([`partial`]).

// Layers, from the top down.
//   partial, streamed
//   calls, dimensions, emit, inner, into, reads
//   execute
//   rows, sequential, spared
//   merged, slots
//   batch, heap, points, timeline
//   feeds
//   plan
//   frame
//   prepare
//   compile, types
//   expressions

mod batch;
mod calls;
mod compile;
pub(super) mod dimensions;
mod emit;
mod execute;
mod expressions;
mod feeds;
mod frame;
mod heap;
mod inner;
mod into;
mod merged;
mod partial;
mod plan;
mod points;
mod prepare;
mod reads;
mod rows;
mod sequential;
mod slots;
mod spared;
mod streamed;
mod timeline;
mod types;

#[cfg(test)]
mod spared_tests;
#[cfg(test)]
mod tests;

use wire::influxql::ast::{MeasurementName, Select};

use super::context::Context;
use super::drive;
use super::results::Sink;
use crate::refusal::QueryError;
use crate::snapshot::Snapshot;
use emit::Emitter;
pub use feeds::Key as GroupKey;
use frame::Frame;
pub use partial::{PartialCall, PartialSelect};
pub use reads::{FieldNames, MeasurementRead, Reads};
pub use streamed::{PointSource, RawSelect};

/// Notes what is missing of the measurements that a `SELECT` reads, at whatever times.
pub(super) fn note_missing(snapshot: &Snapshot, select: &Select, context: &Context) {
    for measurement in compile::measurements(select) {
        let Ok((db, policy)) = prepare::place(measurement, context) else { continue };
        let Ok(view) = snapshot.policy(db, policy) else { continue };
        view.note_missing(|name| match &measurement.name {
            MeasurementName::Name(wanted) => wanted == name,
            // Rather too much than too little.
            MeasurementName::Regex(_) | MeasurementName::Same => true,
        });
    }
}

/// As [`answer`], on this thread to its end.
///
/// # Errors
/// As of [`answer`].
pub fn run(
    snapshot: &Snapshot,
    select: &Select,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    drive::to_end(answer(snapshot, select, context, sink))
}

/// Executes a `SELECT` on what a snapshot holds; its rows go to the sink as they come.
///
/// # Errors
/// What InfluxDB would answer, in its words; rows may have gone out before.
pub async fn answer(
    snapshot: &Snapshot,
    select: &Select,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    for measurement in compile::measurements(select) {
        let is_target = select.target.as_ref().is_some_and(|target| target == measurement);
        if !is_target && measurement.name == MeasurementName::Name(String::new()) {
            return Err(QueryError("invalid measurement".to_owned()));
        }
        let (db, _) = prepare::place(measurement, context)?;
        snapshot.policies(db).map_err(|error| QueryError(error.to_string()))?;
    }
    let compiled = compile::compile(select, context.now_ns)?;
    let prepared = prepare::prepare(snapshot, &compiled, context)?;
    let frame = Frame::outermost(&prepared, context)?;
    context.cancel.next_select();
    if let Some(zone) = &prepared.zone {
        sink.zone(zone.zone());
    }
    match &prepared.select.target {
        Some(target) => into::write(&frame, target, context, sink).await,
        None => {
            let mut emitter = Emitter::new(&frame, context, sink);
            execute::execute(&frame, context, &mut emitter).await
        }
    }
}
