//! The closed loop, with think times and without, to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{ConnectionStep, Job, MS, PacerStep, send};
use crate::engine::Think;
use crate::engine::pacing::{ClosedLoop, Numbers, Pacing, RequestLimit, ThinkSpan, ThinkTimes};
use crate::part::RunPart;

const LENGTH: Duration = Duration::from_secs(1);

/// The pacing of thread 1 of 3 with two connections, from `begin` on for a second.
fn pacing(begin: Instant, limit: Option<RequestLimit>, think: Option<Think>) -> Pacing {
    let numbers = Numbers::new(1, 3, limit);
    let think_times = think.map(|think| ThinkTimes::new(think, 1, begin));
    Pacing::Closed(ClosedLoop::new(2, begin + LENGTH, numbers, think_times))
}

fn closed(pacing: &mut Pacing) -> &mut ClosedLoop {
    let Pacing::Closed(closed) = pacing else { panic!("{pacing:?}") };
    closed
}

fn limit(requests: u64) -> RequestLimit {
    RequestLimit { next: Arc::default(), requests, part: RunPart::WHOLE }
}

/// The moment until which the pacer sleeps.
fn sleep_until(pacing: &mut Pacing, now: Instant) -> Instant {
    match pacing.step(now) {
        PacerStep::SleepUntil(at) => at,
        step => panic!("{step:?}"),
    }
}

#[test]
fn a_connection_sends_as_soon_as_it_is_free_and_its_numbers_are_its_threads() {
    let begin = Instant::now();
    let mut pacing = pacing(begin, None, None);
    let turns = [(0, 0, 1), (1, 0, 4), (1, 5, 7), (0, 9, 10)];
    for (connection, millis, number) in turns {
        let since = begin + millis * MS;
        assert_eq!(pacing.freed(connection, since, false), send(number, since, since));
        // The pacer has nothing to do.
        assert_eq!(pacing.step(since), PacerStep::WaitForAnswer);
        assert!(!pacing.has_work_before(since + LENGTH));
    }
}

#[test]
fn nothing_is_sent_from_the_end_on_or_when_somebody_has_stopped_the_run() {
    let begin = Instant::now();
    let mut pacing = pacing(begin, None, None);
    let end = begin + LENGTH;
    let last = end - Duration::from_nanos(1);
    assert_eq!(pacing.freed(0, last, false), send(1, last, last));
    assert_eq!(pacing.freed(0, end, false), ConnectionStep::End);
    assert_eq!(pacing.freed(1, begin, true), ConnectionStep::End);
    assert!(!pacing.is_past_end(last) && pacing.is_past_end(end));
    assert!(!pacing.is_used_up(), "requests were left");
}

#[test]
fn requests_are_used_up_when_each_connection_has_asked_for_one_and_got_none() {
    let begin = Instant::now();
    let limit = limit(2);
    let mut pacings = [0, 1].map(|_| pacing(begin, Some(limit.clone()), None));
    let [first, second] = &mut pacings;
    assert_eq!(first.freed(0, begin, false), send(0, begin, begin));
    assert_eq!(second.freed(0, begin, false), send(1, begin, begin));
    assert_eq!(first.freed(1, begin + MS, false), ConnectionStep::End);
    assert!(!first.is_used_up(), "the answer to the first request is under way");
    assert_eq!(first.freed(0, begin + 3 * MS, false), ConnectionStep::End);
    assert!(first.is_used_up() && !second.is_used_up());
    let finished: Vec<_> = closed(first).finished().collect();
    assert_eq!(finished, [begin + 3 * MS, begin + MS]);
    // Those that come back after the end are finished, too.
    assert_eq!(second.freed(1, begin, false), ConnectionStep::End);
    second.finish(0, begin + LENGTH);
    assert!(second.is_used_up());
}

#[test]
fn a_connection_thinks_before_each_request_and_less_before_its_first() {
    let begin = Instant::now();
    let mut pacing = pacing(begin, None, Think::new(40 * MS, 60 * MS));
    assert_eq!(pacing.freed(0, begin, false), ConnectionStep::Wait);
    let first = sleep_until(&mut pacing, begin);
    assert!(first >= begin && first < begin + 60 * MS);
    assert!(pacing.has_work_before(first + MS) && !pacing.has_work_before(first));
    // However late the pacer is, the request was due when the think time was over.
    let span = ThinkSpan { until: first, connection: 0, since: begin };
    let job = Some(Job { number: 1, due: first, free: first });
    assert_eq!(pacing.step(first + 9 * MS), PacerStep::EndThinking { span, job });
    assert_eq!(pacing.step(first + 9 * MS), PacerStep::WaitForAnswer);
    let answered = first + 20 * MS;
    assert_eq!(pacing.freed(0, answered, false), ConnectionStep::Wait);
    let next = sleep_until(&mut pacing, answered);
    assert!((answered + 40 * MS..=answered + 60 * MS).contains(&next));
}

#[test]
fn the_connection_that_has_thought_for_long_enough_first_is_first() {
    let begin = Instant::now();
    let mut pacing = pacing(begin, None, Think::new(5 * MS, 5 * MS));
    pacing.freed(1, begin + 2 * MS, false);
    pacing.freed(0, begin + MS, false);
    assert_eq!(sleep_until(&mut pacing, begin + 2 * MS), begin + 6 * MS);
    let order = [0, 1].map(|_| match pacing.step(begin + 10 * MS) {
        PacerStep::EndThinking { span, job } => (span.connection, job.unwrap().due),
        step => panic!("{step:?}"),
    });
    assert_eq!(order, [(0, begin + 6 * MS), (1, begin + 7 * MS)]);
}

#[test]
fn a_think_time_ends_with_its_connection_and_with_the_run() {
    let begin = Instant::now();
    let mut pacing = pacing(begin, None, Think::new(100 * MS, 100 * MS));
    let (first, second) = (begin + MS, begin + 2 * MS);
    pacing.freed(0, first, false);
    pacing.freed(1, second, false);
    let now = begin + 30 * MS;
    let span = ThinkSpan { until: now, connection: 0, since: first };
    assert_eq!(pacing.withdraw(0, now), Some(span));
    assert_eq!(pacing.withdraw(0, now), None);
    let end = begin + 50 * MS;
    let spans: Vec<_> = closed(&mut pacing).stop_thinking(end).collect();
    assert_eq!(spans, [ThinkSpan { until: end, connection: 1, since: second }]);
    assert_eq!(pacing.step(begin + LENGTH), PacerStep::WaitForAnswer);
}

#[test]
fn a_connection_without_a_request_is_counted_once_even_if_it_is_opened_anew() {
    let begin = Instant::now();
    let mut pacing = pacing(begin, Some(limit(1)), Think::new(MS, MS));
    pacing.freed(0, begin + MS, false);
    pacing.freed(1, begin + 2 * MS, false);
    let mut end_of_thinking = |now| match pacing.step(now) {
        PacerStep::EndThinking { span, job } => (span.connection, job.map(|job| job.number)),
        step => panic!("{step:?}"),
    };
    assert_eq!(end_of_thinking(begin + 3 * MS), (0, Some(0)));
    assert_eq!(end_of_thinking(begin + 3 * MS), (1, None));
    // The server closes the connection that has nothing to send.
    assert_eq!(pacing.withdraw(1, begin + 4 * MS), None);
    assert_eq!(pacing.freed(1, begin + 5 * MS, false), ConnectionStep::Wait);
    assert_eq!(pacing.step(begin + 9 * MS), PacerStep::WaitForAnswer);
    assert!(!pacing.is_used_up(), "an answer is under way");
    pacing.freed(0, begin + 10 * MS, false);
    let step = pacing.step(begin + 11 * MS);
    assert!(matches!(step, PacerStep::EndThinking { job: None, .. }), "{step:?}");
    assert!(pacing.is_used_up());
    let finished: Vec<_> = closed(&mut pacing).finished().collect();
    assert_eq!(finished, [begin + 11 * MS, begin + 5 * MS]);
}

#[test]
fn each_part_of_a_run_sends_the_requests_whose_numbers_are_its_own() {
    let begin = Instant::now();
    let part = |number| RequestLimit {
        next: Arc::default(),
        requests: 8,
        part: RunPart::new(number, 3).unwrap(),
    };
    for (number, own) in [(1, vec![0, 3, 6]), (2, vec![1, 4, 7]), (3, vec![2, 5])] {
        let mut pacing = pacing(begin, Some(part(number)), None);
        let sent = std::iter::from_fn(|| match pacing.freed(0, begin, false) {
            ConnectionStep::Send(job) => Some(job.number),
            ConnectionStep::Wait | ConnectionStep::End => None,
        });
        assert_eq!(sent.collect::<Vec<_>>(), own);
    }
}
