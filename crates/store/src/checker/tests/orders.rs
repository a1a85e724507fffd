//! Writes, statements and settlings in any order: nothing that the journal has taken is refused
//! for its type when it is applied.

use proptest::prelude::*;

use super::checker;
use crate::checker::{Basis, PromiseHold, Undecided};
use crate::testing::TestStore;

const WRITERS: usize = 3;

/// What may happen at each step.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A writer checks a point of the field and type.
    Check(usize, usize, usize),
    /// It appends it, if it still stands; or it is refused.
    Append(usize, bool),
    /// The same with what it finds held until it is appended or refused.
    CheckHeld(usize, usize, usize),
    /// A statement is appended.
    Drop,
    /// The next record is applied.
    Apply,
    /// A settling goes on.
    Settle,
}

/// A record of the journal.
enum Record {
    Points(String),
    Drop,
}

enum Stage {
    Idle,
    Releasing(u64),
    Applying(u64, usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..WRITERS, 0..2_usize, 0..2_usize).prop_map(|(w, f, t)| Event::Check(w, f, t)),
        4 => (0..WRITERS, proptest::bool::weighted(0.8)).prop_map(|(w, ok)| Event::Append(w, ok)),
        1 => (0..WRITERS, 0..2_usize, 0..2_usize).prop_map(|(w, f, t)| Event::CheckHeld(w, f, t)),
        1 => Just(Event::Drop),
        4 => Just(Event::Apply),
        4 => Just(Event::Settle),
    ]
}

fn run(events: &[Event]) {
    let test = TestStore::new();
    let store = &test.store;
    let ids = store.catalogue().resolve("db", "").unwrap().ids;
    let mut checkers: Vec<_> = (0..WRITERS).map(|_| checker(&test)).collect();
    let mut ready: Vec<Option<(Vec<u8>, Basis)>> = vec![None; WRITERS];
    let mut holds: Vec<_> = (0..WRITERS).map(|_| None).collect();
    let (mut journal, mut applied): (Vec<Record>, usize) = (Vec::new(), 0);
    let mut stage = Stage::Idle;
    let apply = |record: &Record| match record {
        // Fails where a point is refused.
        Record::Points(lines) => test.write(lines),
        Record::Drop => test.run("DROP MEASUREMENT m").unwrap(),
    };
    for &event in events {
        match event {
            Event::Check(writer, field, of) | Event::CheckHeld(writer, field, of) => {
                if matches!(event, Event::CheckHeld(..)) {
                    holds[writer] = Some(store.hold_promises());
                }
                let value = ["1", "1i"][of];
                let mut lines = format!("m f{field}={value} 1\n").into_bytes();
                let checked = checkers[writer].check(ids, &mut lines, 0, usize::MAX);
                ready[writer] = match checked {
                    Ok(checked) if checked.kept == 1 => Some((lines, checked.basis)),
                    Ok(_) | Err(Undecided::Promised(_)) => None,
                    Err(Undecided::TooLong) => panic!("one line"),
                };
            }
            Event::Append(writer, taken) => {
                let held: Option<PromiseHold<'_>> = holds[writer].take();
                let Some((lines, basis)) = ready[writer].take() else { continue };
                if taken && (held.is_some() || store.stands(&basis)) {
                    journal.push(Record::Points(String::from_utf8(lines).unwrap()));
                }
            }
            Event::Drop => journal.push(Record::Drop),
            Event::Apply => {
                if let Some(record) = journal.get(applied) {
                    apply(record);
                    applied += 1;
                }
            }
            Event::Settle => {
                stage = match stage {
                    Stage::Idle => Stage::Releasing(store.begin_settling()),
                    Stage::Releasing(line) if store.is_released(line) => {
                        Stage::Applying(line, journal.len())
                    }
                    Stage::Applying(line, end) if end <= applied => {
                        store.settle(line);
                        Stage::Idle
                    }
                    waiting => waiting,
                };
            }
        }
    }
    journal.iter().skip(applied).for_each(apply);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_the_journal_takes_is_stored(events in proptest::collection::vec(event(), 1..80)) {
        run(&events);
    }
}
