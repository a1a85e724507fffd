//! The windows of a run as lines of a table, which is what other programs read most easily.

use std::io::{self, BufRead, Read};
use std::time::Duration;

use crate::engine::{LATENCIES, Row};

/// The names of the columns, in a line.
pub const COLUMNS: &str = "second,offered,sent,ended,failed,late,busy_ns,p50_ns,p99_ns,max_ns,\
                           paused_ns,injectors\n";
/// Between the names of latencies that are the injector's.
const AND: &str = "+";

/// Twelve fields are shorter.
const LINE_MAX: u64 = 1024;

/// The line of a window, in the order of the file's header.
pub fn line(row: &Row) -> String {
    let Row { number, offered, sent, ended, failed, late, .. } = row;
    let spans = [row.busy, row.p50, row.p99, row.max, row.paused];
    let [busy, p50, p99, max, paused] = spans.map(|span| span.as_nanos());
    let injectors = row.injectors().collect::<Vec<_>>().join(AND);
    format!(
        "{number},{offered},{sent},{ended},{failed},{late},{busy},{p50},{p99},{max},{paused},\
         {injectors}\n"
    )
}

/// Reads a table, from which a last line without an end, that a kill cut off, is left out. Behind
/// an error there is nothing more.
pub fn read(mut table: impl BufRead) -> impl Iterator<Item = io::Result<Row>> {
    let (mut text, mut number, mut is_over) = (Vec::new(), 0, false);
    let mut next = move || -> io::Result<Option<Row>> {
        loop {
            text.clear();
            number += 1;
            table.by_ref().take(LINE_MAX).read_until(b'\n', &mut text)?;
            if text.pop() != Some(b'\n') {
                return Ok(None);
            }
            if number > 1 {
                let damaged = || io::Error::other(format!("line {number} is damaged"));
                return parse(&text).ok_or_else(damaged).map(Some);
            }
        }
    };
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let row = next().transpose();
        is_over = row.as_ref().is_none_or(Result::is_err);
        row
    })
}

/// Reads what [`line`] has written; nothing where it is damaged.
pub fn read_line(line: &str) -> Option<Row> {
    parse(line.strip_suffix('\n')?.as_bytes())
}

fn parse(line: &[u8]) -> Option<Row> {
    let mut fields = std::str::from_utf8(line).ok()?.split(',');
    let mut next = || fields.next()?.parse().ok();
    let [number, offered, sent, ended, failed, late] =
        [next()?, next()?, next()?, next()?, next()?, next()?];
    let mut span = || next().map(Duration::from_nanos);
    let (busy, p50, p99, max) = (span()?, span()?, span()?, span()?);
    let row =
        Row { number, offered, sent, ended, failed, late, busy, p50, p99, max, ..Row::default() };
    // Of a table that an older version wrote that is the end.
    let Some(paused) = fields.next() else { return Some(row) };
    let paused = Duration::from_nanos(paused.parse().ok()?);
    let own = fields.next()?;
    let injectors = LATENCIES.map(|name| own.split(AND).any(|own| own == name));
    fields.next().is_none().then_some(Row { paused, injectors, ..row })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{COLUMNS, line, read};
    use crate::engine::Row;

    fn row(number: u64) -> Row {
        let [busy, p50, p99, max, paused] = [1, 2, 3, 4, 5].map(Duration::from_micros);
        let row =
            Row { number, offered: 9, sent: 8, ended: 7, failed: 1, late: 2, ..Row::default() };
        Row { busy, p50, p99, max, paused, injectors: [false, number > 0, number > 0], ..row }
    }

    #[test]
    fn what_is_written_is_read_but_for_a_line_that_was_cut_off() {
        let text = format!("{COLUMNS}{}{}", line(&row(0)), line(&row(1)));
        let rows = |text: &str| read(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        assert_eq!(rows(&text).unwrap(), [row(0), row(1)]);
        assert_eq!(rows(&text[..text.len() - 9]).unwrap(), [row(0)]);
        assert!(rows("").unwrap().is_empty());
        let damaged = text.replace("0,9,8", "0,x,8");
        assert!(rows(&damaged).unwrap_err().to_string().contains("line 2"));
    }

    #[test]
    fn a_table_that_an_older_version_wrote_is_read() {
        let text = "second,offered,sent,ended,failed,late,busy_ns,p50_ns,p99_ns,max_ns\n\
                    0,9,8,7,1,2,1000,2000,3000,4000\n";
        let rows = read(text.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(rows, [Row { paused: Duration::ZERO, ..row(0) }]);
        let damaged = text.replace("4000", "4000,5");
        assert!(read(damaged.as_bytes()).any(|row| row.is_err()));
    }
}
