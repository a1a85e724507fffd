//! The answers of members become one snapshot: first what they say of policies, types and tags,
//! which one server would know as a whole; then their points, or what their partial results come
//! to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde_json::Value;
use store::query::context::Context;
use store::query::select::RawSelect;
use store::schema::FieldType;
use store::{Gathered, QueryError, Snapshot};
use wire::line;

use super::documents::{Documents, ResultPart, SeriesPart};
use super::held::{HeldMemory, too_many};
use super::merging::{Merging, is_certain, measurement_name, result_field};
use super::plan::{FetchPlan, FetchStatement, Streaming};
use super::schema::{Schema, named_type, next_of, policy_of, refused};
use crate::front::live::RowBounds;

/// Points that were read, and what they take of the query's memory until they go.
pub struct GatheredPoints {
    snapshot: Snapshot,
    _held: HeldMemory,
}

impl GatheredPoints {
    /// The points, to be queried.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

/// What the answers of members come to.
pub enum FetchOutcome {
    /// All points are here.
    Held(GatheredPoints),
    /// Members are to be asked once more, for points that pass through.
    Streamed(Box<RawSelect>),
    /// Members are to be asked once more, for points: what they have of the query's aggregates is
    /// not certain to be that of one server.
    ByPoints,
}

/// Reads the answers to their ends, or as far as their points are to be held.
///
/// # Errors
/// A member's own words; that an answer is not whole; which limit is reached.
pub async fn gather(
    plan: &FetchPlan,
    mut members: Vec<Documents>,
    bounds: RowBounds,
    context: &Context,
) -> Result<FetchOutcome, QueryError> {
    let held = HeldMemory::none(&context.cancel);
    let (into, fields) = (Gathered::default(), BTreeMap::new());
    let mut gathering = Gathering { plan, into, held, fields, rows: 0, bounds, context };
    // The types are those that all members have: no point is read before they are known.
    let mut schema = Schema::default();
    let mut begun = Vec::with_capacity(members.len());
    for member in &mut members {
        match schema.read(plan, member, context).await {
            // What a member refuses the executor tells in the words of one server.
            Err(_) if plan.partials().is_some() => return Ok(FetchOutcome::ByPoints),
            first => begun.push(first?),
        }
    }
    if plan.partials().is_some() {
        return gathering.merged(schema, members.into_iter().zip(begun).collect()).await;
    }
    let several = std::mem::take(&mut schema.several);
    schema.put(plan, context, &mut gathering.into)?;
    if plan.streaming() == Streaming::AtOnce {
        check_casts(plan, &several)?;
        return gathering.streamed();
    }
    for (read, measurement, name) in several {
        let Some(policy) = policy_of(plan, read, context, &gathering.into) else { continue };
        gathering.fields.insert((policy, measurement, name), FieldValues::default());
    }
    for (member, first) in members.iter_mut().zip(begun) {
        let mut next = first;
        while let Some(results) = next {
            if gathering.take(&results)?.is_break() {
                return gathering.streamed();
            }
            next = next_of(member, &context.cancel).await?;
        }
    }
    gathering.check_types()?;
    Ok(gathering.held())
}

/// Whether values of a field came that are of its type, and whether others came.
#[derive(Clone, Copy, Default)]
struct FieldValues {
    has_own: bool,
    has_others: bool,
}

/// A member's answer, and the first results of it that are not about the schema.
type BegunMember = (Documents, Option<Vec<ResultPart>>);

/// Points on their way into a snapshot.
struct Gathering<'a> {
    plan: &'a FetchPlan,
    into: Gathered,
    held: HeldMemory,
    /// What came of each field of several types, by policy and measurement.
    fields: BTreeMap<(u64, String, String), FieldValues>,
    rows: u64,
    bounds: RowBounds,
    context: &'a Context,
}

impl Gathering<'_> {
    fn held(self) -> FetchOutcome {
        let Self { into, held, .. } = self;
        FetchOutcome::Held(GatheredPoints { snapshot: into.snapshot(), _held: held })
    }

    /// Reads partial results, of which the first are here, and makes points of what they come to.
    async fn merged(
        mut self,
        mut schema: Schema,
        members: Vec<BegunMember>,
    ) -> Result<FetchOutcome, QueryError> {
        let plan = self.plan;
        let (Some(partials), Some(read)) = (plan.partials(), plan.read(0)) else {
            return Ok(FetchOutcome::ByPoints);
        };
        let measurement = measurement_name(&read.measurement.name);
        let types = partials.calls.iter().map(|call| {
            let key = (0, measurement.to_owned(), call.field.clone());
            let of = schema.types.get(&key).copied().filter(|_| !schema.mixed.contains(&key));
            of.filter(|of| is_certain(call.kind, *of))
        });
        let Some(types) = types.collect::<Option<Vec<FieldType>>>() else {
            return Ok(FetchOutcome::ByPoints);
        };
        let mut merging = Merging::new(partials, types.clone(), self.bounds.rows_max);
        for (mut member, first) in members {
            let mut next = first;
            while let Some(results) = next {
                for result in results {
                    if let Some(FetchStatement::Partials(at)) = plan.asked(result.statement_id) {
                        merging.take(*at, &result, &mut self.held)?;
                    }
                }
                next = next_of(&mut member, &self.context.cancel).await?;
            }
        }
        // Points have the results of calls, and none of the fields of the measurement.
        schema.types.clear();
        schema.put(plan, self.context, &mut self.into)?;
        if let Some(policy) = policy_of(plan, 0, self.context, &self.into) {
            self.put_results(policy, measurement, &merging, &types)?;
        }
        Ok(self.held())
    }

    fn put_results(
        &mut self,
        policy: u64,
        measurement: &str,
        merging: &Merging<'_>,
        types: &[FieldType],
    ) -> Result<(), QueryError> {
        let calls = merging.calls().zip(types).enumerate();
        let fields = calls.map(|(at, (call, of))| {
            let (name, of) = result_field(at, call.kind, *of);
            self.into.add_field(policy, measurement, (&name, of)).map_err(refused)
        });
        let fields = fields.collect::<Result<Vec<(u32, FieldType)>, QueryError>>()?;
        for (group, point) in merging.points() {
            let tags: Vec<(&str, &str)> =
                group.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let series = self.into.series(policy, measurement, &tags).map_err(refused)?;
            let numbered = point.values.into_iter();
            let values: Vec<(u32, line::Value<'_>)> =
                numbered.filter_map(|(call, value)| Some((fields.get(call)?.0, value))).collect();
            if !values.is_empty() {
                self.held.grow(self.into.push(series, point.time_ns, &values))?;
            }
        }
        Ok(())
    }

    /// What is left of the points that were read is their schema.
    fn streamed(self) -> Result<FetchOutcome, QueryError> {
        let Self { plan, into, held, rows, bounds, context, .. } = self;
        let snapshot = into.snapshot();
        match RawSelect::of(&snapshot, plan.select(), context) {
            Ok(Some(raw)) => Ok(FetchOutcome::Streamed(Box::new(raw))),
            // The executor says what is wrong, or that there is nothing.
            _ if rows == 0 => Ok(FetchOutcome::Held(GatheredPoints { snapshot, _held: held })),
            Ok(None) => Err(too_many(bounds.held_max)),
            Err(error) => Err(error),
        }
    }

    /// Takes points; `Break` where they are to pass through instead.
    fn take(&mut self, results: &[ResultPart]) -> Result<ControlFlow<()>, QueryError> {
        for result in results {
            let Some(FetchStatement::Points(read)) = self.plan.asked(result.statement_id) else {
                continue;
            };
            let Some(policy) = policy_of(self.plan, *read, self.context, &self.into) else {
                continue;
            };
            for series in &result.series {
                if self.take_series(policy, series)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn take_series(
        &mut self,
        policy: u64,
        series: &SeriesPart,
    ) -> Result<ControlFlow<()>, QueryError> {
        self.rows += series.values.len() as u64;
        // Of a field of several types all points are looked at.
        let may_pass = self.plan.streaming() == Streaming::WhenLarge && self.fields.is_empty();
        if may_pass && self.rows > self.bounds.held_max {
            return Ok(ControlFlow::Break(()));
        }
        if self.rows > self.bounds.rows_max {
            return Err(too_many(self.bounds.rows_max));
        }
        // What has no type is a tag, or a field that came since the types were told.
        let columns = series.columns.iter().enumerate().skip(1);
        let columns: Vec<(usize, (u32, FieldType))> = columns
            .filter_map(|(at, name)| Some((at, self.into.field(policy, &series.name, name)?)))
            .collect();
        let tags = series.tags.iter().filter(|(_, value)| !value.is_empty());
        let tags: Vec<(&str, &str)> = tags.map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let known = self.into.series(policy, &series.name, &tags).map_err(refused)?;
        self.note_types(policy, series, &columns);
        let mut bytes = 0;
        for row in &series.values {
            let Some(time) = row.first().and_then(Value::as_i64) else { continue };
            let texts: Vec<Option<Vec<u8>>> =
                columns.iter().map(|(at, _)| row.get(*at).and_then(escaped)).collect();
            let fields: Vec<(u32, line::Value<'_>)> = columns
                .iter()
                .zip(&texts)
                .filter_map(|((at, (number, of)), text)| {
                    Some((*number, field_value(row.get(*at)?, text.as_deref(), *of)?))
                })
                .collect();
            if !fields.is_empty() {
                bytes += self.into.push(known, time, &fields);
            }
        }
        match self.held.grow(bytes) {
            Err(_) if may_pass => Ok(ControlFlow::Break(())),
            grown => grown.map(ControlFlow::Continue),
        }
    }

    fn note_types(
        &mut self,
        policy: u64,
        series: &SeriesPart,
        columns: &[(usize, (u32, FieldType))],
    ) {
        if self.fields.is_empty() {
            return;
        }
        for (at, (_, of)) in columns {
            let Some(name) = series.columns.get(*at) else { continue };
            let key = (policy, series.name.clone(), name.clone());
            let Some(known) = self.fields.get_mut(&key) else { continue };
            for value in series.values.iter().filter_map(|row| row.get(*at)) {
                let is_own = field_value(value, value.as_str().map(str::as_bytes), *of).is_some();
                known.has_own |= is_own;
                known.has_others |= !is_own && !value.is_null();
            }
        }
    }

    /// Values of another type are left out, as one server leaves them out that has both. Where all
    /// are of another type the field has its own at other times only, and that says nothing.
    fn check_types(&self) -> Result<(), QueryError> {
        let differs = |(_, values): &(_, &FieldValues)| values.has_others && !values.has_own;
        match self.fields.iter().find(differs) {
            None => Ok(()),
            Some(((_, measurement, field), _)) => Err(several_types(measurement, field)),
        }
    }
}

/// Of points that pass through, members are asked for those of one type: where a field has several
/// the query has to name it.
fn check_casts(
    plan: &FetchPlan,
    several: &BTreeSet<(usize, String, String)>,
) -> Result<(), QueryError> {
    let is_named = |read: usize, name: &str| plan.read(read).and_then(|of| named_type(of, name));
    match several.iter().find(|(read, _, name)| is_named(*read, name).is_none()) {
        None => Ok(()),
        Some((_, measurement, field)) => Err(several_types(measurement, field)),
    }
}

fn several_types(measurement: &str, field: &str) -> QueryError {
    QueryError(format!(
        "the field {field:?} of {measurement:?} is of several types: name one, as in \
         {field:?}::string"
    ))
}

/// A text as line protocol has it between its quotes.
fn escaped(value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str()?;
    let mut out = Vec::with_capacity(text.len());
    line::push_text(&mut out, text);
    Some(out)
}

/// A value as one of a type; `None` where it is none. Where a pattern stands for measurements that
/// have a field as different numbers, a member gives floats.
fn field_value<'a>(
    value: &Value,
    text: Option<&'a [u8]>,
    of: FieldType,
) -> Option<line::Value<'a>> {
    Some(match of {
        FieldType::Float => line::Value::Float(value.as_f64()?),
        FieldType::Integer => {
            line::Value::Integer(value.as_i64().or_else(|| Some(value.as_f64()? as i64))?)
        }
        FieldType::Unsigned => {
            line::Value::Unsigned(value.as_u64().or_else(|| Some(value.as_f64()? as u64))?)
        }
        FieldType::Boolean => line::Value::Boolean(value.as_bool()?),
        FieldType::String => line::Value::String(text?),
    })
}
