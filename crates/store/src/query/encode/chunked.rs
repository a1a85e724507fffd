//! Results in chunks: a JSON document for each, so that a client can begin to read.

use std::ops::ControlFlow;

use super::super::results::{Message, Rows, Sink};
use super::text::{self, Epoch, Times};
use super::{Encoder, Pieces, Piecewise, json};
use crate::refusal::QueryError;
use crate::value::Value;

/// One document for each chunk.
pub(super) struct Chunked {
    epoch: Option<Epoch>,
    times: Times,
    size: usize,
    pieces: Piecewise,
    statement: usize,
    cut: Pieces,
    /// Rows that wait to know whether more follow.
    waiting: Vec<Rows>,
    messages: Vec<Message>,
    /// Whether something of the result has been handed out.
    handed_out: bool,
}

impl Chunked {
    pub(super) fn new(epoch: Option<Epoch>, size: usize, pieces: Piecewise) -> Self {
        Self {
            epoch,
            times: Times::default(),
            size,
            pieces,
            statement: 0,
            cut: Pieces::Whole,
            waiting: Vec::new(),
            messages: Vec::new(),
            handed_out: false,
        }
    }

    /// A document with the rows given, if any.
    fn document(&mut self, series: &[Rows], error: Option<&str>, partial: bool) -> ControlFlow<()> {
        let out = &mut self.pieces.gathered;
        out.extend_from_slice(b"{\"results\":[");
        json::result_head(out, self.statement);
        for (at, rows) in series.iter().enumerate() {
            out.extend_from_slice(if at == 0 { b",\"series\":[" } else { b"," });
            json::series_head(out, rows);
            for (at, values) in rows.values.iter().enumerate() {
                out.extend_from_slice(if at == 0 { b",\"values\":[" } else { b"," });
                json::row(out, values, self.epoch, &mut self.times);
            }
            if !rows.values.is_empty() {
                out.push(b']');
            }
            if rows.partial {
                out.extend_from_slice(b",\"partial\":true");
            }
            out.push(b'}');
        }
        if !series.is_empty() {
            out.push(b']');
        }
        json::messages(out, &self.messages);
        self.messages.clear();
        if partial {
            out.extend_from_slice(b",\"partial\":true");
        }
        if let Some(error) = error {
            out.extend_from_slice(b",\"error\":");
            text::json_string(out, error);
        }
        out.extend_from_slice(b"}]}");
        self.handed_out = true;
        self.pieces.newline();
        self.pieces.hand_out()
    }

    /// Hands out what is known to be followed by more.
    fn emit_full(&mut self) -> ControlFlow<()> {
        while let Some(rows) = self.waiting.first_mut().filter(|r| r.values.len() > self.size) {
            let chunk = Rows { values: first(&mut rows.values, self.size), ..head(rows, true) };
            self.document(&[chunk], None, true)?;
        }
        ControlFlow::Continue(())
    }
}

/// A series without its rows.
fn head(rows: &Rows, partial: bool) -> Rows {
    let (name, tags) = (rows.name.clone(), rows.tags.clone());
    Rows { name, tags, columns: rows.columns.clone(), values: Vec::new(), partial }
}

/// Takes the first rows of some.
fn first(values: &mut Vec<Vec<Value>>, count: usize) -> Vec<Vec<Value>> {
    let rest = values.split_off(count.min(values.len()));
    std::mem::replace(values, rest)
}

impl Sink for Chunked {
    fn rows(&mut self, rows: Rows) -> ControlFlow<()> {
        match self.waiting.last_mut() {
            Some(last) if last.partial => {
                last.partial = rows.partial;
                last.values.extend(rows.values);
            }
            Some(_) if self.cut != Pieces::Whole => {
                let last = std::mem::replace(&mut self.waiting, vec![rows]);
                self.document(&last, None, self.cut == Pieces::Cut)?;
            }
            _ => self.waiting.push(rows),
        }
        if self.cut == Pieces::Cut { self.emit_full() } else { ControlFlow::Continue(()) }
    }

    fn message(&mut self, message: Message) {
        self.messages.push(message);
    }

    fn zone(&mut self, zone: &jiff::tz::TimeZone) {
        self.times = Times::in_zone(zone.clone());
    }
}

impl Encoder for Chunked {
    fn begin(&mut self, statement: usize, pieces: Pieces) {
        self.statement = statement;
        self.cut = pieces;
        self.waiting.clear();
        self.messages.clear();
        self.handed_out = false;
        self.times = Times::default();
    }

    fn restart(&mut self) -> bool {
        if !self.handed_out {
            self.begin(self.statement, self.cut);
        }
        !self.handed_out
    }

    fn end(&mut self, outcome: Result<(), QueryError>) -> ControlFlow<()> {
        let mut last = std::mem::take(&mut self.waiting);
        for rows in &mut last {
            rows.partial = false;
        }
        match outcome {
            Ok(()) => self.document(&last, None, false),
            Err(error) => {
                self.messages.clear();
                self.document(&[], Some(&error.0), false)
            }
        }
    }

    fn finish(&mut self) -> ControlFlow<()> {
        self.pieces.hand_out()
    }
}
