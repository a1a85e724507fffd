use std::time::{Duration, SystemTime};

use super::*;
use crate::chance::Chance;
use crate::directory::{self, rows};
use crate::engine::{Window, row};
use crate::network::Network;
use crate::part::RunPart;
use crate::recorder::Kind;
use crate::sharing::LostInjector;
use crate::verdict::THRESHOLDS;

const MS: Duration = Duration::from_millis(1);
const WINDOWS: u64 = 5;

fn begun() -> Outcome {
    let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    Outcome { wall, operations: vec!["get".to_owned()], ..Outcome::default() }
}

fn results(part: usize, window: u64) -> Results {
    let mut results = Results::default();
    for number in 0..10 {
        let took = MS * (number + 1) + Duration::from_micros(part as u64 * 31 + window * 7);
        results.note(0, Kind::Succeeded, took, took / 2);
    }
    results
}

/// A window as it comes over a connection.
fn window(part: usize, number: u64) -> (Row, Results) {
    let window = Window { sent: 10, late: 1, busy: MS, results: results(part, number) };
    let line = rows::line(&row(number, 11, &window, &THRESHOLDS.tolerance()));
    let text = directory::histograms(&window.results);
    (rows::read_line(&line).unwrap(), directory::results_of(&text).unwrap())
}

fn injector(part: usize, parts: usize) -> PartInjector {
    let part = RunPart::new(part as u64 + 1, parts as u64).unwrap();
    let measured = Duration::from_secs(WINDOWS);
    PartInjector::new(part, format!("host{part}"), &Network::default(), measured, Vec::new())
}

fn ended(part: usize, parts: usize) -> EndedPart {
    let outcome = Outcome {
        connections: 4,
        measured: Duration::from_secs(WINDOWS),
        thresholds: THRESHOLDS,
        ..begun()
    };
    let (run_id, requests) = ("night".to_owned(), 0);
    let file = PartFile { run_id, injector: injector(part, parts), requests, outcome };
    EndedPart { file, rest: results(part, WINDOWS) }
}

#[test]
fn windows_are_added_up_in_whatever_order_they_come() {
    for seed in 0..20 {
        let (mut chance, parts) = (Chance::of(seed, 1), 3);
        let (mut merge, mut whole) = (LiveMerge::new(parts, begun()), Vec::new());
        let mut at = vec![0; parts];
        while !merge.is_over() {
            let part = chance.below(parts as u64) as usize;
            match at[part] {
                number @ ..WINDOWS => {
                    let (row, results) = window(part, number);
                    whole.extend(merge.window(part, row, results).unwrap());
                }
                WINDOWS => whole.extend(merge.end(part, ended(part, parts))),
                _ => continue,
            }
            at[part] += 1;
        }
        let numbers: Vec<_> = whole.iter().map(|ended| ended.row.number).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4]);
        let mut second = Results::default();
        (0..parts).for_each(|part| second.add(&results(part, 1)));
        let p99 = second.times(crate::recorder::Measure::Latency, None).quantile(0.99);
        let row = whole[1].row;
        assert_eq!((row.offered, row.sent, row.late, row.ended, row.p99), (33, 30, 3, 30, p99));
        let outcome = merge.finish();
        assert_eq!((outcome.results.total(), outcome.rest.total()), (180, 30));
        assert_eq!(
            (outcome.connections, outcome.rows.len(), &*outcome.operations[0]),
            (12, 5, "get")
        );
        assert!(outcome.sharing.unwrap().doubts().is_empty());
    }
}

#[test]
fn a_run_goes_on_without_an_injector_that_is_lost_and_keeps_what_it_had_sent() {
    let mut merge = LiveMerge::new(2, begun());
    let mut whole = Vec::new();
    let mut take = |merge: &mut LiveMerge, part, number| {
        let (row, results) = window(part, number);
        whole.extend(merge.window(part, row, results).unwrap());
    };
    take(&mut merge, 1, 0);
    (0..3).for_each(|number| take(&mut merge, 0, number));
    let lost = LostInjector { second: 1, why: "silent".to_owned() };
    let gone = PartInjector { lost: Some(lost), ..injector(1, 2) };
    let since = merge.lose(1, gone);
    assert_eq!(since.iter().map(|ended| ended.row.ended).collect::<Vec<_>>(), [10, 10]);
    assert!(merge.window(1, window(1, 3).0, Results::default()).is_none(), "it is over");
    (3..WINDOWS).for_each(|number| take(&mut merge, 0, number));
    merge.end(0, ended(0, 2));
    assert_eq!(whole[0].row.ended, 20);
    let outcome = merge.finish();
    assert_eq!((outcome.rows.len(), outcome.results.total()), (5, 6 * 10 + 10));
    let doubts = outcome.sharing.unwrap().doubts();
    assert!(doubts[0].cause.contains("was lost at second 1"), "{doubts:?}");
}

#[test]
fn a_run_whose_injectors_are_all_lost_has_what_they_sent() {
    let mut merge = LiveMerge::new(2, begun());
    for (part, number) in [(0, 0), (1, 0), (0, 1)] {
        let (row, results) = window(part, number);
        merge.window(part, row, results).unwrap();
    }
    merge.lose(0, injector(0, 2));
    merge.lose(1, injector(1, 2));
    assert!(merge.is_over());
    let outcome = merge.finish();
    assert_eq!((outcome.rows.len(), outcome.results.total()), (2, 30));
    assert_eq!(outcome.measured, Duration::from_secs(2));
}

#[test]
fn an_injector_that_runs_ahead_of_the_others_is_let_go() {
    let mut merge = LiveMerge::new(2, begun());
    for number in 0..AHEAD_MAX as u64 {
        let row = Row { number, ..Row::default() };
        assert!(merge.window(0, row, Results::default()).is_some());
    }
    let row = Row { number: AHEAD_MAX as u64, ..Row::default() };
    assert!(merge.window(0, row, Results::default()).is_none());
}
