//! Records that are taken only while something stands, and where those before it end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Rig, append, next, numbers, until};
use crate::{Ack, AppendError, Start};

#[tokio::test]
async fn a_mark_is_behind_what_is_not_acknowledged_yet() {
    for ack in [Ack::Durable, Ack::Written, Ack::Memory] {
        let rig = Rig::with(|settings| settings.ack = ack);
        let (journal, _) = rig.open();
        let mut consumer = journal.consumer("a", Start::End).unwrap();
        assert_eq!(journal.mark().position(), Some(consumer.position()), "nothing was appended");
        rig.faults.hold_syncs(ack == Ack::Durable);
        let appenders = [journal.appender(), journal.appender()];
        let tickets = appenders.each_ref().map(|appender| append(appender, 7));
        let mut mark = journal.mark();
        if ack == Ack::Durable {
            until(|| rig.faults.syncs_held() > 0).await;
            assert_eq!(mark.position(), None);
            rig.faults.hold_syncs(false);
        }
        for (appender, ticket) in appenders.iter().zip(tickets) {
            appender.acknowledged(ticket).await.unwrap();
        }
        until(|| mark.position().is_some()).await;
        let mut received = Vec::new();
        while received.len() < 2 {
            received.extend(numbers(&next(&mut consumer, 100).await));
        }
        assert!(mark.position().unwrap() >= consumer.place());
    }
}

#[tokio::test]
async fn what_no_longer_stands_is_not_taken_behind_a_mark() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let (stands, taken) = (AtomicBool::new(true), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let appender = journal.appender();
                loop {
                    let kept = || stands.load(Ordering::Acquire);
                    match appender.append_if(1, 1, false, &[b"x"], kept) {
                        Ok(Some(_)) => taken.fetch_add(1, Ordering::Relaxed),
                        Ok(None) => break,
                        Err(AppendError::Busy) => continue,
                        Err(error) => panic!("{error}"),
                    };
                }
            });
        }
        while taken.load(Ordering::Relaxed) < 1000 {
            std::thread::yield_now();
        }
        stands.store(false, Ordering::Release);
        let mut mark = journal.mark();
        let end = loop {
            match mark.position() {
                Some(end) => break end,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(journal.status().released_end, end, "something came behind it");
    });
    until(|| journal.status().pending_bytes == 0).await;
    assert_eq!(journal.status().accepted.items, taken.into_inner());
}

#[tokio::test]
async fn room_is_told_before_it_is_taken() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let appender = journal.appender();
    assert_eq!(appender.room(10), Ok(()));
    // It is for the append to say that this is too large.
    assert_eq!(appender.room(usize::MAX), Ok(()));
    rig.faults.hold_syncs(true);
    let held = append(&appender, 0);
    // The group that is held is the only one that can be taken until then.
    until(|| rig.faults.syncs_held() > 0).await;
    let full = loop {
        if let Err(error) = appender.append(1, 1, false, &[&[0; 1000]]) {
            break error;
        }
    };
    assert_eq!(appender.room(1000), Err(full));
    rig.faults.hold_syncs(false);
    appender.acknowledged(held).await.unwrap();
    until(|| appender.room(1000).is_ok()).await;
    journal.close().await;
    assert_eq!(appender.room(10), Err(AppendError::Closed));
}
