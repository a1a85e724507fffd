//! What all figures of a run have in common.

use jiff::{Timestamp, Unit};

use super::versions::Versions;
use super::{Machine, Record};
use crate::arguments::{Name, Scale};
use crate::report::{Row, Verdict};

/// A run of the bench.
#[derive(Debug)]
pub struct Run {
    date: String,
    pub machine: Machine,
    /// What was asked for.
    command: String,
}

impl Run {
    /// One that begins now.
    pub fn begin() -> Self {
        let now = Timestamp::now();
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        Self {
            date: now.round(Unit::Second).unwrap_or(now).to_string(),
            machine: Machine::this(),
            command: format!("make bench ARGS=\"{}\"", arguments.join(" ")),
        }
    }

    /// When it began, in UTC.
    pub fn date(&self) -> &str {
        &self.date
    }

    /// The lines of what was measured; a row that measured nothing for want of a peer has none.
    pub fn records(
        &self,
        name: Name,
        scale: &Scale,
        versions: &Versions,
        rows: &[Row],
    ) -> Vec<Record> {
        let is_told = |row: &&Row| {
            let is_empty = row.value.is_none() && row.series.is_empty();
            !(is_empty && matches!(row.verdict, Verdict::NoPeer(_) | Verdict::Beside))
        };
        let record = |row: &Row| Record {
            row: name.word(),
            figure: row.figure.clone(),
            date: self.date.clone(),
            machine: self.machine.clone(),
            versions: versions.clone(),
            round_seconds: name.round(scale).map(|round| round.as_secs_f64()),
            unit: row.unit.to_owned(),
            value: row.value,
            wanted: row.wanted,
            verdict: row.verdict.word().to_owned(),
            why: row.verdict.why().map(str::to_owned),
            clients: row.clients,
            series: row.series.clone(),
            told: None,
            command: self.command.clone(),
        };
        rows.iter().filter(is_told).map(record).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Run, Versions};
    use crate::arguments::{Name, Scale};
    use crate::figures::{Machine, Record, Series};
    use crate::report::{Row, unit};

    #[test]
    fn a_row_has_a_line_unless_there_was_nothing_to_measure() {
        let scale =
            Scale { duration: Duration::from_secs(10), rounds: 3, pairs: 5, dd_mib: 1, one_in: 1 };
        let run = Run { date: "2026-11-24".into(), machine: Machine::this(), command: "x".into() };
        let rounds = vec![Series::new("Weir", unit::LINES, &[1.0, 2.5])];
        let rows = [
            Row::beside("measured", 1.0 / 3.0, unit::LINES).of(rounds),
            Row::no_peer("no peer", "not on the PATH"),
            Row::notes_on("notes", vec!["one".to_owned()]),
            Row::failed("failed", "it broke"),
        ];
        let versions = Versions::from([("Weir".to_owned(), "0.1.0".to_owned())]);
        let records = run.records(Name::Lines, &scale, &versions, &rows);
        let told: Vec<_> =
            records.iter().map(|one| (one.figure.as_str(), one.verdict.as_str())).collect();
        assert_eq!(told, [("measured", "beside"), ("failed", "failed")]);
        for record in records {
            let line = serde_json::to_string(&record).unwrap();
            assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
            assert_eq!(record.versions, versions);
            assert_eq!(record.round_seconds, Some(10.0));
        }
    }
}
