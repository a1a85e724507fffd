//! What members say of policies, types and tags, which one server would know as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use store::query::context::{Cancel, Context};
use store::query::select::{FieldNames, MeasurementRead};
use store::schema::FieldType;
use store::{Gathered, QueryError};
use tokio::time::timeout;
use wire::influxql::ast::{Cast, Measurement};

use super::documents::{Documents, ResultPart, SeriesPart};
use super::plan::{FetchPlan, FetchStatement};

/// How often is looked whether the query is to end while a member sends nothing.
const LOOK: Duration = Duration::from_millis(200);

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
pub(super) struct Schema {
    /// By database and name: the length of the partitions, and whether it is the default.
    policies: BTreeMap<(String, String), (i64, bool)>,
    /// By what is read, the measurement and the field.
    pub types: BTreeMap<(usize, String, String), FieldType>,
    /// Those of them that have other types, too.
    pub several: BTreeSet<(usize, String, String)>,
    /// Those of them that have other types, be they numbers all of them.
    pub mixed: BTreeSet<(usize, String, String)>,
    /// What is read, the measurement and the key.
    tag_keys: BTreeMap<(usize, String), Vec<String>>,
}

impl Schema {
    /// Reads what a member says of the schema; gives the first results that have points,
    /// or partial results.
    pub async fn read(
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
                plan.asked(result.statement_id).is_some_and(FetchStatement::is_schema)
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
                Some(FetchStatement::Points(_) | FetchStatement::Partials(_)) | None => {}
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
            if of != *known {
                self.mixed.insert(key.clone());
            }
            // Any number can be a float.
            if is_number(of) != is_number(*known) || !is_number(of) && of != *known {
                self.several.insert(key);
            }
            if rank(of) < rank(*known) {
                *known = of;
            }
        }
    }

    /// Puts what is known into a snapshot that is being made.
    ///
    /// # Errors
    /// There is too much of it.
    pub fn put(
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

pub(super) fn refused(error: impl std::fmt::Display) -> QueryError {
    QueryError(error.to_string())
}

/// The policy that is read; `None` where there is none of the name, which the executor tells.
pub(super) fn policy_of(
    plan: &FetchPlan,
    read: usize,
    context: &Context,
    of: &Gathered,
) -> Option<u64> {
    let measurement: &Measurement = &plan.read(read)?.measurement;
    of.policy(plan.database(measurement), measurement.policy.as_deref().unwrap_or(&context.rp))
}

/// The type as which a query names a field.
pub(super) fn named_type(read: &MeasurementRead, name: &str) -> Option<FieldType> {
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
