//! When a record is acknowledged and released, and what happens when that cannot be.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use units::Size;

use super::{Rig, append, drain, next, number, numbers, payload, put, receive, until};
use crate::consumer::reader::{self, Item};
use crate::cursors::chunk::{Limit, ReadPosition};
use crate::cursors::ledger::Ends;
use crate::format::{group, segment};
use crate::inspect::verify;
use crate::owners::Owners;
use crate::{Ack, AckError, AppendError, Counts, Position, Start};

#[tokio::test]
async fn durable_tells_nobody_before_the_sync() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let appender = journal.appender();
    rig.faults.hold_syncs(true);
    let ticket = append(&appender, 1);
    until(|| rig.faults.syncs_held() > 0).await;
    assert_eq!(journal.status().released_end, consumer.position());
    let (acknowledged, received) = tokio::join!(
        tokio::time::timeout(Duration::from_millis(50), appender.acknowledged(ticket)),
        tokio::time::timeout(Duration::from_millis(50), consumer.next(100)),
    );
    assert!(acknowledged.is_err(), "acknowledged before the sync");
    assert!(received.is_err(), "released before the sync");
    rig.faults.hold_syncs(false);
    appender.acknowledged(ticket).await.unwrap();
    assert_eq!(numbers(&next(&mut consumer, 100).await), [1]);
}

#[tokio::test]
async fn written_acknowledges_while_a_sync_is_under_way_and_persists_no_cursor_past_it() {
    let rig = Rig::with(|settings| settings.ack = Ack::Written);
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    put(&journal, 0).await.unwrap();
    rig.faults.hold_syncs(true);
    until(|| rig.faults.syncs_held() > 0).await;
    for n in 1..50 {
        put(&journal, n).await.unwrap();
    }
    assert_eq!(receive(&mut consumer, 50).await, (0..50).collect::<Vec<_>>());
    let status = journal.status();
    assert!(status.synced_end < status.written_end);
    // Several turns of the housekeeping thread, which may not persist the cursor yet.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(consumer.status().persisted <= journal.status().synced_end);
    rig.faults.hold_syncs(false);
    until(|| consumer.status().persisted == status.written_end).await;
    assert!(journal.status().synced_end >= status.written_end);
}

/// The kernel locks a page on its way to the disk: whoever writes into it waits for the disk.
#[tokio::test]
async fn no_group_begins_in_a_page_that_a_flush_may_hold() {
    let mut rig = Rig::with(|settings| {
        settings.ack = Ack::Written;
        settings.flush_interval = units::Duration::from_millis(1);
        settings.segment_size = Size::from_kib(128);
    });
    let (page, capacity) = (segment::HEADER_LEN, rig.settings.segment_capacity());
    let (journal, _) = rig.open();
    for n in 0..60 {
        until(|| journal.status().synced_end == journal.status().written_end).await;
        let at = put(&journal, n).await.unwrap();
        let within = (at.0 - group::HEADER_LEN as u64) % capacity;
        // The room that a segment has left was promised to those who append.
        let is_last = within >= capacity - page;
        assert!(within.is_multiple_of(page) || is_last, "{n} at {at}");
    }
    journal.close().await;
    drop(journal);

    let report = verify(&rig.settings.dir).unwrap();
    assert!(report.is_intact(), "{report}");
    assert!(report.segments.len() > 1, "{report}");
    let (journal, recovery) = rig.reopen();
    assert!(recovery.is_clean(), "{recovery}");
    let mut consumer = journal.consumer("a", Start::Oldest).unwrap();
    assert_eq!(receive(&mut consumer, 60).await, (0..60).collect::<Vec<_>>());
    // Some of what is read at once ends within the header that begins a page.
    let Owners { log, cursors, .. } = journal.owners();
    let start =
        ReadPosition { position: Position::ZERO, group: Position::ZERO, counts: Counts::default() };
    let Ends { released: end, counts, .. } = cursors.ends();
    let limit = Limit { end, counts };
    for bytes in (65_536..65_536 + 4096).step_by(16) {
        let (items, _) = reader::read(log, cursors, start, limit, bytes).unwrap();
        assert!(!items.iter().any(|item| matches!(item, Item::Lost(_))), "{bytes}");
    }
    assert_eq!(journal.status().damage, []);
}

#[tokio::test]
async fn memory_acknowledges_at_once_and_keeps_the_order_of_acknowledgements() {
    let rig = Rig::with(|settings| settings.ack = Ack::Memory);
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let appenders = [journal.appender(), journal.appender(), journal.appender()];
    for n in 0..300 {
        let appender = &appenders[n as usize % 3];
        let ticket = append(appender, n);
        appender.acknowledged(ticket).await.unwrap();
    }
    assert_eq!(receive(&mut consumer, 300).await, (0..300).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_failed_sync_poisons_for_ever() {
    for ack in [Ack::Durable, Ack::Written, Ack::Memory] {
        let mut rig = Rig::with(|settings| settings.ack = ack);
        let (journal, _) = rig.open();
        let mut consumer = journal.consumer("a", Start::End).unwrap();
        let appender = journal.appender();
        put(&journal, 0).await.unwrap();
        rig.faults.fail_syncs(true);
        let early = ack != Ack::Durable;
        match appender.append(1, 1, false, &[&payload(1)]) {
            Ok(ticket) => {
                let answer = appender.acknowledged(ticket).await;
                assert!(answer == Err(AckError::Poisoned) || early, "{answer:?}");
            }
            // A sync for what came before it has failed already.
            Err(refused) => assert!(refused == AppendError::Poisoned && early, "{refused:?}"),
        }
        until(|| journal.status().poisoned.is_some()).await;
        rig.faults.fail_syncs(false);
        let refused = appender.append(1, 1, false, &[b"x"]);
        assert_eq!(refused, Err(AppendError::Poisoned), "a sync is never tried again");
        let chunk = next(&mut consumer, 1).await;
        assert_eq!(numbers(&chunk), [0], "what was released is still delivered");
        let end = chunk.end();
        let synced = consumer.commit_and_sync(end, super::delivered(1)).await;
        assert!(matches!(synced, Err(crate::ConsumeError::Poisoned { .. })));
        drop((consumer, appender));
        journal.close().await;
        drop(journal);
        let (journal, _) = rig.reopen();
        let mut consumer = journal.consumer("a", Start::End).unwrap();
        let again = drain(&journal, &mut consumer).await;
        assert!(again.starts_with(&[0]), "{again:?}");
    }
}

#[tokio::test]
async fn no_acknowledgement_in_time_is_an_error_and_the_write_may_still_come() {
    let rig = Rig::with(|settings| {
        settings.ack_timeout = units::Duration::from_millis(80);
    });
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let appender = journal.appender();
    rig.faults.hold_syncs(true);
    let tickets = [append(&appender, 0), append(&appender, 1)];
    for ticket in tickets {
        assert_eq!(appender.acknowledged(ticket).await, Err(AckError::Timeout));
    }
    rig.faults.hold_syncs(false);
    assert_eq!(receive(&mut consumer, 2).await, [0, 1]);
    // The disk may be as slow by itself, though not for ever.
    for n in 2.. {
        let ticket = append(&appender, n);
        match appender.acknowledged(ticket).await {
            Ok(()) => break,
            Err(error) => assert!(error == AckError::Timeout && n < 100, "{n}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_full_group_is_refused_and_taken_again_later() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let appender = journal.appender();
    rig.faults.hold_syncs(true);
    let mut taken = Vec::new();
    let refusal = loop {
        match appender.append(1, 1, false, &[&[7; 1000]]) {
            Ok(ticket) => taken.push(ticket),
            Err(refusal) => break refusal,
        }
        assert!(taken.len() < 100, "the group is not bounded");
    };
    assert_eq!(refusal, AppendError::Busy);
    rig.faults.hold_syncs(false);
    for ticket in taken {
        appender.acknowledged(ticket).await.unwrap();
    }
    put(&journal, 1).await.unwrap();
    let max = appender.payload_max();
    let large = vec![1; max + 1];
    let refusal = appender.append(1, 1, false, &[&large]);
    assert_eq!(refusal, Err(AppendError::TooLarge { len: max as u64 + 1, max: max as u64 }));
    let ticket = appender.append(1, 1, false, &[&large[..max]]).unwrap();
    appender.acknowledged(ticket).await.unwrap();
}

#[tokio::test]
async fn waiters_that_give_up_hold_nobody_up() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let appender = Arc::new(journal.appender());
    rig.faults.hold_syncs(true);
    let mut waiting = Vec::new();
    for n in 0..100 {
        let (ticket, appender) = (append(&appender, n), appender.clone());
        waiting.push(tokio::spawn(async move { appender.acknowledged(ticket).await }));
    }
    tokio::task::yield_now().await;
    for given_up in waiting.iter().step_by(2) {
        given_up.abort();
    }
    rig.faults.hold_syncs(false);
    for (n, waiter) in waiting.into_iter().enumerate() {
        match waiter.await {
            Ok(answer) => answer.unwrap(),
            Err(_) => assert_eq!(n % 2, 0, "only those given up"),
        }
    }
}

/// Workers as they are: a thread each, with many connections that write one after the other.
#[test]
fn each_connections_writes_keep_their_order() {
    const WORKERS: u64 = 3;
    const CONNECTIONS: u64 = 20;
    const WRITES: u64 = 30;
    let rig = Rig::with(|settings| settings.max_size = units::Size::from_mib(64));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let appender = journal.appender();
            scope.spawn(move || run_worker(appender, worker * 1_000_000, CONNECTIONS, WRITES));
        }
    });
    let all = (WORKERS * CONNECTIONS * WRITES) as usize;
    let got = runtime.block_on(receive(&mut consumer, all));
    let mut last = std::collections::HashMap::new();
    for n in got {
        let (connection, write) = (n / 1000, n % 1000);
        let before = last.insert(connection, write);
        assert_eq!(before.map_or(0, |before| before + 1), write, "connection {connection}");
    }
}

fn run_worker(appender: crate::Appender, first: u64, connections: u64, writes: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let appender = Rc::new(appender);
    for connection in 0..connections {
        let appender = appender.clone();
        local.spawn_local(async move {
            for write in 0..writes {
                let ticket = append(&appender, first + connection * 1000 + write);
                appender.acknowledged(ticket).await.unwrap();
            }
        });
    }
    runtime.block_on(local);
}

#[tokio::test]
async fn a_record_from_anywhere_has_its_position() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let mut positions: Vec<(Position, u64)> = Vec::new();
    let puts: Vec<_> = (0..50)
        .map(|n| {
            let journal = journal.clone();
            tokio::spawn(async move { (put(&journal, n).await.unwrap(), n) })
        })
        .collect();
    for put in puts {
        positions.push(put.await.unwrap());
    }
    let mut found = Vec::new();
    while found.len() < 50 {
        let chunk = next(&mut consumer, 300).await;
        found.extend(chunk.records().map(|r| (r.position, number(r.payload))));
    }
    positions.sort();
    assert_eq!(found, positions);
}
