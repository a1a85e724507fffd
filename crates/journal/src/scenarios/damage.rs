//! What is on the disk is not what was written.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{Rig, assert_accounted, drain, put, put_all, until};
use crate::inspect::{inspect, verify};
use crate::{OpenError, Start};

fn file(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn flip(path: &Path, offset: u64) {
    let mut byte = [0];
    let file = file(path);
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x20], offset).unwrap();
}

/// A closed journal with a cursor at the beginning and records `0..count`, each a group.
async fn written(rig: &Rig, count: u64) -> Vec<u64> {
    let (journal, _) = rig.open();
    drop(journal.consumer("a", Start::Oldest).unwrap());
    let mut offsets = Vec::new();
    for n in 0..count {
        let position = put(&journal, n).await.unwrap();
        offsets.push(4096 + position.0 % (64 * 1024 - 4096));
    }
    // The one that is written and the one made ready behind it.
    until(|| journal.status().segments > 1).await;
    journal.close().await;
    offsets
}

/// Everything that is still delivered, with the account checked.
async fn delivered_after(rig: &mut Rig, count: u64) -> Vec<u64> {
    let (journal, _) = rig.reopen();
    let mut consumer = journal.consumer("a", Start::Oldest).unwrap();
    put(&journal, count).await.unwrap();
    let got = drain(&journal, &mut consumer).await;
    let status = consumer.status();
    assert_accounted(&status);
    assert_eq!(status.delivered, got.len() as u64);
    assert_eq!(status.delivered + status.dropped_damaged, status.accepted);
    got
}

fn without(count: u64, lost: &[u64]) -> Vec<u64> {
    (0..=count).filter(|n| !lost.contains(n)).collect()
}

#[tokio::test]
async fn a_damaged_middle_is_reported_and_the_rest_delivered() {
    // In the group's header, the record's header, and the payload.
    for at in [-80, -10, 1, 14, 20] {
        let mut rig = Rig::new();
        let offsets = written(&rig, 30).await;
        let segment = rig.segments().remove(0);
        flip(&segment, offsets[10].checked_add_signed(at).unwrap());
        let report = verify(&rig.settings.dir).unwrap();
        assert!(!report.is_intact());
        let (journal, recovery) = rig.reopen();
        assert_eq!(recovery.damage.len(), 1, "{recovery}");
        assert_eq!(recovery.cut, None);
        assert_eq!(recovery.damage[0].lost.items, 1);
        let place = &recovery.damage[0].place;
        assert!(place.contains(segment.file_name().unwrap().to_str().unwrap()), "{place}");
        journal.close().await;
        drop(journal);
        assert_eq!(delivered_after(&mut rig, 30).await, without(30, &[10]), "at {at}");
    }
}

#[tokio::test]
async fn one_damaged_record_of_a_large_group_costs_one() {
    let mut rig = Rig::new();
    let (journal, _) = rig.open();
    drop(journal.consumer("a", Start::Oldest).unwrap());
    let appender = journal.appender();
    rig.faults.hold_syncs(true);
    let tickets: Vec<_> = (0..100).map(|n| super::append(&appender, n)).collect();
    rig.faults.hold_syncs(false);
    appender.acknowledged(tickets[99]).await.unwrap();
    put(&journal, 100).await.unwrap();
    let end = journal.status().released_end;
    journal.close().await;
    drop((journal, appender));
    let segment = rig.segments().remove(0);
    flip(&segment, 4096 + end.0 / 2);
    let got = delivered_after(&mut rig, 101).await;
    assert_eq!(got.len(), 101, "{got:?}");
}

#[tokio::test]
async fn a_torn_tail_is_cut_and_said() {
    for torn in (1..140).step_by(3) {
        let mut rig = Rig::new();
        let offsets = written(&rig, 20).await;
        // It may say that everything was synced.
        std::fs::remove_file(&rig.segments()[1]).unwrap();
        // The bytes of the last group that did not reach the disk; its header is 88 bytes long.
        let segment = file(&rig.segments()[0]);
        let from = offsets[19] - 88;
        let len = 88 + 16 + super::payload(19).len() as u64;
        let zeros = vec![0; torn.min(len) as usize];
        segment.write_all_at(&zeros, from + len - zeros.len() as u64).unwrap();
        assert!(!verify(&rig.settings.dir).unwrap().is_intact() || torn >= len);
        let (journal, recovery) = rig.reopen();
        assert!(recovery.damage.is_empty(), "{recovery}");
        let cut = recovery.cut.is_some();
        assert!(cut || torn >= len, "{torn}: {recovery}");
        journal.close().await;
        drop(journal);
        let got = delivered_after(&mut rig, 20).await;
        assert_eq!(got, without(20, &[19]), "{torn}");
    }
}

#[tokio::test]
async fn a_missing_segment_is_reported_and_counted() {
    for missing in [0, 2] {
        let mut rig = Rig::new();
        let (journal, _) = rig.open();
        drop(journal.consumer("a", Start::Oldest).unwrap());
        put_all(&journal, 0..5000).await;
        journal.close().await;
        drop(journal);
        let segments = rig.segments();
        assert!(segments.len() > 5);
        std::fs::remove_file(&segments[missing]).unwrap();
        let (journal, recovery) = rig.reopen();
        assert_eq!(recovery.damage.len(), 1, "{recovery}");
        assert!(recovery.to_string().contains("missing"), "{recovery}");
        let lost = recovery.damage[0].lost.items;
        assert!(lost > 100);
        journal.close().await;
        drop(journal);
        let got = delivered_after(&mut rig, 5000).await;
        assert_eq!(got.len() as u64, 5001 - lost);
        assert!(got.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

#[tokio::test]
async fn the_newest_segment_missing_is_counted_by_what_cursors_know() {
    let mut rig = Rig::new();
    let (journal, _) = rig.open();
    drop(journal.consumer("slow", Start::Oldest).unwrap());
    let mut fast = journal.consumer("a", Start::Oldest).unwrap();
    put_all(&journal, 0..500).await;
    drain(&journal, &mut fast).await;
    drop(fast);
    let accepted = journal.status().accepted;
    journal.close().await;
    drop(journal);
    for segment in rig.segments() {
        std::fs::remove_file(segment).unwrap();
    }
    let (journal, recovery) = rig.reopen();
    assert_eq!(journal.status().accepted, accepted, "{recovery}");
    put(&journal, 500).await.unwrap();
    let mut slow = journal.consumer("slow", Start::Oldest).unwrap();
    assert_eq!(drain(&journal, &mut slow).await, [500]);
    assert_eq!(slow.status().dropped_damaged, 500);
    assert_accounted(&slow.status());
}

#[tokio::test]
async fn a_cursor_that_cannot_be_read_begins_again_at_the_oldest() {
    let mut rig = Rig::new();
    written(&rig, 20).await;
    let path = rig.settings.dir.join("a.cursor");
    file(&path).write_all_at(&[0xff; 8192], 0).unwrap();
    let (journal, recovery) = rig.reopen();
    assert_eq!(recovery.lost_cursors, ["a"]);
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    assert_eq!(drain(&journal, &mut consumer).await, (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_identity_and_the_header_of_a_segment_can_be_lost() {
    let mut rig = Rig::new();
    written(&rig, 20).await;
    std::fs::remove_file(rig.settings.dir.join("journal.id")).unwrap();
    assert_eq!(delivered_after(&mut rig, 20).await, without(20, &[]));

    let mut rig = Rig::new();
    written(&rig, 20).await;
    file(&rig.segments()[0]).write_all_at(&[0; 4096], 0).unwrap();
    let (journal, recovery) = rig.reopen();
    assert!(recovery.to_string().contains("header of"), "{recovery}");
    drop(journal);
    assert_eq!(delivered_after(&mut rig, 20).await, without(20, &[]));
}

#[tokio::test]
async fn a_later_format_and_a_strange_name_are_refused() {
    let rig = Rig::new();
    written(&rig, 3).await;
    let segment = rig.segments().remove(0);
    let renamed =
        rig.settings.dir.join(crate::format::segment::file_name(crate::Position(1 << 40)));
    std::fs::copy(&segment, &renamed).unwrap();
    assert!(matches!(rig.try_open(), Err(OpenError::Format { path, .. }) if path == renamed));
    std::fs::remove_file(renamed).unwrap();
    for at in [0, 2048] {
        let mut page = [0; 52];
        file(&segment).read_exact_at(&mut page, at).unwrap();
        page[8] = 2;
        let checksum = crc32c::crc32c(&page[..48]);
        page[48..].copy_from_slice(&checksum.to_le_bytes());
        file(&segment).write_all_at(&page, at).unwrap();
    }
    let error = rig.try_open().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[tokio::test]
async fn a_directory_is_one_processes_at_a_time() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let error = rig.try_open().map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    journal.close().await;
    rig.open();
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error_that_names_it() {
    let mut rig = Rig::new();
    // Not even root can write there.
    rig.settings.dir = PathBuf::from("/proc/self/journal");
    let error = rig.try_open().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("/proc/self/journal"), "{error}");
    assert!(inspect(rig.dir.path()).unwrap_err().to_string().contains("no journal"));
}

/// Leavings of an earlier life of a recycled segment must never come back.
#[tokio::test]
async fn a_recycled_segment_gives_nothing_of_its_earlier_life() {
    let mut rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::Oldest).unwrap();
    for round in 0..10 {
        put_all(&journal, round * 500..round * 500 + 500).await;
        drain(&journal, &mut consumer).await;
    }
    let persisted = consumer.position();
    consumer.commit_and_sync(persisted, crate::Outcome::default()).await.unwrap();
    drop(consumer);
    journal.close().await;
    drop(journal);
    assert_eq!(delivered_after_all(&mut rig, 5000).await, [5000]);
}

async fn delivered_after_all(rig: &mut Rig, n: u64) -> Vec<u64> {
    let (journal, recovery) = rig.reopen();
    assert!(recovery.is_clean(), "{recovery}");
    let mut consumer = journal.consumer("a", Start::Oldest).unwrap();
    put(&journal, n).await.unwrap();
    drain(&journal, &mut consumer).await
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever bits turn: nothing altered is delivered, nothing is in the wrong order, what is
    /// lost is counted, and nothing that is whole is lost but what a torn tail takes.
    #[test]
    fn flipped_bits_never_alter_a_record(
        offsets in prop::collection::vec(0_u64..40_000, 1..12),
        cut in prop::option::of(0_u64..40_000),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut rig = Rig::new();
            let (journal, _) = rig.open();
            drop(journal.consumer("a", Start::Oldest).unwrap());
            put_all(&journal, 0..600).await;
            journal.close().await;
            drop(journal);
            let segment = rig.segments().remove(0);
            for offset in &offsets {
                flip(&segment, *offset);
            }
            if let Some(len) = cut {
                file(&segment).set_len(len).unwrap();
            }
            let report = verify(&rig.settings.dir);
            let (journal, recovery) = match rig.try_open() {
                Ok(opened) => opened,
                // Both copies of the version, or the like.
                Err(OpenError::Format { .. }) => return,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(report.unwrap().recovery.damage, recovery.damage);
            drop(journal);
            let got = delivered_after(&mut rig, 600).await;
            assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "{got:?}");
            assert_eq!(got.last(), Some(&600));
        });
    }
}
