//! `SHOW FIELD KEYS`.

use std::collections::{BTreeMap, BTreeSet};

use wire::influxql::ast::ShowClauses;

use super::super::context::Context;
use super::super::results::Sink;
use super::{columns, give_in_parts, limited, places, table, text};
use crate::refusal::QueryError;
use crate::snapshot::Snapshot;
use crate::value::Value;

pub(super) async fn show(
    snapshot: &Snapshot,
    clauses: &ShowClauses,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), QueryError> {
    let mut all: BTreeMap<String, BTreeSet<(String, &'static str)>> = BTreeMap::new();
    for (db, policy, named) in places(clauses, context)? {
        let view = snapshot.policy(&db, policy.as_deref());
        let view = view.map_err(|error| QueryError(error.to_string()))?;
        for name in view.measurements().into_iter().filter(|name| named.is(name)) {
            let fields = view.fields(&name).into_iter().map(|(key, of)| (key, of.name()));
            all.entry(name).or_default().extend(fields);
        }
    }
    let columns = columns(&["fieldKey", "fieldType"]);
    for (name, fields) in all {
        context.check()?;
        let row = |(key, of): (String, &str)| -> Vec<Value> { vec![text(&key), text(of)] };
        let rows = limited(fields.into_iter().map(row).collect(), clauses);
        if rows.is_empty() {
            continue;
        }
        if give_in_parts(sink, table(&name, &columns, rows), context).await.is_break() {
            break;
        }
    }
    Ok(())
}
