//! Cursors without a journal: the test says what is released and synced.

use std::sync::Arc;

use disk::Disk;
use tempfile::TempDir;
use watch::metrics::Registry;

use super::chunk::{Loss, ReadPosition};
use super::ledger::{Availability, Ledger};
use super::persist::DeferredAccounts;
use super::settled::Step;
use super::tail::{Piece, TailGroup};
use super::{Claim, Cursors, RECYCLED_BYTES_MIN, Start};
use crate::buffers::BufferPool;
use crate::error::{ConsumeError, CursorError};
use crate::format::cursor::{Account, CURSORS_MAX};
use crate::format::record::{self, Label};
use crate::format::segment::First;
use crate::format::{cursor, group};
use crate::log::gate::Gate;
use crate::outcome::Outcome;
use crate::position::{Counts, Position};

const RECORD_LEN: u64 = record::HEADER_LEN as u64 + 4;
/// A group of one record.
const GROUP_LEN: u64 = group::HEADER_LEN as u64 + RECORD_LEN;

/// Cursors and what they stand on.
struct Scene {
    dir: TempDir,
    cursors: Cursors,
    groups: u64,
}

impl Scene {
    fn new() -> Scene {
        Scene::with(Ledger::new(Position::ZERO, Counts::default(), 1 << 20, &[]))
    }

    fn with(ledger: Ledger) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let damaged = Registry::new().counter("damaged", "Damaged places.", &[]);
        let (disk, buffers) = (Disk::default(), Arc::new(BufferPool::default()));
        let cursors = Cursors::new(ledger, Vec::new(), disk, dir.path(), buffers, damaged);
        Scene { dir, cursors, groups: 0 }
    }

    /// Makes a cursor that a consumer has.
    fn create(&self, name: &str) {
        match self.cursors.claim(name, Start::End, || None).unwrap() {
            Claim::New(account) => drop(self.cursors.create(name, account).unwrap()),
            Claim::Known(_) => panic!("{name} was there"),
        }
    }

    /// Releases the next group, of one record with one item; gives how many would be woken.
    fn release(&mut self, is_synced: bool) -> usize {
        let group = group_at(self.groups, 0);
        self.groups += 1;
        self.cursors.release(group, counts(self.groups), is_synced).wake.len()
    }

    /// Commits the first groups.
    fn commit(&self, name: &str, groups: u64) {
        self.cursors.advance(name, &step_to(groups));
    }

    fn positions_due(&self, deferred: &mut DeferredAccounts) -> Vec<Position> {
        self.cursors.due(deferred).iter().map(|due| due.account.position).collect()
    }
}

/// Behind so many groups.
fn at(groups: u64) -> Position {
    Position(groups * GROUP_LEN)
}

fn counts(groups: u64) -> Counts {
    Counts { items: groups, controls: 0, bytes: groups * RECORD_LEN }
}

fn group_at(index: u64, capacity: usize) -> TailGroup {
    let mut bytes = Vec::with_capacity(capacity);
    record::put(&mut bytes, 0, Label { kind: 0, items: 1, control: false }, 4, &[b"abcd"]);
    let piece = Piece {
        position: at(index).after(group::HEADER_LEN as u64),
        before: counts(index),
        after: counts(index + 1),
        bytes: Arc::new(bytes),
    };
    TailGroup {
        position: at(index),
        previous_end: at(index),
        end: at(index + 1),
        written_at: 1,
        pieces: vec![piece],
    }
}

fn step_to(groups: u64) -> Step {
    Step {
        position: at(groups),
        group: at(groups),
        written_at: 1,
        oldest: 1,
        counts: counts(groups),
        done: Outcome { delivered: groups, ..Outcome::default() },
        lost: Counts::default(),
    }
}

#[test]
fn a_cursor_is_had_by_one_consumer_at_a_time() {
    let scene = Scene::new();
    scene.create("a");
    let claimed = scene.cursors.claim("a", Start::End, || None);
    assert!(matches!(claimed, Err(CursorError::InUse { name }) if name == "a"));
    scene.cursors.leave("a");
    let claimed = scene.cursors.claim("a", Start::Oldest, || panic!("it has its place"));
    assert!(matches!(claimed, Ok(Claim::Known(_))));
}

#[test]
fn there_is_a_limit_to_the_cursors_and_those_known_stay_usable() {
    let mut ledger = Ledger::new(Position::ZERO, Counts::default(), 0, &[]);
    for n in 0..CURSORS_MAX {
        ledger.restore(&n.to_string(), Account::default(), |_| panic!("nothing waits"));
    }
    let scene = Scene::with(ledger);
    assert!(matches!(scene.cursors.claim("0", Start::End, || None), Ok(Claim::Known(_))));
    let more = scene.cursors.claim("more", Start::End, || None);
    assert!(matches!(more, Err(CursorError::TooMany)));
}

#[test]
fn a_new_cursor_begins_at_the_end_or_at_the_oldest_that_is_released() {
    let mut scene = Scene::new();
    scene.create("a");
    scene.release(true);
    scene.release(true);
    let account = |start, oldest: Option<u64>| {
        let first = |groups| First {
            position: at(groups),
            previous_end: at(groups),
            before: counts(groups),
        };
        match scene.cursors.claim("new", start, || oldest.map(first)).unwrap() {
            Claim::New(account) => (account.position, account.group, account.start, account.counts),
            Claim::Known(_) => panic!("it is new"),
        }
    };
    let beginning = |groups| (at(groups), at(groups), counts(groups), counts(groups));
    assert_eq!(account(Start::End, Some(1)), beginning(2));
    assert_eq!(account(Start::Oldest, Some(1)), beginning(1));
    assert_eq!(account(Start::Oldest, Some(2)), beginning(2), "being written");
    assert_eq!(account(Start::Oldest, None), beginning(2));
}

#[test]
fn records_are_read_from_memory_from_the_disk_later_or_never() {
    let mut scene = Scene::new();
    scene.create("a");
    let read = |scene: &Scene, groups| scene.cursors.read(at(groups), 1 << 20);
    assert!(matches!(read(&scene, 0), Availability::NotYet));
    scene.release(true);
    assert!(matches!(read(&scene, 0), Availability::InMemory(spans) if spans.len() == 1));
    assert!(matches!(read(&scene, 1), Availability::NotYet));
    scene.commit("a", 1);
    scene.release(true);
    match read(&scene, 0) {
        Availability::OnDisk(limit) => assert_eq!((limit.end, limit.counts), (at(2), counts(2))),
        other => panic!("{other:?}"),
    }
    scene.cursors.finish();
    assert!(matches!(read(&scene, 1), Availability::InMemory(_)), "what there is");
    assert!(matches!(read(&scene, 2), Availability::Never));
}

#[test]
fn a_release_wakes_those_who_have_a_cursor_and_moves_the_ends() {
    let mut scene = Scene::new();
    scene.create("a");
    scene.create("b");
    scene.cursors.leave("b");
    assert_eq!(scene.release(true), 1);
    assert_eq!(scene.release(false), 1);
    let ends = scene.cursors.ends();
    assert_eq!((ends.released, ends.counts, ends.synced), (at(2), counts(2), at(1)));
    scene.cursors.note_synced(at(2));
    scene.cursors.note_synced(at(1));
    assert_eq!(scene.cursors.ends().synced, at(2), "never back");
}

#[test]
fn an_account_is_written_once_its_records_are_synced_however_far_it_has_moved_since() {
    let mut scene = Scene::new();
    scene.create("a");
    let mut deferred = DeferredAccounts::new();
    assert!(scene.positions_due(&mut deferred).is_empty(), "nothing has changed");
    for groups in 1..=3 {
        scene.release(false);
        scene.commit("a", groups);
        assert!(scene.positions_due(&mut deferred).is_empty());
        assert_eq!(deferred.len(), 1);
    }
    scene.cursors.note_synced(at(1));
    let due = scene.cursors.due(&mut deferred);
    assert_eq!(due.iter().map(|due| due.account.position).collect::<Vec<_>>(), [at(1)]);
    assert!(deferred.is_empty());
    scene.cursors.persist(&due[0]).unwrap();
    scene.cursors.note_synced(at(3));
    assert_eq!(scene.positions_due(&mut deferred), [at(3)]);
}

#[test]
fn what_is_deferred_never_moves_a_cursor_back() {
    let mut scene = Scene::new();
    scene.create("a");
    let mut deferred = DeferredAccounts::new();
    for _ in 0..3 {
        scene.release(false);
    }
    scene.commit("a", 1);
    scene.cursors.due(&mut deferred);
    scene.cursors.note_synced(at(2));
    let moved = scene.cursors.drop_to(at(2), counts(2)).unwrap();
    assert_eq!(moved.len(), 1);
    assert_eq!(moved[0].1, counts(1), "what was given up");
    scene.cursors.persist(&moved[0].0).unwrap();
    assert_eq!(scene.cursors.persisted_end(), Some(at(2)));
    scene.commit("a", 3);
    scene.cursors.note_synced(at(3));
    assert_eq!(scene.positions_due(&mut deferred), [at(3)]);
    scene.cursors.leave("a");
    scene.commit("a", 3);
    deferred.insert("a".to_owned(), moved[0].0.clone());
    scene.cursors.forget("a").unwrap();
    assert!(scene.positions_due(&mut deferred).is_empty());
    assert!(deferred.is_empty(), "nothing is kept of a cursor that is forgotten");
}

#[test]
fn nothing_is_given_up_that_is_not_synced_or_that_its_consumer_alone_may_move() {
    let mut scene = Scene::new();
    scene.create("a");
    scene.create("pinned");
    scene.release(true);
    scene.release(true);
    assert!(scene.cursors.drop_to(at(3), counts(3)).is_none(), "not synced");
    assert!(!scene.cursors.is_pinned("pinned"));
    let pin = scene.cursors.pin("pinned");
    assert!(scene.cursors.is_pinned("pinned"));
    assert_eq!(pin.ahead(), 2 * RECORD_LEN);
    assert!(scene.cursors.drop_to(at(2), counts(2)).is_none(), "pinned before that");
    scene.commit("pinned", 2);
    assert_eq!(pin.ahead(), 0);
    let moved = scene.cursors.drop_to(at(2), counts(2)).unwrap();
    assert_eq!(moved.iter().map(|(due, _)| due.name.as_str()).collect::<Vec<_>>(), ["a"]);
    assert_eq!(scene.cursors.position("a"), Some(at(2)));
    assert_eq!(scene.cursors.status("a").unwrap().dropped_oldest, 2);
    scene.cursors.leave("pinned");
    assert!(!scene.cursors.is_pinned("pinned"));
}

#[tokio::test]
async fn only_pinned_cursors_before_a_place_are_asked_to_move() {
    let mut scene = Scene::new();
    for name in ["behind", "there", "free"] {
        scene.create(name);
    }
    scene.release(true);
    let (behind, there) = (scene.cursors.pin("behind"), scene.cursors.pin("there"));
    scene.commit("there", 1);
    for due in scene.cursors.due(&mut DeferredAccounts::new()) {
        scene.cursors.persist(&due).unwrap();
    }
    scene.cursors.ask_pinned(at(1));
    tokio::time::timeout(std::time::Duration::from_secs(60), behind.wanted()).await.unwrap();
    let asked = tokio::time::timeout(std::time::Duration::from_millis(1), there.wanted()).await;
    assert!(asked.is_err());
}

#[tokio::test]
async fn one_that_waits_for_the_disk_is_told_when_its_change_is_on_it() {
    let mut scene = Scene::new();
    scene.create("a");
    scene.create("b");
    scene.release(true);
    scene.release(true);
    scene.commit("a", 1);
    assert!(!scene.cursors.is_persisting_urgent());
    let change = scene.cursors.hurry("a");
    assert!(scene.cursors.is_persisting_urgent());
    let gate = Gate::new();
    let first = scene.cursors.due(&mut DeferredAccounts::new());
    scene.commit("a", 2);
    let second = scene.cursors.due(&mut DeferredAccounts::new());
    let (told, ()) = tokio::join!(biased; scene.cursors.wait_persisted("a", change, &gate), async {
        scene.cursors.persist(&first[0]).unwrap();
    });
    told.unwrap();
    assert!(scene.cursors.is_persisting_urgent(), "it has changed since");
    assert_eq!(scene.cursors.status("a").unwrap().persisted, at(1));
    scene.cursors.persist(&second[0]).unwrap();
    assert!(!scene.cursors.is_persisting_urgent());
    assert_eq!(scene.cursors.status("a").unwrap().persisted, at(2));
    assert_eq!(scene.cursors.persisted_end(), Some(at(0)), "the other one is there");
    let file = scene.dir.path().join(cursor::file_name("a"));
    match cursor::load(&file, false).unwrap() {
        cursor::LoadedCursor::Whole(_, account) => assert_eq!(account.position, at(2)),
        cursor::LoadedCursor::Damaged(_) => panic!("damaged"),
    }
}

#[tokio::test]
async fn one_that_waits_for_the_disk_is_told_that_it_waits_in_vain() {
    let mut scene = Scene::new();
    scene.create("a");
    scene.release(true);
    scene.commit("a", 1);
    let (gate, change) = (Gate::new(), scene.cursors.hurry("a"));
    let (told, ()) = tokio::join!(biased; scene.cursors.wait_persisted("a", change, &gate), async {
        gate.poison("could not sync".to_owned());
        scene.cursors.wake_waiting();
    });
    assert!(matches!(told, Err(ConsumeError::Poisoned { name }) if name == "a"));
    assert_eq!(scene.cursors.hurry("unknown"), 0);
    let told = scene.cursors.wait_persisted("unknown", 0, &gate).await;
    assert!(matches!(told, Err(ConsumeError::Forgotten { name }) if name == "unknown"));
}

#[test]
fn reading_goes_on_where_a_cursor_was_moved_to() {
    let mut scene = Scene::new();
    scene.create("a");
    scene.release(true);
    assert_eq!(scene.cursors.overtaken("a", at(0)).unwrap(), None);
    scene.cursors.drop_to(at(1), counts(1)).unwrap();
    let place = ReadPosition { position: at(1), group: at(1), counts: counts(1) };
    assert_eq!(scene.cursors.overtaken("a", at(0)).unwrap(), Some(place));
    assert_eq!(scene.cursors.overtaken("a", at(1)).unwrap(), None);
    let unknown = scene.cursors.overtaken("b", at(1));
    assert!(matches!(unknown, Err(ConsumeError::Forgotten { name }) if name == "b"));
}

#[test]
fn what_is_settled_counts_as_done_until_the_consumer_begins_again() {
    let mut scene = Scene::new();
    scene.create("a");
    scene.release(true);
    scene.release(true);
    scene.cursors.settle("a", &step_to(1));
    let delivered = || scene.cursors.status("a").unwrap().delivered;
    assert_eq!((delivered(), scene.cursors.backlog("a").unwrap().items), (1, 1));
    assert_eq!(scene.cursors.position("a"), Some(at(0)));
    assert_eq!(scene.cursors.rewind("a").unwrap().position, at(0));
    assert_eq!((delivered(), scene.cursors.backlog("a").unwrap().items), (0, 2));
    scene.commit("a", 2);
    assert_eq!(scene.cursors.rewind("a").unwrap().position, at(2));
    assert_eq!(scene.cursors.summary().backlog_bytes, 0);
}

#[test]
fn only_a_cursor_that_nobody_has_is_forgotten() {
    let mut scene = Scene::new();
    scene.create("a");
    scene.create("b");
    scene.release(true);
    assert_eq!(scene.cursors.summary().backlog_bytes, RECORD_LEN);
    assert!(matches!(scene.cursors.forget("a"), Err(CursorError::InUse { .. })));
    scene.cursors.leave("a");
    let file = scene.dir.path().join(cursor::file_name("a"));
    assert!(file.exists());
    assert_eq!(scene.cursors.forget("a").unwrap().waiting.items, 1);
    assert!(!file.exists());
    let unknown = scene.cursors.forget("a");
    assert!(matches!(unknown, Err(CursorError::Unknown { known, .. }) if known == "b"));
    let names: Vec<String> = scene.cursors.statuses().into_iter().map(|c| c.name).collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn a_damaged_place_is_counted_once() {
    let scene = Scene::new();
    let loss = |from, to| Loss {
        from: at(from),
        to: at(to),
        group: at(to),
        before: counts(from),
        after: counts(to),
    };
    scene.cursors.note_damage(&loss(1, 3), "here");
    scene.cursors.note_damage(&loss(1, 2), "here");
    assert_eq!(scene.cursors.damaged.get(), 1);
    scene.cursors.note_damage(&loss(4, 5), "there");
    assert_eq!(scene.cursors.damaged.get(), 2);
    let damage = scene.cursors.summary().damage;
    assert_eq!(damage.iter().map(|damage| damage.lost).collect::<Vec<_>>(), [counts(2), counts(1)]);
}

#[test]
fn large_buffers_that_nobody_reads_are_used_again() {
    let scene = Scene::new();
    let read = group_at(2, 2 * RECYCLED_BYTES_MIN);
    let _reader = read.pieces[0].bytes.clone();
    let groups = vec![group_at(0, RECYCLED_BYTES_MIN - 1), group_at(1, RECYCLED_BYTES_MIN), read];
    scene.cursors.recycle(groups);
    assert_eq!(scene.cursors.buffers.take().capacity(), RECYCLED_BYTES_MIN);
    assert_eq!(scene.cursors.buffers.take().capacity(), 0);
}
