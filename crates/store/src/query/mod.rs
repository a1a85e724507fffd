//! InfluxQL, executed.
//!
//! The one path: [`answer`] takes the statements of a query text one after the other, each with a
//! snapshot; a `SELECT` goes to [`select::answer`], a `SHOW` to [`show::answer`], and their rows go
//! to an [`encode::Encoder`]. What changes something is given to the caller, who has the journal.
//! Behind each piece of its answer a query can be left where it is, and gone on with by another
//! thread.

// Layers, from the top down.
//   normalise, show
//   ddl, encode, registry, select
//   context, drive, fill
//   expr
//   functions
//   results, window
//   timezone

#[cfg(test)]
mod chance_tests;
pub mod context;
pub mod ddl;
#[cfg(test)]
mod deletion_tests;
mod drive;
pub mod encode;
pub mod expr;
pub mod fill;
pub mod functions;
#[cfg(test)]
mod held_up_tests;
mod normalise;
pub mod registry;
pub mod results;
pub mod select;
pub mod show;
pub mod timezone;
pub mod window;

use std::ops::ControlFlow;
use std::sync::Arc;

use wire::influxql::ast::Statement;

use crate::refusal::QueryError;
use crate::snapshot::Snapshot;
use crate::store::Store;
use context::Context;
use encode::{Encoder, Pieces};
use results::Message;

/// What is said of a statement behind one that failed.
pub const NOT_EXECUTED: &str = "not executed";

/// How the execution of a statement went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It has a result.
    Well,
    /// It has an error; what follows is not executed.
    Failed,
    /// Nobody wants its result any more.
    Unwanted,
}

/// What runs a statement that changes something; it returns once the change can be seen.
pub type Changing<'a> = &'a mut (dyn FnMut(&Statement) -> Result<(), QueryError> + Send);

/// As [`answer`], on this thread to its end.
pub fn run(
    store: &Arc<Store>,
    statements: &[Statement],
    context: &Context,
    encoder: &mut dyn Encoder,
    change: Changing<'_>,
) {
    drive::to_end(answer(store, statements, context, encoder, change));
}

/// Runs the statements of a query text in their order, up to the first error, and writes all
/// results. Those that read see one snapshot, up to the next one that changes something; these go
/// to `change`.
///
/// Polling it computes, and is for a thread that may be held. It is pending only where the
/// context's flow control says so, and wakes nobody.
pub async fn answer(
    store: &Arc<Store>,
    statements: &[Statement],
    context: &Context,
    encoder: &mut dyn Encoder,
    change: Changing<'_>,
) {
    let mut snapshot = None;
    for (id, statement) in statements.iter().enumerate() {
        let ran = if ddl::changes(statement) {
            snapshot = None;
            let outcome = change(statement);
            changed(id, statement, context, outcome, encoder)
        } else {
            let ran = read(store, &mut snapshot, id, statement, context, encoder).await;
            if matches!(statement, Statement::Select(select) if select.target.is_some()) {
                snapshot = None;
            }
            ran
        };
        match ran {
            Ran::Well => {}
            Ran::Failed => {
                for left in id + 1..statements.len() {
                    let outcome = Err(QueryError(NOT_EXECUTED.to_owned()));
                    if encoder.result(left, outcome, &[]).is_break() {
                        return;
                    }
                    context.room().await;
                }
                break;
            }
            Ran::Unwanted => return,
        }
        context.room().await;
    }
    let _ = encoder.finish();
}

/// Writes the result of a statement that changed something, or was refused.
pub fn changed(
    id: usize,
    statement: &Statement,
    context: &Context,
    outcome: Result<(), QueryError>,
    encoder: &mut dyn Encoder,
) -> Ran {
    let told = told(statement, context);
    let well = outcome.is_ok();
    ran(well, encoder.result(id, outcome, told.as_slice()))
}

/// How often a statement is run anew because it met damage that nobody knew of: each time at least
/// one file more is known.
const MET_MAX: u32 = 64;

/// Runs one statement that changes nothing (but for `INTO`) and writes its result; `id` is its
/// place in the query text.
///
/// One that meets a damaged file is run anew, unless some of its result has gone out: then what is
/// lost is known, and all that it gives is of one state of the files and says what is missing.
async fn read(
    store: &Arc<Store>,
    snapshot: &mut Option<Snapshot>,
    id: usize,
    statement: &Statement,
    context: &Context,
    encoder: &mut dyn Encoder,
) -> Ran {
    encoder.begin(id, pieces(statement));
    let mut tries = 0;
    loop {
        let met = store.archive().damage_met();
        let at = snapshot.get_or_insert_with(|| store.snapshot().noting(&context.notices));
        if told(statement, context).is_some() {
            let shown = normalise::normalised(statement, at, context);
            told(&shown, context).into_iter().for_each(|message| encoder.message(message));
        }
        let outcome = execute(at, statement, context, encoder).await;
        let (missing, is_late) = context.notices.take_statement();
        let is_damage = outcome.is_err() && store.archive().damage_met() != met;
        if is_damage && tries < MET_MAX && store.look_after_damage().is_ok() && encoder.restart() {
            *snapshot = None;
            tries += 1;
            continue;
        }
        if is_late {
            encoder.not_whole(&missing.join("; "));
        }
        for text in missing {
            encoder.message(Message { level: "warning", text });
        }
        if let (true, Err(error)) = (is_damage, &outcome) {
            encoder.not_whole(&error.0);
        }
        let well = outcome.is_ok();
        return ran(well, encoder.end(outcome));
    }
}

/// Notes what is known to be missing of the measurements that statements name, at whatever times:
/// for an answer whose head says it before its body is made.
pub fn foresee_missing(store: &Arc<Store>, statements: &[Statement], context: &Context) {
    let snapshot = store.snapshot().noting(&context.notices);
    for statement in statements {
        if let Statement::Select(select) = statement {
            select::note_missing(&snapshot, select, context);
        }
    }
}

async fn execute(
    snapshot: &Snapshot,
    statement: &Statement,
    context: &Context,
    encoder: &mut dyn Encoder,
) -> Result<(), QueryError> {
    context.check()?;
    match statement {
        Statement::Select(select) => {
            normalise::check_sources(select)?;
            select::answer(snapshot, select, context, encoder).await
        }
        Statement::Show(what) => show::answer(snapshot, what, context, encoder).await,
        Statement::KillQuery(id) => kill(context, *id),
        Statement::Explain { .. } => unserved("EXPLAIN", "query plans"),
        Statement::Unserved(what) => unserved(what, missing(what)),
        _ => unserved("a statement that changes something", "a way to run it here"),
    }
}

fn told(statement: &Statement, context: &Context) -> Option<Message> {
    if context.get { ddl::deprecated(statement) } else { None }
}

fn ran(well: bool, flow: ControlFlow<()>) -> Ran {
    match (flow, well) {
        (ControlFlow::Break(()), _) => Ran::Unwanted,
        (ControlFlow::Continue(()), true) => Ran::Well,
        (ControlFlow::Continue(()), false) => Ran::Failed,
    }
}

fn pieces(statement: &Statement) -> Pieces {
    match statement {
        Statement::Select(_) => Pieces::Cut,
        Statement::Show(what) => show::pieces(what),
        _ => Pieces::Whole,
    }
}

fn kill(context: &Context, id: u64) -> Result<(), QueryError> {
    match &context.registry {
        Some(registry) => registry.kill(id),
        None => Err(QueryError(format!("no such query id: {id}"))),
    }
}

/// What the store does not have that a statement is about.
fn missing(statement: &str) -> &'static str {
    let about = |word| statement.to_ascii_uppercase().contains(word);
    if about("CONTINUOUS") {
        "continuous queries; run SELECT ... INTO on a schedule"
    } else if about("SUBSCRIPTION") {
        "subscriptions; add an [[influx.backend]] to the configuration"
    } else if about("SHARD") {
        "shards; drop a retention policy, or DELETE"
    } else if ["USER", "PASSWORD", "GRANT", "REVOKE"].into_iter().any(about) {
        "users; they are [[influx.user]] in the configuration"
    } else {
        "anything like it"
    }
}

fn unserved(statement: &str, what: &str) -> Result<(), QueryError> {
    Err(QueryError(format!("{statement} is not supported: the embedded store has no {what}")))
}
