use super::*;
use crate::placement::OwnLine;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

fn record(at: u64, items: u32) -> journal::Record<'static> {
    journal::Record {
        position: Position(at),
        end: Position(at + 1),
        kind: crate::record::KIND_POINTS,
        items,
        control: false,
        written_at: 1_000 + at,
        payload: b"",
    }
}

/// A record's lines: each names its record and its index, and every third holds a newline.
fn lines(at: u64, items: u32) -> Vec<u8> {
    let line = |index: u32| match index % 3 {
        0 => format!("m,r={at} s=\"a\nb\" {index}\n"),
        _ => format!("m,r={at} v=1 {index}\n"),
    };
    (0..items).flat_map(|index| line(index).into_bytes()).collect()
}

const WIDE: Limits = Limits { points: 1_000_000, bytes: 1 << 30 };

proptest! {
    #[test]
    fn pieces_hold_every_point_once_in_order_within_the_limits(
        records in proptest::collection::vec((0_u8..3, 1_u32..30), 1..20),
        points_max in 1_u64..40, bytes_max in 1_usize..600,
    ) {
        let mut window = Window::default();
        let mut expected = vec![Vec::new(); 3];
        for (at, (key, items)) in records.iter().enumerate() {
            let (at, db) = (at as u64, key.to_string());
            let lines = lines(at, *items);
            let points = Points { db: &db, rp: "rp", ids: None, lines: &lines };
            prop_assert!(window.push(&record(at, *items), &points, Share::All, WIDE));
            expected[usize::from(*key)].extend((0..*items).map(|index| (Position(at), index)));
        }
        prop_assert_eq!(window.end(), Some(Position(records.len() as u64)));
        prop_assert_eq!(window.oldest(), 1_000);
        let limits = Limits { points: points_max, bytes: bytes_max };
        for batch in window.batches() {
            let body = batch.take_body();
            let mut found = Vec::new();
            for piece in batch.pieces(&body, limits) {
                let points = batch.points_of(&piece);
                prop_assert_eq!(points.len() as u64, piece.points);
                prop_assert!(piece.points <= points_max);
                prop_assert!(piece.body.len() <= bytes_max || piece.points == 1);
                for point in points {
                    let line = String::from_utf8(piece.body[point.range()].to_vec()).unwrap();
                    let begin = format!("m,r={} ", point.position);
                    prop_assert!(line.starts_with(&begin), "{} {}", line, begin);
                    let end = format!(" {}\n", point.index);
                    prop_assert!(line.ends_with(&end), "{} {}", line, end);
                    found.push((point.position, point.index));
                }
            }
            let key: usize = batch.db.parse().unwrap();
            prop_assert_eq!(&found, &expected[key]);
        }
    }

    #[test]
    fn a_window_stays_within_its_limits_but_for_one_large_record(
        records in proptest::collection::vec((any::<bool>(), 1_u32..30), 1..40),
        points in 1_u64..60, bytes in 1_usize..900,
    ) {
        let limits = Limits { points, bytes };
        let (mut window, mut taken) = (Window::default(), 0);
        for (at, (key, items)) in records.iter().enumerate() {
            let lines = lines(at as u64, *items);
            let db = if *key { "a" } else { "b" };
            let points = Points { db, rp: "", ids: None, lines: &lines };
            let record = record(at as u64, *items);
            if window.is_full(limits) || !window.push(&record, &points, Share::All, limits) {
                break;
            }
            taken += 1;
        }
        prop_assert!(taken >= 1);
        if taken > 1 {
            prop_assert!(window.bytes <= bytes);
            prop_assert!(window.batches().iter().all(|batch| batch.points <= points));
        }
    }
}

#[test]
fn a_cleared_window_starts_anew_and_keeps_its_buffers() {
    let mut window = Window::default();
    let lines = lines(0, 10);
    assert!(window.push(
        &record(0, 10),
        &Points { db: "a", rp: "", ids: None, lines: &lines },
        Share::All,
        WIDE
    ));
    let body = window.batches()[0].take_body();
    let place = body.as_ptr();
    window.batches()[0].restore(body);
    window.clear();
    assert!(window.is_empty() && window.batches().is_empty() && window.points() == 0);
    assert!(window.push(
        &record(5, 10),
        &Points { db: "b", rp: "r", ids: None, lines: &lines },
        Share::All,
        WIDE
    ));
    let batch = &mut window.batches()[0];
    assert_eq!((batch.db.as_str(), batch.rp.as_str(), batch.points()), ("b", "r", 10));
    assert_eq!(batch.take_body().as_ptr(), place);
}

#[test]
fn an_ordinary_batch_is_one_piece() {
    let mut window = Window::default();
    for at in 0..100 {
        let points = Points { db: "a", rp: "", ids: None, lines: b"m v=1 1\n" };
        assert!(window.push(&record(at, 1), &points, Share::All, WIDE));
    }
    let batch = &mut window.batches()[0];
    let body = batch.take_body();
    let pieces = batch.pieces(&body, WIDE);
    assert_eq!((pieces.len(), pieces[0].points, &pieces[0].body), (1, 100, &body));
}

#[test]
fn a_members_lines_keep_their_places_within_their_records() {
    let own = |lines: &[u8], indices: &[u32]| -> Vec<OwnLine> {
        let mut start = 0;
        let all = wire::line::points(lines).zip(0..).map(|(line, index)| {
            let range = start..start + line.len();
            start = range.end;
            OwnLine { index, range }
        });
        all.filter(|line| indices.contains(&line.index)).collect()
    };
    let mut window = Window::default();
    for (at, items, indices) in [(0, 4, &[1, 3][..]), (1, 3, &[]), (2, 5, &[0, 1, 4]), (3, 2, &[])]
    {
        let lines = lines(at, items);
        let own = own(&lines, indices);
        let points = Points { db: "a", rp: "", ids: None, lines: &lines };
        assert!(window.push(&record(at, items), &points, Share::Own(&own), WIDE));
    }
    assert_eq!((window.points(), window.elsewhere()), (5, 9));
    assert_eq!(window.end(), Some(Position(4)));
    let batch = &mut window.batches()[0];
    let body = batch.take_body();
    for limit in [1, 2, 100] {
        let pieces = batch.pieces(&body, Limits { points: limit, ..WIDE });
        let places: Vec<(u64, u32)> = pieces
            .iter()
            .flat_map(|piece| batch.points_of(piece))
            .map(|point| (point.position.0, point.index))
            .collect();
        assert_eq!(places, [(0, 1), (0, 3), (2, 0), (2, 1), (2, 4)], "{limit}");
    }
    window.clear();
    let lines = lines(9, 2);
    let own = own(&lines, &[]);
    let points = Points { db: "a", rp: "", ids: None, lines: &lines };
    assert!(window.push(&record(9, 2), &points, Share::Own(&own), WIDE));
    assert!(!window.is_empty() && window.batches().is_empty());
    assert_eq!((window.points(), window.elsewhere(), window.oldest()), (0, 2, 1_009));
}
