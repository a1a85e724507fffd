//! Applying: what a record of the journal does to the store, and what becomes of its points.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use journal::{Outcome, Position};
use serde_json::json;

use super::feed::Feed;
use crate::backends::Ran;
use crate::delivery::letter::{Id, Letter};
use crate::record::{Points, Record, Statement};

impl Feed {
    /// Applies a record; `None` when the delivery is to end before.
    pub(super) fn record(&mut self, record: &journal::Record<'_>) -> Option<Outcome> {
        if record.end.0 <= self.skip_to {
            return Some(self.in_files(record));
        }
        match Record::read(record.kind, record.payload) {
            Ok(Record::Points(points)) => self.points(record, &points),
            Ok(Record::Statement(statement)) => {
                self.statement(record, &statement);
                Some(Outcome::default())
            }
            Err(error) => {
                self.instruments.unreadable.inc();
                let position = record.position.0;
                tracing::error!(position, %error, "journal record is left out");
                Some(Outcome { dropped: record.items.into(), ..Outcome::default() })
            }
        }
    }

    /// What became of a record whose points are in files already.
    fn in_files(&self, record: &journal::Record<'_>) -> Outcome {
        let dead_lettered = self.letters.of(record.position.0);
        let delivered = u64::from(record.items).saturating_sub(dead_lettered);
        Outcome { delivered, dead_lettered, ..Outcome::default() }
    }

    fn points(&mut self, record: &journal::Record<'_>, points: &Points<'_>) -> Option<Outcome> {
        let ids = match points.ids {
            Some(ids) => Some(ids),
            None => self.resolve(record, points),
        };
        let Some(ids) = ids else {
            return Some(Outcome { dropped: record.items.into(), ..Outcome::default() });
        };
        let mut dead = Vec::new();
        let mut seen = PointIndex::default();
        let mut refused = |line: &[u8], why: &str| {
            let index = seen.index(points.lines, line);
            dead.push(letter(record.position, index, points, line, why));
        };
        let store = &self.embedded.store;
        let applied = store.apply_points(record.end.0, ids, points.lines, &mut refused);
        let dead_lettered = dead.len() as u64;
        if !dead.is_empty() && !self.keep_letters(&dead) {
            return None;
        }
        let dropped = applied.dropped.saturating_sub(dead_lettered);
        Some(Outcome { delivered: applied.points, dead_lettered, dropped, elsewhere: 0 })
    }

    /// The ids of a record that was written before there was a store; the names are made where
    /// they are missing, as for every other backend.
    fn resolve(
        &self,
        record: &journal::Record<'_>,
        points: &Points<'_>,
    ) -> Option<store::catalogue::Ids> {
        let store = &self.embedded.store;
        let known = store.catalogue().resolve(points.db, points.rp);
        if let Some(target) = known {
            return Some(target.ids);
        }
        let mut at = record.position.0;
        for text in self.catalogue.snapshot().creation(points.db, points.rp) {
            // Within the record: no other statement can have these places.
            at += 1;
            if at >= record.end.0 {
                break;
            }
            self.change(at, &text, "", "", "", record.written_at).ok()?;
        }
        self.embedded_listing(record.position);
        let target = store.catalogue().resolve(points.db, points.rp)?;
        Some(target.ids)
    }

    fn statement(&mut self, record: &journal::Record<'_>, statement: &Statement<'_>) {
        let Statement { id, db, rp, params, text } = *statement;
        let result = self.change(record.end.0, text, db, rp, params, record.written_at);
        let (backend, shown) = (self.embedded.name(), wire::influxql::redact(text));
        let document = match &result {
            Ok(()) => {
                self.instruments.statements.inc();
                tracing::info!(backend, statement = shown, db, "statement executed");
                json!({ "results": [{ "statement_id": 0 }] })
            }
            Err(reason) => {
                self.instruments.statements_failed.inc();
                tracing::warn!(backend, statement = shown, db, reason, "statement failed");
                json!({ "results": [{ "statement_id": 0, "error": reason }] })
            }
        };
        self.embedded_listing(record.position);
        self.embedded.reached.send_if_modified(|reached| {
            let further = record.end.0 > *reached;
            *reached = record.end.0.max(*reached);
            further
        });
        let ran = Ran::Answered(Bytes::from(document.to_string()));
        self.backends.statement_ran(id, self.embedded.name(), &ran);
    }

    fn change(
        &self,
        end: u64,
        text: &str,
        db: &str,
        rp: &str,
        params: &str,
        written_at: u64,
    ) -> Result<(), String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let params = if params.is_empty() { "{}" } else { params };
        let params = wire::influxql::Params::from_json(params).map_err(|e| words(&e))?;
        let now = i64::try_from(written_at).unwrap_or(i64::MAX);
        for statement in wire::influxql::parse(text, &params).map_err(|e| words(&e))? {
            let store = &self.embedded.store;
            store.apply_change(end, &statement, db, rp, now).map_err(|e| words(&e))?;
        }
        Ok(())
    }

    /// Tells the catalogue of all backends what the store has now.
    fn embedded_listing(&self, executed: Position) {
        let name = self.embedded.name();
        self.catalogue.executed(name, executed);
        self.catalogue.listed(name, executed, self.embedded.listing());
    }

    /// Writes dead letters, however long it takes until there is room for them; false when the
    /// delivery is to end before.
    fn keep_letters(&mut self, dead: &[Letter]) -> bool {
        let backend = self.embedded.name();
        if let Some(Letter { db, reason, .. }) = dead.first() {
            let count = dead.len();
            tracing::warn!(backend, count, db, reason, "dead letters");
        }
        loop {
            match self.letters.append(dead) {
                Ok(()) => break,
                Err(error) => self.embedded.standing.stopped(&error.to_string()),
            }
            if !self.pause() {
                return false;
            }
        }
        self.instruments.dead_letters.add(dead.len() as u64);
        if let Some(last) = dead.last() {
            self.embedded.standing.refused(&last.reason);
        }
        true
    }
}

/// Which point of a record a line is: they are refused in their order.
#[derive(Default)]
struct PointIndex {
    offset: usize,
    index: u32,
}

impl PointIndex {
    fn index(&mut self, lines: &[u8], line: &[u8]) -> u32 {
        let offset = (line.as_ptr() as usize).wrapping_sub(lines.as_ptr() as usize);
        let before = lines.get(self.offset..offset).unwrap_or_default();
        let passed = wire::line::points(before).count();
        self.index = self.index.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
        self.offset = offset.max(self.offset);
        self.index
    }
}

fn letter(position: Position, index: u32, points: &Points<'_>, line: &[u8], why: &str) -> Letter {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Letter {
        id: Id { position: position.0, index },
        time_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        db: points.db.to_owned(),
        rp: points.rp.to_owned(),
        reason: why.to_owned(),
        line: line.strip_suffix(b"\n").unwrap_or(line).to_vec(),
    }
}
