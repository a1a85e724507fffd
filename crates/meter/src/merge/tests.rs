use std::time::{Duration, SystemTime};

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::directory::Directory;
use crate::failure::Owner;
use crate::recorder::{Kind, Measure};
use crate::summary::Summary;

const MS: Duration = Duration::from_millis(1);

/// Times that no two parts have in common.
fn took(part: u64, window: u64, number: u32) -> Duration {
    MS * (1 + number * 7) + Duration::from_micros(part * 300 + window * 40)
}

fn results(part: u64, window: u64, count: u32) -> Results {
    let mut results = Results::default();
    for number in 0..count {
        let latency = took(part, window, number);
        let kind = if number % 9 == 8 { Kind::Server } else { Kind::Succeeded };
        results.note((number % 2) as usize, kind, latency, latency / 2);
    }
    results
}

/// Writes the directory of a part of so many windows, and a rest; gives all of its results.
fn write(place: &TempDir, part: &str, windows: u64, run: &Value) -> (PathBuf, Results) {
    let part: RunPart = part.parse().unwrap();
    let path = place.path().join(part.number().to_string());
    let operations = ["a".to_owned(), "b".to_owned()];
    let mut directory = Directory::create(&path, run, &operations).unwrap();
    let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut outcome = Outcome { operations: operations.into(), wall, ..Outcome::default() };
    outcome.connections = 3;
    outcome.measured = Duration::from_secs(windows) + 500 * MS;
    outcome.lateness.sends = 7;
    outcome.lateness.times.note(1_000 * part.number());
    outcome.errors.note(Owner::Server, "HTTP 500");
    outcome.occupancy.answers = u128::from(u64::MAX) * 3;
    for number in 0..windows {
        let window = Window {
            sent: 30,
            late: part.number(),
            busy: MS * part.number() as u32,
            results: results(part.number(), number, 30),
        };
        let row = row(number, 31, &window, &THRESHOLDS.tolerance());
        outcome.results.add(&window.results);
        directory.window(&FinishedWindow { wall, row, results: window.results }).unwrap();
    }
    outcome.rest = results(part.number(), windows, 5);
    outcome.results.add(&outcome.rest.clone());
    directory.finish(&outcome, &Summary::new(&outcome, &[])).unwrap();
    let (host, measured) = (format!("host{part}"), outcome.measured);
    let injector = PartInjector::new(part, host, &outcome.network, measured, Vec::new());
    let all = outcome.results.clone();
    let (run_id, requests) = ("night".to_owned(), all.total());
    let file = PartFile { run_id, injector, requests, outcome };
    std::fs::write(path.join(directory::PART), serde_json::to_string(&file).unwrap()).unwrap();
    (path, all)
}

fn merged(directories: &[PathBuf]) -> Result<(Outcome, Vec<FinishedWindow>), MergeError> {
    let mut windows = Vec::new();
    let outcome = Parts::read(directories)?.merge(|ended| windows.push(ended.clone()))?;
    Ok((outcome, windows))
}

#[test]
fn percentiles_of_a_merge_are_those_of_all_requests_in_one_histogram() {
    let (place, run) = (tempfile::tempdir().unwrap(), json!({ "rate": 9 }));
    let parts: Vec<_> = ["1/3", "2/3", "3/3"].map(|part| write(&place, part, 4, &run)).into();
    let directories: Vec<_> = parts.iter().rev().map(|(path, _)| path.clone()).collect();
    let (outcome, windows) = merged(&directories).unwrap();
    let mut all = Results::default();
    parts.iter().for_each(|(_, results)| all.add(results));
    for measure in [Measure::Latency, Measure::Service] {
        for kind in [None, Some(Kind::Succeeded), Some(Kind::Server)] {
            let (merged, all) = (outcome.results.times(measure, kind), all.times(measure, kind));
            assert_eq!(merged.counts().collect::<Vec<_>>(), all.counts().collect::<Vec<_>>());
        }
    }
    assert_eq!((windows.len(), outcome.rows.len(), outcome.rest.total()), (4, 4, 15));
    let row = &windows[1].row;
    assert_eq!((row.offered, row.sent, row.ended, row.late, row.busy), (93, 90, 90, 6, 3 * MS));
    let mut second = Results::default();
    (1..=3).for_each(|part| second.add(&results(part, 1, 30)));
    assert_eq!(row.p99, second.times(Measure::Latency, None).quantile(0.99));
    assert_eq!((outcome.connections, outcome.lateness.sends), (9, 21));
    assert_eq!((outcome.lateness.times.count(), outcome.errors.of(Owner::Server)), (3, 3));
    assert_eq!(outcome.occupancy.answers, u128::from(u64::MAX) * 9);
    assert_eq!(outcome.operations, ["a", "b"]);
    assert!(outcome.sharing.unwrap().doubts().is_empty());
}

#[test]
fn a_window_counts_that_all_parts_have_ended() {
    let (place, run) = (tempfile::tempdir().unwrap(), json!({}));
    let (long, short) = (write(&place, "1/2", 4, &run), write(&place, "2/2", 2, &run));
    let (outcome, windows) = merged(&[long.0, short.0]).unwrap();
    assert_eq!((windows.len(), outcome.measured), (2, 2_500 * MS));
    assert_eq!(outcome.results.total(), 4 * 30 + 5 + 2 * 30 + 5, "the rest is counted, too");
    assert_eq!(outcome.sharing.unwrap().doubts().len(), 1, "its rate is of no time");
}

#[test]
fn a_part_whose_log_lacks_something_is_told() {
    let (place, run) = (tempfile::tempdir().unwrap(), json!({}));
    let (first, second) = (write(&place, "1/2", 2, &run).0, write(&place, "2/2", 2, &run).0);
    let log = second.join(directory::LOG);
    let text = std::fs::read_to_string(&log).unwrap();
    // All that ended behind the last whole window.
    let kept = text.lines().filter(|line| !line.contains("2.000,0.500,"));
    let kept: String = kept.flat_map(|line| [line, "\n"]).collect();
    std::fs::write(&log, kept).unwrap();
    let error = merged(&[first, second]).map(drop).unwrap_err().to_string();
    assert!(error.contains("it has 60 results, and there were 65"), "{error}");
}

#[test]
fn directories_of_other_runs_are_told() {
    let place = tempfile::tempdir().unwrap();
    let (first, _) = write(&place, "1/4", 1, &json!({ "rate": 9, "part": "1/4" }));
    let (second, _) = write(&place, "2/4", 1, &json!({ "rate": 9, "part": "2/4" }));
    let (faster, _) = write(&place, "3/4", 1, &json!({ "rate": 10, "part": "3/4" }));
    let told = |directories: &[&PathBuf]| {
        let directories: Vec<_> = directories.iter().copied().cloned().collect();
        merged(&directories).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(told(&[&first, &second]), Ok(()));
    assert!(told(&[&first, &faster]).unwrap_err().ends_with("rate is 9 and 10"));
    let (unlike, _) = write(&place, "4/4", 1, &json!({ "rate": 9, "fingerprint": "ab" }));
    let error = told(&[&first, &unlike]).unwrap_err();
    assert!(error.contains("what they send differs") && !error.contains("ab\""), "{error}");
    assert!(told(&[&second, &second]).unwrap_err().ends_with("both are part 2/4"));
    assert!(told(&[&first]).unwrap_err().contains("at least two"));
    std::fs::remove_file(second.join(directory::PART)).unwrap();
    assert!(told(&[&first, &second]).unwrap_err().contains("has no part of a run"));
    std::fs::write(second.join(directory::PART), "{").unwrap();
    assert!(told(&[&first, &second]).unwrap_err().contains("can't be read"));
}

#[test]
fn a_load_that_differs_is_named_and_the_part_of_each_load_is_not_compared() {
    let place = tempfile::tempdir().unwrap();
    let run = |part: &str, rate: u64| {
        let load = |name: &str, rate: u64| json!({ "name": name, "rate": rate, "part": part });
        json!({ "url": "u", "fingerprint": "ab", "loads": [load("a", 1), load("b", rate)] })
    };
    let (first, _) = write(&place, "1/3", 1, &run("1/3", 2));
    let (second, _) = write(&place, "2/3", 1, &run("2/3", 2));
    let (other, _) = write(&place, "3/3", 1, &run("3/3", 3));
    let parts = Parts::read(&[first.clone(), second]).unwrap();
    assert!(parts.run().get(FINGERPRINT).is_none(), "it has done its work");
    let error = Parts::read(&[first, other]).map(drop).unwrap_err().to_string();
    assert!(error.ends_with("of the load \"b\", rate is 2 and 3"), "{error}");
}
