//! Selectors of one point: min, max, first, last.

use std::any::Any;
use std::cmp::Ordering;
use std::ops::Range;

use super::aggregate::Point;
use super::column::Column;
use super::element::Element;
use super::reduce::State;
use crate::value::Value;

/// Which point is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The least value; of equals the earliest.
    Min,
    /// The greatest value; of equals the earliest.
    Max,
    /// The earliest; of those the greatest value, but false before true.
    First,
    /// The latest; of those the greatest value.
    Last,
}

/// The point picked so far.
#[derive(Debug)]
pub struct Pick<T: Element> {
    rule: Rule,
    best: Option<(T, i64, u64)>,
}

impl<T: Element> Pick<T> {
    pub fn new(rule: Rule) -> Self {
        Self { rule, best: None }
    }

    /// Whether a point takes the place of the one that is held (the `...Reduce` functions of
    /// InfluxDB's `query/call_iterator.go`).
    fn wins(&self, time: i64, value: T::Ref<'_>) -> bool {
        let Some((best, best_time, _)) = &self.best else { return true };
        let order = T::compare(value, best.lend());
        match self.rule {
            Rule::Min => match order {
                Some(Ordering::Equal) => time < *best_time,
                order => order == Some(Ordering::Less),
            },
            Rule::Max => match order {
                Some(Ordering::Equal) => time < *best_time,
                order => order == Some(Ordering::Greater),
            },
            Rule::First if time == *best_time => order == Some(T::FIRST_OF_TIES),
            Rule::Last if time == *best_time => order == Some(Ordering::Greater),
            Rule::First => time < *best_time,
            Rule::Last => time > *best_time,
        }
    }

    /// The rows of a run of valid ones that may win, without looking at each where the types
    /// allow it.
    fn candidates(&self, times: &[i64], column: &Column<'_>, run: Range<usize>) -> Range<usize> {
        let (Some(first), Some(last)) = (times.get(run.start), times.get(run.end - 1)) else {
            return run;
        };
        match self.rule {
            Rule::Min | Rule::Max => {
                let best = T::extreme(column, run.clone(), self.rule == Rule::Min);
                let Some(best) = best else { return run };
                // Most runs do not even have an equal of what is held.
                if !self.wins(*first.min(last), best.lend()) {
                    return run.start..run.start;
                }
                match T::find(column, run.clone(), &best) {
                    // Of equals the earliest, which is the first one where times ascend.
                    Some(at) if first <= last => at..at + 1,
                    Some(at) => at..run.end,
                    None => run,
                }
            }
            Rule::First | Rule::Last => {
                let at_end = (self.rule == Rule::Last) == (first <= last);
                let span = times.get(run.clone()).unwrap_or_default();
                // Several points of one time come from several series only.
                if at_end {
                    let ties = span.iter().rev().take_while(|time| *time == last).count();
                    run.end - ties.max(1)..run.end
                } else {
                    let ties = span.iter().take_while(|time| *time == first).count();
                    run.start..run.start + ties.max(1)
                }
            }
        }
    }
}

impl<T: Element> State for Pick<T> {
    fn update(
        &mut self,
        times: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        token: u64,
    ) -> Option<usize> {
        let mut chosen = None;
        column.valid_runs(rows, |run| {
            let run = self.candidates(times, column, run);
            T::each(column, run, |at, value| {
                let Some(time) = times.get(at).copied() else { return };
                if self.wins(time, value) {
                    self.best = Some((T::own(value), time, token.wrapping_add(at as u64)));
                    chosen = Some(at);
                }
            });
        });
        chosen
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        let Some(other) = other.downcast_mut::<Self>() else { return false };
        let Some((value, time, token)) = other.best.take() else { return false };
        let wins = self.wins(time, value.lend());
        if wins {
            self.best = Some((value, time, token));
        }
        wins
    }

    fn held(&self) -> Option<(Value, i64)> {
        self.best.as_ref().map(|(value, time, _)| (value.value(), *time))
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        if let Some((value, time, token)) = self.best.take() {
            into.push(Point { time: Some(time), value: value.value(), token });
        }
    }
}
