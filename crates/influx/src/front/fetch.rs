//! Queries that run here, over the points of several sets: these are read from a member of each,
//! and the store's executor answers the query as if they were its own.
//!
//! The one path: [`FetchPlan::of`] says what each member is asked, the members' answers come as
//! documents ([`documents`]), [`gather`] makes a snapshot of them, and [`Fetch::run`] has the
//! executor write the answer. Where the aggregates of a query can be made of partial results
//! ([`partials`]), members are asked for these, and the executor works on what they come to
//! ([`merging`]). Where rows are points as they are, and there are many, members are
//! asked once more, and the points pass through in their order ([`stream`]).

// Layers, from the top down; `self` is what this file defines.
//   self
//   stream
//   gather
//   merging
//   schema
//   documents, held, plan
//   partials
//   restriction

mod documents;
mod gather;
mod held;
mod merging;
mod partials;
mod plan;
mod restriction;
mod schema;
mod stream;
#[cfg(test)]
mod tests;

use store::QueryError;
use store::query::context::Context;
use store::query::encode::{Encoder, Pieces};
use store::query::select::{self, RawSelect};
use wire::influxql::ast::Select;

pub use self::documents::Documents;
pub use self::gather::{FetchOutcome, GatheredPoints, gather};
pub use self::plan::{FetchPlan, Streaming};
pub use self::stream::MemberPoints;

/// A query whose answer can be made.
pub enum Fetch {
    /// Its points are all here.
    Held(Box<Select>, GatheredPoints),
    /// Its points pass through.
    Streamed(Box<RawSelect>, Vec<MemberPoints>),
    /// It has no answer.
    Failed(QueryError),
}

impl Fetch {
    /// Writes the result of the statement at a place. For a thread that may be held; pending only
    /// where the context's flow control says so.
    pub async fn run(self, statement: usize, context: &Context, encoder: &mut dyn Encoder) {
        encoder.begin(statement, Pieces::Cut);
        let outcome = match self {
            Self::Held(select, points) => {
                select::answer(points.snapshot(), &select, context, encoder).await
            }
            Self::Streamed(raw, members) => raw.answer(members, context, encoder).await,
            Self::Failed(error) => Err(error),
        };
        let _ = encoder.end(outcome);
    }
}
