use std::time::Duration;

use proptest::prelude::proptest;

use super::{Gate, Judgement};
use crate::recorder::{Figure, Kind, Results};
use crate::verdict::THRESHOLDS;

const MS: Duration = Duration::from_millis(1);

fn judged(gate: &Gate, results: &Results, measured: Duration) -> Judgement {
    gate.judge(results, measured, &THRESHOLDS.tolerance())
}

fn missed_in(gate: &Gate, results: &Results, measured: Duration) -> Option<String> {
    match judged(gate, results, measured) {
        Judgement::Met => None,
        Judgement::Missed(found) => Some(found),
        Judgement::Unjudged(found) => panic!("{gate} is not judged: {found}"),
    }
}

fn missed(gate: &str) -> Option<String> {
    let mut results = Results::default();
    for number in 1..=99 {
        results.note(0, Kind::Succeeded, 2 * number * MS, number * MS);
    }
    results.note(0, Kind::Timeout, 1000 * MS, 1000 * MS);
    missed_in(&gate.parse().unwrap(), &results, Duration::from_secs(2))
}

#[test]
fn a_demand_is_met_or_says_what_was_found() {
    for met in [
        "p50<110ms",
        "p99<=200ms",
        "service p50<51ms",
        "max<2s",
        "mean<1s",
        "errors<2%",
        "errors<=1",
        "rate>49",
        " p99.9 > 900ms ",
    ] {
        assert_eq!(missed(met), None, "{met}");
    }
    for (gate, found) in [
        ("p50<100ms", "ms"),
        ("max<1s", "1.00s"),
        ("errors<1%", "1.000 %"),
        ("errors<1", "1.0"),
        ("rate>=50", "49.5"),
    ] {
        let said = missed(gate);
        assert!(said.as_ref().is_some_and(|said| said.contains(found)), "{gate}: {said:?}");
    }
}

#[test]
fn a_demand_on_an_operation_looks_at_no_other() {
    let mut results = Results::default();
    for _ in 0..100 {
        results.note(0, Kind::Succeeded, MS, MS);
        results.note(1, Kind::Server, 50 * MS, 50 * MS);
        results.note(2, Kind::Succeeded, 9 * MS, 9 * MS);
    }
    let names = ["cache get", "pipeline of 16", "cache set"].map(str::to_owned);
    let missed = |text: &str| {
        let gate = text.parse::<Gate>().unwrap().on(&names).unwrap();
        missed_in(&gate, &results, Duration::from_secs(1)).is_some()
    };
    assert!(!missed("p99<5ms of cache get") && missed("p99<5ms of cache set"));
    assert!(!missed("errors<1% of cache") && missed("errors<1% of pipeline of 16"));
    assert!(!missed("max<10ms of cache") && !missed("rate>199 of cache"));
    assert!(!missed("p50<60ms of cache in any 3s"));
    let unknown = "p99<5ms of cach".parse::<Gate>().unwrap();
    // Nobody takes a demand on nothing for one that is met.
    assert!(missed_in(&unknown, &results, MS).is_some());
    let said = unknown.on(&names).unwrap_err().to_string();
    assert!(said.contains("\"cach\"") && said.contains("pipeline of 16"), "{said}");
}

#[test]
fn no_demand_is_judged_by_a_figure_that_the_injector_made() {
    let mut results = Results::default();
    for _ in 0..998 {
        results.note(0, Kind::Succeeded, MS, MS);
    }
    // One that the injector made, and one that is the server's.
    let long = Figure::delayed(456 * MS, 450 * MS);
    results.note_delayed(0, Kind::Succeeded, long, Some(long));
    results.note(0, Kind::Succeeded, 4 * MS, 4 * MS);
    results.paused = 450 * MS;
    for (gate, words) in [
        ("max<50ms", Some("456.")),
        ("service max<5ms", Some("6.0")),
        ("mean<1.2ms", Some("without the injector's own delays")),
        ("p99.95>100ms", Some("456.")),
        ("rate>1500", Some("1000.0, and 1818.2 without")),
        // Whatever the injector added.
        ("max<500ms", None),
        ("p99<2ms", None),
        ("rate>900", None),
    ] {
        let expected = judged(&gate.parse().unwrap(), &results, Duration::from_secs(1));
        match (expected, words) {
            (Judgement::Met, None) => {}
            (Judgement::Unjudged(said), Some(words)) if said.contains(words) => {}
            (other, _) => panic!("{gate}: {other:?}"),
        }
    }
    assert!(missed_in(&"p99<1ms".parse().unwrap(), &results, MS).is_some());
    // However much of it is the injector's, the server has missed these.
    for gate in ["service max<1ns", "rate>100000", "mean>1s"] {
        let judgement = judged(&gate.parse().unwrap(), &results, Duration::from_secs(1));
        assert!(matches!(judgement, Judgement::Missed(_)), "{gate}: {judgement:?}");
    }
}

#[test]
fn a_demand_that_is_none_says_how_one_is_written() {
    for text in [
        "",
        "p99",
        "p101<1s",
        "p99<20",
        "fast<1s",
        "errors<x%",
        "rate>-1",
        "pinf<1s",
        "p9<1s in any 61s",
        "p9<1s in any 0s",
        "p9<1s in any 1500ms",
        "p9<1s in any",
    ] {
        let error = text.parse::<Gate>().unwrap_err().to_string();
        assert!(error.contains("p99<20ms"), "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "(p9|errors|rate)?.{0,6}[<>]?=?.{0,8}") {
        let _ = text.parse::<Gate>();
    }
}
