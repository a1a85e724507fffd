//! Many records that one task waits for.

use std::future::poll_fn;
use std::time::Duration;

use super::{Rig, append, until};
use crate::{Ack, AckError, Appender, Tickets};

async fn settled(tickets: &mut Tickets<u64>, appender: &Appender) -> (u64, Result<(), AckError>) {
    let next = poll_fn(|cx| tickets.poll_next(appender, cx));
    tokio::time::timeout(super::PATIENCE, next).await.expect("nobody is woken").unwrap()
}

#[tokio::test]
async fn records_are_told_in_their_order_and_none_before_its_time() {
    for ack in [Ack::Durable, Ack::Written, Ack::Memory] {
        let rig = Rig::with(|settings| settings.ack = ack);
        let (journal, _) = rig.open();
        let (appender, mut tickets) = (journal.appender(), Tickets::new());
        assert!(poll_fn(|cx| tickets.poll_next(&appender, cx)).await.is_none());
        for round in 0..20 {
            rig.faults.hold_syncs(ack == Ack::Durable);
            for n in 0..round {
                tickets.push(append(&appender, n), n);
            }
            if ack == Ack::Durable && round > 0 {
                until(|| rig.faults.syncs_held() > 0).await;
                let early = poll_fn(|cx| tickets.poll_next(&appender, cx));
                let early = tokio::time::timeout(Duration::from_millis(2), early).await;
                assert!(early.is_err(), "acknowledged before the sync");
                rig.faults.hold_syncs(false);
            }
            for n in 0..round {
                assert_eq!(settled(&mut tickets, &appender).await, (n, Ok(())));
            }
        }
    }
}

#[tokio::test]
async fn the_time_counts_from_when_each_came() {
    let rig = Rig::with(|settings| settings.ack_timeout = units::Duration::from_millis(200));
    let (journal, _) = rig.open();
    let (appender, mut tickets) = (journal.appender(), Tickets::new());
    rig.faults.hold_syncs(true);
    for n in 0..3 {
        tickets.push(append(&appender, n), n);
    }
    assert_eq!(settled(&mut tickets, &appender).await, (0, Err(AckError::Timeout)));
    // Those behind it have waited as long.
    for n in 1..3 {
        let next = poll_fn(|cx| tickets.poll_next(&appender, cx));
        let at_once = tokio::time::timeout(Duration::ZERO, next).await;
        assert_eq!(at_once.expect("told late"), Some((n, Err(AckError::Timeout))));
    }
    rig.faults.hold_syncs(false);
    tickets.push(append(&appender, 3), 3);
    assert_eq!(settled(&mut tickets, &appender).await, (3, Ok(())));
}

#[tokio::test]
async fn a_poisoned_journal_is_told_to_all() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let (appender, mut tickets) = (journal.appender(), Tickets::new());
    rig.faults.hold_syncs(true);
    for n in 0..3 {
        tickets.push(append(&appender, n), n);
    }
    rig.faults.fail_syncs(true);
    rig.faults.hold_syncs(false);
    for n in 0..3 {
        assert_eq!(settled(&mut tickets, &appender).await, (n, Err(AckError::Poisoned)));
    }
}
