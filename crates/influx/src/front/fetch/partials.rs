//! What the members of sets are asked for the aggregates of a query, where their partial results
//! are enough.

use store::query::functions::Kind;
use store::query::select::{FieldNames, MeasurementRead, PartialCall, PartialSelect};
use store::scan::TimeRange;
use wire::influxql::ast::{Expr, Field, Fill, Select};

use super::restriction::condition;

/// A query that is answered by partial results of its aggregates.
#[derive(Clone, Debug, PartialEq)]
pub struct Partials {
    /// The aggregates, in the order of the fields that have their results.
    pub calls: Vec<PartialCall>,
    /// What runs on the results.
    pub select: Select,
    /// Whether each group has one result of each call.
    pub is_one_window: bool,
    /// One for each span of time that calls read, and one for each `distinct()`.
    pub statements: Vec<PartialStatement>,
}

/// A statement about aggregates that read the same times.
#[derive(Clone, Debug, PartialEq)]
pub struct PartialStatement {
    /// What a member of each set is asked.
    pub select: Select,
    /// The times that the statement reads.
    pub range: TimeRange,
    /// The places of calls, and those of the columns that each is made of; the time is at 0.
    pub calls: Vec<(usize, Vec<usize>)>,
}

impl Partials {
    /// Of a query that reads so; `None` where partial results are not enough.
    pub fn of(select: &Select, read: &MeasurementRead, now_ns: i64) -> Option<Self> {
        let partial = PartialSelect::of(select, now_ns).ok()??;
        if partial.calls.is_empty() || read.fields == FieldNames::All {
            return None;
        }
        let mut statements = Vec::new();
        let mut ranges: Vec<TimeRange> = Vec::new();
        for (at, call) in partial.calls.iter().enumerate() {
            // InfluxDB takes `distinct()` as the only column of a statement.
            if call.kind == Kind::CountDistinct {
                statements.push(statement(&partial, select, read, &[at]));
            } else if !ranges.contains(&call.range) {
                ranges.push(call.range);
            }
        }
        for range in ranges {
            let is_of_it =
                |call: &PartialCall| call.range == range && call.kind != Kind::CountDistinct;
            let calls = partial.calls.iter().enumerate();
            let places: Vec<usize> =
                calls.filter(|(_, call)| is_of_it(call)).map(|(at, _)| at).collect();
            statements.push(statement(&partial, select, read, &places));
        }
        let is_one_window = !partial.is_windowed;
        Some(Self { calls: partial.calls, select: partial.select, is_one_window, statements })
    }
}

/// What members are asked for calls of the same times.
fn statement(
    partial: &PartialSelect,
    select: &Select,
    read: &MeasurementRead,
    places: &[usize],
) -> PartialStatement {
    let mut range = read.range;
    let mut columns: Vec<Expr> = Vec::new();
    let mut calls = Vec::with_capacity(places.len());
    for (at, call) in places.iter().filter_map(|at| Some((*at, partial.calls.get(*at)?))) {
        range = call.range;
        let place = |name: &&str| {
            let argument = Expr::Reference { name: call.field.clone(), cast: None };
            let expr = Expr::Call { name: (*name).to_owned(), arguments: vec![argument] };
            let known = columns.iter().position(|known| *known == expr);
            let place = known.unwrap_or(columns.len());
            if place == columns.len() {
                columns.push(expr);
            }
            place + 1
        };
        calls.push((at, parts(call.kind).iter().map(place).collect()));
    }
    let named = columns.into_iter().enumerate();
    let fields = named.map(|(n, expr)| Field { expr, alias: Some(format!("p{n}")) }).collect();
    let select = Select {
        fields,
        condition: condition(read, range),
        fill: if partial.is_windowed { Fill::None } else { Fill::Null },
        limit: windows_enough(partial, select),
        offset: 0,
        series_limit: 0,
        series_offset: 0,
        ..select.clone()
    };
    PartialStatement { select, range, calls }
}

/// The functions of which a function is made.
fn parts(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Count => &["count"],
        Kind::CountDistinct => &["distinct"],
        Kind::Sum => &["sum"],
        Kind::Mean => &["sum", "count"],
        Kind::Min => &["min"],
        Kind::Max => &["max"],
        Kind::Spread => &["min", "max"],
        // No others are among the calls.
        _ => &[],
    }
}

/// How many windows of each group are enough; 0 is all of them. A window that is among the first
/// of all is among the first of each set that has it. With several calls the first points of one
/// may lie behind those of another.
fn windows_enough(partial: &PartialSelect, select: &Select) -> u64 {
    let is_alone = match &partial.calls[..] {
        [only] => only.kind != Kind::CountDistinct,
        _ => false,
    };
    let is_enough =
        partial.is_windowed && is_alone && !partial.is_transformed && select.fill != Fill::Linear;
    match select.limit {
        limit if limit > 0 && is_enough => limit.saturating_add(select.offset),
        _ => 0,
    }
}
