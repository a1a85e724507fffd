//! A table as it goes to a client.

use watch::table::{Kind, Table, Value};
use wire::postgres::backend::{
    INT8_OID, Status, TEXT_OID, put_command_complete, put_data_row, put_ready_for_query,
    put_row_description,
};

/// OID of the type `numeric`, which PgBouncer gives its statistics.
const NUMERIC_OID: u32 = 1700;

/// Appends the whole answer to a `SHOW`.
pub(super) fn encode(table: &Table, out: &mut Vec<u8>) {
    let oid = |kind: Kind| match kind {
        Kind::Text => TEXT_OID,
        Kind::Int => INT8_OID,
        Kind::Numeric => NUMERIC_OID,
    };
    let columns = table.columns().iter().map(|(name, kind)| (*name, oid(*kind)));
    put_row_description(out, &columns.collect::<Vec<_>>());
    for row in table.rows() {
        let cells: Vec<Option<String>> = row.iter().map(Value::text).collect();
        put_data_row(out, cells.iter().map(|cell| cell.as_deref().map(str::as_bytes)));
    }
    put_command_complete(out, "SHOW");
    put_ready_for_query(out, Status::Idle);
}
