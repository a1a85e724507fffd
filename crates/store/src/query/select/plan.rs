//! What is read of the sources and what is done with it: the calls of a statement as steps.

use std::collections::HashMap;

use wire::influxql::ast::{Cast, Expr, Fill};

use super::expressions::{is_math, is_selector, ranking_columns};
use super::frame::Frame;
use super::prepare::type_of;
use super::types::{self, Type, Types};
use crate::query::expr::{Compiled, Division};
use crate::query::fill::Filling;
use crate::query::functions::aggregate::{Aggregate, Kind};
use crate::query::functions::call::{Call, Setting};
use crate::query::functions::transform::Transform;
use crate::refusal::QueryError;
use crate::scan::TimeRange;
use crate::schema::FieldType;

/// A tag or field that is read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    /// The name of the tag or field.
    pub(super) name: String,
    /// Its type, [`Cast::Tag`] for tags.
    pub(super) of: Type,
}

impl Column {
    /// The type of its values.
    pub(super) fn kind(&self) -> Option<FieldType> {
        types::values(self.of)
    }
}

/// What a call does with the points it reads, before any further step.
#[derive(Clone, Debug)]
pub(super) enum Base {
    /// One value of each window, or some.
    Aggregate(Aggregate),
    /// The best point for each combination of some tags, and of these the best.
    Ranking {
        /// `max()` or `min()`, which picks a point for each combination.
        pick: Aggregate,
        /// `top()` or `bottom()`, which picks among these.
        rank: Aggregate,
        /// The tags whose values are combined.
        tags: Vec<String>,
        /// Whether the tags' values follow what stands beside a point, since they are written.
        keeps_tags: bool,
    },
    /// The first or last point of all, which of several of one time is a matter of their order.
    Edge(Aggregate),
    /// The area under the points.
    Integral {
        /// Nanoseconds of its unit.
        unit_ns: i64,
        /// The type of its argument.
        kind: FieldType,
    },
    /// The points as they are.
    Points,
}

/// What is done with the points of a group afterwards.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Points get the times of their windows.
    Interval,
    /// Windows without points are filled.
    Fill(Filling),
    /// Each point is made from those before it.
    Transform(Transform),
}

/// A call of a function on a column.
#[derive(Clone, Debug)]
pub(super) struct CallPlan {
    /// The place of the column it reads.
    pub(super) column: usize,
    /// What it does with its points.
    pub(super) base: Base,
    /// What is done then.
    pub(super) steps: Vec<Step>,
    /// The times it reads.
    pub(super) range: TimeRange,
    /// The type of its values.
    pub(super) kind: FieldType,
}

/// How a column of the answer is made.
#[derive(Clone, Debug)]
pub(super) enum Output {
    /// It is the value of this number.
    Value(usize),
    /// It is computed from them.
    Computed(Compiled),
}

/// A statement in steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// The tags and fields that are read.
    pub(super) columns: Vec<Column>,
    /// The place of each, by its name and the order of its type.
    places: HashMap<(String, u8), usize>,
    /// The calls; `None` are those of a column that is nowhere.
    pub(super) calls: Vec<Option<CallPlan>>,
    /// Whether the type of each call is known without its points, as that of `mean()` is: then it
    /// is filled, also where it has a point nowhere.
    pub(super) is_typed: Vec<bool>,
    /// The places of the columns that are selected beside a call, or without one.
    pub(super) beside: Vec<usize>,
    /// How many tags' values follow those of `beside`: what a ranking call ranks by, which `INTO`
    /// writes as tags. They are the last values of a row.
    pub(super) written_tags: usize,
    /// How each column of the answer but the time is made of the calls and then of `beside`.
    pub(super) outputs: Vec<Output>,
    /// The types of the calls and of `beside`, and of the tags that are written.
    pub(super) kinds: Vec<Option<FieldType>>,
}

impl Plan {
    /// Plans a statement.
    ///
    /// # Errors
    /// When a function does not take the type of its argument.
    pub(super) fn of(frame: &Frame<'_>) -> Result<Self, QueryError> {
        let (mut calls, mut beside) = (Distinct::default(), Distinct::default());
        let mut wanted: Vec<&Expr> = Vec::new();
        for field in &frame.of.select.fields {
            wanted.push(&field.expr);
            if !frame.is_into() {
                wanted.extend(ranking_columns(&field.expr));
            }
        }
        wanted.iter().for_each(|expr| gather(expr, &mut calls, &mut beside));
        let beside = beside.sorted();

        let mut plan = Self::default();
        let selector = match calls.all.as_slice() {
            [Expr::Call { name, .. }] => is_selector(name),
            _ => false,
        };
        for call in &calls.all {
            let of = Types { of_name: &|_| Ok(None) }.of(call)?;
            // A call whose type is not known is left out, even where it could count nothing.
            let planned = match of {
                Some(_) => plan.steps(call, frame, frame.range, selector)?,
                None => None,
            };
            plan.is_typed.push(of.is_some());
            plan.kinds.push(planned.as_ref().map_or(types::values(of), |call| Some(call.kind)));
            plan.calls.push(planned);
        }
        for expr in &beside.all {
            let at = plan.column(expr);
            plan.beside.push(at);
            plan.kinds.push(plan.columns.get(at).and_then(Column::kind));
        }
        let symbol = |expr: &Expr| {
            let other = || beside.place(expr).map(|at| calls.all.len() + at);
            calls.place(expr).or_else(other)
        };
        let output = |expr: &&Expr| match symbol(expr) {
            Some(at) => Ok(Output::Value(at)),
            None => {
                let mut symbol = |expr: &Expr| symbol(expr);
                Compiled::new(expr, &mut symbol, Division::Float).map(Output::Computed)
            }
        };
        plan.outputs = wanted.iter().map(output).collect::<Result<_, _>>()?;
        for tag in 0..frame.written_tags().len() {
            plan.outputs.push(Output::Value(calls.all.len() + beside.all.len() + tag));
            plan.kinds.push(Some(FieldType::String));
            plan.written_tags += 1;
        }
        Ok(plan)
    }

    /// Whether no function of several points is called.
    pub(super) fn is_raw(&self) -> bool {
        self.calls.is_empty()
    }

    /// The place of a column, which is added where it is missing.
    fn column(&mut self, expr: &Expr) -> usize {
        let column = match expr {
            Expr::Reference { name, cast } => Column { name: name.clone(), of: *cast },
            _ => Column { name: String::new(), of: None },
        };
        let next = self.columns.len();
        let named = (column.name.clone(), types::order(column.of));
        let at = *self.places.entry(named).or_insert(next);
        if at == next {
            self.columns.push(column);
        }
        at
    }

    /// The steps of a call, those of the calls within it first.
    fn steps(
        &mut self,
        expr: &Expr,
        frame: &Frame<'_>,
        range: TimeRange,
        selector: bool,
    ) -> Result<Option<CallPlan>, QueryError> {
        let Expr::Call { name, arguments } = expr else { return Ok(None) };
        let duration = frame.interval.duration;
        let at = Setting { windows: duration != 0, inherited: true, wildcards: true, limit: 0 };
        let first = arguments.first();
        match Call::compile(name, arguments, &at)? {
            Call::Aggregate(kind) => self.aggregate(kind, expr, frame, range, selector),
            Call::Integral { unit_ns } => {
                let Some((column, kind)) = first.and_then(|one| self.read(one)) else {
                    return Ok(None);
                };
                let base = Base::Integral { unit_ns, kind };
                let kind = FieldType::Float;
                Ok(Some(CallPlan { column, base, steps: Vec::new(), range, kind }))
            }
            Call::Transform(kind) => {
                let range = earlier(range, duration * kind.extra_windows(), frame.descending());
                let inner = match first {
                    Some(inner @ Expr::Call { .. }) => self.steps(inner, frame, range, selector)?,
                    Some(one) => self.read(one).map(|(column, kind)| {
                        let (base, steps) = (Base::Points, Vec::new());
                        CallPlan { column, base, steps, range, kind }
                    }),
                    None => None,
                };
                let Some(mut plan) = inner else { return Ok(None) };
                let interval = Some(duration).filter(|interval| *interval > 0);
                let transform = Transform::new(kind, plan.kind, interval, frame.descending());
                let transform = match transform {
                    Err(_) if self.is_nowhere(plan.column, frame)? => return Ok(None),
                    transform => transform?,
                };
                plan.kind = transform.output();
                plan.steps.push(Step::Transform(transform));
                Ok(Some(plan))
            }
        }
    }

    /// The steps of an aggregate or selector.
    fn aggregate(
        &mut self,
        kind: Kind,
        expr: &Expr,
        frame: &Frame<'_>,
        range: TimeRange,
        selector: bool,
    ) -> Result<Option<CallPlan>, QueryError> {
        let Expr::Call { arguments, .. } = expr else { return Ok(None) };
        let duration = frame.interval.duration;
        let argument = match arguments.first() {
            Some(Expr::Call { arguments, .. }) => arguments.first(),
            argument => argument,
        };
        let Some((column, kind_in)) = argument.and_then(|one| self.read(one)) else {
            return Ok(None);
        };
        let aggregate = match Aggregate::new(kind, kind_in, frame.descending()) {
            Ok(aggregate) => aggregate,
            // Functions see no tags, so that it does not matter that they are text.
            Err(_) if self.is_tag(column) => return Ok(None),
            // Nor a field that is nowhere, whatever type is written behind it.
            Err(_) if self.is_nowhere(column, frame)? => return Ok(None),
            Err(error) => return Err(error),
        };
        let tags = ranking_columns(expr);
        let base = if duration == 0 && matches!(kind, Kind::First | Kind::Last) {
            Base::Edge(aggregate)
        } else if tags.is_empty() {
            Base::Aggregate(aggregate)
        } else {
            let pick = if matches!(kind, Kind::Top(_)) { Kind::Max } else { Kind::Min };
            let pick = Aggregate::new(pick, kind_in, frame.descending())?;
            let (tags, keeps_tags) = (names(tags), frame.is_into());
            Base::Ranking { pick, rank: aggregate, tags, keeps_tags }
        };
        let steps = aggregate_steps(&aggregate, frame, selector);
        let kind = aggregate.output();
        Ok(Some(CallPlan { column, base, steps, range, kind }))
    }

    fn is_tag(&self, column: usize) -> bool {
        self.columns.get(column).is_some_and(|column| column.of == Some(Cast::Tag))
    }

    fn is_nowhere(&self, column: usize, frame: &Frame<'_>) -> Result<bool, QueryError> {
        let Some(column) = self.columns.get(column) else { return Ok(true) };
        Ok(type_of(&column.name, &frame.of.sources)?.is_none())
    }

    /// The place and type of an argument that is known somewhere.
    fn read(&mut self, expr: &Expr) -> Option<(usize, FieldType)> {
        let at = self.column(expr);
        let kind = self.columns.get(at).and_then(Column::kind)?;
        Some((at, kind))
    }
}

/// What follows an aggregate or selector.
fn aggregate_steps(aggregate: &Aggregate, frame: &Frame<'_>, selector: bool) -> Vec<Step> {
    let windows = frame.interval.duration != 0;
    match aggregate.kind() {
        Kind::Top(_) | Kind::Bottom(_) | Kind::Sample(_) => return Vec::new(),
        Kind::Distinct => return vec![Step::Interval],
        _ if selector && !windows => return Vec::new(),
        _ => {}
    }
    let mut steps = vec![Step::Interval];
    if windows && frame.fill != Fill::None {
        let count =
            matches!(aggregate.kind(), Kind::Count | Kind::CountDistinct | Kind::CountOfResults);
        let filling = Filling { fill: frame.fill, count, kind: aggregate.output() };
        steps.push(Step::Fill(filling));
    }
    steps
}

/// A span with a bit more on the side where it begins.
pub(super) fn earlier(range: TimeRange, by: i64, descending: bool) -> TimeRange {
    use crate::query::window::{MAX_TIME, MIN_TIME};
    if descending {
        let max = range.max.saturating_add(by).min(MAX_TIME);
        TimeRange { max, ..range }
    } else {
        let min = range.min.saturating_sub(by).max(MIN_TIME);
        TimeRange { min, ..range }
    }
}

fn names(references: &[Expr]) -> Vec<String> {
    let name = |expr: &Expr| match expr {
        Expr::Reference { name, .. } => Some(name.clone()),
        _ => None,
    };
    references.iter().filter_map(name).collect()
}

/// Expressions, each once: a statement may have tens of thousands.
#[derive(Default)]
struct Distinct<'a> {
    all: Vec<&'a Expr>,
    by_text: HashMap<String, Vec<usize>>,
}

impl<'a> Distinct<'a> {
    fn add(&mut self, expr: &'a Expr) {
        let places = self.by_text.entry(expr.to_string()).or_default();
        if !places.iter().any(|at| self.all[*at] == expr) {
            places.push(self.all.len());
            self.all.push(expr);
        }
    }

    fn place(&self, expr: &Expr) -> Option<usize> {
        let mut places = self.by_text.get(&expr.to_string())?.iter().copied();
        places.find(|at| self.all[*at] == expr)
    }

    /// The same by name and type.
    fn sorted(mut self) -> Self {
        self.all.sort_by_key(|expr| match expr {
            Expr::Reference { name, cast } => (name.clone(), types::order(*cast)),
            _ => (String::new(), 0),
        });
        let mut sorted = Self::default();
        self.all.into_iter().for_each(|expr| sorted.add(expr));
        sorted
    }
}

/// The calls and the references beside them.
fn gather<'a>(expr: &'a Expr, calls: &mut Distinct<'a>, beside: &mut Distinct<'a>) {
    match expr {
        Expr::Reference { .. } => beside.add(expr),
        Expr::Call { name, arguments } if is_math(name) => {
            arguments.iter().for_each(|inner| gather(inner, calls, beside));
        }
        Expr::Call { .. } => calls.add(expr),
        Expr::Binary { left, right, .. } => {
            gather(left, calls, beside);
            gather(right, calls, beside);
        }
        Expr::Paren(inner) => gather(inner, calls, beside),
        _ => {}
    }
}
