//! Processes that are killed and machines that lose power, at any moment.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Rig, assert_accounted, delivered, number};
use crate::{Ack, Journal, Position, Recovery, Start};

/// How a life of the process ends.
#[derive(Debug, Clone)]
enum End {
    Close,
    /// After so many more bytes nothing is written.
    Kill(u64),
    /// And of the pages not yet synced only some stay, chosen by these bits.
    Power(u64),
}

/// One life of the process.
#[derive(Debug, Clone)]
struct Life {
    groups: Vec<u8>,
    /// Records received and committed.
    received: u8,
    end: End,
}

fn life() -> impl Strategy<Value = Life> {
    let end = prop_oneof![
        Just(End::Close),
        (0_u64..8000).prop_map(End::Kill),
        any::<u64>().prop_map(End::Power),
    ];
    (prop::collection::vec(1_u8..30, 0..12), 0_u8..150, end)
        .prop_map(|(groups, received, end)| Life { groups, received, end })
}

/// What must hold over all lives.
#[derive(Debug, Default)]
struct Promises {
    next: u64,
    /// Acknowledged, and not known to be gone with the machine.
    acknowledged: BTreeSet<u64>,
    /// Where each record was seen; a position belongs to one record for ever.
    seen: BTreeMap<Position, u64>,
    committed: u64,
}

impl Promises {
    fn saw(&mut self, position: Position, n: u64) {
        let before = self.seen.insert(position, n);
        assert!(before.is_none_or(|before| before == n), "position {position} was used again");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn durable_loses_nothing_acknowledged(lives in prop::collection::vec(life(), 1..5)) {
        run(Ack::Durable, &lives);
    }

    #[test]
    fn written_loses_nothing_when_the_process_dies(lives in prop::collection::vec(life(), 1..5)) {
        run(Ack::Written, &lives);
    }
}

fn run(ack: Ack, lives: &[Life]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut rig = Rig::with(|settings| settings.ack = ack);
    let mut promises = Promises::default();
    let last = Life { groups: vec![1], received: u8::MAX, end: End::Close };
    for life in lives.iter().chain([&last]) {
        rig.faults = disk::Faults::default();
        rig.faults.track_power();
        let (journal, recovery) = rig.open();
        runtime.block_on(live(&rig, &journal, &recovery, life, &mut promises));
        drop(journal);
    }
}

async fn live(
    rig: &Rig,
    journal: &Journal,
    recovery: &Recovery,
    life: &Life,
    promises: &mut Promises,
) {
    assert!(recovery.damage.is_empty(), "{recovery}");
    if let End::Kill(bytes) = life.end {
        rig.faults.die_after(bytes);
    }
    let Ok(mut consumer) = journal.consumer("a", Start::Oldest) else {
        return;
    };
    check(&mut consumer, promises).await;
    let appender = journal.appender();
    'groups: for group in &life.groups {
        let mut tickets = Vec::new();
        for _ in 0..*group {
            let n = promises.next;
            promises.next += 1;
            match appender.append(1, 1, false, &[&super::payload(n)]) {
                Ok(ticket) => tickets.push((ticket, n)),
                Err(_) => break 'groups,
            }
        }
        for (ticket, n) in tickets {
            if appender.acknowledged(ticket).await.is_ok() {
                promises.acknowledged.insert(n);
            }
        }
    }
    let mut received = 0;
    while received < life.received && consumer.backlog().bytes > 0 {
        let chunk = super::next(&mut consumer, 200).await;
        for record in chunk.records() {
            promises.saw(record.position, number(record.payload));
            received = received.saturating_add(1);
        }
        consumer.commit(chunk.end(), delivered(chunk.items()));
        promises.committed = consumer.status().delivered;
    }
    assert_accounted(&consumer.status());
    match life.end {
        End::Close => journal.close().await,
        End::Kill(_) => rig.faults.die_after(0),
        End::Power(mut bits) => {
            if rig.settings.ack != Ack::Durable {
                forget_unsynced(journal, promises);
            }
            rig.faults
                .lose_power(|| {
                    bits = bits.rotate_left(1);
                    bits & 1 == 1
                })
                .unwrap();
        }
    }
}

/// What is acknowledged and not synced may go with the machine.
fn forget_unsynced(_journal: &Journal, promises: &mut Promises) {
    promises.acknowledged.clear();
}

/// Everything from the cursor on: in order, whole, with all that was acknowledged.
async fn check(consumer: &mut crate::Consumer, promises: &mut Promises) {
    let status = consumer.status();
    assert_accounted(&status);
    assert_eq!(status.dropped_total(), 0, "{status:?}");
    let mut rest = Vec::new();
    while (rest.len() as u64) < status.waiting.items {
        let chunk = super::next(consumer, 3000).await;
        for record in chunk.records() {
            let n = number(record.payload);
            promises.saw(record.position, n);
            rest.push(n);
        }
    }
    assert!(rest.windows(2).all(|pair| pair[0] < pair[1]), "{rest:?}");
    let first = rest.first().copied().unwrap_or(promises.next);
    let rest: BTreeSet<u64> = rest.into_iter().collect();
    // What is committed and persisted is not delivered again; all others acknowledged are there.
    let before = promises.acknowledged.iter().filter(|n| **n < first).count() as u64;
    assert!(before <= status.delivered, "{before} are gone, {} were delivered", status.delivered);
    for n in promises.acknowledged.range(first..) {
        assert!(rest.contains(n), "{n} was acknowledged and is gone");
    }
    consumer.rewind_to_cursor();
}
