//! Regular expressions of queries.

use std::sync::Arc;

use ::regex::bytes::Regex;

use super::results::QueryError;

/// Compiles an expression in Go's syntax.
///
/// # Errors
/// When it is none.
pub fn compile(pattern: &str) -> Result<Arc<Regex>, QueryError> {
    Regex::new(pattern).map(Arc::new).map_err(|error| QueryError(error.to_string()))
}
