//! What is read out of notes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::disk_number::DiskNumber;
use super::super::identity::{Identity, NoteVerdict};
use super::super::lag::lags;
use super::super::note::{Note, read_note};
use super::super::order::StatementOrder;
use super::*;
use crate::settings::SetSettings;

const DISK: DiskNumber = DiskNumber { count: 1, number: 7 };

/// A note of the first run, on a member that has all.
fn note(count: u64, position: u64) -> Note {
    Note {
        host: "gw".to_owned(),
        run: 1,
        count,
        disk: Some(DISK),
        progress: Progress {
            position,
            end: position,
            whole_until: Duration::from_secs(position),
            lacks: 0,
            given_up: 0,
            state: GatewayState::Running,
        },
    }
}

fn with(mut note: Note, change: impl FnOnce(&mut Progress)) -> Note {
    change(&mut note.progress);
    note
}

fn id(name: &str) -> GatewayId {
    GatewayId::from(name)
}

/// `member: (gateway, note) ...`.
fn notes(of: &[(&str, &[(&str, &Note)])]) -> BTreeMap<String, MemberNotes> {
    let member = |notes: &[(&str, &Note)]| {
        notes.iter().map(|(name, note)| (id(name), (*note).clone())).collect()
    };
    of.iter().map(|(name, notes)| ((*name).to_owned(), member(notes))).collect()
}

#[test]
fn a_note_is_read_back_as_it_was_written() {
    let written = Note { host: "quo\"te\\ \u{1F}".to_owned(), ..note(3, 99) };
    let line = written.line(&id("abc"));
    let point = wire::line::read(&line).unwrap();
    let field = point.fields.into_iter().next().unwrap();
    let wire::line::Value::String(text) = field.value else { panic!("{field:?}") };
    let text = String::from_utf8(wire::line::unescape_string(text).into_owned()).unwrap();
    let series = serde_json::json!({ "tags": { "gateway": "abc" }, "values": [[0, null, text]] });
    assert_eq!(read_note(&series), Some((id("abc"), written)));
    let later = serde_json::json!({ "tags": { "gateway": "abc" }, "values": [[0, null, "{}"]] });
    assert_eq!(read_note(&later), None);
}

#[test]
fn a_gateways_own_last_note_tells_whether_the_member_and_the_journal_are_of_now() {
    let dir = tempfile::tempdir().unwrap();
    let before = Identity::begin(dir.path()).unwrap();
    let own = Identity::begin(dir.path()).unwrap();
    assert_eq!(own.id(), before.id());
    let place = |cursor| JournalPlace { cursor, given_up: 0, end: 100, noted: Some(DISK) };
    let judge = |note: Option<Note>, place| own.judge(note.as_ref(), Some(DISK), place);
    let of = |run: u64, position| Some(Note { run, ..note(1, position) });
    // All that was settled is there; a note may be ahead of the cursor.
    for run in [own.run(), before.run()] {
        assert_eq!(judge(of(run, 50), place(50)), NoteVerdict::Right);
        assert_eq!(judge(of(run, 51), place(50)), NoteVerdict::Right);
        assert_eq!(judge(of(run, 49), place(50)), NoteVerdict::PutBack);
        assert_eq!(judge(of(run, 101), place(50)), NoteVerdict::TakenTwice);
    }
    // Somebody else writes by the name.
    assert_eq!(judge(of(own.run() ^ 1, 50), place(50)), NoteVerdict::TakenTwice);
    // What the journal gave up moved the cursor without a note.
    let given_up = JournalPlace { given_up: 3, ..place(60) };
    assert_eq!(judge(of(own.run(), 50), given_up), NoteVerdict::Right);
    // A disk that had a note lacks it; another disk never had one.
    assert_eq!(judge(None, place(50)), NoteVerdict::PutBack);
    let other = JournalPlace { noted: Some(DiskNumber { count: 0, ..DISK }), ..place(50) };
    assert_eq!(judge(None, other), NoteVerdict::Right);
    assert_eq!(judge(None, JournalPlace { noted: None, ..place(50) }), NoteVerdict::Right);
    let forgotten = with(note(1, 50), |of| of.state = GatewayState::Forgotten);
    assert_eq!(judge(Some(forgotten), place(50)), NoteVerdict::Forgotten);
    // By another name it has no notes yet.
    let noted = own.clone().with_noted("a", DISK).unwrap();
    assert_eq!(noted.noted("a"), Some(DISK));
    let renamed = noted.renamed().unwrap();
    assert!(renamed.id() != own.id() && renamed.noted("a").is_none());
    assert_eq!(Identity::begin(dir.path()).unwrap().id(), renamed.id());
}

#[test]
fn a_member_lags_by_what_the_best_of_its_set_has_and_it_has_not() {
    let (mut written, _) = written("[[placement]]\nsets = [\"a\", \"b\"]\n", &["a", "b"]);
    written.sets[0].members = vec!["a1".to_owned(), "a2".to_owned()];
    let members = vec!["c1".to_owned(), "c2".to_owned()];
    written.sets.push(SetSettings { name: "c".to_owned(), members });
    let lacking = with(note(1, 100), |of| of.lacks = 5);
    let more = with(note(1, 90), |of| of.lacks = 2);
    let other = note(1, 40);
    let gone = with(note(1, 900), |of| of.state = GatewayState::Forgotten);
    let heard = notes(&[
        ("a1", &[("g1", &lacking), ("g2", &other), ("g3", &gone)]),
        ("a2", &[("g1", &more), ("g2", &other)]),
        ("b", &[("g1", &note(1, 7))]),
        ("c1", &[("g1", &other)]),
        ("c2", &[]),
    ]);
    let lags: BTreeMap<_, _> = written.sets.iter().flat_map(|set| lags(set, &heard)).collect();
    let lag = |member: &str| (lags[member].behind.as_secs(), lags[member].lacks);
    assert_eq!(lag("a1"), (0, 3), "it lacks what the other has");
    assert_eq!(lag("a2"), (10, 0));
    assert_eq!(lag("b"), (0, 0), "a set of one has no better member");
    assert_eq!(["a2", "c1", "c2"].map(|member| lags[member].is_unknown), [false, false, true]);
}

#[test]
fn a_statement_waits_for_what_every_gateway_had_accepted_before_it() {
    let still = note(5, 50);
    let before = notes(&[("a", &[("g1", &still), ("me", &still)]), ("b", &[("g1", &still)])]);
    let order = || StatementOrder::new(Some(id("me")), before.clone());
    let mut waiting = order();
    let look = |of: &mut StatementOrder, a: &Note, b: &Note| {
        of.look(&notes(&[("a", &[("g1", a)]), ("b", &[("g1", b)])])).join("; ")
    };
    assert!(look(&mut waiting, &still, &still).contains("g1 on gw, which writes no notes"));
    // One more may have been begun before the statement came.
    assert!(look(&mut waiting, &note(6, 60), &note(6, 60)).contains("writes no notes"));
    let ahead = with(note(7, 70), |of| of.end = 80);
    assert!(look(&mut waiting, &ahead, &note(6, 60)).contains("which has points for a, b"));
    // Its journal grows on; what matters is where it ended then.
    let further = with(note(9, 80), |of| of.end = 999);
    assert!(look(&mut waiting, &further, &note(6, 60)).contains("which has points for b"));
    assert_eq!(look(&mut waiting, &further, &further), "");
    // It was started anew.
    let anew = |count| Note { run: 2, ..note(count, 90) };
    assert!(look(&mut order(), &anew(1), &anew(1)).contains("no notes"));
    assert_eq!(look(&mut order(), &anew(2), &anew(2)), "");
    // One that has ended with everything brought, or was forgotten, is not waited for.
    let ended = with(still.clone(), |of| of.state = GatewayState::Ended);
    assert_eq!(look(&mut order(), &ended, &ended), "");
    let with_points = with(ended.clone(), |of| of.end = 51);
    assert!(look(&mut order(), &ended, &with_points).contains("no notes"));
    let forgotten = with(with_points, |of| of.state = GatewayState::Forgotten);
    assert_eq!(look(&mut order(), &forgotten, &forgotten), "");
    // This gateway knows its own deliveries.
    assert!(order().look(&notes(&[("a", &[("me", &still)])])).is_empty());
}
