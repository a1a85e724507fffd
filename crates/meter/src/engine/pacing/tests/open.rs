//! The open loop: one request is due every 10 ms, from the beginning on.

use std::time::{Duration, Instant};

use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use super::{ConnectionStep, Job, MS, PacerStep, send};
use crate::engine::pacing::{OpenLoop, Pacing};
use crate::schedule::{Arrivals, Schedule, Segment};

/// The pacing of a loop of so many requests, and the moment at which each is due.
fn pacing(requests: u32) -> (Pacing, impl Fn(u32) -> Instant) {
    let begin = Instant::now();
    let segment = Segment::constant(100.0, requests * 10 * MS);
    let due = Schedule::new(vec![segment], Arrivals::Even).unwrap().due(0, 1);
    let pacing = Pacing::Open(OpenLoop::new(due, begin, 4));
    (pacing, move |number| begin + number * 10 * MS)
}

fn open(pacing: &mut Pacing) -> &mut OpenLoop {
    let Pacing::Open(open) = pacing else { panic!("{pacing:?}") };
    open
}

#[test]
fn nothing_is_sent_before_it_is_due_and_the_longest_free_connection_is_first() {
    let (mut pacing, due) = pacing(3);
    let begin = due(0);
    for (connection, since) in [(7, begin - 3 * MS), (2, begin - 2 * MS), (5, begin - MS)] {
        assert_eq!(pacing.freed(connection, since, false), ConnectionStep::Wait);
    }
    assert_eq!(pacing.step(begin - MS), PacerStep::SleepUntil(begin));
    let job = |number: u32, free| Job { number: u64::from(number), due: due(number), free };
    let now = due(1) + MS;
    let step = PacerStep::Send { connection: 7, job: job(0, begin - 3 * MS) };
    assert_eq!(pacing.step(now), step);
    let step = PacerStep::Send { connection: 2, job: job(1, begin - 2 * MS) };
    assert_eq!(pacing.step(now), step);
    assert_eq!(pacing.step(now), PacerStep::SleepUntil(due(2)));
    let step = PacerStep::Send { connection: 5, job: job(2, begin - MS) };
    assert_eq!(pacing.step(due(2)), step);
    assert_eq!(pacing.step(due(3)), PacerStep::WaitForAnswer);
}

#[test]
fn what_is_due_waits_for_a_connection_and_the_first_that_is_free_sends_it_at_once() {
    let (mut pacing, due) = pacing(2);
    let now = due(0) + 4 * MS;
    assert_eq!(pacing.step(now), PacerStep::WaitForConnection);
    assert!(!pacing.has_work_before(now + MS), "no connection is free");
    // It has been free only since the request was due, so the request was blocked until then.
    assert_eq!(pacing.freed(3, now, false), send(0, due(0), now));
    assert_eq!(pacing.freed(3, now + MS, false), ConnectionStep::Wait);
    assert_eq!(pacing.step(now + MS), PacerStep::SleepUntil(due(1)));
}

#[test]
fn the_pacer_is_called_when_a_connection_waits_that_was_free_before_the_request_was_due() {
    let (mut pacing, due) = pacing(2);
    assert_eq!(pacing.step(due(0)), PacerStep::WaitForConnection);
    // Its answer came before, and its task has its turn only now.
    let since = due(0) - MS;
    assert_eq!(pacing.freed(1, since, false), ConnectionStep::Wait);
    assert!(pacing.has_work_before(due(0)));
    let job = Job { number: 0, due: due(0), free: since };
    assert_eq!(pacing.step(due(0) + MS), PacerStep::Send { connection: 1, job });
    assert!(!pacing.has_work_before(due(9)), "the pacer sleeps until the next is due");
}

#[test]
fn an_overdue_request_goes_to_the_connection_at_hand_as_if_the_first_had_sent_it() {
    let (mut pacing, due) = pacing(2);
    let first = due(0) - 5 * MS;
    assert_eq!(pacing.freed(1, first, false), ConnectionStep::Wait);
    let brief = Duration::from_micros(249);
    assert_eq!(pacing.freed(2, due(0) + brief, false), ConnectionStep::Wait);
    let overdue = due(0) + Duration::from_micros(250);
    assert_eq!(pacing.freed(3, overdue, false), send(0, due(0), first));
}

#[test]
fn a_connection_that_the_server_has_closed_is_given_nothing() {
    let (mut pacing, due) = pacing(2);
    pacing.freed(1, due(0) - 2 * MS, false);
    pacing.freed(2, due(0) - MS, false);
    assert_eq!(pacing.withdraw(1, due(0)), None);
    let job = Job { number: 0, due: due(0), free: due(0) - MS };
    assert_eq!(pacing.step(due(0)), PacerStep::Send { connection: 2, job });
    assert_eq!(pacing.step(due(1)), PacerStep::WaitForConnection);
}

#[test]
fn at_the_end_what_was_due_before_is_left_unsent() {
    let (mut pacing, due) = pacing(5);
    pacing.freed(1, due(0), false);
    let end = due(3);
    let unsent: Vec<_> = std::iter::from_fn(|| open(&mut pacing).take_unsent(end)).collect();
    assert_eq!(unsent, [(1, due(1)), (2, due(2))]);
    // Users go on with their further steps until the pacer has ended the run.
    assert!(!pacing.is_past_end(due(9)) && !pacing.is_used_up());
    pacing.finish(1, end);
    assert!(!pacing.is_used_up());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn each_request_is_sent_once_in_order_and_never_before_it_is_due(
        turns in proptest::collection::vec((0..4_usize, 0..30_u32), 0..80),
    ) {
        let (mut pacing, due) = pacing(20);
        let (mut now, mut busy, mut next) = (due(0), [true; 4], 0);
        let mut sent = |job: Job, now: Instant| {
            prop_assert_eq!(job.number, next);
            prop_assert!(job.due <= now && job.free <= now);
            next += 1;
            Ok(())
        };
        for (connection, wait) in turns {
            now += wait * MS;
            if busy[connection] {
                match pacing.freed(connection, now, false) {
                    ConnectionStep::Send(job) => sent(job, now)?,
                    ConnectionStep::Wait => busy[connection] = false,
                    ConnectionStep::End => prop_assert!(false, "an open loop is ended elsewhere"),
                }
            }
            loop {
                match pacing.step(now) {
                    PacerStep::Send { connection, job } => {
                        prop_assert!(!busy[connection]);
                        busy[connection] = true;
                        sent(job, now)?;
                    }
                    PacerStep::SleepUntil(at) => {
                        prop_assert!(at > now);
                        break;
                    }
                    PacerStep::WaitForConnection => {
                        prop_assert!(busy.iter().all(|busy| *busy));
                        break;
                    }
                    step => {
                        prop_assert_eq!(step, PacerStep::WaitForAnswer);
                        break;
                    }
                }
            }
        }
    }
}
