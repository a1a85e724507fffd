//! What consumers receive and what becomes of their cursors.

use super::{Rig, append, assert_accounted, delivered, drain, next, number, numbers, put};
use super::{put_all, receive, status, until};
use crate::{AppendError, CursorError, Outcome, Start};

#[tokio::test]
async fn what_is_appended_is_received_in_order_from_memory() {
    let rig = Rig::new();
    let (journal, recovery) = rig.open();
    assert!(recovery.is_clean());
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let appender = journal.appender();
    let tickets: Vec<_> = (0..200).map(|n| append(&appender, n)).collect();
    for ticket in tickets {
        appender.acknowledged(ticket).await.unwrap();
    }
    assert_eq!(receive(&mut consumer, 200).await, (0..200).collect::<Vec<_>>());
    let status = consumer.status();
    assert_eq!((status.accepted, status.delivered), (200, 200));
    assert_eq!(status.waiting.items, 0);
    assert_accounted(&status);
    assert_eq!(journal.status().tail_bytes, 0, "nobody wants it any more");
}

#[tokio::test]
async fn one_that_lags_is_fed_from_disk_over_many_segments_and_restarts() {
    let mut rig = Rig::with(|settings| settings.memory_tail = units::Size::from_bytes(0));
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    put_all(&journal, 0..3000).await;
    assert!(journal.status().segments > 3, "{:?}", journal.status());
    assert!(receive(&mut consumer, 1000).await.len() >= 1000);
    let before = consumer.status();
    journal.close().await;
    drop((consumer, journal));

    let (journal, recovery) = rig.reopen();
    assert!(recovery.is_clean(), "{recovery}");
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let after = consumer.status();
    assert_eq!((after.position, after.delivered), (before.position, before.delivered));
    assert_eq!((after.accepted, after.waiting.items), (3000, before.waiting.items));
    put(&journal, 3000).await.unwrap();
    let first = consumer.status().delivered;
    let got = drain(&journal, &mut consumer).await;
    assert_eq!(got, (first..3001).collect::<Vec<_>>());
    assert_eq!(consumer.status().delivered, 3001);
}

#[tokio::test]
async fn a_cursor_in_the_middle_of_a_group_goes_on_there_after_a_restart() {
    let mut rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let appender = journal.appender();
    rig.faults.hold_syncs(true);
    let tickets: Vec<_> = (0..100).map(|n| append(&appender, n)).collect();
    rig.faults.hold_syncs(false);
    appender.acknowledged(tickets[99]).await.unwrap();
    let chunk = next(&mut consumer, 1 << 20).await;
    let record = chunk.records().nth(20).unwrap();
    consumer.commit_and_sync(record.end, delivered(21)).await.unwrap();
    journal.close().await;
    drop((consumer, journal, appender));

    let (journal, _) = rig.reopen();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    assert_eq!(drain(&journal, &mut consumer).await, (21..100).collect::<Vec<_>>());
    assert_eq!(consumer.status().delivered, 100);
}

#[tokio::test]
async fn what_is_not_committed_comes_again() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    put_all(&journal, 0..50).await;
    let mut got = Vec::new();
    while got.len() < 50 {
        got.extend(numbers(&next(&mut consumer, 100).await));
    }
    consumer.rewind_to_cursor();
    let chunk = next(&mut consumer, 1 << 20).await;
    let tenth = chunk.records().nth(9).unwrap();
    consumer.commit(tenth.end, delivered(10));
    // A second time, and one from before: nothing moves.
    consumer.commit(tenth.end, delivered(10));
    consumer.commit(tenth.position, delivered(9));
    assert_eq!(consumer.status().delivered, 10);
    drop(consumer);
    let mut consumer = journal.consumer("a", Start::Oldest).unwrap();
    assert_eq!(drain(&journal, &mut consumer).await, (10..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_wait_that_is_given_up_loses_nothing() {
    let rig = Rig::with(|settings| settings.memory_tail = units::Size::from_bytes(0));
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let mut got = Vec::new();
    for n in 0..200 {
        // Given up while waiting, and while reading from disk.
        assert!(futures_poll_once(consumer.next(10)).is_none());
        put(&journal, n).await.unwrap();
        let chunk = match futures_poll_once(consumer.next(10)) {
            Some(chunk) => chunk.unwrap(),
            None => next(&mut consumer, 10).await,
        };
        got.extend(numbers(&chunk));
        consumer.commit(crate::Position(u64::MAX), delivered(1));
    }
    assert_eq!(got, (0..200).collect::<Vec<_>>());
}

fn futures_poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_consumer_added_later_begins_at_the_end_or_at_the_oldest() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let first = journal.consumer("first", Start::Oldest).unwrap();
    put_all(&journal, 0..20).await;
    let mut end = journal.consumer("end", Start::End).unwrap();
    let mut oldest = journal.consumer("oldest", Start::Oldest).unwrap();
    put_all(&journal, 20..30).await;
    assert_eq!(drain(&journal, &mut end).await, (20..30).collect::<Vec<_>>());
    assert_eq!(drain(&journal, &mut oldest).await, (0..30).collect::<Vec<_>>());
    assert_eq!(end.status().accepted, 10);
    assert_eq!(oldest.status().accepted, 30);
    assert_eq!(first.status().waiting.items, 30);
    for cursor in journal.cursors() {
        assert_accounted(&cursor);
    }
}

#[tokio::test]
async fn controls_are_counted_apart_and_every_fate_is_kept() {
    let mut rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    put_all(&journal, 0..10).await;
    let at = journal.append_from_anywhere(2, 0, true, &[b"CREATE"]).await.unwrap();
    put(&journal, 10).await.unwrap();
    assert_eq!(consumer.backlog().controls, 1);
    let mut up_to = consumer.position();
    while up_to <= at {
        let chunk = next(&mut consumer, 1).await;
        let record = chunk.records().next().unwrap();
        assert_eq!(
            (record.position == at, record.kind),
            (record.control, 1 + u8::from(record.control))
        );
        up_to = record.end;
    }
    let done = Outcome { delivered: 4, dead_lettered: 3, dropped: 1, elsewhere: 2 };
    consumer.commit_and_sync(up_to, done).await.unwrap();
    drop(consumer);
    journal.close().await;
    drop(journal);
    let (journal, _) = rig.reopen();
    let status = status(&journal, "a");
    assert_eq!((status.delivered, status.dead_lettered, status.dropped), (4, 3, 1));
    assert_eq!(status.elsewhere, 2);
    assert_eq!((status.waiting.items, status.waiting.controls), (1, 0));
    assert_accounted(&status);
}

#[tokio::test]
async fn a_cursor_nobody_claims_is_told_and_forgotten_only_when_asked() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    for name in ["old", "new", "done"] {
        drop(journal.consumer(name, Start::End).unwrap());
    }
    put_all(&journal, 0..5).await;
    let mut done = journal.consumer("done", Start::End).unwrap();
    drain(&journal, &mut done).await;
    assert!(matches!(journal.forget("done"), Err(CursorError::InUse { .. })));
    drop(done);
    let unclaimed = journal.unclaimed(&["new"]);
    assert_eq!(unclaimed.len(), 1);
    assert_eq!((unclaimed[0].name.as_str(), unclaimed[0].waiting.items), ("old", 5));
    assert_eq!(journal.forget_finished(&["new"]).unwrap(), ["done"]);
    assert_eq!(journal.forget("old").unwrap().waiting.items, 5);
    assert!(
        matches!(journal.forget("old"), Err(CursorError::Unknown { known, .. }) if known == "new")
    );
    assert!(journal.unclaimed(&["new"]).is_empty());
    let dir = rig.settings.dir.clone();
    assert!(matches!(crate::forget(&dir, "new"), Err(CursorError::Running { .. })));
    journal.close().await;
    assert_eq!(crate::forget(&dir, "new").unwrap().waiting.items, 5);
    drop(journal);
    let (journal, _) = rig.open();
    assert!(journal.cursors().is_empty());
}

#[tokio::test]
async fn a_name_is_used_by_one_consumer_at_a_time() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let consumer = journal.consumer("a", Start::End).unwrap();
    assert!(matches!(journal.consumer("a", Start::End), Err(CursorError::InUse { .. })));
    drop(consumer);
    journal.consumer("a", Start::End).unwrap();
    assert!(matches!(journal.consumer("", Start::End), Err(CursorError::Name { .. })));
    let long = "x".repeat(101);
    assert!(matches!(journal.consumer(&long, Start::End), Err(CursorError::Name { .. })));
}

#[tokio::test]
async fn closing_writes_what_was_taken_and_hands_out_the_rest() {
    let mut rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let appender = journal.appender();
    for n in 0..100 {
        let _ = append(&appender, n);
    }
    journal.close().await;
    assert_eq!(appender.append(1, 1, false, &[b"late"]), Err(AppendError::Closed));
    assert_eq!(receive(&mut consumer, 100).await.len(), 100);
    assert!(matches!(consumer.next(1).await, Err(crate::ConsumeError::Closed)));
    drop((consumer, journal, appender));
    let (journal, _) = rig.reopen();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let got = drain(&journal, &mut consumer).await;
    assert_eq!(got, (0..100).collect::<Vec<_>>(), "committed after the journal was closed");
}

#[tokio::test]
async fn segments_go_only_behind_all_persisted_cursors_and_are_used_again() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let mut fast = journal.consumer("fast", Start::End).unwrap();
    let mut slow = journal.consumer("slow", Start::End).unwrap();
    put_all(&journal, 0..3000).await;
    assert_eq!(drain(&journal, &mut fast).await.len(), 3000);
    let held = rig.segments().len();
    assert!(held > 3);
    until(|| status(&journal, "fast").persisted == fast.position()).await;
    assert!(rig.segments().len() >= held, "the slow one still needs them");
    assert_eq!(number(next(&mut slow, 1).await.records().next().unwrap().payload), 0);
    slow.rewind_to_cursor();
    assert_eq!(drain(&journal, &mut slow).await.len(), 3000);
    until(|| rig.segments().len() <= 3).await;
    put_all(&journal, 3000..7000).await;
    assert_eq!(drain(&journal, &mut slow).await.len(), 4000);
}

#[tokio::test]
async fn cursors_are_put_back_to_the_lowest_of_them_and_their_accounts_still_add_up() {
    let mut rig = Rig::new();
    let dir = rig.settings.dir.clone();
    let (journal, _) = rig.open();
    let names = ["a", "b", "c"];
    let mut consumers = names.map(|name| journal.consumer(name, Start::Oldest).unwrap());
    put_all(&journal, 0..30).await;
    for (consumer, passed) in consumers.iter_mut().zip([10, 30, 20]) {
        let mut seen = 0;
        while seen < passed {
            let chunk = next(consumer, 1 << 20).await;
            for record in chunk.records().take(passed - seen) {
                consumer.commit(record.end, Outcome { delivered: 1, ..Outcome::default() });
                seen += 1;
            }
        }
    }
    journal.close().await;
    drop((consumers, journal));
    let to = crate::inspect::put_back(&dir, &["a", "b"]).unwrap();
    assert_eq!(crate::inspect::put_back(&dir, &["nobody"]).unwrap(), None);
    let (journal, _) = rig.reopen();
    for (name, delivered) in [("a", 10), ("b", 10), ("c", 20)] {
        let cursor = journal.cursor(name).unwrap();
        assert_eq!((cursor.delivered, cursor.accepted), (delivered, 30), "{cursor:?}");
        assert_accounted(&cursor);
    }
    assert_eq!(to, Some(journal.cursor("b").unwrap().position));
    let running = crate::inspect::put_back(&dir, &["a"]);
    assert!(matches!(running, Err(crate::CursorError::Running { .. })));
}

#[tokio::test]
async fn what_is_let_go_of_is_committed_as_before_and_comes_again_if_it_is_not() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::Oldest).unwrap();
    put_all(&journal, 0..200).await;
    let mut ends = Vec::new();
    for _ in 0..2 {
        consumer.rewind_to_cursor();
        ends.clear();
        while ends.len() < 200 {
            let chunk = next(&mut consumer, 1000).await;
            ends.extend(chunk.records().map(|record| record.end));
            consumer.let_go(chunk.end());
        }
    }
    let done = Outcome { delivered: 200, ..Outcome::default() };
    consumer.commit(ends[199], done);
    let status = consumer.status();
    assert_eq!((status.delivered, status.waiting.items), (200, 0), "{status:?}");
    assert_accounted(&status);
}
