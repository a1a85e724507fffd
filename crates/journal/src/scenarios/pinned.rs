//! A consumer that keeps its own cursor elsewhere and moves the journal's only now and then.

use super::{Rig, append, assert_accounted, drain, next, number, put, put_all, status, until};
use crate::{AppendError, Consumer, Outcome, Position, Start, WhenFull};
use units::Size;

/// Receives and settles until `count` records have come; gives the ends of all.
async fn settle(consumer: &mut Consumer, count: usize) -> Vec<Position> {
    let mut ends = Vec::new();
    while ends.len() < count {
        let chunk = next(consumer, 3000).await;
        ends.extend(chunk.records().map(|record| record.end));
        let dropped = u64::from(chunk.items() > 1);
        let delivered = chunk.items() - dropped;
        consumer.settle(chunk.end(), Outcome { delivered, dropped, ..Outcome::default() });
        assert_accounted(&consumer.status());
    }
    ends
}

#[tokio::test]
async fn what_is_settled_is_accounted_for_and_comes_again_until_it_is_committed() {
    let mut rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("store", Start::End).unwrap();
    let pin = consumer.pin();
    put_all(&journal, 0..3000).await;
    let ends = settle(&mut consumer, 3000).await;
    let seen = consumer.status();
    assert_eq!((seen.accepted, seen.waiting.items, seen.waiting.bytes), (3000, 0, 0));
    assert!(seen.dropped > 0 && seen.delivered > 2000, "{seen:?}");
    assert_eq!(seen.position, Position::ZERO, "the cursor stays");
    assert!(pin.ahead() > 100_000, "{}", pin.ahead());
    assert_eq!(journal.status().tail_bytes, 0, "nobody wants it any more");

    consumer.commit_settled(ends[1999]);
    let at = consumer.position();
    assert!(at <= ends[1999] && ends[1999].since(at) < 200_000, "{at}");
    assert!(consumer.status().waiting.items == 0 && pin.ahead() < 200_000);
    assert_accounted(&consumer.status());
    journal.close().await;
    drop((consumer, journal));

    let (journal, _) = rig.reopen();
    let mut consumer = journal.consumer("store", Start::End).unwrap();
    let account = consumer.status();
    assert_eq!(account.position, at);
    assert_accounted(&account);
    assert!(account.waiting.items >= 1000, "{account:?}");
    let first = number(next(&mut consumer, 1).await.records().next().unwrap().payload);
    assert!((1000..=2000).contains(&first), "{first}");
    consumer.rewind_to_cursor();
    assert_eq!(drain(&journal, &mut consumer).await, (first..3000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_journal_asks_instead_of_dropping_what_is_pinned() {
    let rig = Rig::with(|settings| {
        settings.max_size = Size::from_kib(4 * 64);
        settings.when_full = WhenFull::DropOldest;
    });
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("store", Start::End).unwrap();
    let pin = consumer.pin();
    let appender = journal.appender();
    let mut sent = 0;
    let refusal = loop {
        if let Err(refusal) = put(&journal, sent).await {
            break refusal;
        }
        sent += 1;
    };
    assert_eq!(refusal, AppendError::Full.into());
    tokio::time::timeout(super::PATIENCE, pin.wanted()).await.expect("nobody asked");
    let ends = settle(&mut consumer, sent as usize).await;
    assert_eq!(put(&journal, sent).await, Err(AppendError::Full.into()));
    consumer.commit_settled(ends[ends.len() - 1]);
    until(|| !journal.status().full).await;
    appender.acknowledged(append(&appender, sent)).await.unwrap();
    assert_eq!(status(&journal, "store").dropped_oldest, 0);
}

#[tokio::test]
async fn positions_begin_where_they_are_told_to() {
    let mut rig = Rig::new();
    let floor = Position(123_457);
    for n in 0..3 {
        let registry = watch::metrics::Registry::new();
        let (journal, recovery) =
            crate::Journal::open_past(rig.settings.clone(), &registry, floor).unwrap();
        assert!(recovery.is_clean(), "{recovery}");
        let mut consumer = journal.consumer("store", Start::Oldest).unwrap();
        let position = put(&journal, n).await.unwrap();
        assert!(position > floor, "{position}");
        assert_eq!(drain(&journal, &mut consumer).await, [n]);
        assert!(journal.acknowledged_end().await.unwrap() >= consumer.position());
        journal.close().await;
    }
    let (journal, recovery) = rig.reopen();
    assert!(recovery.is_clean(), "{recovery}");
    assert!(put(&journal, 9).await.unwrap() > floor);
}
