//! Answers of `/query` as JSON.

use serde::Deserialize;
use serde_json::{Map, Value};

/// An answer, or one piece of it.
#[derive(Debug, Default, Deserialize)]
pub struct Answer {
    /// One for each statement.
    #[serde(default)]
    pub results: Vec<Statement>,
    /// Why nothing was run.
    pub error: Option<String>,
}

/// What one statement gave.
#[derive(Debug, Default, Deserialize)]
pub struct Statement {
    /// Its place in the query, from 0.
    #[serde(default)]
    pub statement_id: u64,
    /// The tables of its result.
    #[serde(default)]
    pub series: Vec<Series>,
    /// Warnings that came with it.
    #[serde(default)]
    pub messages: Vec<Message>,
    /// Why the statement failed.
    pub error: Option<String>,
}

/// A message beside a result.
#[derive(Debug, Deserialize)]
pub struct Message {
    /// How serious: `warning` or `info`.
    #[serde(default)]
    pub level: String,
    /// The message in words.
    pub text: String,
}

/// A table of a result.
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
pub struct Series {
    /// The measurement, as a rule.
    #[serde(default)]
    pub name: String,
    /// What it was grouped by.
    #[serde(default)]
    pub tags: Map<String, Value>,
    /// Names of the columns.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    #[serde(default)]
    pub values: Vec<Vec<Value>>,
    /// Whether more rows of it follow in the next piece.
    #[serde(default)]
    pub partial: bool,
}

impl Answer {
    /// The first error anywhere in it.
    pub fn error(&self) -> Option<&str> {
        let failed = self.results.iter().find_map(|result| result.error.as_deref());
        self.error.as_deref().or(failed)
    }
}
