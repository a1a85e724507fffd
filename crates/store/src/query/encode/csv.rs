//! Results as CSV (`csvFormatter` of `services/httpd/response_writer.go`).

use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::results::{Message, Rows, Sink};
use super::text::{self, Epoch};
use super::{Encoder, HELD_BYTES, PIECE_BYTES, Pieces, Piecewise};
use crate::refusal::QueryError;
use crate::value::Value;

/// A field, in quotes where Go's `encoding/csv` puts it in quotes.
pub(super) fn field(out: &mut Vec<u8>, text: &str) {
    let special = |byte: &u8| matches!(byte, b',' | b'"' | b'\r' | b'\n');
    let spaced = text.chars().next().is_some_and(char::is_whitespace);
    if text != "\\." && !spaced && !text.as_bytes().iter().any(special) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// All results as one text; errors of execution are left out, as in InfluxDB.
pub(super) struct Csv {
    epoch: Option<Epoch>,
    pieces: Piecewise,
    begun: bool,
    columns: Option<Arc<[String]>>,
    /// `name,tags,` of the series at hand.
    prefix: Vec<u8>,
    /// Where the result begins and whether it is the first with rows, while none of it has been
    /// handed out.
    start: Option<(usize, bool)>,
}

impl Csv {
    pub(super) fn new(epoch: Option<Epoch>, pieces: Piecewise) -> Self {
        let prefix = Vec::new();
        Self { epoch, pieces, begun: false, columns: None, prefix, start: None }
    }

    fn header(&mut self, columns: &Arc<[String]>) {
        if self.columns.as_ref().is_some_and(|known| known == columns) {
            return;
        }
        let out = &mut self.pieces.gathered;
        if self.begun {
            out.push(b'\n');
        }
        self.begun = true;
        out.extend_from_slice(b"name,tags");
        for column in columns.iter() {
            out.push(b',');
            field(out, column);
        }
        out.push(b'\n');
        self.columns = Some(Arc::clone(columns));
    }

    fn value(&mut self, value: &Value, first: bool) {
        let out = &mut self.pieces.gathered;
        match value {
            Value::Null => {}
            Value::Float(value) => text::plain_float(out, *value),
            Value::Integer(value) => text::integer(out, *value),
            Value::Unsigned(value) => text::unsigned(out, *value),
            Value::String(value) => field(out, value),
            Value::Boolean(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Value::Time(time) => {
                let unit = self.epoch.filter(|_| first).map_or(1, Epoch::ns);
                text::integer(out, time / unit);
            }
        }
    }
}

/// `key=value,...`, escaped as in line protocol; tags without a value are left out.
fn tags(tags: &[(String, String)]) -> String {
    let mut text = String::new();
    let escaped = |text: &mut String, part: &str| {
        for char in part.chars() {
            if matches!(char, ',' | '=' | ' ') {
                text.push('\\');
            }
            text.push(char);
        }
    };
    for (key, value) in tags.iter().filter(|(_, value)| !value.is_empty()) {
        if !text.is_empty() {
            text.push(',');
        }
        escaped(&mut text, key);
        text.push('=');
        escaped(&mut text, value);
    }
    text
}

impl Sink for Csv {
    fn rows(&mut self, rows: Rows) -> ControlFlow<()> {
        self.header(&rows.columns);
        self.prefix.clear();
        field(&mut self.prefix, &rows.name);
        self.prefix.push(b',');
        field(&mut self.prefix, &tags(&rows.tags));
        for row in &rows.values {
            self.pieces.gathered.extend_from_slice(&self.prefix);
            for (at, value) in row.iter().enumerate() {
                self.pieces.gathered.push(b',');
                self.value(value, at == 0);
            }
            self.pieces.gathered.push(b'\n');
        }
        let most = if self.start.is_some() { HELD_BYTES } else { PIECE_BYTES };
        if self.pieces.gathered.len() < most {
            return ControlFlow::Continue(());
        }
        self.start = None;
        self.pieces.hand_out()
    }

    fn message(&mut self, _: Message) {}
}

impl Encoder for Csv {
    fn begin(&mut self, _: usize, _: Pieces) {
        self.columns = None;
        self.start = Some((self.pieces.gathered.len(), self.begun));
    }

    fn restart(&mut self) -> bool {
        let Some((start, begun)) = self.start else { return false };
        self.pieces.gathered.truncate(start);
        (self.columns, self.begun) = (None, begun);
        true
    }

    /// A table of its own, as InfluxDB words errors of whole requests: one of a single statement it
    /// leaves out, and rows that are missing without a word would be taken for none.
    fn not_whole(&mut self, why: &str) {
        let out = &mut self.pieces.gathered;
        if self.begun {
            out.push(b'\n');
        }
        self.begun = true;
        out.extend_from_slice(b"error\n");
        field(out, why);
        out.push(b'\n');
        self.columns = None;
    }

    fn end(&mut self, _: Result<(), QueryError>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn finish(&mut self) -> ControlFlow<()> {
        self.pieces.hand_out()
    }
}
