use std::collections::HashMap;

use proptest::prelude::*;

use super::super::keys::Keys;
use super::super::keys::tests::digest;
use super::*;

const WINDOW_MS: u32 = 1000;

fn window(words: usize) -> Window {
    Window::new(WindowLimits { words, window_ms: WINDOW_MS })
}

fn source(connection: u32) -> Source {
    Source { connection, address: connection / 2 }
}

/// What comes of records, each with the connection that wrote it and when.
fn outcomes(records: &[(&str, u32, u64)]) -> Vec<Option<(Outcome, Between)>> {
    let (keys, mut window) = (Keys::new(), window(1 << 20));
    let observe = |(record, connection, now_ms): &(&str, u32, u64)| {
        let found = window.observe(&digest(&keys, record), source(*connection), *now_ms);
        found.map(|found| (found.outcome, found.between))
    };
    records.iter().map(observe).collect()
}

#[test]
fn fields_in_common_collide_and_others_merge() {
    use Between::{Connections, Hosts, Own};
    use Outcome::{Equal, Overwritten};
    let found = outcomes(&[
        ("m,a=1 f=1 5\n", 0, 0),
        ("m,a=1 g=1 5\n", 2, 0),
        ("m,a=1 f=1.0,h=3 5\n", 2, 1),
        ("m,a=1 f=1i 5\n", 3, 2),
        ("m,a=1 f=1i 6\n", 3, 2),
        ("m,a=1 f=2i 5\n", 3, 2),
        ("m,a=1 g=1,h=4,f=2i 5\n", 9, 3),
        ("m,a=1 g=1,h=4,f=2i 5\n", 9, 3),
    ]);
    let expected = [
        None,
        None,
        Some((Equal, Hosts)),
        Some((Overwritten, Connections)),
        None,
        Some((Overwritten, Own)),
        Some((Overwritten, Hosts)),
        Some((Equal, Own)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn what_is_older_than_the_window_is_forgotten() {
    const WINDOW: u64 = WINDOW_MS as u64;
    let at = |then: u64, now: u64| {
        outcomes(&[("m f=1 5\n", 0, then), ("m f=2 5\n", 1, now)])[1].is_some()
    };
    assert!(at(0, WINDOW));
    assert!(!at(0, WINDOW + 1));
    let long = u64::from(u32::MAX);
    assert!(at(long - 10, long - 10 + WINDOW), "an entry has 32 bits of its time");
    assert!(!at(long - 10, long - 9 + WINDOW));
    assert!(!at(0, long + 10), "after weeks of silence");
    assert!(at(50, 40), "another thread looked at the clock a little earlier");
}

#[test]
fn memory_is_taken_as_it_fills_bounded_and_given_back() {
    let (keys, mut window) = (Keys::new(), window(16 * SEGMENT_WORDS));
    assert_eq!(window.bytes(), 0);
    window.observe(&digest(&keys, "m f=1 1\n"), source(0), 0);
    assert!(window.bytes() < 2 * SEGMENT_WORDS * 4);
    for n in 0..100_000 {
        window.observe(&digest(&keys, &format!("m f=1,g={n} {n}\n")), source(0), 0);
        assert!(window.bytes() <= 16 * SEGMENT_WORDS * 4, "{n}: {}", window.bytes());
    }
    assert!(window.bytes() > 14 * SEGMENT_WORDS * 4, "{}", window.bytes());
    // The latest are there.
    assert!(window.observe(&digest(&keys, "m f=2 99999\n"), source(1), 0).is_some());
    assert!(window.observe(&digest(&keys, "m f=2 1\n"), source(1), 0).is_none());
    window.expire(u64::from(WINDOW_MS) + 1);
    assert_eq!(window.bytes(), 0);
}

#[test]
fn a_point_that_comes_again_and_again_hides_no_other() {
    let (keys, mut window) = (Keys::new(), window(1 << 20));
    for n in 0..1000 {
        window.observe(&digest(&keys, &format!("m f=1 {n}\n")), source(0), 0);
    }
    for _ in 0..10_000 {
        assert!(window.observe(&digest(&keys, "m f=1 7\n"), source(0), 0).is_some());
    }
    for n in 0..1000 {
        assert!(window.observe(&digest(&keys, &format!("m f=1 {n}\n")), source(1), 0).is_some());
    }
}

#[test]
fn a_window_begins_anew_when_its_numbers_are_used_up() {
    let (keys, mut window) = (Keys::new(), window(4 * SEGMENT_WORDS));
    window.first = SEGMENTS_MAX - 2;
    let mut missed = 0;
    for n in 0..10_000 {
        window.observe(&digest(&keys, &format!("m f=1 {n}\n")), source(0), 0);
        let again = window.observe(&digest(&keys, &format!("m f=1 {n}\n")), source(0), 0);
        missed += usize::from(again.is_none());
    }
    assert!(window.first < SEGMENTS_MAX / 2);
    assert!(missed <= 1, "{missed} were forgotten in between");
}

#[test]
fn a_point_may_have_more_fields_than_are_looked_at() {
    let keys = Keys::new();
    let fields: Vec<_> = (0..FIELDS_MAX * 2).map(|n| format!("f{n}={n}")).collect();
    let record = format!("m {} 5\n", fields.join(","));
    let mut window = window(1 << 20);
    let digest = digest(&keys, &record);
    assert_eq!(window.observe(&digest, source(0), 0), None);
    assert_eq!(window.observe(&digest, source(0), 0).unwrap().outcome, Outcome::Equal);
}

/// A point: its series, its time, its fields with their values, its writer, and how long after
/// the one before it comes.
type Step = (u8, u8, Vec<(u8, u8)>, u8, u16);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fields = proptest::collection::vec((0..4u8, 0..2u8), 1..5);
    let step = (0..3u8, 0..2u8, fields, 0..4u8, prop_oneof![4 => 0..20u16, 1 => 0..900u16]);
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// A window beside a plain map of everything.
    #[test]
    fn collisions_are_those_of_a_plain_map(steps in steps()) {
        let (keys, mut window) = (Keys::new(), window(1 << 20));
        // By series, time and field: the value, who wrote it, and when.
        let mut map: HashMap<(u8, u8, u8), (u8, u8, u64)> = HashMap::new();
        let mut now_ms = u64::from(u32::MAX) - 1000;
        for (series, time, fields, writer, pause) in steps {
            now_ms += u64::from(pause);
            let field = |(name, value): &(u8, u8)| format!("f{name}={value}");
            let list: Vec<_> = fields.iter().map(field).collect();
            let record = format!("m,s={series} {} {time}\n", list.join(","));
            let own = source(writer.into());
            let found = window.observe(&digest(&keys, &record), own, now_ms);
            // The last value of each name counts.
            let fields: HashMap<u8, u8> = fields.into_iter().collect();
            let recent = |name: &u8| {
                let known = map.get(&(series, time, *name)).copied();
                known.filter(|(.., came)| now_ms - *came <= u64::from(WINDOW_MS))
            };
            let common: Vec<_> = fields
                .iter()
                .filter_map(|(name, value)| recent(name).map(|older| (*value, older)))
                .collect();
            let differs = |(value, older): &&(u8, (u8, u8, u64))| *value != older.0;
            let differing: Vec<_> = common.iter().filter(differs).collect();
            let (outcome, of): (_, Vec<_>) = match (differing.is_empty(), common.is_empty()) {
                (true, true) => (None, Vec::new()),
                (true, false) => (Some(Outcome::Equal), common.iter().collect()),
                (false, _) => (Some(Outcome::Overwritten), differing),
            };
            prop_assert_eq!(found.map(|found| found.outcome), outcome, "{}", record);
            if let Some(found) = found {
                let writers: Vec<_> = of.iter().map(|(_, (_, writer, _))| *writer).collect();
                let between = |older: &u8| Between::of(source((*older).into()), own);
                let mut writers = writers.into_iter();
                let is_told = writers.any(|older| {
                    u32::from(older) == found.older_connection && between(&older) == found.between
                });
                prop_assert!(is_told, "{record}");
            }
            for (name, value) in fields {
                map.insert((series, time, name), (value, writer, now_ms));
            }
        }
    }
}
