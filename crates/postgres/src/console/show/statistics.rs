//! Counts: `STATS`, `STATS_TOTALS`, `STATS_AVERAGES`, `TOTALS`, `PLANS`.

use watch::table::{Kind, Table, Value};

use super::super::snapshot::Snapshot;
use crate::database::Totals;

/// The counts' names in `STATS_TOTALS` and `STATS_AVERAGES`, in the order of `Totals::cells`;
/// Weir's own last.
const NAMES: [&str; 15] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "bytes_received",
    "bytes_sent",
    "xact_time",
    "query_time",
    "wait_time",
    "client_parse_count",
    "server_parse_count",
    "bind_count",
    "client_login_count",
    "lane_query_count",
    "replica_query_count",
    "shared_query_count",
];
/// The same in `STATS`, with `total_` before them.
const TOTAL_NAMES: [&str; 15] = [
    "total_server_assignment_count",
    "total_xact_count",
    "total_query_count",
    "total_received",
    "total_sent",
    "total_xact_time",
    "total_query_time",
    "total_wait_time",
    "total_client_parse_count",
    "total_server_parse_count",
    "total_bind_count",
    "total_client_login_count",
    "total_lane_query_count",
    "total_replica_query_count",
    "total_shared_query_count",
];
/// The averages of the same, in the same order.
const AVERAGE_NAMES: [&str; 15] = [
    "avg_server_assignment_count",
    "avg_xact_count",
    "avg_query_count",
    "avg_recv",
    "avg_sent",
    "avg_xact_time",
    "avg_query_time",
    "avg_wait_time",
    "avg_client_parse_count",
    "avg_server_parse_count",
    "avg_bind_count",
    "avg_client_login_count",
    "avg_lane_query_count",
    "avg_replica_query_count",
    "avg_shared_query_count",
];
/// How many of them are PgBouncer's.
const SHARED: usize = 12;

fn numeric(names: &[&'static str]) -> Vec<(&'static str, Kind)> {
    names.iter().map(|name| (*name, Kind::Numeric)).collect()
}

fn cells(totals: &Totals) -> Vec<Value> {
    totals.cells().map(Value::Count).to_vec()
}

/// A database's name and what there is to say of it.
fn rows(snapshot: &Snapshot, of: impl Fn(&str, &Totals) -> Vec<Value>, table: &mut Table) {
    let mut all: Vec<_> = snapshot.totals.iter().collect();
    all.sort_by(|left, right| left.0.cmp(&right.0));
    for (database, totals) in all {
        let mut row = vec![database.clone().into()];
        row.extend(of(database, totals));
        table.push(row);
    }
}

/// `STATS`.
pub fn both(snapshot: &Snapshot) -> Table {
    let mut columns = vec![("database", Kind::Text)];
    columns.extend(numeric(&TOTAL_NAMES[..SHARED]));
    columns.extend(numeric(&AVERAGE_NAMES[..SHARED]));
    columns.extend(numeric(&TOTAL_NAMES[SHARED..]));
    columns.extend(numeric(&AVERAGE_NAMES[SHARED..]));
    let mut table = Table::new(&columns);
    let row = |database: &str, totals: &Totals| {
        let (totals, averages) = (cells(totals), cells(&snapshot.averages.of(database)));
        [&totals[..SHARED], &averages[..SHARED], &totals[SHARED..], &averages[SHARED..]].concat()
    };
    rows(snapshot, row, &mut table);
    table
}

/// `STATS_TOTALS`.
pub fn totals(snapshot: &Snapshot) -> Table {
    let mut columns = vec![("database", Kind::Text)];
    columns.extend(numeric(&NAMES));
    let mut table = Table::new(&columns);
    rows(snapshot, |_, totals| cells(totals), &mut table);
    table
}

/// `STATS_AVERAGES`. Some of its columns have `avg_` before them in PgBouncer.
pub fn averages(snapshot: &Snapshot) -> Table {
    let mut columns = vec![("database", Kind::Text)];
    columns.extend(numeric(&NAMES[..8]));
    columns.extend(numeric(&AVERAGE_NAMES[8..]));
    let mut table = Table::new(&columns);
    rows(snapshot, |database, _| cells(&snapshot.averages.of(database)), &mut table);
    table
}

/// `TOTALS`: one row a count, all databases together. The bytes have other names than elsewhere.
pub fn sums(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&[("name", Kind::Text), ("value", Kind::Numeric)]);
    let mut sum = Totals::default();
    snapshot.totals.iter().for_each(|(_, totals)| sum.add(totals));
    for (before, totals) in [("total_", sum), ("avg_", snapshot.averages.of_all())] {
        for (name, value) in NAMES.into_iter().zip(totals.cells()) {
            let name = match name {
                "bytes_received" => "client_bytes",
                "bytes_sent" => "server_bytes",
                name => name,
            };
            table.push(vec![format!("{before}{name}").into(), value.into()]);
        }
    }
    table
}

/// `PLANS`, Weir's own: the most frequent first.
pub fn plans(snapshot: &Snapshot) -> Table {
    let mut table = Table::new(&[
        ("database", Kind::Text),
        ("kind", Kind::Text),
        ("reason", Kind::Text),
        ("statements", Kind::Numeric),
    ]);
    let mut plans: Vec<_> = snapshot.plans.iter().collect();
    plans.sort_by(|left, right| {
        let by_name = || {
            (&left.database, left.kind, left.reason).cmp(&(
                &right.database,
                right.kind,
                right.reason,
            ))
        };
        right.statements.cmp(&left.statements).then_with(by_name)
    });
    for plan in plans {
        table.push(vec![
            plan.database.clone().into(),
            plan.kind.into(),
            plan.reason.into(),
            plan.statements.into(),
        ]);
    }
    table
}
