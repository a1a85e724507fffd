//! Queries a second by the number of clients, of the latest run: a table, a column for each way.

use std::fmt::Write as _;

use super::{Record, Series};
use crate::arguments::Name;
use crate::report::{median, shown, unit};

/// The table; nothing where the row was never measured.
pub fn of(records: &[Record]) -> String {
    let word = Name::PostgresClients.word();
    let all = || records.iter().filter(|one| one.row == word && one.clients.is_some());
    let Some(latest) = all().map(|one| one.date.as_str()).max() else { return String::new() };
    let mut run: Vec<&Record> = all().filter(|one| one.date == latest).collect();
    run.sort_by_key(|one| one.clients);
    let mut ways: Vec<&str> = Vec::new();
    for series in run.iter().flat_map(|one| rates(one)) {
        if !ways.contains(&series.way.as_str()) {
            ways.push(&series.way);
        }
    }
    let day = latest.get(..10).unwrap_or(latest);
    let mut text = format!("\n## Queries a second by number of clients, {day}\n\n");
    let _ = writeln!(text, "`pgbench -S -M simple`, medians of the rounds of the latest run.\n");
    let _ =
        writeln!(text, "| clients | {} |\n|---|{}", ways.join(" | "), "---|".repeat(ways.len()));
    for one in run {
        let cell = |way: &&str| {
            let series = rates(one).find(|series| series.way == *way);
            series.map_or_else(
                || "-".to_owned(),
                |series| shown(median(&series.rounds), &series.unit),
            )
        };
        let cells: Vec<String> = ways.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {} |", one.clients.unwrap_or_default(), cells.join(" | "));
    }
    text
}

fn rates(record: &Record) -> impl Iterator<Item = &Series> {
    record.series.iter().filter(|series| series.unit == unit::STATEMENTS)
}
