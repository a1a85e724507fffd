//! Which set has which lines of a record: found once for all members' deliveries of this process,
//! which read the same records at about the same time.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::line::{points, read};

use super::placer::Placer;
use super::table::{SetNumber, Table};

/// Memory of all that is kept.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// A line of a record that is of some set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnLine {
    /// Its place among the record's lines, from 0.
    pub index: u32,
    /// Its bytes among the record's, with its newline.
    pub range: Range<usize>,
}

/// The lines of a record by their sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SharedOut(Vec<Vec<OwnLine>>);

impl SharedOut {
    /// Shares the lines of a record of `db` out; `None` where one of them has no set yet.
    pub fn of(placer: &mut Placer, db: &str, lines: &[u8]) -> Option<Self> {
        let table = Arc::clone(placer.table());
        let mut shares = vec![Vec::new(); table.sets().len()];
        let mut start = 0;
        for (index, line) in points(lines).enumerate() {
            let range = start..start + line.len();
            start = range.end;
            let Some(point) = read(line) else { continue };
            if table.holds_back(point.time_ns) {
                return None;
            }
            let set = placer.set(db, point.series, point.time_ns);
            if let Some(share) = shares.get_mut(set) {
                // More than 2^32 lines do not fit a record.
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                share.push(OwnLine { index, range });
            }
        }
        Some(Self(shares))
    }

    /// The lines of one set.
    pub fn of_set(&self, set: SetNumber) -> &[OwnLine] {
        self.0.get(set).map_or(&[], Vec::as_slice)
    }

    fn bytes(&self) -> usize {
        let lines: usize = self.0.iter().map(Vec::capacity).sum();
        lines * size_of::<OwnLine>() + self.0.len() * size_of::<Vec<OwnLine>>()
    }
}

/// What the last records are shared out to, by one table.
#[derive(Debug, Default)]
pub struct RecordShares(Mutex<KeptShares>);

#[derive(Debug, Default)]
struct KeptShares {
    table: Option<Arc<Table>>,
    by_position: HashMap<u64, Arc<SharedOut>>,
    /// The positions, the oldest first.
    order: VecDeque<u64>,
    bytes: usize,
}

impl RecordShares {
    /// What the record at a position is shared out to, if that is known by this table.
    pub fn find(&self, table: &Arc<Table>, position: u64) -> Option<Arc<SharedOut>> {
        let kept = self.lock();
        let is_by = kept.table.as_ref().is_some_and(|by| Arc::ptr_eq(by, table));
        kept.by_position.get(&position).filter(|_| is_by).cloned()
    }

    /// Keeps what a record is shared out to, in the place of the oldest where there is no room.
    pub fn keep(&self, table: &Arc<Table>, position: u64, shares: &Arc<SharedOut>) {
        let mut kept = self.lock();
        if kept.table.as_ref().is_none_or(|by| !Arc::ptr_eq(by, table)) {
            *kept = KeptShares { table: Some(Arc::clone(table)), ..KeptShares::default() };
        }
        if kept.by_position.insert(position, Arc::clone(shares)).is_none() {
            kept.order.push_back(position);
            kept.bytes += shares.bytes();
        }
        while kept.bytes > KEPT_BYTES_MAX {
            let Some(oldest) = kept.order.pop_front() else { break };
            if let Some(gone) = kept.by_position.remove(&oldest) {
                kept.bytes -= gone.bytes();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, KeptShares> {
        // No one panics while holding it, and what it guards is whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::tests::table;

    #[test]
    fn a_record_is_shared_out_once_by_each_table() {
        let text = "[[placement]]\nsets = [\"a\", \"b\"]";
        let (one, other) = (Arc::new(table(text, &["a", "b"])), Arc::new(table(text, &["a", "b"])));
        let body: String = (0..100).map(|n| format!("m,x={n} v=1 1\n")).collect();
        let shares =
            SharedOut::of(&mut Placer::new(Arc::clone(&one)), "d", body.as_bytes()).unwrap();
        let shares = Arc::new(shares);
        let kept = RecordShares::default();
        assert_eq!(kept.find(&one, 7), None);
        kept.keep(&one, 7, &shares);
        assert_eq!(kept.find(&one, 7), Some(Arc::clone(&shares)));
        assert_eq!((kept.find(&one, 8), kept.find(&other, 7)), (None, None));
        kept.keep(&other, 8, &shares);
        assert_eq!((kept.find(&one, 7), kept.find(&other, 7)), (None, None));
        // The oldest makes room.
        let of_each = shares.bytes();
        for position in 0..=(KEPT_BYTES_MAX / of_each) as u64 {
            kept.keep(&one, position, &shares);
        }
        assert!(kept.find(&one, 0).is_none() && kept.find(&one, 1).is_some());
        assert!(kept.lock().bytes <= KEPT_BYTES_MAX);
    }
}
