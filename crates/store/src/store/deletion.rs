//! `DELETE`, `DROP SERIES` and `DROP MEASUREMENT`.

use wire::influxql::ast::Statement;

use super::Store;
use crate::query::results::QueryError;

impl Store {
    pub(super) fn delete(
        &self,
        _end: u64,
        _statement: &Statement,
        _db: &str,
        _now_ns: i64,
    ) -> Result<(), QueryError> {
        Err(QueryError("the statement is not served".to_owned()))
    }
}
