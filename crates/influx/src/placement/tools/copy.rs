//! Copies a slice of one member's points to another one, and compares their counts.

use std::collections::BTreeMap;
use std::mem;

use bytes::Bytes;
use flow::rate::RateLimit;
use tokio::task::JoinSet;
use wire::influxql::quote_identifier;

use super::failure::ClusterError;
use super::rows::{
    FieldTypes, LARGEST, NumberType, RowLines, RowTable, read_field_types, type_by_digits,
};
use super::server::MemberServer;
use super::slices::Slice;
use super::verify::in_words;

/// Rows and bytes of one write.
const BATCH_ROWS: u64 = 5_000;
const BATCH_BYTES: usize = 4 << 20;
/// Writes that are on their way at once, while the next rows are read.
const WRITES_MAX: usize = 2;

/// How many values each field has.
pub type FieldCounts = BTreeMap<String, u64>;

/// What the member that is copied to may have beside what is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nothing: nobody else gives it points.
    Nothing,
    /// It is in force, and is given points meanwhile.
    Anything,
}

/// From where to where points are copied.
pub struct Copying<'a> {
    pub source: &'a MemberServer,
    pub target: &'a MemberServer,
    /// How many rows a second are copied.
    pub rate: &'a RateLimit,
    pub beside: Beside,
}

/// What became of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedSlice {
    pub rows: u64,
    /// What the two have, where the counts do not fit.
    pub difference: Option<String>,
}

/// Writes on their way to a member.
struct Writes<'a> {
    target: &'a MemberServer,
    slice: &'a Slice,
    lines: Vec<u8>,
    rows: u64,
    tasks: JoinSet<Result<(), ClusterError>>,
}

impl Copying<'_> {
    /// Copies a slice. What the source is given meanwhile may be among it or not: whoever gives it
    /// that gives it to the other member, too.
    ///
    /// # Errors
    /// When one of the two does not answer or refuses.
    pub async fn slice(&self, slice: &Slice) -> Result<CopiedSlice, ClusterError> {
        let before = counts(self.source, slice).await?;
        let mut rows = 0;
        if !before.is_empty() {
            rows = self.copy(slice).await?;
        }
        let copied = counts(self.target, slice).await?;
        let after = counts(self.source, slice).await?;
        let most = (self.beside == Beside::Nothing).then_some(&after);
        let difference = (!is_between(&before, &copied, most)).then(|| {
            let (source, target) = (self.source.name(), self.target.name());
            let (after, copied) = (in_words(Some(&after)), in_words(Some(&copied)));
            format!("{slice}: {source} has {after}, {target} has {copied}")
        });
        Ok(CopiedSlice { rows, difference })
    }

    async fn copy(&self, slice: &Slice) -> Result<u64, ClusterError> {
        let lines = RowLines::new(&slice.measurement, self.types(slice).await?);
        let query = format!("SELECT *::field {} GROUP BY *", slice.source());
        let mut tables = self.source.rows(&query).await?;
        let (target, tasks) = (self.target, JoinSet::new());
        let mut writes = Writes { target, slice, lines: Vec::new(), rows: 0, tasks };
        let mut copied = 0;
        while let Some(table) = tables.next().await? {
            let rows = lines.push(&table, &mut writes.lines);
            writes.rows += rows;
            copied += rows;
            if writes.is_full() {
                self.rate.take(writes.rows).await;
                writes.send().await?;
            }
        }
        self.rate.take(writes.rows).await;
        writes.end().await?;
        Ok(copied)
    }

    /// The type of each field's numbers within a slice.
    async fn types(&self, slice: &Slice) -> Result<BTreeMap<String, NumberType>, ClusterError> {
        let (db, place) = (quote_identifier(&slice.db), slice.place());
        let shown = self.source.ask(&format!("SHOW FIELD KEYS ON {db} FROM {place}")).await?;
        let mut types = BTreeMap::new();
        let known: FieldTypes = read_field_types(&shown);
        for (field, of) in known {
            let mut all = of.iter();
            let found = match (all.next(), all.next()) {
                (None, _) => Some(NumberType::Float),
                (Some(one), None) => Some(*one),
                _ => {
                    let name = quote_identifier(&field);
                    let sum = format!("{name}::field * 0 + {LARGEST}");
                    let query = format!("SELECT {sum} {} LIMIT 1", slice.source());
                    // Where it is a text there is no sum, and no number to be told apart.
                    let answer = self.source.ask(&query).await.unwrap_or_default();
                    let sum = answer.pointer("/results/0/series/0/values/0/1");
                    type_by_digits(&of, sum.filter(|sum| sum.is_number()))
                }
            };
            let found = found.ok_or_else(|| {
                let words = format!(
                    "{slice}: field {field:?} is an integer at one time and unsigned at another, \
                     which an answer does not tell apart"
                );
                self.source.failed(words)
            })?;
            types.insert(field, found);
        }
        Ok(types)
    }
}

impl Writes<'_> {
    fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.lines.len() >= BATCH_BYTES
    }

    async fn send(&mut self) -> Result<(), ClusterError> {
        while self.tasks.len() >= WRITES_MAX {
            self.settle_one().await?;
        }
        let (lines, target) = (mem::take(&mut self.lines), self.target.clone());
        let (db, policy) = (self.slice.db.clone(), self.slice.policy.clone());
        self.rows = 0;
        self.tasks.spawn(async move { target.give(&db, &policy, Bytes::from(lines)).await });
        Ok(())
    }

    async fn end(mut self) -> Result<(), ClusterError> {
        if !self.lines.is_empty() {
            self.send().await?;
        }
        while !self.tasks.is_empty() {
            self.settle_one().await?;
        }
        Ok(())
    }

    async fn settle_one(&mut self) -> Result<(), ClusterError> {
        match self.tasks.join_next().await {
            None => Ok(()),
            Some(Ok(written)) => written,
            Some(Err(error)) => Err(self.target.failed(error.to_string())),
        }
    }
}

async fn counts(server: &MemberServer, slice: &Slice) -> Result<FieldCounts, ClusterError> {
    let mut answer = server.rows(&format!("SELECT count(*) {}", slice.source())).await?;
    let table = answer.next().await?;
    Ok(table.map(|table| read_counts(&table)).unwrap_or_default())
}

/// The counts in the table of `count(*)`, which has one row.
fn read_counts(table: &RowTable) -> FieldCounts {
    let row = table.values.first().map(Vec::as_slice).unwrap_or_default();
    let counts = table.columns.iter().zip(row).skip(1).filter_map(|(column, value)| {
        let count = value.as_u64().filter(|count| *count > 0)?;
        Some((column.strip_prefix("count_").unwrap_or(column).to_owned(), count))
    });
    counts.collect()
}

/// Whether a copy has at least what there was before it, and at most what there is after it.
fn is_between(before: &FieldCounts, copied: &FieldCounts, most: Option<&FieldCounts>) -> bool {
    let is_within = |of: &FieldCounts, all: &FieldCounts| {
        of.iter().all(|(field, count)| all.get(field).is_some_and(|of| of >= count))
    };
    is_within(before, copied) && most.is_none_or(|most| is_within(copied, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_what_there_was_and_no_more_than_there_is() {
        let counts = |of: &[(&str, u64)]| -> FieldCounts {
            of.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let (before, after) = (counts(&[("a", 2)]), counts(&[("a", 4), ("b", 1)]));
        for (copied, is_right) in [
            (counts(&[("a", 2)]), true),
            (counts(&[("a", 3), ("b", 1)]), true),
            (counts(&[("a", 1)]), false),
            (counts(&[("a", 5)]), false),
            (counts(&[("a", 2), ("c", 1)]), false),
            (counts(&[]), false),
        ] {
            assert_eq!(is_between(&before, &copied, Some(&after)), is_right, "{copied:?}");
        }
        // What is in force is given more meanwhile.
        assert!(is_between(&before, &counts(&[("a", 5), ("c", 1)]), None));
        assert!(!is_between(&before, &counts(&[("a", 1)]), None));
    }
}
