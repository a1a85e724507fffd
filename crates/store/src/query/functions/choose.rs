//! Selectors of several points: top, bottom, sample.

use std::any::Any;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

use rand::{Rng, SeedableRng};

use super::aggregate::Point;
use super::collect::{Row, by_value};
use super::column::Column;
use super::element::{Element, Number};
use super::reduce::State;

/// `top` and `bottom`: the greatest or least values, of equals the earliest; in order of time.
#[derive(Debug)]
pub struct Top<T: Number> {
    limit: usize,
    bottom: bool,
    descending: bool,
    rows: Vec<Row<T>>,
    /// The worst of the best when last cut: what is worse need not be kept.
    bar: Option<T>,
}

impl<T: Number> Top<T> {
    pub fn new(limit: u64, bottom: bool, descending: bool) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).max(1);
        Self { limit, bottom, descending, rows: Vec::new(), bar: None }
    }

    fn cut(&mut self) {
        let bottom = self.bottom;
        // Stable: of equals of one time the one that came first.
        self.rows.sort_by(|a, b| {
            let order = by_value(&a.value, &b.value);
            if bottom { order } else { order.reverse() }.then(a.time.cmp(&b.time))
        });
        self.rows.truncate(self.limit);
        if self.rows.len() == self.limit {
            self.bar = self.rows.last().map(|row| row.value);
        }
    }

    fn tidy(&mut self) {
        if self.rows.len() >= self.limit.saturating_mul(2).saturating_add(64) {
            self.cut();
        }
    }
}

impl<T: Number> State for Top<T> {
    fn update(
        &mut self,
        times: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        token: u64,
    ) -> Option<usize> {
        T::each(column, rows, |at, value| {
            let value = T::own(value);
            let hopeless = |bar: T| if self.bottom { value > bar } else { value < bar };
            if self.bar.is_some_and(hopeless) {
                return;
            }
            let time = times.get(at).copied().unwrap_or_default();
            self.rows.push(Row { value, time, token: token.wrapping_add(at as u64) });
            self.tidy();
        });
        None
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        if let Some(other) = other.downcast_mut::<Self>() {
            self.rows.append(&mut other.rows);
            self.tidy();
        }
        false
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        self.cut();
        in_order(&mut self.rows, self.descending, into);
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.rows.capacity() * size_of::<Row<T>>()
    }
}

fn in_order<T: Element>(rows: &mut Vec<Row<T>>, descending: bool, into: &mut Vec<Point>) {
    rows.sort_by(|a, b| if descending { b.time.cmp(&a.time) } else { a.time.cmp(&b.time) });
    let point =
        |row: Row<T>| Point { time: Some(row.time), value: row.value.value(), token: row.token };
    into.extend(rows.drain(..).map(point));
}

/// `sample`: points drawn by chance, each with the same one.
#[derive(Debug)]
pub struct Sample<T: Element> {
    limit: usize,
    descending: bool,
    /// Each row draws a ticket; the lowest ones are kept, so that parts merge fairly.
    drawn: BinaryHeap<Ticket<T>>,
    chance: rand::rngs::SmallRng,
}

#[derive(Debug)]
struct Ticket<T>(u64, Row<T>);

impl<T> PartialEq for Ticket<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Ticket<T> {}

impl<T> PartialOrd for Ticket<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ticket<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T: Element> Sample<T> {
    pub fn new(limit: u64, descending: bool) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let chance = rand::rngs::SmallRng::from_rng(&mut rand::rng());
        Self { limit, descending, drawn: BinaryHeap::new(), chance }
    }

    fn keep(&mut self, ticket: Ticket<T>) {
        self.drawn.push(ticket);
        if self.drawn.len() > self.limit {
            self.drawn.pop();
        }
    }
}

impl<T: Element> State for Sample<T> {
    fn update(
        &mut self,
        times: &[i64],
        column: &Column<'_>,
        rows: Range<usize>,
        token: u64,
    ) -> Option<usize> {
        T::each(column, rows, |at, value| {
            let ticket = self.chance.random::<u64>();
            let full = self.drawn.len() >= self.limit;
            if full && self.drawn.peek().is_none_or(|worst| worst.0 <= ticket) {
                return;
            }
            let time = times.get(at).copied().unwrap_or_default();
            let token = token.wrapping_add(at as u64);
            self.keep(Ticket(ticket, Row { value: T::own(value), time, token }));
        });
        None
    }

    fn merge(&mut self, other: &mut dyn Any) -> bool {
        if let Some(other) = other.downcast_mut::<Self>() {
            other.drawn.drain().for_each(|ticket| self.keep(ticket));
        }
        false
    }

    fn finish(&mut self, into: &mut Vec<Point>) {
        let mut rows: Vec<_> = self.drawn.drain().map(|ticket| ticket.1).collect();
        // Tickets are in no order; tokens bring points of one time into that of their rows.
        rows.sort_by_key(|row| row.token);
        in_order(&mut rows, self.descending, into);
    }

    fn bytes(&self) -> usize {
        let heap = self.drawn.peek().map_or(0, |ticket| ticket.1.value.heap());
        size_of_val(self) + self.drawn.capacity() * (size_of::<Ticket<T>>() + heap)
    }
}
