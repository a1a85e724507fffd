//! The page that is made of all lines: a table for each gateway, and in it the last run of each
//! figure, whether it reached what is wanted or not.

use std::fmt::Write as _;

use clap::ValueEnum as _;

use super::{Machine, Record, curve};
use crate::arguments::Name;
use crate::report::{median, shown, unit};

const HEAD: &str = "\
# Figures

<!-- Made from bench/figures.jsonl by `make docs`. -->

What Weir was measured at: one table for each gateway, and in it the last run of each figure, losses
included. All runs, with date, versions, every round and the command, are in
[bench/figures.jsonl](../bench/figures.jsonl), one line of JSON for each figure, described in
`bench/src/figures.rs`. `make bench ARGS=--write` measures all rows and adds its run;
`make bench ARGS=--help` lists the rows.

- *last run* is as a rule the median of the run's rounds, in which Weir and its peers took turns.
- `figure / peer` is Weir's figure divided by the peer's in the same run. Only ratios carry over to
  other machines.
- *verdict* says whether the last run is what is *wanted*. A miss within 5 % counts as reached, but
  where nothing may be missing. A run is *void* where the load generator was the limit; a void or
  failed run stands here only where the figure has no other.
- *side by side* has the values behind the figure: medians, or ranges where no more is on record.
- The machines are listed [at the end](#machines).
";

/// What has no row in the bench.
const BY_HAND: &str = "By hand";

const TABLE: &str = "| figure | wanted | last run | verdict | side by side | date | machine |\n\
                     |---|---|---|---|---|---|---|\n";

pub fn of(records: &[Record]) -> String {
    let mut page = HEAD.to_owned();
    let machines = machines(records);
    let rows = rows(records);
    for part in distinct(rows.iter().map(|(part, _)| *part)) {
        let _ = write!(page, "\n## {part}\n\n{TABLE}");
        for (_, row) in rows.iter().filter(|(of, _)| *of == part) {
            page.push_str(&lines(row, records, &machines));
        }
    }
    page.push_str(&curve::of(records));
    page.push_str("\n## Machines\n\n");
    for (letter, machine) in &machines {
        let kernels = records.iter().filter(|one| one.machine.without_kernel() == *machine);
        let kernels = distinct(kernels.filter_map(|one| one.machine.kernel.as_deref()));
        let kernels = match kernels.is_empty() {
            true => String::new(),
            false => format!("; Linux {}", kernels.join(", ")),
        };
        let _ = writeln!(page, "- **{letter}**: {machine}{kernels}");
    }
    page
}

/// All rows that were measured, each with the part of the page that it is in: the bench's in the
/// order of `--only`, then the others.
fn rows(records: &[Record]) -> Vec<(&'static str, String)> {
    let measured = distinct(records.iter().map(|one| one.row.clone()));
    let of_bench: Vec<(&str, String)> =
        Name::value_variants().iter().map(|name| (name.gateway(), name.word())).collect();
    let is_of_bench = |row: &String| of_bench.iter().any(|(_, word)| word == row);
    let others: Vec<(&str, String)> =
        measured.iter().filter(|row| !is_of_bench(row)).map(|row| (BY_HAND, row.clone())).collect();
    of_bench.into_iter().filter(|(_, word)| measured.contains(word)).chain(others).collect()
}

/// A line for each figure of a row.
fn lines(row: &str, records: &[Record], machines: &[(String, Machine)]) -> String {
    let of_row: Vec<&Record> = records.iter().filter(|one| one.row == row).collect();
    let mut text = String::new();
    for figure in distinct(of_row.iter().map(|one| one.figure.as_str())) {
        let runs: Vec<&Record> =
            of_row.iter().filter(|one| one.figure == figure).copied().collect();
        text.push_str(&line(figure, &last_run(&runs), machines));
    }
    text
}

/// The records of the last run that counts; of the last one where none does. Several records share
/// a machine and a date where only the day is on record.
fn last_run<'a>(all: &[&'a Record]) -> Vec<&'a Record> {
    let counted: Vec<&Record> = all.iter().filter(|one| counts(one)).copied().collect();
    let runs = if counted.is_empty() { all } else { &counted };
    // Of equal dates the later line.
    let Some(last) = runs.iter().max_by(|a, b| a.date.cmp(&b.date)) else { return Vec::new() };
    let is_same = |one: &&&Record| {
        one.date == last.date && one.machine.without_kernel() == last.machine.without_kernel()
    };
    runs.iter().filter(is_same).copied().collect()
}

fn counts(run: &Record) -> bool {
    !matches!(run.verdict.as_str(), "void" | "failed")
}

/// Machines by letter, in the order in which they come.
fn machines(records: &[Record]) -> Vec<(String, Machine)> {
    let all = distinct(records.iter().map(|one| one.machine.without_kernel()));
    let letter = |number: usize| match u8::try_from(number) {
        Ok(number @ 0..26) => char::from(b'A' + number).to_string(),
        _ => format!("M{number}"),
    };
    all.into_iter().enumerate().map(|(number, machine)| (letter(number), machine)).collect()
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// One figure by its last run.
fn line(figure: &str, run: &[&Record], machines: &[(String, Machine)]) -> String {
    let Some(last) = run.last() else { return String::new() };
    let wanted = last.wanted.map_or_else(|| "-".to_owned(), |wanted| wanted.least(&last.unit));
    let day = last.date.get(..10).unwrap_or(&last.date);
    let machine = last.machine.without_kernel();
    let letter = machines.iter().find(|(_, one)| *one == machine).map_or("-", |(letter, _)| letter);
    let is_of_cpu = last.figure.starts_with("CPU time");
    let ways: Vec<String> =
        last.series.iter().filter_map(|series| way(series, is_of_cpu)).collect();
    let ways = if ways.is_empty() { "-".to_owned() } else { ways.join(", ") };
    let values: Vec<f64> = run.iter().filter_map(|run| run.value).collect();
    let (value, verdict) = (value(last, &values), verdict(last, &values));
    format!("| {figure} | {wanted} | {value} | {verdict} | {ways} | {day} | {letter} |\n")
}

/// The value, or the range where no more is on record. Of runs that are told of with a day alone
/// nobody knows which was the last; then it is the median of that day.
fn value(last: &Record, values: &[f64]) -> String {
    let span = last.told.as_ref().and_then(|told| Some((told.low?, told.high?)));
    match (values, span) {
        ([], Some(span)) => range(span, &last.unit),
        ([], None) => "-".to_owned(),
        ([one], _) => shown(*one, &last.unit),
        (all, _) => format!("{} (median of {})", shown(median(all), &last.unit), all.len()),
    }
}

fn range((low, high): (f64, f64), unit: &str) -> String {
    format!("{} to {}", shown(low, unit), shown(high, unit))
}

/// Whether the run is what is wanted; a dash where nothing is.
fn verdict(last: &Record, values: &[f64]) -> String {
    if !counts(last) {
        let why = last.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        return format!("{}{why}", last.verdict);
    }
    match (last.wanted, values.is_empty()) {
        (None, _) => "-",
        (Some(_), true) => last.verdict.as_str(),
        (Some(wanted), false) if wanted.is_met(median(values)) => "reached",
        (Some(_), false) => "missed",
    }
    .to_owned()
}

/// A way's median or range. Times of single queries, transactions beside statements and CPU time
/// beside rates would be too much for a table; the lines have them.
fn way(series: &super::Series, is_of_cpu: bool) -> Option<String> {
    let unit = series.unit.as_str();
    let is_other = (unit == unit::CPU_US) != is_of_cpu;
    if series.way.contains("SELECT") || unit == unit::TRANSACTIONS || is_other {
        return None;
    }
    let told = series.told;
    let middle = match series.rounds.is_empty() {
        false => Some(median(&series.rounds)),
        true => told.and_then(|told| told.median),
    };
    let figure = match (middle, told.and_then(|told| Some((told.low?, told.high?)))) {
        (Some(middle), _) => shown(middle, unit),
        (None, Some(span)) => range(span, unit),
        (None, None) => return None,
    };
    Some(format!("{} {figure}", series.way))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::of;
    use crate::figures::record::QuotedRuns;
    use crate::figures::{FigureTarget, Machine, Record, Series};
    use crate::report::unit;

    fn record(value: f64, verdict: &str) -> Record {
        Record {
            row: "requests".to_owned(),
            figure: "req/s / nginx".to_owned(),
            date: "2026-11-24T12:00:00Z".to_owned(),
            machine: Machine {
                cpu: "EPYC".to_owned(),
                cores: 2,
                memory_mib: Some(24_576),
                kernel: Some("6.18".to_owned()),
                file_system: "ext4".to_owned(),
                name: None,
            },
            versions: BTreeMap::new(),
            round_seconds: Some(10.0),
            unit: unit::RATIO.to_owned(),
            value: Some(value),
            wanted: Some(FigureTarget::at_least(0.8, 1.0)),
            verdict: verdict.to_owned(),
            why: None,
            clients: None,
            series: vec![Series::new("Weir", unit::REQUESTS, &[90_000.0, 91_000.0, 92_000.0])],
            told: None,
            command: String::new(),
        }
    }

    fn line(records: &[Record]) -> String {
        let page = of(records);
        page.lines().find(|line| line.starts_with("| req/s")).unwrap_or_default().to_owned()
    }

    fn at(hour: u8, value: f64, verdict: &str) -> Record {
        Record { date: format!("2026-11-24T1{hour}:00:00Z"), ..record(value, verdict) }
    }

    #[test]
    fn a_figure_is_that_of_its_last_run_which_is_not_void() {
        let records = [
            at(1, 0.7, "missed"),
            at(3, 0.9, "reached"),
            at(4, 5.0, "void"),
            at(2, 0.8, "reached"),
        ];
        assert_eq!(
            line(&records),
            "| req/s / nginx | at least 0.8 | 0.90 | reached | Weir 91.0 k | 2026-11-24 | A |"
        );
    }

    #[test]
    fn a_loss_is_told() {
        let line = line(&[at(1, 0.9, "reached"), at(2, 0.7, "missed")]);
        assert!(line.contains("| 0.70 | missed | Weir 91.0 k |"), "{line}");
    }

    #[test]
    fn a_figure_whose_runs_are_all_void_says_why() {
        let why = Some("wrk was the limit".to_owned());
        let line = line(&[Record { why, ..at(1, 5.0, "void") }]);
        assert!(line.contains("| 5.00 | void: wrk was the limit |"), "{line}");
    }

    #[test]
    fn a_range_stands_where_no_value_is_on_record() {
        let mut told = record(0.88, "reached");
        let by = "README.md".to_owned();
        told.value = None;
        told.told =
            Some(QuotedRuns { by, runs: 3, low: Some(0.84), high: Some(0.95), reach: Some(3) });
        let line = line(&[told]);
        assert!(line.contains("| 0.84 to 0.95 | reached |"), "{line}");
    }

    #[test]
    fn of_runs_of_one_day_no_single_one_is_called_the_last() {
        let mut of_a_day = [record(0.8, "reached"), record(0.9, "reached"), record(1.0, "reached")];
        of_a_day.iter_mut().for_each(|run| run.date = "2026-11-23".to_owned());
        let line = line(&of_a_day);
        assert!(
            line.contains("| 0.90 (median of 3) | reached | Weir 91.0 k | 2026-11-23 |"),
            "{line}"
        );
    }

    #[test]
    fn a_new_kernel_is_the_same_machine_and_another_disk_is_not() {
        let mut newer = record(0.9, "reached");
        newer.machine.kernel = Some("6.19".to_owned());
        let mut other = record(0.9, "reached");
        other.machine.file_system = "xfs".to_owned();
        let page = of(&[record(0.7, "missed"), newer, other]);
        assert!(page.contains("| B |\n") && !page.contains("**C**"), "{page}");
        assert!(
            page.contains("**A**: 2 cores of EPYC, 24.0 GiB of memory, ext4; Linux 6.18, 6.19")
        );
    }
}
