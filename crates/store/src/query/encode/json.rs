//! All results in one JSON document, written as they come.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::results::{Message, Rows, Sink};
use super::text::{self, Epoch, Times};
use super::{CHUNK_SIZE_DEFAULT, Encoder, HELD_BYTES, PIECE_BYTES, Pieces, Piecewise};
use crate::refusal::QueryError;
use crate::value::Value;

/// The head of a series.
pub(super) fn series_head(out: &mut Vec<u8>, rows: &Rows) {
    let comma = |out: &mut Vec<u8>| {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
    };
    out.push(b'{');
    if !rows.name.is_empty() {
        out.extend_from_slice(b"\"name\":");
        text::json_string(out, &rows.name);
    }
    if !rows.tags.is_empty() {
        comma(out);
        out.extend_from_slice(b"\"tags\":{");
        for (at, (key, value)) in rows.tags.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            text::json_string(out, key);
            out.push(b':');
            text::json_string(out, value);
        }
        out.push(b'}');
    }
    if !rows.columns.is_empty() {
        comma(out);
        out.extend_from_slice(b"\"columns\":");
        strings(out, &rows.columns);
    }
}

fn strings(out: &mut Vec<u8>, list: &Arc<[String]>) {
    out.push(b'[');
    for (at, one) in list.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        text::json_string(out, one);
    }
    out.push(b']');
}

/// A row. Only the time in the first column is in the unit asked for, as in InfluxDB.
pub(super) fn row(out: &mut Vec<u8>, row: &[Value], epoch: Option<Epoch>, times: &mut Times) {
    out.push(b'[');
    for (at, value) in row.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match value {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Float(value) => text::json_float(out, *value),
            Value::Integer(value) => text::integer(out, *value),
            Value::Unsigned(value) => text::unsigned(out, *value),
            Value::String(value) => text::json_string(out, value),
            Value::Boolean(true) => out.extend_from_slice(b"true"),
            Value::Boolean(false) => out.extend_from_slice(b"false"),
            Value::Time(time) => match epoch {
                Some(epoch) if at == 0 => text::integer(out, time / epoch.ns()),
                _ => {
                    out.push(b'"');
                    times.rfc3339(out, *time);
                    out.push(b'"');
                }
            },
        }
    }
    out.push(b']');
}

/// `"messages":[...]`, with the comma before it.
pub(super) fn messages(out: &mut Vec<u8>, messages: &[Message]) {
    for (at, message) in messages.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b",\"messages\":[" } else { b"," });
        out.extend_from_slice(b"{\"level\":");
        text::json_string(out, message.level);
        out.extend_from_slice(b",\"text\":");
        text::json_string(out, &message.text);
        out.push(b'}');
    }
    if !messages.is_empty() {
        out.push(b']');
    }
}

/// `{"statement_id":0`
pub(super) fn result_head(out: &mut Vec<u8>, statement: usize) {
    out.extend_from_slice(b"{\"statement_id\":");
    text::unsigned(out, statement as u64);
}

/// Writes all results into one document.
pub(super) struct Json {
    epoch: Option<Epoch>,
    times: Times,
    pieces: Piecewise,
    begun: bool,
    statement: usize,
    /// Where the result begins, while none of it has been handed out.
    start: Option<usize>,
    cut: bool,
    has_series: bool,
    /// Rows of the series that is being written.
    series: Option<usize>,
    messages: Vec<Message>,
}

impl Json {
    pub(super) fn new(epoch: Option<Epoch>, pieces: Piecewise) -> Self {
        Self {
            epoch,
            times: Times::default(),
            pieces,
            begun: false,
            statement: 0,
            start: None,
            cut: false,
            has_series: false,
            series: None,
            messages: Vec::new(),
        }
    }

    fn close_series(&mut self) {
        let Some(rows) = self.series.take() else { return };
        let out = &mut self.pieces.gathered;
        if rows > 0 {
            out.push(b']');
        }
        // InfluxDB joins its inner chunks and keeps the mark of the first.
        if self.cut && rows > CHUNK_SIZE_DEFAULT {
            out.extend_from_slice(b",\"partial\":true");
        }
        out.push(b'}');
    }

    fn close_all_series(&mut self) {
        self.close_series();
        if self.has_series {
            self.pieces.gathered.push(b']');
        }
    }

    fn hand_out_at(&mut self, bytes: usize) -> ControlFlow<()> {
        if !self.pieces.has(bytes) {
            return ControlFlow::Continue(());
        }
        self.start = None;
        self.pieces.hand_out()
    }
}

impl Sink for Json {
    fn rows(&mut self, rows: Rows) -> ControlFlow<()> {
        let out = &mut self.pieces.gathered;
        let mut written = match self.series {
            Some(written) => written,
            None => {
                out.extend_from_slice(if self.has_series { b"," } else { b",\"series\":[" });
                self.has_series = true;
                series_head(out, &rows);
                0
            }
        };
        for values in &rows.values {
            out.extend_from_slice(if written == 0 { b",\"values\":[" } else { b"," });
            row(out, values, self.epoch, &mut self.times);
            written += 1;
        }
        self.series = Some(written);
        if !rows.partial {
            self.close_series();
        }
        self.hand_out_at(if self.start.is_some() { HELD_BYTES } else { PIECE_BYTES })
    }

    fn message(&mut self, message: Message) {
        self.messages.push(message);
    }

    fn zone(&mut self, zone: &jiff::tz::TimeZone) {
        self.times = Times::in_zone(zone.clone());
    }
}

impl Encoder for Json {
    fn begin(&mut self, statement: usize, pieces: Pieces) {
        let out = &mut self.pieces.gathered;
        out.extend_from_slice(if self.begun { b"," } else { b"{\"results\":[" });
        self.start = Some(out.len());
        result_head(out, statement);
        self.begun = true;
        self.statement = statement;
        self.cut = pieces == Pieces::Cut;
        self.has_series = false;
        self.series = None;
        self.messages.clear();
        self.times = Times::default();
    }

    fn restart(&mut self) -> bool {
        let Some(start) = self.start else { return false };
        self.pieces.gathered.truncate(start);
        result_head(&mut self.pieces.gathered, self.statement);
        self.has_series = false;
        self.series = None;
        self.messages.clear();
        self.times = Times::default();
        true
    }

    fn end(&mut self, outcome: Result<(), QueryError>) -> ControlFlow<()> {
        match (outcome, self.start) {
            (Ok(()), _) => {
                self.close_all_series();
                messages(&mut self.pieces.gathered, &self.messages);
            }
            (Err(error), start) => {
                match start {
                    Some(start) => {
                        self.pieces.gathered.truncate(start);
                        result_head(&mut self.pieces.gathered, self.statement);
                    }
                    None => self.close_all_series(),
                }
                self.pieces.gathered.extend_from_slice(b",\"error\":");
                text::json_string(&mut self.pieces.gathered, &error.0);
            }
        }
        self.pieces.gathered.push(b'}');
        self.hand_out_at(PIECE_BYTES)
    }

    fn finish(&mut self) -> ControlFlow<()> {
        let end: &[u8] = if self.begun { b"]}" } else { b"{}" };
        self.pieces.gathered.extend_from_slice(end);
        self.pieces.newline();
        self.pieces.hand_out()
    }
}
