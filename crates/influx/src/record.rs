//! What the InfluxDB gateway writes into the journal: points, and statements that change
//! something.
//!
//! A record's header holds names by length, so that the points or the statement follow as they are
//! and are copied once. All integers are little endian.
//!
//! | kind | payload |
//! |---|---|
//! | 1, points | db length u16, db, policy length u16, policy, normalised line protocol |
//! | 2, statement | id u64, then db and policy as above, parameters length u32, parameters, text |
//! | 3, points | id of the database u64, id of the policy u64, then as 1; for the embedded store |

use store::catalogue::Ids;

/// The journal's record kind of points.
pub const KIND_POINTS: u8 = 1;
/// The journal's record kind of a statement.
pub const KIND_STATEMENT: u8 = 2;
/// The journal's record kind of points whose names were resolved by the embedded store, so that
/// they never come to be of a database made later under the same name.
pub const KIND_RESOLVED_POINTS: u8 = 3;

/// A name is longer than a record can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a database or policy name is at most 65535 bytes, parameters at most 4 GiB")]
pub struct NameTooLong;

/// A record in the journal that this version cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Written by a later version, or not by this gateway.
    #[error("journal record of unknown kind {0}; was it written by a later version?")]
    Kind(u8),
    /// Shorter than its own lengths say.
    #[error("journal record is shorter than its header says")]
    Short,
    /// A name or a statement is not UTF-8.
    #[error("journal record holds a name that is not UTF-8")]
    Text,
}

/// Points of one database and policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Points<'a> {
    /// The database that the points go to.
    pub db: &'a str,
    /// The retention policy; empty is the backend's default.
    pub rp: &'a str,
    /// What the names stood for in the embedded store, where there was one.
    pub ids: Option<Ids>,
    /// Normalised line protocol in nanoseconds, see `wire::line::normalise`.
    pub lines: &'a [u8],
}

/// A statement that runs on each backend at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement<'a> {
    /// Whom the result is for; see `Backends::statement`.
    pub id: u64,
    /// The `db` the client gave; may be empty.
    pub db: &'a str,
    /// The `rp` the client gave; may be empty.
    pub rp: &'a str,
    /// The JSON of bound parameters the client gave; may be empty.
    pub params: &'a str,
    /// InfluxQL, with `now()` already replaced by a literal.
    pub text: &'a str,
}

/// A record as the journal gives it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// Points to write to one database.
    Points(Points<'a>),
    /// A statement to run.
    Statement(Statement<'a>),
}

/// Appends the header of a record of points to `out`; the lines follow as the payload's next part.
/// Gives the record's kind.
///
/// # Errors
/// When a name does not fit; `out` is then unchanged.
pub fn put_points_header(
    out: &mut Vec<u8>,
    db: &str,
    rp: &str,
    ids: Option<Ids>,
) -> Result<u8, NameTooLong> {
    let (db_len, rp_len) = (short_len(db)?, short_len(rp)?);
    if let Some(Ids { db, policy }) = ids {
        out.extend_from_slice(&db.to_le_bytes());
        out.extend_from_slice(&policy.to_le_bytes());
    }
    put_name(out, db, db_len);
    put_name(out, rp, rp_len);
    Ok(if ids.is_some() { KIND_RESOLVED_POINTS } else { KIND_POINTS })
}

/// Appends the whole payload of a statement to `out`.
///
/// # Errors
/// When a name does not fit; `out` is then unchanged.
pub fn put_statement(out: &mut Vec<u8>, statement: &Statement<'_>) -> Result<(), NameTooLong> {
    let (db_len, rp_len) = (short_len(statement.db)?, short_len(statement.rp)?);
    let params_len = u32::try_from(statement.params.len()).map_err(|_| NameTooLong)?;
    out.extend_from_slice(&statement.id.to_le_bytes());
    put_name(out, statement.db, db_len);
    put_name(out, statement.rp, rp_len);
    out.extend_from_slice(&params_len.to_le_bytes());
    out.extend_from_slice(statement.params.as_bytes());
    out.extend_from_slice(statement.text.as_bytes());
    Ok(())
}

fn short_len(name: &str) -> Result<u16, NameTooLong> {
    u16::try_from(name.len()).map_err(|_| NameTooLong)
}

fn put_name(out: &mut Vec<u8>, name: &str, len: u16) {
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(name.as_bytes());
}

impl<'a> Record<'a> {
    /// Reads a record; the result borrows from `payload`.
    ///
    /// # Errors
    /// When the bytes are not what [`put_points_header`] or [`put_statement`] wrote.
    pub fn read(kind: u8, payload: &'a [u8]) -> Result<Self, RecordError> {
        let mut rest = payload;
        match kind {
            KIND_POINTS | KIND_RESOLVED_POINTS => {
                let ids = if kind == KIND_POINTS {
                    None
                } else {
                    let db = u64::from_le_bytes(*take_array(&mut rest)?);
                    Some(Ids { db, policy: u64::from_le_bytes(*take_array(&mut rest)?) })
                };
                let db = name(&mut rest)?;
                let rp = name(&mut rest)?;
                Ok(Self::Points(Points { db, rp, ids, lines: rest }))
            }
            KIND_STATEMENT => {
                let id = u64::from_le_bytes(*take_array(&mut rest)?);
                let db = name(&mut rest)?;
                let rp = name(&mut rest)?;
                let params_len = u32::from_le_bytes(*take_array(&mut rest)?);
                let params = text(take(&mut rest, usize::try_from(params_len).ok())?)?;
                let text = text(rest)?;
                Ok(Self::Statement(Statement { id, db, rp, params, text }))
            }
            other => Err(RecordError::Kind(other)),
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], len: Option<usize>) -> Result<&'a [u8], RecordError> {
    let (head, tail) = len.and_then(|len| rest.split_at_checked(len)).ok_or(RecordError::Short)?;
    *rest = tail;
    Ok(head)
}

fn take_array<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], RecordError> {
    let (head, tail) = rest.split_first_chunk().ok_or(RecordError::Short)?;
    *rest = tail;
    Ok(head)
}

fn name<'a>(rest: &mut &'a [u8]) -> Result<&'a str, RecordError> {
    let len = u16::from_le_bytes(*take_array(rest)?);
    text(take(rest, Some(usize::from(len)))?)
}

fn text(bytes: &[u8]) -> Result<&str, RecordError> {
    std::str::from_utf8(bytes).map_err(|_| RecordError::Text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn reads_what_was_put(db in ".{0,20}", rp in ".{0,20}", params in ".{0,9}",
                              text in ".{0,40}", id in any::<u64>()) {
            let statement = Statement { id, db: &db, rp: &rp, params: &params, text: &text };
            let mut payload = Vec::new();
            put_statement(&mut payload, &statement).unwrap();
            let read = Record::read(KIND_STATEMENT, &payload).unwrap();
            assert_eq!(read, Record::Statement(statement));

            for ids in [None, Some(Ids { db: id, policy: 7 })] {
                payload.clear();
                let kind = put_points_header(&mut payload, &db, &rp, ids).unwrap();
                payload.extend_from_slice(text.as_bytes());
                let read = Record::read(kind, &payload).unwrap();
                let lines = text.as_bytes();
                assert_eq!(read, Record::Points(Points { db: &db, rp: &rp, ids, lines }));
            }
        }

        #[test]
        fn no_bytes_panic(kind in 0_u8..5, payload in vec(any::<u8>(), 0..64)) {
            let _ = Record::read(kind, &payload);
        }
    }

    #[test]
    fn a_name_that_does_not_fit_leaves_nothing_behind() {
        let mut out = Vec::new();
        let long = "x".repeat(65_536);
        assert_eq!(put_points_header(&mut out, "db", &long, None), Err(NameTooLong));
        assert!(out.is_empty());
    }
}
