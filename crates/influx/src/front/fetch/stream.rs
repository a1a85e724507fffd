//! The points of one member as they come, for a query that they pass through.

use std::collections::VecDeque;
use std::sync::Arc;
use std::vec;

use serde_json::Value;
use store::QueryError;
use store::query::context::Cancel;
use store::query::select::{GroupKey, PointSource, RawSelect};
use store::schema::FieldType;
use store::value;
use tokio::runtime::Handle;

use super::documents::{Documents, SeriesPart};
use super::held::HeldMemory;
use super::schema::next_of;

/// What a value of a document takes of memory, text not counted.
const VALUE_BYTES: usize = size_of::<Value>();

/// The points of one member. What is held of them is the document at hand.
pub struct MemberPoints {
    documents: Documents,
    cancel: Cancel,
    /// What drives the member's connection.
    control: Handle,
    tags: Vec<String>,
    /// The types of the columns.
    kinds: Vec<FieldType>,
    /// What the document has behind the points at hand.
    parts: VecDeque<SeriesPart>,
    held: HeldMemory,
    group: Option<GroupKey>,
    points: vec::IntoIter<Vec<Value>>,
}

impl MemberPoints {
    /// The points of an answer to a query.
    pub fn of(documents: Documents, raw: &RawSelect, cancel: &Cancel, control: &Handle) -> Self {
        Self {
            documents,
            cancel: cancel.clone(),
            control: control.clone(),
            tags: raw.tags().to_vec(),
            // What is no field is a tag, if it is anything: members alone know all of these.
            kinds: raw.columns().map(|(_, kind)| kind.unwrap_or(FieldType::String)).collect(),
            parts: VecDeque::new(),
            held: HeldMemory::none(cancel),
            group: None,
            points: Vec::new().into_iter(),
        }
    }

    /// Takes the next part, if it is of the group at hand, or of another one.
    fn next_part(&mut self, is_same: bool) -> Result<bool, QueryError> {
        while self.parts.is_empty() {
            let next = self.control.block_on(next_of(&mut self.documents, &self.cancel))?;
            let Some(results) = next else { return Ok(false) };
            self.parts.extend(results.into_iter().flat_map(|result| result.series));
            self.held.clear();
            let values = |part: &SeriesPart| part.values.len() * part.columns.len();
            self.held.grow(self.parts.iter().map(values).sum::<usize>() * VALUE_BYTES)?;
        }
        let key = self.parts.front().map(|part| key(part, &self.tags));
        if (key == self.group) != is_same {
            return Ok(false);
        }
        self.group = key;
        self.points =
            self.parts.pop_front().map(|part| part.values).unwrap_or_default().into_iter();
        Ok(true)
    }

    fn point(&self, row: Vec<Value>) -> Option<(i64, Vec<value::Value>)> {
        let mut row = row.into_iter();
        let time = row.next()?.as_i64()?;
        let values = self
            .kinds
            .iter()
            .map(|kind| row.next().map_or(value::Value::Null, |value| typed(value, *kind)));
        Some((time, values.collect()))
    }
}

impl PointSource for MemberPoints {
    fn next_group(&mut self) -> Result<Option<GroupKey>, QueryError> {
        while self.next_part(true)? {}
        let is_there = self.next_part(false)?;
        Ok(self.group.clone().filter(|_| is_there))
    }

    fn next_point(&mut self) -> Result<Option<(i64, Vec<value::Value>)>, QueryError> {
        loop {
            match self.points.next() {
                Some(row) => match self.point(row) {
                    None => {}
                    point => return Ok(point),
                },
                None if self.next_part(true)? => {}
                None => return Ok(None),
            }
        }
    }
}

/// The group that points are of.
fn key(of: &SeriesPart, tags: &[String]) -> GroupKey {
    let value = |tag| Arc::from(of.tags.get(tag).map_or("", String::as_str));
    GroupKey { name: Arc::from(of.name.as_str()), values: tags.iter().map(value).collect() }
}

/// A value as one of a type; null where it is none.
fn typed(of: Value, kind: FieldType) -> value::Value {
    use value::Value::{Boolean, Float, Integer, Null, String, Unsigned};
    match kind {
        FieldType::Float => of.as_f64().map_or(Null, Float),
        FieldType::Integer => {
            let whole = || of.as_f64().map(|of| of as i64);
            of.as_i64().or_else(whole).map_or(Null, Integer)
        }
        FieldType::Unsigned => {
            let whole = || of.as_f64().map(|of| of as u64);
            of.as_u64().or_else(whole).map_or(Null, Unsigned)
        }
        FieldType::Boolean => of.as_bool().map_or(Null, Boolean),
        FieldType::String => match of {
            Value::String(text) => String(text.into()),
            _ => Null,
        },
    }
}
