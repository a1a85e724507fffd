//! Rows of the ledger's table.

use wire::postgres::backend::{Fields, Row as DataRow, tag};
use wire::postgres::frame;
use wire::postgres::frontend::put_query;

use super::{Fault, Findings, StoredWrite, VerifyError};
use crate::engine::Conversation;
use crate::ledger::{Book, Fate};
use crate::postgres::LedgerRows;
use crate::recorder::Kind;
use crate::workload::{Answer, Malformed, Reader};

/// Numbers whose rows are asked for at once.
const AT_ONCE: u64 = 10_000;
/// Rows that no request can have written, of which so many are named.
const STRANGERS_MAX: usize = 1000;
/// The longest message, and the most bytes of all rows of an answer.
const MESSAGE_MAX: usize = 1 << 24;
const ROWS_BYTES_MAX: usize = 1 << 30;

/// Holds what a server has against a ledger.
///
/// # Errors
/// It can't be read.
pub fn verify(
    kept: &LedgerRows,
    book: &Book,
    server: &mut Conversation<'_>,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let (run, end) = (kept.run(), book.end());
    for first in (0..end).step_by(AT_ONCE as usize) {
        let last = end.min(first + AT_ONCE);
        let rows = ask(
            kept,
            server,
            &format!(
                "SELECT number, content FROM weir_ledger WHERE run = {run} AND number >= {first} \
             AND number < {last} ORDER BY number"
            ),
        )?;
        let mut rows = rows.into_iter().peekable();
        for number in first..last {
            let wanted = kept.content(number);
            let mut seen = StoredWrite::default();
            while let Some([_, content]) = rows.next_if(|row| is_number(&row[0], number)) {
                seen.count += 1;
                seen.is_altered |= content != wanted;
            }
            let name = || format!("the row of request {number}");
            match wanted {
                Some(_) => findings.note(book.fate(number), seen, name),
                None => findings.note(Fate::Unsent, seen, name),
            }
        }
    }
    let strangers = ask(
        kept,
        server,
        &format!(
            "SELECT number, content FROM weir_ledger WHERE run = {run} AND \
         (number < 0 OR number >= {end}) LIMIT {STRANGERS_MAX}"
        ),
    )?;
    for [number, _] in strangers {
        let number = String::from_utf8_lossy(&number.unwrap_or_default()).into_owned();
        findings.fault(Fault::Strange, || format!("a row with the number {number}"));
    }
    Ok(())
}

fn is_number(text: &Option<Vec<u8>>, number: u64) -> bool {
    text.as_deref() == Some(number.to_string().as_bytes())
}

/// Two columns of a row.
pub(super) type Row = [Option<Vec<u8>>; 2];

fn ask(
    kept: &LedgerRows,
    server: &mut Conversation<'_>,
    sql: &str,
) -> Result<Vec<Row>, VerifyError> {
    rows(server, || kept.greeting(), sql)
}

/// The rows that a statement gives.
pub(super) fn rows(
    server: &mut Conversation<'_>,
    greeting: impl FnOnce() -> Box<dyn crate::workload::Greeting>,
    sql: &str,
) -> Result<Vec<Row>, VerifyError> {
    let mut out = Vec::new();
    put_query(&mut out, sql.as_bytes());
    let mut reader = Rows::default();
    let answer = server.ask(|| Some(greeting()), &mut out, &mut reader)?;
    match answer.kind {
        Kind::Succeeded => Ok(reader.rows),
        _ => Err(VerifyError::Refused(reader.error)),
    }
}

/// Keeps the rows of a statement that has two columns.
#[derive(Default)]
struct Rows {
    came: Vec<u8>,
    rows: Vec<Row>,
    bytes: usize,
    error: String,
}

impl Rows {
    fn hear(&mut self, kind: u8, body: &[u8]) -> Result<bool, Malformed> {
        let strange = |_| Malformed("what came is not PostgreSQL's protocol");
        match kind {
            tag::DATA_ROW => {
                self.bytes += body.len();
                if self.bytes > ROWS_BYTES_MAX {
                    return Err(Malformed("the rows of an answer are over 1 GiB"));
                }
                let row = DataRow::read(body).map_err(strange)?;
                let columns = row.array::<2>();
                let columns = columns.map_err(|_| Malformed("a row has other columns than two"))?;
                self.rows.push(columns.map(|column| column.map(<[u8]>::to_vec)));
            }
            tag::ERROR_RESPONSE => {
                let fields = Fields::read(body).map_err(strange)?;
                self.error = crate::postgres::words(&fields);
            }
            tag::READY_FOR_QUERY => return Ok(true),
            _ => {}
        }
        Ok(false)
    }
}

impl Reader for Rows {
    fn begin(&mut self, _: usize) {}

    fn read(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        self.came.extend_from_slice(bytes);
        let came = std::mem::take(&mut self.came);
        let (mut rest, mut is_over) = (&came[..], false);
        while let Some(message) = frame::next(rest, MESSAGE_MAX)
            .map_err(|_| Malformed("what came is not PostgreSQL's protocol"))?
        {
            rest = &rest[message.whole.len()..];
            is_over = self.hear(message.tag, message.body)?;
        }
        self.came = rest.to_vec();
        let kind = if self.error.is_empty() { Kind::Succeeded } else { Kind::Server };
        Ok(is_over.then_some(Answer { kind, code: 0, commands: 1, reusable: true }))
    }

    fn ended(&mut self) -> Option<Answer> {
        None
    }
}
