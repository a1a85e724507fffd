//! The answers of members become one snapshot: first what they say of policies, types and tags,
//! which one server would know as a whole; then their points.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::Value;
use store::query::context::{Cancel, Context};
use store::query::select::{FieldNames, MeasurementRead, RawSelect};
use store::schema::FieldType;
use store::{Gathered, QueryError, Snapshot};
use tokio::time::timeout;
use wire::influxql::ast::{Cast, Measurement};
use wire::line;

use super::documents::{Documents, ResultPart, SeriesPart};
use super::held::{HeldMemory, too_many};
use super::plan::{FetchPlan, FetchStatement, Streaming};
use crate::front::live::RowBounds;

/// How often is looked whether the query is to end while a member sends nothing.
const LOOK: Duration = Duration::from_millis(200);

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
        begun.push(schema.read(plan, member, context).await?);
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

/// The next results of a member, for as long as the query is not to end.
pub async fn next_of(
    member: &mut Documents,
    cancel: &Cancel,
) -> Result<Option<Vec<ResultPart>>, QueryError> {
    loop {
        cancel.check()?;
        if let Ok(next) = timeout(LOOK, member.next()).await {
            return next.map_err(QueryError);
        }
    }
}

/// What members say of the schema.
#[derive(Default)]
struct Schema {
    /// By database and name: the length of the partitions, and whether it is the default.
    policies: BTreeMap<(String, String), (i64, bool)>,
    /// By what is read, the measurement and the field.
    types: BTreeMap<(usize, String, String), FieldType>,
    /// Those of them that have other types, too.
    several: BTreeSet<(usize, String, String)>,
    /// What is read, the measurement and the key.
    tag_keys: BTreeMap<(usize, String), Vec<String>>,
}

impl Schema {
    /// Reads what a member says of the schema; gives the first results that have points.
    async fn read(
        &mut self,
        plan: &FetchPlan,
        member: &mut Documents,
        context: &Context,
    ) -> Result<Option<Vec<ResultPart>>, QueryError> {
        loop {
            let Some(mut results) = next_of(member, &context.cancel).await? else {
                return Ok(None);
            };
            let is_schema = |result: &ResultPart| {
                !matches!(plan.asked(result.statement_id), None | Some(FetchStatement::Points(_)))
            };
            for result in results.iter().filter(|result| is_schema(result)) {
                self.take(plan, result);
            }
            results.retain(|result| !is_schema(result));
            if !results.is_empty() {
                return Ok(Some(results));
            }
        }
    }

    fn take(&mut self, plan: &FetchPlan, result: &ResultPart) {
        for series in &result.series {
            match plan.asked(result.statement_id) {
                Some(FetchStatement::Policies(db)) => self.take_policies(db, series),
                Some(FetchStatement::Types(read)) => self.take_types(plan, *read, series),
                Some(FetchStatement::TagKeys(read)) => {
                    let keys = self.tag_keys.entry((*read, series.name.clone())).or_default();
                    keys.extend(series.rows().filter_map(|row| row.text("tagKey")));
                }
                Some(FetchStatement::Points(_)) | None => {}
            }
        }
    }

    fn take_policies(&mut self, db: &str, series: &SeriesPart) {
        for row in series.rows() {
            let Some(name) = row.text("name") else { continue };
            let length = row.text("shardGroupDuration").and_then(|text| go_duration_ns(&text));
            let is_default = row.value("default") == Some(&Value::Bool(true));
            let known = (length.unwrap_or(WEEK_NS), is_default);
            self.policies.entry((db.to_owned(), name)).or_insert(known);
        }
    }

    /// Of several types of a field, as shards and sets may have them, InfluxDB takes the one that
    /// the query names, else the first in this order.
    fn take_types(&mut self, plan: &FetchPlan, read: usize, series: &SeriesPart) {
        for row in series.rows() {
            let of = row.text("fieldType").and_then(|text| field_type(&text));
            let (Some(name), Some(of)) = (row.text("fieldKey"), of) else { continue };
            let named = plan.read(read).and_then(|read| named_type(read, &name));
            let rank = |of: FieldType| (named != Some(of), of);
            let key = (read, series.name.clone(), name);
            let known = self.types.entry(key.clone()).or_insert(of);
            // Any number can be a float.
            if is_number(of) != is_number(*known) || !is_number(of) && of != *known {
                self.several.insert(key);
            }
            if rank(of) < rank(*known) {
                *known = of;
            }
        }
    }

    fn put(
        self,
        plan: &FetchPlan,
        context: &Context,
        into: &mut Gathered,
    ) -> Result<(), QueryError> {
        for ((db, name), (length, is_default)) in self.policies {
            into.add_policy(&db, &name, length, is_default);
        }
        for ((read, measurement, name), of) in self.types {
            let Some(policy) = policy_of(plan, read, context, into) else { continue };
            into.add_field(policy, &measurement, (&name, of)).map_err(refused)?;
        }
        for ((read, measurement), keys) in self.tag_keys {
            let Some(policy) = policy_of(plan, read, context, into) else { continue };
            for key in keys {
                into.add_tag_key(policy, &measurement, &key).map_err(refused)?;
            }
        }
        Ok(())
    }
}

fn is_number(of: FieldType) -> bool {
    matches!(of, FieldType::Float | FieldType::Integer | FieldType::Unsigned)
}

fn refused(error: impl std::fmt::Display) -> QueryError {
    QueryError(error.to_string())
}

/// The policy that is read; `None` where there is none of the name, which the executor tells.
fn policy_of(plan: &FetchPlan, read: usize, context: &Context, of: &Gathered) -> Option<u64> {
    let measurement: &Measurement = &plan.read(read)?.measurement;
    of.policy(plan.database(measurement), measurement.policy.as_deref().unwrap_or(&context.rp))
}

/// Whether values of a field came that are of its type, and whether others came.
#[derive(Clone, Copy, Default)]
struct FieldValues {
    has_own: bool,
    has_others: bool,
}

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

/// The type as which a query names a field.
fn named_type(read: &MeasurementRead, name: &str) -> Option<FieldType> {
    let FieldNames::Some(names) = &read.fields else { return None };
    Some(match names.get(name)? {
        Cast::Float => FieldType::Float,
        Cast::Integer => FieldType::Integer,
        Cast::Unsigned => FieldType::Unsigned,
        Cast::String => FieldType::String,
        Cast::Boolean => FieldType::Boolean,
        Cast::Tag | Cast::AnyField => return None,
    })
}

/// The type of a name in the answer to `SHOW FIELD KEYS`.
fn field_type(name: &str) -> Option<FieldType> {
    use FieldType::{Boolean, Float, Integer, String, Unsigned};
    [Float, Integer, Unsigned, String, Boolean].into_iter().find(|of| of.name() == name)
}

const WEEK_NS: i64 = 7 * 24 * 3_600_000_000_000;

/// A duration as Go prints whole seconds, `168h0m0s`.
fn go_duration_ns(text: &str) -> Option<i64> {
    let (mut ns, mut number) = (0_i64, None);
    for byte in text.bytes() {
        let unit: i64 = match byte {
            b'0'..=b'9' => {
                let digit = i64::from(byte - b'0');
                number = Some(number.unwrap_or(0_i64).checked_mul(10)?.checked_add(digit)?);
                continue;
            }
            b'h' => 3_600_000_000_000,
            b'm' => 60_000_000_000,
            b's' => 1_000_000_000,
            _ => return None,
        };
        ns = ns.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    (ns > 0 && number.is_none()).then_some(ns)
}

/// A row with the names of its columns.
struct Row<'a> {
    columns: &'a [String],
    values: &'a [Value],
}

impl Row<'_> {
    fn value(&self, column: &str) -> Option<&Value> {
        self.values.get(self.columns.iter().position(|name| name == column)?)
    }

    fn text(&self, column: &str) -> Option<String> {
        self.value(column)?.as_str().map(str::to_owned)
    }
}

impl SeriesPart {
    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.values.iter().map(|values| Row { columns: &self.columns, values })
    }
}
