//! The page that is made of all lines: for each figure and machine the median and the range of all
//! runs, and how many of them reach what is wanted.

use std::fmt::Write as _;

use clap::ValueEnum as _;

use super::{Machine, Record, curve};
use crate::arguments::Name;
use crate::report::{median, shown, unit};

const HEAD: &str = "\
# Figures

<!-- This page is made of figures.jsonl: `make docs` writes it anew; a test compares the two. -->

Every figure of Weir that was measured, by all runs on record; [figures.jsonl](figures.jsonl) has
each run with its date, versions, rounds and command, one line of JSON a figure, described in
`bench/src/figures.rs`. `make bench ARGS=--write` measures all rows and adds its run;
`make bench ARGS=--help` lists the rows and tells how to measure some of them.

- The *median* and the *range* are those of all runs on a machine, of whatever version; the *latest*
  run stands beside them. What one run says is as a rule the median of its rounds, in which Weir and
  its peers took turns. Only ratios carry over to other machines.
- *reach* says how many of the runs are what is *wanted*.
- A run is void where the client was the limit; it counts nowhere, and neither does one that failed.
- `figure / peer` is Weir's figure over the peer's in the same run.
";

/// What has no row in the bench.
const BY_HAND: &str = "By hand";

const TABLE: &str = "| figure | wanted | machine | runs | median | range | reach | latest |\n\
                     |---|---|---|---|---|---|---|---|\n";

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

/// A line for each figure of a row and each machine.
fn lines(row: &str, records: &[Record], machines: &[(String, Machine)]) -> String {
    let of_row: Vec<&Record> = records.iter().filter(|one| one.row == row).collect();
    let mut text = String::new();
    for figure in distinct(of_row.iter().map(|one| one.figure.as_str())) {
        for (letter, machine) in machines {
            let is_here =
                |one: &&&Record| one.figure == figure && one.machine.without_kernel() == *machine;
            let runs: Vec<&Record> = of_row.iter().filter(is_here).copied().collect();
            text.push_str(&line(figure, letter, &runs));
        }
    }
    text
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

/// One figure on one machine; nothing where it was never measured there.
fn line(figure: &str, letter: &str, all: &[&Record]) -> String {
    let Some(last) = all.last() else { return String::new() };
    let counts = |one: &&&Record| !matches!(one.verdict.as_str(), "void" | "failed");
    let runs: Vec<&Record> = all.iter().filter(counts).copied().collect();
    let mut values = Vec::new();
    for run in &runs {
        let times = run.told.as_ref().map_or(1, |told| told.runs);
        values.extend(std::iter::repeat_n(run.value, times));
    }
    let wanted = last.wanted.map_or_else(|| "-".to_owned(), |wanted| wanted.least(&last.unit));
    let mut number = values.len().to_string();
    let worthless = all.iter().filter(|one| !counts(one)).count();
    if worthless > 0 {
        let _ = write!(number, ", {worthless} void or failed");
    }
    // Of some runs only the range is on record.
    let middle = match values.into_iter().collect::<Option<Vec<f64>>>() {
        Some(values) if !values.is_empty() => shown(median(&values), &last.unit),
        _ => "-".to_owned(),
    };
    let range = range(&runs, &last.unit);
    let reach = reach(&runs).map_or_else(|| "-".to_owned(), |reach| reach.to_string());
    let latest = latest(&runs);
    format!(
        "| {figure} | {wanted} | {letter} | {number} | {middle} | {range} | {reach} | {latest} |\n"
    )
}

fn range(runs: &[&Record], unit: &str) -> String {
    let told = |run: &Record| run.told.clone();
    let low = |run: &&Record| told(run).and_then(|told| told.low).or(run.value);
    let high = |run: &&Record| told(run).and_then(|told| told.high).or(run.value);
    let low = runs.iter().filter_map(low).fold(f64::INFINITY, f64::min);
    let high = runs.iter().filter_map(high).fold(f64::NEG_INFINITY, f64::max);
    match shown(low, unit) == shown(high, unit) {
        _ if low > high => "-".to_owned(),
        true => shown(low, unit),
        false => format!("{} to {}", shown(low, unit), shown(high, unit)),
    }
}

/// How many runs are what is wanted; none where nothing is, or where it is not known of all.
fn reach(runs: &[&Record]) -> Option<usize> {
    let wanted = runs.last()?.wanted?;
    let reaches = |run: &&Record| match &run.told {
        Some(told) if told.runs > 1 => told.reach,
        _ => Some(usize::from(wanted.is_met(run.value?))),
    };
    runs.iter().map(reaches).sum()
}

/// The last run's figure, its day and the medians of its ways. Of runs that are told of with a day
/// alone nobody knows which was the last; then it is the median of that day.
fn latest(runs: &[&Record]) -> String {
    let Some(last) = runs.last() else { return "-".to_owned() };
    let values: Vec<f64> =
        runs.iter().filter(|run| run.date == last.date).filter_map(|run| run.value).collect();
    let value = match values.len() {
        0 => "-".to_owned(),
        1 => shown(values[0], &last.unit),
        count => format!("{} (median of {count})", shown(median(&values), &last.unit)),
    };
    let day = last.date.get(..10).unwrap_or(&last.date);
    let is_of_cpu = last.figure.starts_with("CPU time");
    let ways: Vec<String> =
        last.series.iter().filter_map(|series| way(series, is_of_cpu)).collect();
    let ways = if ways.is_empty() { String::new() } else { format!(": {}", ways.join(", ")) };
    format!("{value} on {day}{ways}")
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
        (None, Some((low, high))) => format!("{} to {}", shown(low, unit), shown(high, unit)),
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

    #[test]
    fn all_runs_count_but_void_ones() {
        let mut records = [
            record(0.7, "missed"),
            record(0.9, "reached"),
            record(5.0, "void"),
            record(0.8, "reached"),
        ];
        for (hour, record) in records.iter_mut().enumerate() {
            record.date = format!("2026-11-24T1{hour}:00:00Z");
        }
        assert_eq!(
            line(&records),
            "| req/s / nginx | at least 0.8 | A | 3, 1 void or failed | 0.80 | 0.70 to 0.90 | 2 | \
             0.80 on 2026-11-24: Weir 91.0 k |"
        );
    }

    #[test]
    fn runs_that_are_told_of_count_as_many_times_as_they_were() {
        let mut told = record(0.88, "reached");
        let by = "README.md".to_owned();
        told.told =
            Some(QuotedRuns { by, runs: 3, low: Some(0.74), high: Some(0.95), reach: Some(2) });
        let line = line(&[told, record(0.9, "reached")]);
        assert!(line.contains("| A | 4 | 0.88 | 0.74 to 0.95 | 3 |"), "{line}");
    }

    #[test]
    fn of_runs_of_one_day_no_single_one_is_called_the_latest() {
        let mut of_a_day = [record(0.8, "reached"), record(0.9, "reached"), record(1.0, "reached")];
        of_a_day.iter_mut().for_each(|run| run.date = "2026-11-23".to_owned());
        let line = line(&of_a_day);
        assert!(line.contains("| 0.90 (median of 3) on 2026-11-23: Weir 91.0 k |"), "{line}");
    }

    #[test]
    fn a_new_kernel_is_the_same_machine_and_another_disk_is_not() {
        let mut newer = record(0.9, "reached");
        newer.machine.kernel = Some("6.19".to_owned());
        let mut other = record(0.9, "reached");
        other.machine.file_system = "xfs".to_owned();
        let page = of(&[record(0.7, "missed"), newer, other]);
        assert!(page.contains("| A | 2 |") && page.contains("| B | 1 |"), "{page}");
        assert!(
            page.contains("**A**: 2 cores of EPYC, 24.0 GiB of memory, ext4; Linux 6.18, 6.19")
        );
    }
}
