//! What a statement is evaluated with: for the outermost one what is written, for a sub-query
//! also what it takes over from the statements around it.

use wire::influxql::ast::{Expr, Fill, Select};

use super::compile::Interval;
use super::expressions::{is_math, ranking_tags, walk};
use super::prepare::PreparedSelect;
use crate::query::context::Context;
use crate::query::window::{MAX_TIME, Windows};
use crate::refusal::QueryError;
use crate::scan::TimeRange;

/// A statement with what surrounds it (`IteratorOptions` in InfluxDB's `query/iterator.go`).
#[derive(Clone, Debug)]
pub(super) struct Frame<'a> {
    /// The statement that is executed.
    pub(super) of: &'a PreparedSelect,
    /// The times that it reads.
    pub(super) range: TimeRange,
    /// The windows of its `GROUP BY time()`.
    pub(super) interval: Interval,
    /// The tags by which the answer is grouped, sorted.
    pub(super) outer_tags: Vec<String>,
    /// The tags by which this statement groups, sorted: the same, or more of them.
    pub(super) tags: Vec<String>,
    /// What gaps are filled with.
    pub(super) fill: Fill,
    /// `SLIMIT`; 0 is without.
    pub(super) series_limit: u64,
    /// `SOFFSET`.
    pub(super) series_offset: u64,
}

impl<'a> Frame<'a> {
    /// The outermost statement.
    ///
    /// # Errors
    /// When it has more windows than it may.
    pub(super) fn outermost(of: &'a PreparedSelect, context: &Context) -> Result<Self, QueryError> {
        let tags = sorted(of.dimensions.clone());
        let fill = match of.select.fill {
            // Nulls are not written.
            Fill::Null if of.select.target.is_some() => Fill::None,
            fill => fill,
        };
        let frame = Self {
            of,
            range: of.time,
            interval: of.interval,
            outer_tags: tags.clone(),
            tags,
            fill,
            series_limit: of.select.series_limit,
            series_offset: of.select.series_offset,
        };
        frame.windows(frame.range).limit(context.limits.max_select_buckets)?;
        Ok(frame)
    }

    /// A sub-query, of which the one around it wants some times.
    pub(super) fn inner(&self, of: &'a PreparedSelect, range: TimeRange, now_ns: i64) -> Self {
        let mut range = of.time.intersect(range);
        let own = of
            .select
            .dimensions
            .iter()
            .any(|one| matches!(one, wire::influxql::ast::Dimension::Time { .. }));
        if own && range.max == MAX_TIME {
            range.max = now_ns;
        }
        let fill = match of.select.fill {
            Fill::Null if !is_raw(&of.select) => Fill::None,
            fill => fill,
        };
        // What this statement ranks by must be told apart in what it reads.
        let ranked = ranking_tags(&self.of.select);
        let tags = self.tags.iter().chain(&of.dimensions).cloned().chain(ranked).collect();
        Self {
            of,
            range,
            interval: if own { of.interval } else { self.interval },
            outer_tags: self.outer_tags.clone(),
            tags: sorted(tags),
            fill,
            series_limit: of.select.series_limit.saturating_add(self.series_limit),
            series_offset: of.select.series_offset.saturating_add(self.series_offset),
        }
    }

    /// The windows over some times.
    pub(super) fn windows(&self, range: TimeRange) -> Windows {
        let Interval { duration, offset } = self.interval;
        Windows::new(duration, offset, self.of.zone.clone(), range)
    }

    /// Whether its rows are made window by window rather than point by point.
    pub(super) fn is_windowed(&self) -> bool {
        let mut windowed = false;
        for field in &self.of.select.fields {
            walk(&field.expr, &mut |expr| {
                windowed |= matches!(expr, Expr::Call { name, .. } if is_windowed(name));
                true
            });
        }
        windowed
    }

    /// Whether the newest comes first.
    pub(super) fn descending(&self) -> bool {
        self.of.select.descending
    }

    /// Whether the answer is written somewhere.
    pub(super) fn is_into(&self) -> bool {
        self.of.select.target.is_some()
    }

    /// The tags that a ranking call adds to the points it writes, besides those of `GROUP BY`.
    pub(super) fn written_tags(&self) -> Vec<String> {
        if self.is_into() { ranking_tags(&self.of.select) } else { Vec::new() }
    }
}

/// Whether a function takes the points of a window together, or single values.
fn is_windowed(name: &str) -> bool {
    let one_by_one = matches!(
        name,
        "derivative"
            | "non_negative_derivative"
            | "difference"
            | "non_negative_difference"
            | "moving_average"
            | "cumulative_sum"
            | "elapsed"
    );
    !one_by_one && !is_math(name)
}

/// Whether no function is called.
fn is_raw(select: &Select) -> bool {
    let mut raw = true;
    for field in &select.fields {
        walk(&field.expr, &mut |inner| {
            raw &= !matches!(inner, Expr::Call { .. });
            true
        });
    }
    raw
}

fn sorted(mut tags: Vec<String>) -> Vec<String> {
    tags.sort();
    tags.dedup();
    tags
}
