//! Reading no more points than must be: what is known of them without reading answers `count()`,
//! and says where `min()` and `max()` can't be.

use std::cmp::Ordering;

use super::execute::{Pass, Task, read_tasks};
use super::feeds::{Bound, Feed, Origin, Table};
use super::plan::Base;
use super::slots::Slots;
use crate::condition::RowFilter;
use crate::outline::{Bounds, Piece};
use crate::query::context::Context;
use crate::query::functions::aggregate::{Aggregate, Kind};
use crate::refusal::QueryError;
use crate::scan::TimeRange;
use crate::value::Value;

/// More series than this are read as one.
const FEEDS_MAX: usize = 64;

/// A piece of a feed.
struct OutlinePart<'a> {
    feed: &'a (usize, &'a Feed),
    piece: Piece,
    is_read: bool,
}

/// One of the calls that work on the same column.
#[derive(Clone, Copy)]
struct ColumnCall {
    /// Its place among the calls of the pass.
    at: usize,
    kind: Kind,
}

/// The windows of some groups, and the memory reserved for them, if something is known that spares
/// reading; `None` where all has to be read.
pub(super) fn windows(
    pass: &Pass,
    feeds: &[(usize, &Feed)],
    context: &Context,
) -> Result<Option<(Slots, usize)>, QueryError> {
    let Some((table, field, aggregate)) = suitable(pass, feeds) else { return Ok(None) };
    let calls: Vec<ColumnCall> =
        pass.windowed.aggregates().map(|(at, of)| ColumnCall { at, kind: of.kind() }).collect();
    let mut parts: Vec<OutlinePart<'_>> = Vec::new();
    for feed in feeds {
        let Some(series) = feed.1.series() else { return Ok(None) };
        let outline =
            table.view.outline(&table.name, series.id, (field, aggregate.input()), pass.range);
        let outline = outline.map_err(|error| QueryError(error.to_string()))?;
        parts.extend(outline.into_iter().map(|piece| OutlinePart { feed, piece, is_read: false }));
    }
    for part in &mut parts {
        part.is_read = !calls.iter().all(|call| match call.kind {
            Kind::Count => part.piece.count.is_some(),
            _ => part.piece.bounds.is_some(),
        });
    }
    if !parts.is_empty() && parts.iter().all(|part| part.is_read) {
        return Ok(None);
    }
    let unknown = reads(parts.iter().filter(|part| part.is_read));
    let threads = context.pool.as_ref().map_or(1, |pool| pool.current_num_threads());
    let tasks = unknown.into_iter().flat_map(|(feed, range)| {
        let spans = table.view.split(&table.name, range, threads * 2);
        spans.into_iter().map(move |span| (std::slice::from_ref(feed), span))
    });
    let (mut slots, mut held) = read_tasks(pass, tasks.collect(), context)?;
    for call in calls.iter().filter(|call| call.kind != Kind::Count) {
        for group in groups(feeds) {
            held += search(pass, call, group, &mut parts, &mut slots, context)?;
        }
    }
    for part in parts.iter().filter(|part| !part.is_read) {
        let count = part.piece.count.unwrap_or(0);
        for call in calls.iter().filter(|call| call.kind == Kind::Count) {
            pass.windowed.add_count(&mut slots, part.feed.0, call.at, part.piece.time.min, count);
        }
    }
    Ok(Some((slots, held)))
}

/// The table, the field and one of the calls, where all of them are `count()`, `min()` and `max()`
/// of this field, over all times as one window, of points that no condition leaves out.
fn suitable<'a>(
    pass: &'a Pass,
    feeds: &[(usize, &Feed)],
) -> Option<(&'a Table, &'a str, Aggregate)> {
    if feeds.len() > FEEDS_MAX || !pass.windowed.is_one_window() {
        return None;
    }
    let (column, aggregate) = pass.windowed.only_column()?;
    let fits = |base: &Base| {
        let Base::Aggregate(one) = base else { return false };
        matches!(one.kind(), Kind::Count | Kind::Min | Kind::Max)
    };
    if !pass.windowed.bases().all(fits) {
        return None;
    }
    let mut tables = feeds.iter().map(|(_, feed)| match (&feed.origin, &feed.rows) {
        (Origin::Series(table, _), RowFilter::All) => Some(*table),
        _ => None,
    });
    let table = tables.next().flatten()?;
    if !tables.all(|other| other == Some(table)) {
        return None;
    }
    let table = pass.feeds.tables.get(table)?;
    match table.bound.get(column)? {
        Bound::Field(at, Some(of)) if *of == aggregate.input() => {
            Some((table, table.fields.get(*at)?, aggregate))
        }
        _ => None,
    }
}

fn groups(feeds: &[(usize, &Feed)]) -> Vec<usize> {
    let mut groups: Vec<usize> = feeds.iter().map(|(group, _)| *group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Neighbouring pieces are read at once.
fn reads<'a, 'b: 'a>(
    parts: impl Iterator<Item = &'a OutlinePart<'b>>,
) -> Vec<(&'b (usize, &'b Feed), TimeRange)> {
    let mut reads: Vec<(&(usize, &Feed), TimeRange)> = Vec::new();
    for part in parts {
        let time = part.piece.time;
        match reads.last_mut() {
            Some((feed, range))
                if std::ptr::eq(*feed, part.feed) && range.max.checked_add(1) == Some(time.min) =>
            {
                range.max = time.max;
            }
            _ => reads.push((part.feed, time)),
        }
    }
    reads
}

/// Reads the pieces of a group in which there may be a point that is chosen, the best first.
fn search<'a>(
    pass: &Pass,
    call: &ColumnCall,
    group: usize,
    parts: &mut [OutlinePart<'a>],
    slots: &mut Slots,
    context: &Context,
) -> Result<usize, QueryError> {
    let mut order: Vec<usize> = (0..parts.len())
        .filter(|at| parts.get(*at).is_some_and(|part| !part.is_read && part.feed.0 == group))
        .collect();
    order.sort_by(|a, b| {
        let best = |at: &usize| parts.get(*at).map(|part| part.piece);
        let (a, b) = (best(a), best(b));
        let values = a
            .and_then(|a| edge(a.bounds, call.kind))
            .zip(b.and_then(|b| edge(b.bounds, call.kind)));
        let values = values.and_then(|(a, b)| compare(&a, &b)).unwrap_or(Ordering::Equal);
        let values = if call.kind == Kind::Max { values.reverse() } else { values };
        values.then(a.map(|a| a.time.min).cmp(&b.map(|b| b.time.min)))
    });
    let mut order = order.into_iter();
    let (mut held, mut at_once) = (0, 1);
    loop {
        let best = slots.held(group, call.at);
        let mut chosen = Vec::with_capacity(at_once);
        for at in order.by_ref() {
            let Some(part) = parts.get_mut(at) else { continue };
            if may_win(&part.piece, call.kind, best.as_ref()) {
                part.is_read = true;
                chosen.push(at);
            }
            if chosen.len() == at_once {
                break;
            }
        }
        if chosen.is_empty() {
            return Ok(held);
        }
        chosen.sort_unstable();
        let reads = reads(chosen.iter().filter_map(|at| parts.get(*at)));
        let tasks: Vec<Task<'_, '_>> =
            reads.into_iter().map(|(feed, range)| (std::slice::from_ref(feed), range)).collect();
        let (more, bytes) = read_tasks(pass, tasks, context)?;
        *slots = Slots::join(vec![std::mem::take(slots), more]);
        held += bytes;
        at_once *= 2;
    }
}

/// Whether a piece may have a point that takes the place of the best: a better one, or an equal
/// one that is earlier.
fn may_win(piece: &Piece, kind: Kind, best: Option<&(Value, i64)>) -> bool {
    let (Some((best, time)), Some(edge)) = (best, edge(piece.bounds, kind)) else { return true };
    let better = if kind == Kind::Max { Ordering::Greater } else { Ordering::Less };
    match compare(&edge, best) {
        None => true,
        Some(Ordering::Equal) => piece.time.min < *time,
        Some(order) => order == better,
    }
}

/// The best value there may be.
fn edge(bounds: Option<Bounds>, kind: Kind) -> Option<Value> {
    let most = kind == Kind::Max;
    Some(match bounds? {
        Bounds::Float(a, b) => Value::Float(if most { b } else { a }),
        Bounds::Integer(a, b) => Value::Integer(if most { b } else { a }),
        Bounds::Unsigned(a, b) => Value::Unsigned(if most { b } else { a }),
    })
}

fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Integer(a), Value::Integer(b)) => Some(a.cmp(b)),
        (Value::Unsigned(a), Value::Unsigned(b)) => Some(a.cmp(b)),
        _ => None,
    }
}
