use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tempfile::TempDir;

use super::super::{
    POINTS_MAX, POINTS_OF_ALL, RUNS_MAX, ReportError, Run, page, write, write_ended,
};
use crate::course::Point;
use crate::directory::{Directory, LOG, PAGE, ROWS};
use crate::engine::{FinishedWindow, Outcome, Row};
use crate::recorder::{Figure, Kind, Measure, Results};
use crate::summary::Summary;
use crate::summary::tests::outcome;
use crate::traffic::Traffic;

const MS: Duration = Duration::from_millis(1);

fn ended(number: u64) -> FinishedWindow {
    let mut results = Results::default();
    for took in 1..=10 {
        results.note(0, Kind::Succeeded, took * 3 * MS, took * MS);
    }
    results.note(1, Kind::Timeout, 40 * MS, 40 * MS);
    let latency = results.times(Measure::Latency, None);
    let row = Row { number, offered: 12, sent: 11, ended: 11, failed: 1, ..Row::default() };
    let (p50, p99, max) = (latency.quantile(0.5), latency.quantile(0.99), latency.max());
    let row = Row { busy: MS * 20, p50, p99, max, ..row };
    FinishedWindow { wall: SystemTime::UNIX_EPOCH, row, results }
}

/// A run of so many windows that was killed.
fn killed(windows: u64) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let run = json!({ "url": "http://h/<script>alert(1)</script>", "rate": 7 });
    let names = ["read".to_owned(), "write".to_owned()];
    let mut directory = Directory::create(place.path(), &run, &names).unwrap();
    (0..windows).for_each(|number| directory.window(&ended(number)).unwrap());
    place
}

#[test]
fn a_run_that_was_killed_is_shown_up_to_its_last_window_and_says_so() {
    let place = killed(3);
    let text = fs::read_to_string(write(place.path()).unwrap()).unwrap();
    assert!(text.contains("<b>UNFINISHED</b> This run has not ended, or was killed"), "{text}");
    assert!(text.contains("33 requests in 3 whole seconds"), "{text}");
    let host = crate::machine::host();
    assert!(text.contains("<p class=\"when\">2") && text.contains(&format!("Z on {host}</p>")));
    // What came from elsewhere is text, in the page and in its numbers.
    assert!(!text.contains("<script>alert") && text.contains("&lt;script&gt;alert"));
    let run = Run::read(place.path(), 1000).unwrap();
    assert_eq!((run.points.len(), run.results.total(), run.operation(1)), (3, 33, "write"));
    let point = &run.points[1];
    assert_eq!((point.second, point.offered, point.errors), (1, 12, [0, 1, 0, 0]));
    let told = point.latency.unwrap().map(|of| of.measured.as_nanos() as f64);
    assert!((told[0] / 18e6 - 1.0).abs() < 0.01 && (told[3] / 40e6 - 1.0).abs() < 0.01, "{told:?}");
    // Half a line at the end is not a damage.
    let log = place.path().join(LOG);
    let whole = fs::read_to_string(&log).unwrap();
    fs::write(&log, format!("{whole}3.000,1.0")).unwrap();
    assert_eq!(Run::read(place.path(), 1000).unwrap().results.total(), 33);
    fs::write(&log, format!("{whole}3.000,1.0\n")).unwrap();
    assert!(matches!(write(place.path()), Err(ReportError::Log { .. })));
}

#[test]
fn a_run_that_an_older_version_kept_is_shown_without_marks() {
    let place = killed(3);
    let (rows, log) = (place.path().join(ROWS), place.path().join(LOG));
    let older = fs::read_to_string(&rows).unwrap();
    let older = older.lines().map(|line| line.rsplitn(3, ',').nth(2).unwrap().to_owned() + "\n");
    fs::write(&rows, older.collect::<String>()).unwrap();
    assert!(fs::read_to_string(&rows).unwrap().lines().next().unwrap().ends_with(",max_ns"));
    assert!(!fs::read_to_string(&log).unwrap().contains(".without,"));
    let run = Run::read(place.path(), 1000).unwrap();
    assert_eq!((run.points.len(), run.results.total()), (3, 33));
    assert!(run.points.iter().all(|point| point.paused == 0.0));
    assert!(!fs::read_to_string(write(place.path()).unwrap()).unwrap().contains(" ms*"));
}

#[test]
fn windows_are_merged_and_the_page_of_many_long_runs_stays_small() {
    let place = killed(40);
    let mut run = Run::read(place.path(), 15).unwrap();
    let spans: Vec<_> = run.points.iter().map(|point| point.seconds).collect();
    assert_eq!((spans.len(), spans[0], spans[13]), (14, 3, 1));
    assert_eq!(run.points.iter().map(|point| point.sent).sum::<u64>(), 40 * 11);
    assert_eq!(run.points[0].errors, [0, 3, 0, 0]);
    for (count, points) in [(1, POINTS_MAX), (RUNS_MAX, POINTS_OF_ALL / RUNS_MAX)] {
        // Numbers as long as they get.
        let long = Point { offered: 1_234_567, second: 599_999, ..run.points[0].clone() };
        run.points = vec![long; points];
        let text = super::page(&vec![run.clone(); count]);
        assert!(text.len() < 1_000_000, "{count}: {}", text.len());
    }
    let many = page(&vec![place.path().to_owned(); RUNS_MAX + 1]);
    assert!(matches!(many, Err(ReportError::TooMany(_))));
}

#[test]
fn the_page_of_a_run_has_its_verdict_first_and_asks_no_network() {
    let place = killed(1);
    let path = place.path().join("whole");
    let directory = Directory::create(&path, &json!({ "url": "http://h/" }), &[]).unwrap();
    let mut of = outcome();
    of.errors.note(crate::failure::Owner::Server, "status 500 & more");
    of.health.busy = 0.99;
    of.rest = of.results.clone();
    let gates = ["p50<1ns".parse().unwrap()];
    directory.finish(&of, &Summary::new(&of, &gates)).unwrap();
    let text = fs::read_to_string(write(&path).unwrap()).unwrap();
    let body = text.split_once("<body>").unwrap().1;
    let at = |word: &str| body.find(word).unwrap_or_else(|| panic!("{word} is in {body}"));
    assert!(
        at("<b>INVALID</b>") < at("Because a thread of the injector")
            && at("Because") < at("p99.9")
    );
    assert!(body.contains("<b>Missed</b> p50&lt;1ns: it was"), "{body}");
    assert!(body.contains("status 500 &amp; more") && body.contains("injector busy<td"));
    let failing = place.path().join("failing");
    let directory = Directory::create(&failing, &json!({ "url": "http://h/" }), &[]).unwrap();
    let mut of = Outcome { results: Results::default(), ..outcome() };
    of.results.note(0, Kind::Server, MS, MS);
    directory.finish(&of, &Summary::new(&of, &[])).unwrap();
    let said = fs::read_to_string(write(&failing).unwrap()).unwrap();
    assert!(said.contains("<b>Failed</b> most requests failed"), "{said}");
    // No figure of such a run stands without that word.
    assert!(body.contains("Figures <b class=\"word\">INVALID</b>"));
    for scheme in ["src=", "href=", "@import", "url("] {
        assert!(!text.contains(scheme), "{scheme}");
    }
    // Beside others, each of its lines has the word.
    let both = page(&[path, place.path().to_owned()]).unwrap();
    assert!(both.contains("whole <b class=\"word\">INVALID</b> latency"));
}

#[test]
fn the_page_of_a_run_that_has_just_ended_is_the_one_that_its_files_make() {
    let place = tempfile::tempdir().unwrap();
    let windows = 30;
    let directory = Directory::create(place.path(), &json!({ "url": "http://h/" }), &[]).unwrap();
    let mut directory = directory.lasting(Duration::from_secs(windows));
    let mut whole = Outcome { results: Results::default(), ..outcome() };
    for number in 0..windows {
        let mut ended = ended(number);
        (0..number % 7)
            .for_each(|of| ended.results.note(0, Kind::Check, MS * number as u32, of as u32 * MS));
        let long = Figure::delayed(400 * MS, (number as u32 % 3) * 130 * MS);
        ended.results.note_delayed(1, Kind::Succeeded, long, Some(long));
        if number == 7 {
            let longest = Figure::delayed(900 * MS, 600 * MS);
            ended.results.note_delayed(1, Kind::Succeeded, longest, Some(longest));
        }
        whole.results.add(&ended.results);
        directory.window(&ended).unwrap();
    }
    whole.rest.note(0, Kind::Unsent, 900 * MS, Duration::ZERO);
    whole.results.add(&whole.rest.clone());
    let summary = Summary::new(&whole, &[]);
    let course = directory.finish(&whole, &summary).unwrap().unwrap();
    let page = write_ended(place.path(), course, &whole, &summary).unwrap();
    let at_its_end = fs::read_to_string(&page).unwrap();
    assert!(at_its_end == fs::read_to_string(write(place.path()).unwrap()).unwrap());
    // What the injector made is marked, by whichever way it is known.
    assert!(at_its_end.contains("<td>900 ms* ("), "no mark");
    assert!(at_its_end.contains("\"max\":[1,2,4,5,"), "no marks on the lines");
}

#[test]
fn warnings_bytes_and_status_codes_are_on_the_page() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::create(place.path(), &json!({ "url": "http://h/" }), &[]).unwrap();
    let mut of = outcome();
    of.traffic = Traffic::default();
    (of.traffic.sent, of.traffic.received) = (3 << 20, 5 << 10);
    [200, 200, 200, 503].into_iter().for_each(|code| of.traffic.note_code(code));
    of.network.expected = Some(Duration::from_micros(1));
    of.network.note("10.0.0.1:80", 2 * MS, Some(MS));
    let summary = Summary::new(&of, &[]);
    let course = directory.finish(&of, &summary).unwrap().unwrap();
    let page = write_ended(place.path(), course, &of, &summary).unwrap();
    let text = fs::read_to_string(page).unwrap();
    for part in [
        "Warning</b> the way to 10.0.0.1:80 takes 1.00 ms, and 0.00 ms was expected",
        "<tr><td>sent<td>3.0 MiB<td>",
        "<tr><td>received<td>5.0 KiB<td>",
        "<tr><td>200<td>3<td>75.00 %",
        "<tr><td>503<td>1<td>25.00 %",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A protocol without codes has no table of them, and a run that was killed says nothing.
    let killed = killed(1);
    let text = fs::read_to_string(write(killed.path()).unwrap()).unwrap();
    assert!(!text.contains("Status codes") && !text.contains("<h2>Bytes"), "{text}");
}

#[test]
fn what_is_no_directory_of_results_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let error = write(place.path()).unwrap_err();
    assert!(error.to_string().contains("has no results of a run"), "{error}");
    let place = killed(1);
    fs::write(place.path().join("report.json"), "{").unwrap();
    assert!(matches!(write(place.path()), Err(ReportError::Damaged { .. })));
    assert!(!place.path().join(PAGE).exists());
}
