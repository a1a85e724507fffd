//! Expressions: conditions on fields and arithmetic between them, over rows and over columns.

mod scalar;
mod vector;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow_array::ArrayRef;
use wire::influxql::ast::{Expr, Op};

use crate::go_regex;
use crate::math::Math;
use crate::refusal::QueryError;
use crate::value::Value;
pub use scalar::{cast, operate};
pub use vector::cast_array;

/// What `/` between two whole numbers is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// A float: among what is selected.
    Float,
    /// Cut to a whole number: in `WHERE`.
    Integer,
}

/// What an expression reads of a slot, for some rows.
#[derive(Clone, Debug)]
pub enum Input {
    /// Nothing: all rows are null.
    Null,
    /// The same for all rows, as a tag within one series.
    Scalar(Value),
    /// A value for each row.
    Array(ArrayRef),
}

/// An expression made ready to be evaluated many times.
#[derive(Clone, Debug)]
pub struct Compiled {
    root: Node,
    division: Division,
}

#[derive(Clone, Debug)]
enum Node {
    Slot(usize),
    Literal(Value),
    Math(Math, Vec<Node>),
    Binary(Op, Box<Node>, Box<Node>),
    /// `=~` (or not, if false) with its regular expression.
    Match(bool, Box<Node>, Arc<::regex::bytes::Regex>),
}

impl Compiled {
    /// An expression whose references, and whose calls but those of mathematical functions, are
    /// in slots that `slot` gives; what has none is null.
    ///
    /// # Errors
    /// When a regular expression is none.
    pub fn new(
        expr: &Expr,
        slot: &mut dyn FnMut(&Expr) -> Option<usize>,
        division: Division,
    ) -> Result<Self, QueryError> {
        Ok(Self { root: node(expr, slot)?, division })
    }

    /// The value over one row; `slots` holds those of its slots, and what is past its end is null.
    pub fn row(&self, slots: &[Value]) -> Value {
        scalar::eval(&self.root, slots, self.division)
    }

    /// The values over `len` rows.
    pub fn column(&self, slots: &[Input], len: usize) -> Input {
        vector::eval(&self.root, slots, len, self.division)
    }
}

fn node(expr: &Expr, slot: &mut dyn FnMut(&Expr) -> Option<usize>) -> Result<Node, QueryError> {
    Ok(match expr {
        Expr::Paren(inner) => node(inner, slot)?,
        Expr::Number(v) => Node::Literal(Value::Float(*v)),
        Expr::Integer(v) => Node::Literal(Value::Integer(*v)),
        Expr::Unsigned(v) => Node::Literal(Value::Unsigned(*v)),
        Expr::Boolean(v) => Node::Literal(Value::Boolean(*v)),
        Expr::String(v) => Node::Literal(Value::String(Arc::from(v.as_str()))),
        // Durations and times are compared with the time alone, which is not a part of this.
        Expr::Duration(_) | Expr::Time(_) | Expr::Wildcard(_) | Expr::Regex(_) => {
            Node::Literal(Value::Null)
        }
        Expr::Call { name, arguments } => match Math::named(name) {
            Some(math) => {
                let arguments = arguments.iter().map(|argument| node(argument, slot));
                Node::Math(math, arguments.collect::<Result<_, _>>()?)
            }
            None => slot(expr).map_or(Node::Literal(Value::Null), Node::Slot),
        },
        Expr::Reference { .. } | Expr::Distinct(_) => {
            slot(expr).map_or(Node::Literal(Value::Null), Node::Slot)
        }
        Expr::Binary { op, left, right } => match (op, &**right) {
            (Op::EqualRegex | Op::NotEqualRegex, Expr::Regex(pattern)) => {
                let left = Box::new(node(left, slot)?);
                Node::Match(*op == Op::EqualRegex, left, go_regex::compile(&pattern.0)?)
            }
            _ => Node::Binary(*op, Box::new(node(left, slot)?), Box::new(node(right, slot)?)),
        },
    })
}
