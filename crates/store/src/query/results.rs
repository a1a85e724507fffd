//! What a statement answers, before it is JSON or CSV.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::value::Value;

/// A table of the answer: all rows of one series, or as many of them as a chunk holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The measurement; empty where there is none.
    pub name: String,
    /// The tags grouped by.
    pub tags: Vec<(String, String)>,
    /// The names of the columns, in their order.
    pub columns: Arc<[String]>,
    /// The rows, each as long as `columns`.
    pub values: Vec<Vec<Value>>,
    /// Whether the next `Rows` go on with the same series.
    pub partial: bool,
}

/// A message beside a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Either `warning` or `info`.
    pub level: &'static str,
    /// The text that the client reads.
    pub text: String,
}

/// Where the results of one statement go, as they come. `Break` is the end: the client has gone,
/// or a limit is reached.
pub trait Sink: Send {
    /// Takes rows of one series.
    fn rows(&mut self, rows: Rows) -> ControlFlow<()>;
    /// Takes a message, before the first rows.
    fn message(&mut self, message: Message);
    /// Takes the zone that times are shown in (`tz()`), before the first rows.
    fn zone(&mut self, _zone: &jiff::tz::TimeZone) {}
}
