//! The files of a log without a journal: the test is the journal thread and the housekeeping.

use std::path::PathBuf;

use disk::Disk;
use tempfile::TempDir;
use units::Size;
use watch::metrics::Registry;

use super::Log;
use super::gate::Room;
use super::segments::Files;
use crate::error::AppendError;
use crate::instruments::Instruments;
use crate::position::{Counts, Position};
use crate::settings::{Ack, Settings};

const SEGMENT_LEN: u64 = 64 << 10;
/// How many segments `max-size` allows.
const SEGMENTS_MAX: u64 = 3;
const CAPACITY: u64 = SEGMENT_LEN - crate::format::segment::HEADER_LEN;

struct Scene {
    _dir: TempDir,
    log: Log,
}

impl Scene {
    fn new(ack: Ack) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            dir: dir.path().to_owned(),
            ack,
            segment_size: Size::from_bytes(SEGMENT_LEN),
            max_size: Size::from_bytes(SEGMENTS_MAX * SEGMENT_LEN),
            ..Settings::default()
        };
        let (metrics, files) = (Instruments::new(&Registry::new()), Files::new(Position::ZERO));
        Scene { _dir: dir, log: Log::new(settings, 7, Disk::default(), metrics, files) }
    }

    /// Makes the next segment and puts it to use, where the one before ended.
    fn use_next(&self, previous_end: u64) -> Position {
        let spare = self.log.spare().unwrap().expect("there is room");
        self.log.establish(spare, Position::ZERO).unwrap();
        self.take(previous_end).expect("it is ready")
    }

    /// The next segment, or why there is none.
    fn take(&self, previous_end: u64) -> Result<Position, Option<Room>> {
        let next = self.log.next_segment(Position(previous_end), Counts::default(), Err);
        next.map(|segment| segment.base)
    }

    fn files(&self, suffix: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.log.dir()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|of| of == suffix)).collect()
    }
}

#[test]
fn a_segment_begins_where_the_one_before_has_no_place_left() {
    let scene = Scene::new(Ack::Durable);
    assert_eq!(scene.log.usage(), (0, 0));
    assert_eq!(scene.use_next(0), Position::ZERO);
    assert_eq!(scene.use_next(100), Position(CAPACITY));
    assert_eq!(scene.log.usage(), (2 * SEGMENT_LEN, 2));
    let first = scene.log.first_after(Position::ZERO).unwrap();
    assert_eq!((first.position, first.previous_end), (Position(CAPACITY), Position(100)));
    assert_eq!(scene.log.oldest().unwrap().position, Position::ZERO);
    assert_eq!(scene.log.find(Position(CAPACITY)).unwrap().base, Position(CAPACITY));
    assert!(scene.log.find(Position(2 * CAPACITY)).is_none());
}

#[test]
fn the_journal_thread_hears_why_there_is_no_next_segment() {
    let scene = Scene::new(Ack::Durable);
    assert!(!scene.log.is_next_ready());
    assert_eq!(scene.take(0), Err(None), "being made");
    for room in [Room::Full, Room::DiskFull] {
        scene.log.refuse(room, "no room");
        assert_eq!(scene.take(0), Err(Some(room)));
        assert_eq!(scene.take(0), Err(Some(room)), "and again");
        assert_eq!(scene.log.gate().room(), room);
    }
    let spare = scene.log.spare().unwrap().unwrap();
    scene.log.establish(spare, Position::ZERO).unwrap();
    assert!(scene.log.is_next_ready());
    assert_eq!(scene.log.gate().room(), Room::Yes);
    assert_eq!(scene.take(0), Ok(Position::ZERO));
    assert!(!scene.log.is_next_ready());
}

#[test]
fn no_more_is_taken_than_the_segment_has_room_for_while_there_is_no_next() {
    let scene = Scene::new(Ack::Durable);
    let gate = scene.log.gate();
    scene.log.refresh_limit(Some(100));
    assert_eq!(gate.look(101), Ok(()), "the next one is being made");
    scene.log.refuse(Room::Full, "no room");
    assert_eq!(gate.look(100), Ok(()));
    assert_eq!(gate.look(101), Err(AppendError::Full));
    scene.log.refresh_limit(Some(50));
    assert_eq!(gate.look(51), Err(AppendError::Full));
    scene.use_next(0);
    assert_eq!(gate.look(51), Ok(()));
    let max = scene.log.settings().group_capacity();
    assert_eq!(gate.look(max), Ok(()));
    assert_eq!(gate.look(max + 1), Err(AppendError::Busy));
}

#[test]
fn max_size_bounds_all_files_and_one_that_is_free_is_used_again() {
    let scene = Scene::new(Ack::Durable);
    let bases: Vec<Position> = (0..SEGMENTS_MAX).map(|_| scene.use_next(100)).collect();
    assert!(scene.log.spare().unwrap().is_none());
    scene.log.free(bases[0]).unwrap();
    scene.log.free(bases[0]).unwrap();
    assert_eq!((scene.files("segment").len(), scene.files("spare").len()), (2, 1));
    assert_eq!(scene.log.usage(), (SEGMENTS_MAX * SEGMENT_LEN, 2), "a spare takes room, too");
    scene.log.free(bases[1]).unwrap();
    assert_eq!((scene.files("segment").len(), scene.files("spare").len()), (1, 1), "one is kept");
    let (path, _) = scene.log.spare().unwrap().unwrap();
    assert_eq!(scene.files("spare"), [path]);
}

#[test]
fn segments_that_are_passed_are_given_free_and_never_the_newest() {
    let scene = Scene::new(Ack::Durable);
    assert!(scene.log.oldest_to_give_up().is_none());
    assert!(scene.log.oldest_end().is_none());
    let bases: Vec<Position> = [0, 100, CAPACITY + 50].map(|end| scene.use_next(end)).to_vec();
    assert_eq!(scene.log.oldest_end(), Some(Position(100)));
    let (oldest, behind) = scene.log.oldest_to_give_up().unwrap();
    assert_eq!((oldest, behind.position), (bases[0], bases[1]));
    scene.log.free_up_to(Position(99)).unwrap();
    assert_eq!(scene.log.usage().1, 3);
    scene.log.free_up_to(Position(100)).unwrap();
    assert_eq!(scene.log.oldest().unwrap().position, bases[1]);
    scene.log.free_up_to(Position(u64::MAX)).unwrap();
    assert_eq!(scene.log.oldest().unwrap().position, bases[2]);
    assert!(scene.log.oldest_to_give_up().is_none(), "it is being written");
}

#[test]
fn a_flush_syncs_what_was_written_and_the_last_segment_each_time() {
    let durable = Scene::new(Ack::Durable);
    durable.use_next(0);
    durable.log.flush().unwrap();
    assert_eq!(durable.log.flushes(), (0, false), "each group is synced");
    let scene = Scene::new(Ack::Written);
    scene.use_next(0);
    scene.use_next(100);
    scene.log.flush().unwrap();
    assert_eq!(scene.log.flushes(), (2, false));
    scene.log.flush().unwrap();
    assert_eq!(scene.log.flushes(), (3, false));
    assert_eq!(scene.log.metrics().sync.count(), 3);
}
