mod orders;

use std::time::{Duration, Instant};

use super::{Admission, Barrier, Keeping, Limits, Request, UnaskedConfirmation, Unproven};

fn barrier(limits: Limits) -> Barrier<u32> {
    let mut barrier = Barrier::new(limits);
    barrier.logged_in();
    barrier
}

fn shared(barrier: &mut Barrier<u32>) -> Request {
    match barrier.commit(false, Instant::now()) {
        Admission::Shared(request) => request,
        other => panic!("{other:?}"),
    }
}

fn held(barrier: &mut Barrier<u32>, ticket: u32) {
    let request = shared(barrier);
    assert_eq!(barrier.hold(request, ticket, b"end"), Ok(()));
}

fn released(barrier: &mut Barrier<u32>) -> Vec<(u32, Vec<u8>)> {
    let mut released = Vec::new();
    barrier.confirmed(|answer| released.push((answer.ticket, answer.bytes))).unwrap();
    released
}

fn given_up(barrier: &mut Barrier<u32>) -> Vec<u32> {
    let mut tickets = Vec::new();
    barrier.broken(|Unproven(ticket)| tickets.push(ticket));
    tickets
}

#[test]
fn a_mark_covers_what_was_held_before_it_was_handed_over_and_in_that_order() {
    let mut barrier = barrier(Limits::default());
    assert!(!barrier.mark(Instant::now()), "there is nothing to cover");
    for ticket in [1, 2] {
        held(&mut barrier, ticket);
    }
    assert!(barrier.mark(Instant::now()));
    held(&mut barrier, 3);
    assert!(!barrier.mark(Instant::now()), "one is under way");
    let end = || b"end".to_vec();
    assert_eq!(released(&mut barrier), [(1, end()), (2, end())]);
    assert!(!barrier.is_empty() && barrier.mark(Instant::now()));
    assert_eq!(released(&mut barrier), [(3, end())]);
    assert!(barrier.is_empty() && barrier.is_clear() && barrier.bytes() == 0);
}

#[test]
fn a_confirmation_that_nobody_asked_for_releases_nothing() {
    let mut barrier = barrier(Limits::default());
    held(&mut barrier, 1);
    let confirmed = barrier.confirmed(|answer| panic!("{answer:?}"));
    assert_eq!(confirmed, Err(UnaskedConfirmation));
    assert_eq!(barrier.held(), 1);
}

#[test]
fn a_commit_is_its_own_without_a_connection_for_marks() {
    let mut barrier: Barrier<u32> = Barrier::new(Limits::default());
    assert_eq!(barrier.commit(false, Instant::now()), Admission::Own);
    barrier.logged_in();
    let request = shared(&mut barrier);
    assert!(given_up(&mut barrier).is_empty());
    assert_eq!(barrier.commit(false, Instant::now()), Admission::Own);
    assert_eq!(barrier.hold(request, 1, b"end"), Err(Unproven(1)));
    assert!(!barrier.is_clear(), "others may have seen it");
}

#[test]
fn a_commit_that_was_sent_before_the_connection_was_opened_anew_is_unproven() {
    let mut barrier = barrier(Limits::default());
    let request = shared(&mut barrier);
    given_up(&mut barrier);
    barrier.logged_in();
    assert_eq!(barrier.hold(request, 1, b"end"), Err(Unproven(1)));
}

#[test]
fn all_that_is_held_is_unproven_once_the_connection_ends() {
    let mut barrier = barrier(Limits::default());
    held(&mut barrier, 1);
    assert!(barrier.mark(Instant::now()));
    held(&mut barrier, 2);
    assert_eq!(given_up(&mut barrier), [1, 2]);
    assert!(barrier.is_empty() && barrier.bytes() == 0);
    assert!(given_up(&mut barrier).is_empty());
    // What they did may be there, and is covered by the first mark of the next connection.
    assert!(!barrier.is_clear() && !barrier.mark(Instant::now()));
    barrier.logged_in();
    assert!(barrier.mark(Instant::now()));
    assert!(released(&mut barrier).is_empty());
    assert!(barrier.is_clear());
}

#[test]
fn a_mark_is_spared_where_nothing_else_is_uncovered_and_there_is_room() {
    let mut barrier = barrier(Limits::default());
    assert_eq!(barrier.commit(true, Instant::now()), Admission::Own);
    let request = shared(&mut barrier);
    assert!(matches!(barrier.commit(true, Instant::now()), Admission::Shared(_)));
    assert!(barrier.settle(request).is_empty());
}

#[test]
fn requests_that_may_commit_wait_while_the_mark_under_way_is_late() {
    let limits = Limits { age: Duration::from_secs(1), ..Limits::default() };
    let mut barrier = barrier(limits);
    let now = Instant::now();
    held(&mut barrier, 1);
    assert!(barrier.mark(now));
    let after = |millis| now + Duration::from_millis(millis);
    assert!(matches!(barrier.commit(true, after(1000)), Admission::Shared(_)));
    assert_eq!(barrier.commit(true, after(1001)), Admission::Wait);
    assert_eq!(barrier.mark_age(after(1001)), Some(Duration::from_millis(1001)));
    assert_eq!(released(&mut barrier).len(), 1);
    assert!(matches!(barrier.commit(false, after(1001)), Admission::Shared(_)));
}

#[test]
fn where_too_many_answers_wait_commits_are_their_own_and_reads_are_not_sent() {
    let mut barrier = barrier(Limits { answers: 3, ..Limits::default() });
    held(&mut barrier, 1);
    let under_way = shared(&mut barrier);
    let read = barrier.read().unwrap();
    assert_eq!(barrier.commit(false, Instant::now()), Admission::Own);
    assert_eq!(barrier.read(), None);
    barrier.settle(read);
    let _ = shared(&mut barrier);
    barrier.lose(under_way);
    assert_eq!(barrier.commit(false, Instant::now()), Admission::Own);
}

#[test]
fn where_too_many_bytes_wait_commits_are_their_own() {
    let mut barrier = barrier(Limits { bytes: 8, ..Limits::default() });
    let mut request = shared(&mut barrier);
    assert_eq!(barrier.keep(&mut request, b"12345678"), Keeping::Retained);
    assert_eq!(barrier.commit(false, Instant::now()), Admission::Own);
    assert_eq!(barrier.settle(request), b"12345678");
    let _ = shared(&mut barrier);
}

#[test]
fn of_an_answer_without_room_only_the_end_is_held() {
    let mut barrier = barrier(Limits { bytes: 8, ..Limits::default() });
    let mut request = shared(&mut barrier);
    assert_eq!(barrier.keep(&mut request, b"12345"), Keeping::Retained);
    assert_eq!(barrier.keep(&mut request, b"6789"), Keeping::PassedOn(b"12345".to_vec()));
    assert_eq!(barrier.keep(&mut request, b"a"), Keeping::PassedOn(Vec::new()));
    assert_eq!(barrier.bytes(), 0);
    assert_eq!(barrier.hold(request, 1, b"the end"), Ok(()));
    assert_eq!(barrier.bytes(), 7);
    assert!(barrier.mark(Instant::now()));
    assert_eq!(released(&mut barrier), [(1, b"the end".to_vec())]);
    assert_eq!(barrier.bytes(), 0);
}

#[test]
fn what_is_kept_is_released_before_the_end_of_its_answer() {
    let mut barrier = barrier(Limits::default());
    let mut request = shared(&mut barrier);
    for piece in [&b"complete "[..], b"complete "] {
        assert_eq!(barrier.keep(&mut request, piece), Keeping::Retained);
    }
    assert_eq!(barrier.hold(request, 7, b"ready"), Ok(()));
    assert!(barrier.mark(Instant::now()));
    assert_eq!(released(&mut barrier), [(7, b"complete complete ready".to_vec())]);
}

#[test]
fn a_read_goes_out_at_once_only_where_no_commit_is_uncovered() {
    let mut barrier = barrier(Limits::default());
    let read = barrier.read().unwrap();
    assert!(barrier.tells(&read));
    let commit = shared(&mut barrier);
    assert!(!barrier.tells(&read), "one may commit");
    assert_eq!(barrier.hold(commit, 1, b"end"), Ok(()));
    assert!(!barrier.tells(&read), "one has committed");
    assert_eq!(barrier.hold(read, 2, b"rows"), Ok(()));
    assert!(barrier.mark(Instant::now()));
    let late = barrier.read().unwrap();
    assert_eq!(barrier.hold(late, 3, b"rows"), Ok(()));
    assert_eq!(released(&mut barrier).len(), 2);
    // A read that waits keeps no other one waiting.
    let next = barrier.read().unwrap();
    assert!(barrier.tells(&next) && barrier.held() == 1);
    assert!(barrier.settle(next).is_empty());
}

#[test]
fn a_read_that_was_sent_before_the_connection_ended_tells_nothing_at_once() {
    let mut barrier = barrier(Limits::default());
    let read = barrier.read().unwrap();
    given_up(&mut barrier);
    assert!(barrier.is_clear() && !barrier.tells(&read));
    barrier.logged_in();
    assert!(!barrier.tells(&read));
    assert_eq!(barrier.hold(read, 1, b"rows"), Err(Unproven(1)));
    assert!(barrier.is_clear() && !barrier.mark(Instant::now()));
}

#[test]
fn a_commit_whose_outcome_was_not_heard_is_uncovered_until_the_next_mark() {
    let mut barrier = barrier(Limits::default());
    let request = shared(&mut barrier);
    barrier.lose(request);
    assert!(barrier.is_empty() && !barrier.is_clear());
    assert!(barrier.mark(Instant::now()));
    assert!(released(&mut barrier).is_empty() && barrier.is_clear());
}
