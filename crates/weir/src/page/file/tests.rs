use std::collections::BTreeMap;

use super::*;
use crate::diagnosis::event::{Change, Level};

const WITHIN: Duration = Duration::from_secs(60);

fn event(number: u64, text: &str) -> Event {
    Event { number, at: number as f64, change: Change::new(Level::Info, "test", text) }
}

fn minute(at: u64, value: f32) -> WholeMinute {
    (at, BTreeMap::from([("backend.waiting|b".to_owned(), value)]))
}

fn write(dir: &Path, lines: impl FnOnce(&Writer)) {
    let writer = Writer::start(dir.to_owned(), Vec::new()).unwrap();
    lines(&writer);
    writer.finish(WITHIN);
}

fn texts(restored: &Restored) -> Vec<String> {
    restored.events.iter().map(|event| event.change.text.clone()).collect()
}

fn minutes(restored: &mut Restored, now: u64) -> serde_json::Value {
    restored.history.put(now * 60, &BTreeMap::new());
    let shown = restored.history.shown(None);
    shown["minute"]["lines"]["backend.waiting|b"].clone()
}

#[test]
fn a_restart_finds_what_happened_and_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), |writer| {
        writer.event(event(1, "b went"));
        writer.minute(minute(2000, 5.0));
    });
    write(dir.path(), |writer| {
        writer.minute(minute(2001, 6.5));
        writer.event(event(2, "b is back"));
    });
    let mut restored = read(dir.path(), 2002);
    assert_eq!(texts(&restored), ["b went", "b is back"]);
    assert_eq!((restored.unreadable, restored.events.last()), (0, 2));
    assert_eq!(minutes(&mut restored, 2002), serde_json::json!([5, 6.5]));
    let mut much_later = read(dir.path(), 2001 + MINUTES_MAX);
    assert!(minutes(&mut much_later, 2001 + MINUTES_MAX).is_null(), "a day is kept");
    assert_eq!(texts(&much_later).len(), 2);
}

#[test]
fn a_file_that_is_damaged_or_was_cut_off_loses_those_lines_alone() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), |writer| writer.event(event(1, "before")));
    let path = dir.path().join(NAME);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(b"x y\n\xff\xfe\nm 5 [1,\nk 7\ne {\"at\":1}\ne {\"number\":2,\"at\":");
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(texts(&read(dir.path(), 1)), ["before"]);
    write(dir.path(), |writer| writer.event(event(2, "after")));
    let restored = read(dir.path(), 1);
    assert_eq!(texts(&restored), ["before", "after"]);
    assert_eq!(restored.unreadable, 5);
}

#[test]
fn the_files_stay_small_and_keep_the_newest_events() {
    let dir = tempfile::tempdir().unwrap();
    let many: Vec<String> = (0..2000).map(|n| format!("backend.waiting|server-{n}")).collect();
    let writer = Writer::start(dir.path().to_owned(), Vec::new()).unwrap();
    writer.event(event(1, "early"));
    // Handed one by one: what a slow disk can't take is given up.
    for at in 0..300_u64 {
        let values = many.iter().map(|name| (name.clone(), 1_234_567.0 + at as f32)).collect();
        loop {
            let line = Line::Minute((5000 + at, BTreeMap::clone(&values)));
            match writer.lines.try_send(line) {
                Ok(()) => break,
                Err(_) => std::thread::yield_now(),
            }
        }
    }
    writer.finish(WITHIN);
    let size = |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().len();
    assert!(size(NAME) <= FILE_BYTES_MAX && size(FORMER) <= FILE_BYTES_MAX);
    assert!(size(NAME) + size(FORMER) > FILE_BYTES_MAX);
    assert_eq!(texts(&read(dir.path(), 5300)), ["early"]);
}

#[test]
fn a_directory_that_can_not_be_written_stops_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    write(&file.join("below"), |writer| writer.event(event(1, "lost")));
    assert_eq!(read(&file.join("below"), 1).unreadable, 0);
}

#[test]
fn a_full_disk_is_tried_again_and_loses_only_what_came_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let faults = disk::Faults::counting();
    let mut lines = Lines::new(dir.path().to_owned(), Vec::new());
    lines.disk = Disk::with(faults.clone());
    lines.write(&Line::Event(Box::new(event(1, "before"))));
    faults.room_to_write(false);
    lines.write(&Line::Event(Box::new(event(2, "full"))));
    assert!(lines.rests_until.is_some());
    faults.room_to_write(true);
    lines.rests_until = Some(Instant::now());
    lines.write(&Line::Event(Box::new(event(3, "after"))));
    assert_eq!(texts(&read(dir.path(), 1)), ["before", "after"]);
}
