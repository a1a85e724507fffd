//! Any body: what is normalised is normal, splits into as many records as were counted, and means
//! the same behind another record as alone. What is noted of it is what a walk over it
//! finds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::line::{
    MarkKey, Marks, Notes, Options, Precision, Sample, Sampler, StampTag, normalise, points, series,
};

const BEFORE: &[u8] = b"m,a=b f=\"x\" 1\n";

fuzz_target!(|input: (u8, &[u8])| {
    let (how, body) = input;
    let stamp: Vec<StampTag> = StampTag::new("a", "x y").into_iter().collect();
    let first = Options {
        precision: [Precision::Nanosecond, Precision::Second][usize::from(how & 1)],
        now_ns: 1_700_000_000_123_456_789,
        stamp: if how & 2 == 0 { &[] } else { &stamp },
        unsigned: how & 4 == 0,
    };
    let again = Options { precision: Precision::Nanosecond, ..first };

    let mut records = BEFORE.to_vec();
    let outcome = normalise(body, &first, &mut records);
    assert_eq!(outcome.bad > 0, outcome.error.is_some());
    assert_eq!(outcome.dropped > 0, outcome.reason.is_some());
    assert!(records.starts_with(BEFORE) && records.ends_with(b"\n"));
    assert_eq!(points(&records).count(), outcome.points as usize + 1);
    for point in points(&records) {
        assert!(!series(point).is_empty() && series(point).len() < point.len());
    }

    let (key, sampler) = (MarkKey::default(), Sampler::new(0, 0.5));
    let walked = |records: &[u8]| Notes {
        marks: Some(Marks::of(key.clone(), records)),
        newest: None,
        sample: Some(Sample::of(sampler, records)),
    };
    let (mut noted, mut notes) = (BEFORE.to_vec(), walked(BEFORE));
    assert_eq!(notes.normalise(body, &first, &mut noted), outcome);
    assert_eq!(noted, records);
    let walked = walked(&records);
    let marks =
        |notes: &Notes| notes.marks.iter().flat_map(Marks::iter).copied().collect::<Vec<_>>();
    assert_eq!(marks(&notes), marks(&walked));
    assert_eq!(notes.sampled(), walked.sampled());

    let mut twice = Vec::new();
    let same = normalise(&records, &Options { unsigned: true, ..again }, &mut twice);
    assert_eq!((same.points, same.bad, same.dropped), (outcome.points + 1, 0, 0));
    assert_eq!(points(&twice).count(), points(&records).count());
    // `a` is there already, so that the stamp changes nothing.
    assert_eq!(twice, records);
});
