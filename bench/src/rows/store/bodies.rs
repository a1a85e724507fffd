//! Requests made beforehand, head included, in one piece of memory.

use std::io::Write as _;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rig::sending;

use super::DATABASE;

/// Rows of the field report.
pub const REPORT_ROWS: u64 = 10_000_000;
/// Between two of them: 10,000,000 are seven days.
pub const REPORT_STEP_NS: u64 = 60_480_000;
/// Whose rows they are: row k is of writer k mod 30.
const WRITERS: u64 = 30;
/// 2020-01-01 at midnight UTC, in nanoseconds since 1970.
pub const START_NS: u64 = 1_577_836_800_000_000_000;

/// Requests, in the order in which they are sent.
pub struct Bodies {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    writers: usize,
}

impl Bodies {
    /// Requests of so many rows each; `row` writes row number n as a line.
    pub fn of(rows: u64, batch: u64, mut row: impl FnMut(u64, &mut Vec<u8>)) -> Arc<Self> {
        Self::numbered(
            (0..rows.div_ceil(batch)).map(|n| n * batch..((n + 1) * batch).min(rows)),
            |n, out| {
                row(n, out);
            },
        )
    }

    /// The same where row k is of writer k mod 30, and the writers take turns.
    pub fn of_writers(rows: u64, batch: u64, row: impl FnMut(u64, &mut Vec<u8>)) -> Arc<Self> {
        let rounds = rows.div_ceil(WRITERS * batch);
        let request = move |n: u64| {
            let (round, writer) = (n / WRITERS, n % WRITERS);
            let first = round * batch * WRITERS + writer;
            (0..batch).map(move |i| first + i * WRITERS).take_while(move |k| *k < rows)
        };
        Self::numbered((0..rounds * WRITERS).map(request), row)
    }

    fn numbered<I: Iterator<Item = u64>>(
        requests: impl Iterator<Item = I>,
        mut row: impl FnMut(u64, &mut Vec<u8>),
    ) -> Arc<Self> {
        let target = format!("/write?db={DATABASE}");
        let (mut bytes, mut ends, mut body) = (Vec::new(), Vec::new(), Vec::new());
        for numbers in requests {
            body.clear();
            numbers.for_each(|number| row(number, &mut body));
            if !body.is_empty() {
                sending::put_post(&mut bytes, &target, &body);
                ends.push(bytes.len());
            }
        }
        Arc::new(Self { bytes, ends, writers: WRITERS as usize })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many connections send them.
    pub fn writers(&self) -> usize {
        self.writers
    }

    /// Request number n; empty past the end.
    pub fn request(&self, n: usize) -> &[u8] {
        let from = n.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(n).and_then(|to| self.bytes.get(from..*to)).unwrap_or_default()
    }
}

/// A row of the field report: two integers and 24 characters by chance, none of them ASCII.
/// InfluxDB 1.6 has no unsigned integers.
pub struct ReportRow {
    chance: StdRng,
}

impl ReportRow {
    /// The same rows each time.
    pub fn new() -> Self {
        Self { chance: StdRng::seed_from_u64(7) }
    }

    /// Row k, whose integers are `k + more`.
    pub fn put(&mut self, k: u64, more: u64, out: &mut Vec<u8>) {
        let value = k + more;
        // Writing to memory does not fail.
        let _ = write!(out, "stress int={value}i,uint={value}i,str=\"");
        for _ in 0..24 {
            // Two bytes or three; none needs an escape, and there are no surrogates among them.
            let character: char = self.chance.random_range('\u{a1}'..='\u{d7ff}');
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        let _ = writeln!(out, "\" {}", START_NS + k * REPORT_STEP_NS);
    }
}

/// The field report's rows, by its 30 writers.
pub fn report(rows: u64, batch: u64) -> Arc<Bodies> {
    let mut row = ReportRow::new();
    Bodies::of_writers(rows, batch, move |k, out| row.put(k, 0, out))
}
