use std::time::Duration;

use super::Summary;
use crate::engine::{Outcome, WarmUp};
use crate::failure::Owner;
use crate::gate::Gate;
use crate::injector::Health;
use crate::lateness::Lateness;
use crate::recorder::{Figure, Kind, Results};

const US: Duration = Duration::from_micros(1);

pub(crate) fn outcome() -> Outcome {
    let mut of = Outcome { connections: 64, ..Outcome::default() };
    for number in 1..=1000 {
        of.results.note(0, Kind::Succeeded, number * US, number * US * 9 / 10);
    }
    of.network.note("127.0.0.1:80", 30 * US, Some(20 * US));
    of.measured = Duration::from_secs(10);
    of.operations = vec!["request".to_owned()];
    of.lateness = Lateness { sends: 1000, ..Lateness::default() };
    of.health = Health { busy: 0.02, ..Health::default() };
    of.warm_up = WarmUp { duration: Duration::from_secs(1), requests: 100, failed: 0 };
    (of.traffic.sent, of.traffic.received) = (50_000, 170_000);
    (0..1000).for_each(|_| of.traffic.note_code(200));
    of.last = Duration::from_millis(10_250);
    of
}

#[test]
fn a_quiet_run_is_told_in_a_few_lines() {
    let outcome = outcome();
    let summary = Summary::new(&outcome, &[]);
    let golden = "\
VALID  The server kept up: 1,000 requests in 10 s, no errors.
               p50       p99     p99.9       max
latency    0.50 ms   0.99 ms   1.00 ms   1.00 ms  from when each was due
service    0.45 ms   0.89 ms   0.90 ms   0.90 ms  from its send
injector 2 % busy, 0 late; network 0.02 ms; 0 waited for a connection
warm-up  1 s, in no figure: 100 requests, 0 failed
";
    assert_eq!(summary.to_string(), golden);
    assert!(!summary.is_invalid() && !summary.has_missed());
    assert_eq!(summary.next_demand().as_deref(), Some("p99<5ms"));
}

#[test]
fn a_way_that_is_longer_than_expected_is_warned_of_and_several_have_a_line_each() {
    let mut outcome = outcome();
    outcome.network.expected = Some(200 * US);
    assert!(!Summary::new(&outcome, &[]).to_string().contains("WARNING"));
    outcome.network.note("10.0.0.2:80", 2500 * US, Some(2100 * US));
    let summary = Summary::new(&outcome, &[]);
    let said = summary.to_string();
    for part in [
        "WARNING  the way to 10.0.0.2:80 takes 2.10 ms, and 0.20 ms was expected\n",
        "network  10.0.0.2:80: 2.10 ms; 1 connections opened in 2.50 ms (p50)\n",
        "network  127.0.0.1:80: 0.02 ms; ",
        "; network 0.02 ms; ",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    // It is a warning: the numbers are true.
    assert!(!summary.is_invalid());
    let told = summary.json();
    assert_eq!(told["network"][0]["min_round_trip_ns"], 2_100_000);
    assert_eq!(told["network"][0]["is_too_long"], true);
    assert_eq!(
        (&told["bytes"]["received"], &told["codes"]["200"]),
        (&170_000.into(), &1000.into())
    );
}

#[test]
fn operations_have_a_line_each_and_commands_are_counted_beside() {
    let mut outcome = outcome();
    outcome.operations = ["get", "set", "never"].map(str::to_owned).to_vec();
    outcome.results.note(1, Kind::Succeeded, 7000 * US, US);
    outcome.commands = 16_016;
    let said = Summary::new(&outcome, &[]).to_string();
    for part in [
        "within   16,016 commands or points in these requests, 1,602 a second\n",
        "get        0.50 ms   0.99 ms   1.00 ms   1.00 ms  latency of 1,000 requests\n",
        "set        7.00 ms   7.00 ms   7.00 ms   7.00 ms  latency of 1 requests\n",
    ] {
        assert!(said.contains(part), "{part}{said}");
    }
    assert!(!said.contains("never"), "{said}");
}

#[test]
fn what_is_wrong_comes_first_with_cause_number_and_remedy() {
    let mut outcome = outcome();
    outcome.lateness.late = 300;
    outcome.errors.note(Owner::Server, "status 503");
    outcome.results.note(0, Kind::Server, US, US);
    outcome.results.note(0, Kind::Unsent, 5_000_000 * US, Duration::ZERO);
    let gates = ["max<1s".parse().unwrap(), "p50<1s".parse().unwrap()];
    let summary = Summary::new(&outcome, &gates);
    let said = summary.to_string();
    assert!(summary.is_invalid() && summary.has_missed());
    for part in [
        "INVALID  These numbers can't be believed: 1,002 requests in 10 s, 1 error, 1 not sent.\n",
        "because 300 of 1000 sends were late by over 1 ms; the injector had time to spare",
        "MISSED  max<1s: it was 5.0",
        "latency of 1 that were not sent, at their age (>=)",
        "error    1 x server: status 503",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    assert!(!said.contains("p50<1s"));
}

#[test]
fn what_the_injector_made_is_marked_and_no_demand_is_judged_by_it() {
    let (mut outcome, ms) = (outcome(), 1000 * US);
    let long = Figure::delayed(456 * ms, 450 * ms);
    (0..2).for_each(|_| outcome.results.note_delayed(0, Kind::Succeeded, long, Some(long)));
    let golden = "\
VALID  The server kept up: 1,002 requests in 10 s, no errors.
               p50       p99     p99.9       max
latency    0.50 ms   0.99 ms    456 ms*   456 ms* from when each was due
service    0.45 ms   0.89 ms    456 ms*   456 ms* from its send
*        the injector's, by which no demand is judged: without its delays, latency has p99.9 \
6.00 ms, max 6.00 ms
injector 2 % busy, 0 late; network 0.02 ms; 0 waited for a connection
warm-up  1 s, in no figure: 100 requests, 0 failed
";
    let met = ["max<500ms", "p99<2ms", "rate>99"].map(|gate| gate.parse().unwrap());
    let summary = Summary::new(&outcome, &met);
    assert_eq!(summary.to_string(), golden);
    let (text, told) = (summary.text(), summary.json());
    assert!(text.contains("Injector's    [of these latencies]              mean, max\n"), "{text}");
    assert_eq!(told["latency"]["injectors"], serde_json::json!(["p99.9", "mean", "max"]));
    assert!(told["latency"]["corrected"]["max_ns"].as_u64() < Some(7_000_000));
    let summary = Summary::new(&outcome, &["max<50ms".parse().unwrap()]);
    assert!(summary.is_invalid() && !summary.has_missed());
    let said = summary.to_string();
    let cause = "because max<50ms can't be judged: it was 456.";
    assert!(said.contains(cause) && !said.contains("MISSED"), "{said}");
    // Where p99 is the injector's, nothing is believed.
    (0..20).for_each(|_| outcome.results.note_delayed(0, Kind::Succeeded, long, Some(long)));
    let said = Summary::new(&outcome, &[]).to_string();
    assert!(
        said.starts_with("INVALID") && said.contains("because the p99 of latency is"),
        "{said}"
    );
}

#[test]
fn a_server_that_did_not_keep_up_is_a_finding_of_a_valid_run() {
    let mut outcome = outcome();
    outcome.lateness.note_blocked(7000 * US);
    assert!(Summary::new(&outcome, &[]).to_string().contains("kept up with delays: 1,000"));
    outcome.results.note(0, Kind::Unsent, 5000 * US, Duration::ZERO);
    let said = Summary::new(&outcome, &[]).to_string();
    assert!(said.starts_with("VALID  The server did not keep up: 1,001"), "{said}");
    assert!(said.contains("1 waited for a connection (p50 7.00 ms, max 7.0"), "{said}");
}

/// A run with so many successes, failures and requests that were never sent.
fn ended(succeeded: u64, failed: u64, unsent: u64) -> Outcome {
    let mut of = Outcome { results: Results::default(), ..outcome() };
    (0..succeeded).for_each(|_| of.results.note(0, Kind::Succeeded, US, US));
    (0..failed).for_each(|_| of.results.note(0, Kind::Server, US, US));
    (0..unsent).for_each(|_| of.results.note(0, Kind::Unsent, US, US));
    (0..failed).for_each(|_| of.errors.note(Owner::Server, "status 503"));
    of
}

#[test]
fn a_run_whose_every_request_failed_does_not_say_that_the_server_kept_up() {
    let golden = "\
VALID  Every request failed: 50 requests in 10 s, 50 errors.
FAILED  these are times of failures, most of them server: status 503; mend that, or allow it with \
--require 'errors<=100%'
";
    let of = ended(0, 50, 0);
    let summary = Summary::new(&of, &[]);
    let said = summary.to_string();
    assert!(said.starts_with(golden), "{said}");
    assert!(summary.is_failing() && summary.next_demand().is_none());
    assert_eq!(summary.json()["failing"], true);
    for ((succeeded, failed, unsent), headline, is_failing) in [
        ((0, 1, 49), "Every request failed: 50 requests in 10 s, 1 error, 49 not sent.", true),
        ((0, 0, 50), "Every request failed", true),
        ((24, 26, 0), "Most requests failed: 50 requests in 10 s, 26 errors.", true),
        ((25, 25, 0), "50.0 % of requests failed", false),
        ((5, 1, 94), "The server did not keep up", false),
        ((49, 1, 0), "2.0 % of requests failed", false),
        ((99, 1, 0), "The server kept up", false),
        ((0, 0, 0), "The server kept up: 0 requests", false),
    ] {
        let of = ended(succeeded, failed, unsent);
        let summary = Summary::new(&of, &[]);
        let said = summary.to_string();
        assert!(said.contains(&format!("VALID  {headline}")), "{headline}: {said}");
        assert_eq!(summary.is_failing(), is_failing, "{headline}");
        let closed = Outcome { closed: true, ..of };
        assert_eq!(Summary::new(&closed, &[]).is_failing(), is_failing, "{headline}");
    }
    // Whoever says how many may fail is believed.
    let of = ended(0, 50, 0);
    let allowed = ["errors<=100%".parse().unwrap()];
    let summary = Summary::new(&of, &allowed);
    assert!(!summary.is_failing() && !summary.has_missed(), "{summary}");
}

#[test]
fn quick_failures_meet_no_demand_on_times() {
    let mut of = ended(100, 0, 0);
    of.operations = ["get", "login", "never"].map(str::to_owned).to_vec();
    (0..10).for_each(|_| of.results.note(1, Kind::Server, US, US));
    let gate = |text: &str| text.parse::<Gate>().unwrap().on(&of.operations).unwrap();
    let missed = |text: &str| {
        let said = Summary::new(&of, &[gate(text)]).to_string();
        said.lines().find_map(|line| line.strip_prefix("MISSED  ").map(str::to_owned))
    };
    for met in ["p99<1s", "p99<1s of get", "errors<1% of never", "rate>0"] {
        assert_eq!(missed(met), None, "{met}");
    }
    let found = missed("max<=1s of login").unwrap();
    assert!(found.ends_with(", and 100.0 % of these failed"), "{found}");
    let found = missed("p99<1s of never").unwrap();
    assert_eq!(found, "p99<1s of never: it was nothing: no request of it ended");
}

#[test]
fn figures_are_there_in_the_shape_of_vegeta_behind_the_verdict() {
    let outcome = outcome();
    let text = Summary::new(&outcome, &[]).text();
    let golden = "
Requests      [total, rate, throughput]         1000, 100.00, 100.00
Duration      [total, attack, wait]             10.25s, 10s, 250ms
Latencies     [min, mean, 50, 90, 95, 99, max]  1.000µs, 500.504µs, 500.223µs, 900.095µs, \
950.271µs, 990.207µs, 1.000ms
Bytes In      [total, mean]                     170000, 170.00
Bytes Out     [total, mean]                     50000, 50.00
Success       [ratio]                           100.00%
Status Codes  [code:count]                      200:1000
Error Set:
";
    assert!(text.starts_with("VALID  "), "{text}");
    // Whoever finds the file later knows when and where.
    assert!(text.contains("\nbegan    1970-01-01T00:00:00Z on "), "{text}");
    assert!(text.ends_with(golden), "{text}");
}

#[test]
fn programs_are_told_all_that_people_are() {
    let mut outcome = outcome();
    outcome.lateness.late = 300;
    outcome.errors.note(Owner::Network, "refused");
    outcome.results.note(0, Kind::Network, US, US);
    let gates = ["p50<1us".parse().unwrap()];
    let told = Summary::new(&outcome, &gates).json();
    assert_eq!((&told["verdict"], &told["failed"]), (&"INVALID".into(), &1.into()));
    assert!(told["because"][0]["cause"].as_str().unwrap().contains("300 of 1000"));
    assert_eq!(told["missed"][0]["demand"], "p50<1us");
    assert_eq!(told["kinds"]["network"]["count"], 1);
    assert_eq!(told["errors"][0]["owner"], "network");
    assert_eq!(told["operations"].as_array().unwrap().len(), 2);
    // Of no times there are no percentiles.
    assert_eq!(told["injector"]["turnaround"], serde_json::json!({ "count": 0 }));
}
