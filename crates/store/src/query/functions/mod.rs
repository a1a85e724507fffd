//! What the functions of InfluxQL do with points: aggregates and selectors over the points of a
//! window, transformations of one point after another, and arithmetic on single values.
//!
//! A call becomes a [`Call`], which checks its arguments. With the type of its argument that is
//! an [`Aggregate`], whose [`Accumulator`] takes the points of one group and window, a
//! [`Transform`], whose [`Stream`] takes those of one group, or an [`Integral`].

pub mod aggregate;
pub mod call;
mod choose;
mod collect;
pub mod column;
pub(crate) mod element;
pub mod integral;
mod pick;
mod reduce;
pub mod transform;

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;

pub use aggregate::{Accumulator, Aggregate, Kind, Point};
pub use call::{Call, Setting};
pub use column::Column;
pub use integral::Integral;
pub use transform::{Stream, Transform, TransformKind};

use crate::refusal::QueryError;
use crate::schema::FieldType;

/// InfluxDB's words for a function that has no such argument type, which name the type of its
/// iterator over the argument.
pub(crate) fn unsupported(function: &str, kind: FieldType) -> QueryError {
    let kind = kind.name();
    QueryError(format!("unsupported {function} iterator type: *query.{kind}InterruptIterator"))
}

/// An expression as text, for messages.
pub(crate) fn text(expr: &wire::influxql::ast::Expr) -> String {
    expr.to_string()
}
