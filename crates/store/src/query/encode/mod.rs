//! Answers as bytes: JSON, in one document or in chunks, and CSV (`services/httpd`).

mod chunked;
mod csv;
mod indent;
mod json;
mod text;

use std::ops::ControlFlow;

use bytes::Bytes;

use super::results::{Message, Sink};
use crate::refusal::QueryError;

pub use text::Epoch;

/// Rows of one series after which InfluxDB begins a new piece where no `chunk_size` is said.
pub const CHUNK_SIZE_DEFAULT: usize = 10_000;
/// Bytes that are gathered before they are handed out.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes of one statement's answer that are held back at its beginning: an error that comes
/// before they are handed out stands alone, as in InfluxDB. With the rows that come in one go it is
/// less than 1 MiB, the most that a query without a reader is to hold.
pub(super) const HELD_BYTES: usize = 512 << 10;

/// How much longer JSON is over several lines, about.
const INDENTED_FACTOR: usize = 6;

/// Where the pieces of an answer go; `Break` says that nobody wants more.
pub type Out = Box<dyn FnMut(Bytes) -> ControlFlow<()> + Send>;

/// How an answer is to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// CSV rather than JSON.
    pub csv: bool,
    /// JSON over several lines.
    pub pretty: bool,
    /// The unit of times; `None` is RFC 3339.
    pub epoch: Option<Epoch>,
    /// Rows in one document of a chunked answer; `None` is one document for all.
    pub chunk_size: Option<usize>,
}

/// The `q` among the parameters of a clause of `Accept`: 1 where there is none, 0 where it is not
/// a number up to that.
fn weight(parameters: &str) -> f64 {
    let pairs = parameters.split(';').filter_map(|pair| pair.split_once('='));
    let mut weights = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    weights.next().map_or(1.0, |(_, weight)| {
        weight.trim().parse().ok().filter(|weight| (0.0..=1.0).contains(weight)).unwrap_or(0.0)
    })
}

impl Format {
    /// Whether a request's `Accept` headers ask for CSV rather than JSON: the clause of the
    /// greatest weight decides, of several the first (RFC 9110, section 12.5.1). What is neither
    /// of the two is passed over, as are clauses of weight 0.
    pub fn accepts_csv<'a>(accept: impl Iterator<Item = &'a str>) -> bool {
        let mut best = (0.0, false);
        for clause in accept.flat_map(|header| header.split(',')) {
            let (kind, parameters) = clause.split_once(';').unwrap_or((clause, ""));
            let csv = match kind.trim().to_ascii_lowercase().as_str() {
                "application/csv" | "text/csv" | "text/*" => true,
                "application/json" | "application/*" | "*/*" | "*" => false,
                _ => continue,
            };
            let weight = weight(parameters);
            if weight > best.0 {
                best = (weight, csv);
            }
        }
        best.1
    }

    /// The `Content-Type` of the answer.
    pub fn content_type(self) -> &'static str {
        if self.csv { "text/csv" } else { "application/json" }
    }

    /// A whole body for a request that is refused.
    pub fn error_body(self, text: &str) -> Vec<u8> {
        let mut compact = Vec::new();
        if self.csv {
            compact.extend_from_slice(b"error\n");
            csv::field(&mut compact, text);
        } else {
            compact.extend_from_slice(b"{\"error\":");
            text::json_string(&mut compact, text);
            compact.push(b'}');
        }
        let mut body = Vec::new();
        if self.pretty && !self.csv {
            indent::Indent::default().push(&compact, &mut body);
        } else {
            body = compact;
        }
        body.push(b'\n');
        body
    }
}

/// Whether the rows of a statement come in chunks, or all in one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// Cut into chunks, each a result of its own.
    Cut,
    /// A result for each series, whatever its length.
    Series,
    /// One result, whatever its length.
    Whole,
}

/// Writes the results of statements, one after the other. A result is `begin`, rows and messages,
/// `end`; the answer ends with `finish`.
pub trait Encoder: Sink {
    /// The result of the statement at a place among all statements begins.
    fn begin(&mut self, statement: usize, pieces: Pieces);

    /// The result ends, well or not.
    fn end(&mut self, outcome: Result<(), QueryError>) -> ControlFlow<()>;

    /// Takes back what the result at hand has, so that it begins anew; whether that can be: nothing
    /// of it may have been handed out.
    fn restart(&mut self) -> bool;

    /// Tells that the result is not whole, in a format that has no place for it but among rows.
    fn not_whole(&mut self, _why: &str) {}

    /// The answer ends: all that is left is handed out.
    fn finish(&mut self) -> ControlFlow<()>;

    /// A whole result without rows.
    fn result(
        &mut self,
        statement: usize,
        outcome: Result<(), QueryError>,
        messages: &[Message],
    ) -> ControlFlow<()> {
        self.begin(statement, Pieces::Whole);
        for message in messages {
            self.message(message.clone());
        }
        self.end(outcome)
    }
}

/// An encoder that hands its bytes to `out`.
pub fn new(format: Format, out: Out) -> Box<dyn Encoder> {
    let pieces = Piecewise::new(format.pretty && !format.csv, out);
    match format.chunk_size {
        _ if format.csv => Box::new(csv::Csv::new(format.epoch, pieces)),
        None => Box::new(json::Json::new(format.epoch, pieces)),
        Some(size) => Box::new(chunked::Chunked::new(format.epoch, size.max(1), pieces)),
    }
}

/// Gathers bytes and hands them out in pieces.
struct Piecewise {
    gathered: Vec<u8>,
    indent: Option<indent::Indent>,
    out: Out,
}

impl Piecewise {
    fn new(pretty: bool, out: Out) -> Self {
        let indent = if pretty { Some(indent::Indent::default()) } else { None };
        Self { gathered: Vec::new(), indent, out }
    }

    /// Whether so many bytes are gathered, as they will be sent, about.
    fn has(&self, bytes: usize) -> bool {
        let indented = if self.indent.is_some() { INDENTED_FACTOR } else { 1 };
        self.gathered.len().saturating_mul(indented) >= bytes
    }

    fn hand_out(&mut self) -> ControlFlow<()> {
        if self.gathered.is_empty() {
            return ControlFlow::Continue(());
        }
        let piece = match &mut self.indent {
            None => std::mem::take(&mut self.gathered),
            Some(indent) => {
                let mut piece = Vec::with_capacity(self.gathered.len() * 2);
                indent.push(&self.gathered, &mut piece);
                self.gathered.clear();
                piece
            }
        };
        (self.out)(Bytes::from(piece))
    }

    /// The end of a document. Go writes it behind the indented JSON, as it is.
    fn newline(&mut self) {
        self.gathered.push(b'\n');
    }
}

#[cfg(test)]
mod tests;
