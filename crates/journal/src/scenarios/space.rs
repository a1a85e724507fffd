//! A journal that has reached its size, and a disk that is full.

use super::{Rig, append, assert_accounted, delivered, drain, next, numbers, put, put_all, status};
use super::{receive, until};
use crate::{AckError, AppendAndWaitError, AppendError, Journal, Start, WhenFull};
use units::Size;

fn small(when_full: WhenFull) -> Rig {
    Rig::with(|settings| {
        settings.max_size = Size::from_kib(4 * 64);
        settings.when_full = when_full;
    })
}

/// Appends until it is refused; gives how many were taken.
async fn fill(journal: &Journal, first: u64) -> (u64, AppendAndWaitError) {
    for n in first..first + 20_000 {
        if let Err(refusal) = put(journal, n).await {
            return (n, refusal);
        }
    }
    panic!("never refused: {:?}", journal.status());
}

#[tokio::test]
async fn a_full_journal_rejects_until_a_consumer_has_caught_up() {
    let rig = small(WhenFull::Reject);
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let (taken, refusal) = fill(&journal, 0).await;
    assert_eq!(refusal, AppendError::Full.into());
    let full = journal.status();
    assert!(full.full && full.bytes_used <= full.bytes_max, "{full:?}");
    assert_eq!(drain(&journal, &mut consumer).await, (0..taken).collect::<Vec<_>>());
    until(|| !journal.status().full).await;
    put_all(&journal, taken..taken + 100).await;
    let got = drain(&journal, &mut consumer).await;
    assert_eq!(got, (taken..taken + 100).collect::<Vec<_>>());
}

#[tokio::test]
async fn drop_oldest_gives_up_the_oldest_segment_and_counts_it() {
    let rig = small(WhenFull::DropOldest);
    let (journal, _) = rig.open();
    let mut slow = journal.consumer("slow", Start::End).unwrap();
    let mut fast = journal.consumer("fast", Start::End).unwrap();
    let held = next(&mut slow, 1).await_after(&journal).await;
    let mut sent = 1;
    while status(&journal, "slow").dropped_oldest == 0 {
        put_all(&journal, sent..sent + 40).await;
        sent += 40;
        drain(&journal, &mut fast).await;
        assert!(sent < 20_000, "{:?}", journal.status());
    }
    // The completion of what was given up meanwhile comes late.
    let moved = slow.position();
    assert!(held.end() < moved);
    slow.commit(held.end(), delivered(1));
    assert_eq!(slow.position(), moved, "never moved back");
    let rest = drain(&journal, &mut slow).await;
    let account = status(&journal, "slow");
    assert_accounted(&account);
    assert_eq!(account.delivered, rest.len() as u64);
    assert_eq!(account.accepted, sent);
    assert_eq!(rest.last(), Some(&(sent - 1)));
    assert!(rest.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a hole in the middle");
    let caught_up = status(&journal, "fast");
    assert_eq!((caught_up.delivered, caught_up.dropped_oldest), (sent, 0));
    let full = journal.status();
    assert!(!full.full && full.bytes_used <= full.bytes_max, "{full:?}");
}

trait AfterFirst {
    async fn await_after(self, journal: &Journal) -> crate::Chunk;
}

impl<F: Future<Output = crate::Chunk>> AfterFirst for F {
    /// Puts the first record so that there is something to receive.
    async fn await_after(self, journal: &Journal) -> crate::Chunk {
        put(journal, 0).await.unwrap();
        self.await
    }
}

#[tokio::test]
async fn dropped_controls_are_counted_apart() {
    let rig = small(WhenFull::DropOldest);
    let (journal, _) = rig.open();
    let consumer = journal.consumer("a", Start::End).unwrap();
    for _ in 0..10 {
        journal.append_from_anywhere(2, 0, true, &[b"DROP"]).await.unwrap();
    }
    let mut sent = 0;
    while consumer.status().dropped_oldest == 0 {
        put_all(&journal, sent..sent + 40).await;
        sent += 40;
    }
    let status = consumer.status();
    assert_eq!(status.dropped_controls, 10);
    assert_accounted(&status);
}

#[tokio::test]
async fn a_full_disk_rejects_and_delivers_and_recovers_by_itself() {
    let mut rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    // The next segment is made ready once the first is in use.
    put(&journal, 0).await.unwrap();
    rig.faults.room(false);
    let (taken, refusal) = fill(&journal, 1).await;
    assert_eq!(refusal, AppendError::DiskFull.into());
    assert!(journal.status().disk_full);
    let got = receive(&mut consumer, 10).await;
    assert_eq!(got[..10], (0..10).collect::<Vec<_>>(), "reading goes on");
    consumer.commit_and_sync(crate::Position(0), delivered(0)).await.unwrap();
    journal.close().await;
    drop((consumer, journal));

    // Started while the disk is still full.
    rig.faults = disk::Faults::default();
    rig.faults.room(false);
    for spare in std::fs::read_dir(&rig.settings.dir).unwrap() {
        let path = spare.unwrap().path();
        if path.extension().is_some_and(|e| e == "spare") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    until(|| journal.status().disk_full).await;
    assert_eq!(put(&journal, taken).await, Err(AppendError::DiskFull.into()));
    let from = consumer.status().delivered;
    assert_eq!(drain(&journal, &mut consumer).await, (from..taken).collect::<Vec<_>>());
    rig.faults.room(true);
    until(|| !journal.status().disk_full).await;
    put(&journal, taken).await.unwrap();
    assert_eq!(drain(&journal, &mut consumer).await, [taken]);
}

#[tokio::test]
async fn a_group_the_disk_does_not_take_is_held_and_its_clients_told() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    put(&journal, 0).await.unwrap();
    rig.faults.room_to_write(false);
    let appender = journal.appender();
    let ticket = append(&appender, 1);
    assert_eq!(appender.acknowledged(ticket).await, Err(AckError::DiskFull));
    until(|| appender.append(1, 1, false, &[b"x"]) == Err(AppendError::DiskFull)).await;
    assert_eq!(numbers(&next(&mut consumer, 1).await), [0]);
    rig.faults.room_to_write(true);
    assert_eq!(numbers(&next(&mut consumer, 1).await), [1], "written once there was room");
    put(&journal, 2).await.unwrap();
}

#[tokio::test]
async fn short_writes_are_completed() {
    let mut rig = Rig::new();
    rig.faults.short_writes();
    let (journal, _) = rig.open();
    let consumer = journal.consumer("a", Start::End).unwrap();
    put_all(&journal, 0..200).await;
    journal.close().await;
    drop((consumer, journal));
    let (journal, recovery) = rig.reopen();
    assert!(recovery.is_clean(), "{recovery}");
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    assert_eq!(drain(&journal, &mut consumer).await, (0..200).collect::<Vec<_>>());
}

#[tokio::test]
async fn restarts_do_not_fill_the_disk() {
    let mut rig = small(WhenFull::Reject);
    for n in 0..20 {
        let (journal, recovery) = rig.reopen();
        assert!(recovery.is_clean(), "{recovery}");
        drop(journal.consumer("a", Start::Oldest).unwrap());
        put(&journal, n).await.unwrap();
        journal.close().await;
    }
    let (journal, _) = rig.reopen();
    let mut consumer = journal.consumer("a", Start::Oldest).unwrap();
    assert_eq!(drain(&journal, &mut consumer).await, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn how_long_until_it_is_full_is_told_while_the_backlog_grows() {
    let rig = small(WhenFull::Reject);
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    assert_eq!(journal.status().until_full, None);
    put_all(&journal, 0..200).await;
    until(|| journal.status().until_full.is_some()).await;
    let now = journal.status();
    let without_backlog = now.bytes_max as f64 / now.bytes_per_second;
    assert!(now.until_full.unwrap().as_secs_f64() < without_backlog, "{now:?}");
    // It shrinks by as much, and later, so that no growth is left of both.
    drain(&journal, &mut consumer).await;
    until(|| journal.status().until_full.is_none()).await;
}
