//! The windows of one group in their order.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::query::functions::aggregate::Accumulator;
use crate::value::Value;

/// A point that is held, with what stands beside it.
type RankedPoint = (Accumulator, Option<Arc<[Value]>>);

/// What the calls have seen of one window.
#[derive(Debug)]
pub(super) struct Slot {
    /// The first call, mostly the only one.
    pub(super) first: Option<Accumulator>,
    /// The other calls, in their order.
    pub(super) others: Vec<Accumulator>,
    /// What stands beside the point that is held.
    pub(super) chosen: Option<Arc<[Value]>>,
    /// The points held for each combination of some tags.
    pub(super) ranked: BTreeMap<Box<[Arc<str>]>, RankedPoint>,
}

impl Slot {
    fn merge(&mut self, later: Self) {
        let calls = self.first.iter_mut().chain(&mut self.others);
        for (call, other) in calls.zip(later.first.into_iter().chain(later.others)) {
            if call.merge(other) {
                self.chosen.clone_from(&later.chosen);
            }
        }
        for (key, (other, chosen)) in later.ranked {
            match self.ranked.get_mut(&key) {
                Some((call, row)) => {
                    if call.merge(other) {
                        *row = chosen;
                    }
                }
                None => {
                    self.ranked.insert(key, (other, chosen));
                }
            }
        }
    }
}

/// Windows by their starts.
#[derive(Debug, Default)]
pub(super) struct Timeline(Vec<(i64, Slot)>);

impl Timeline {
    /// How many windows there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The slot of the earliest window.
    pub(super) fn first(&self) -> Option<&Slot> {
        self.0.first().map(|(_, slot)| slot)
    }

    /// For windows that mostly come in their order.
    pub(super) fn filling(&mut self) -> Filling<'_> {
        Filling { slots: &mut self.0, at: 0, missing: BTreeMap::new() }
    }

    /// The windows, the earliest first.
    pub(super) fn into_slots(self) -> Vec<(i64, Slot)> {
        self.0
    }

    /// Takes over what others have seen of the same or other windows.
    pub(super) fn merge(&mut self, later: Self) {
        let behind = match (self.0.last(), later.0.first()) {
            (Some((last, _)), Some((first, _))) => first > last,
            _ => true,
        };
        if behind {
            self.0.extend(later.0);
            return;
        }
        let mut merged: Vec<(i64, Slot)> = Vec::with_capacity(self.0.len() + later.0.len());
        let mut ours = std::mem::take(&mut self.0).into_iter().peekable();
        for (start, slot) in later.0 {
            while let Some(earlier) = ours.next_if(|(own, _)| *own < start) {
                merged.push(earlier);
            }
            match ours.next_if(|(own, _)| *own == start) {
                Some((_, mut own)) => {
                    own.merge(slot);
                    merged.push((start, own));
                }
                None => merged.push((start, slot)),
            }
        }
        merged.extend(ours);
        self.0 = merged;
    }
}

/// A timeline to which the windows of a batch are added.
pub(super) struct Filling<'a> {
    slots: &'a mut Vec<(i64, Slot)>,
    at: usize,
    /// Windows that lie between those known; they are put in at the end, all at once.
    missing: BTreeMap<i64, Slot>,
}

impl Filling<'_> {
    /// The window that begins at `start`.
    pub(super) fn slot(&mut self, start: i64, new: impl FnOnce() -> Slot) -> &mut Slot {
        let is = |at: usize| self.slots.get(at).is_some_and(|(known, _)| *known == start);
        let found = if is(self.at) {
            Ok(self.at)
        } else if is(self.at + 1) {
            Ok(self.at + 1)
        } else {
            self.slots.binary_search_by_key(&start, |(known, _)| *known)
        };
        match found {
            Ok(at) => self.at = at,
            Err(at) if at == self.slots.len() && self.missing.is_empty() => {
                self.slots.push((start, new()));
                self.at = at;
            }
            Err(_) => return self.missing.entry(start).or_insert_with(new),
        }
        &mut self.slots[self.at].1
    }

    /// Puts in what was missing; gives how many windows there are now.
    pub(super) fn done(self) -> usize {
        if !self.missing.is_empty() {
            self.slots.extend(self.missing);
            self.slots.sort_by_key(|(start, _)| *start);
        }
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Slot {
        Slot { first: None, others: Vec::new(), chosen: None, ranked: BTreeMap::new() }
    }

    fn of(starts: &[i64]) -> Timeline {
        let mut timeline = Timeline::default();
        let mut filling = timeline.filling();
        for start in starts {
            filling.slot(*start, empty);
        }
        assert_eq!(filling.done(), timeline.len());
        timeline
    }

    fn starts(timeline: Timeline) -> Vec<i64> {
        timeline.into_slots().into_iter().map(|(start, _)| start).collect()
    }

    #[test]
    fn windows_are_in_order_however_they_come() {
        assert_eq!(starts(of(&[1, 2, 5, 5, 9])), [1, 2, 5, 9]);
        assert_eq!(starts(of(&[9, 5, 2, 5, 1])), [1, 2, 5, 9]);
        let mut timeline = of(&[2, 4]);
        let mut filling = timeline.filling();
        for start in [1, 2, 3, 4, 5] {
            filling.slot(start, empty);
        }
        assert_eq!(filling.done(), 5);
        assert_eq!(starts(timeline), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn timelines_are_merged_in_order() {
        for (a, b) in [([1, 2], [3, 4]), ([3, 4], [1, 2]), ([1, 3], [2, 4]), ([1, 4], [1, 4])] {
            let mut merged = of(&a);
            merged.merge(of(&b));
            let mut wanted: Vec<i64> = a.into_iter().chain(b).collect();
            wanted.sort_unstable();
            wanted.dedup();
            assert_eq!(starts(merged), wanted);
        }
    }
}
