//! A member that is rebuilt: how it is marked, when it can be filled, and what is copied.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::super::disk_number::DiskNumber;
use super::super::gateway::Unfit;
use super::super::member::{MemberAnswer, MemberTable};
use super::super::note::Note;
use super::super::tools::{RebuildMark, Slice, TimeSpan, awaited, read_groups, room, slices};
use super::super::{
    GatewayId, GatewayState, JournalPlace, MemberNotes, Placement, Progress, WrittenTable,
};
use super::agreement::{FIRST, LATER, file, on};
use super::{NOW_NS, TEN_S, backends, written};
use crate::catalogue::{Listing, Policies, Policy};

/// One set of the members a and c, and one of b.
fn pair() -> WrittenTable {
    let mut file = file(&[FIRST]);
    file.sets[0].members.push("c".to_owned());
    file
}

fn table(table: MemberTable) -> MemberAnswer {
    MemberAnswer::Table(Box::new(table), MemberNotes::new())
}

fn marked(
    file: &WrittenTable,
    answers: &[(&str, MemberAnswer)],
    has_points: bool,
) -> Result<RebuildMark, String> {
    let answers: BTreeMap<String, MemberAnswer> =
        answers.iter().map(|(name, answer)| ((*name).to_owned(), answer.clone())).collect();
    RebuildMark::of(file, &answers, ("a", has_points), || 99).map_err(|error| error.to_string())
}

#[test]
fn a_mark_gives_a_member_a_new_disk_that_all_know_and_is_taken_up_again() {
    let file = pair();
    let [a, b, c] = ["a", "b", "c"].map(|name| on(name, &file, 1));
    let others = [("b", table(b.clone())), ("c", table(c.clone()))];
    let with_a = |a: MemberAnswer| [&[("a", a)][..], &others].concat();
    let new = DiskNumber { count: 2, number: 99 };
    // Its disk is empty, or of before; others tell.
    for own in [MemberAnswer::Nothing, table(a.clone())] {
        let mark = marked(&file, &with_a(own), false).unwrap();
        assert_eq!((mark.disk, mark.is_resumed), (new, false));
        assert_eq!(mark.others, ["c"]);
        assert!(mark.tables.values().all(|table| table.disks["a"] == new));
        let flags: Vec<bool> = mark.tables.values().map(|table| table.rebuilding).collect();
        assert_eq!(flags, [true, false, false]);
        let in_force = mark.in_force().unwrap();
        assert!(!in_force.rebuilding && in_force.disk() == Some(new));
        // Killed behind the first of the tables, and run again.
        let again = with_a(table(mark.tables["a"].clone()));
        let again = marked(&file, &again, true).unwrap();
        assert!(again.is_resumed && again.tables == mark.tables);
        // It lost that disk, too.
        let known = mark.tables.iter().filter(|(name, _)| *name != "a");
        let known = known.map(|(name, of)| (name.as_str(), table(of.clone())));
        let lost: Vec<_> = known.chain([("a", MemberAnswer::Nothing)]).collect();
        assert_eq!(marked(&file, &lost, false).unwrap().disk.count, 3);
    }
    // One that does not answer is left out.
    let silent = MemberAnswer::Error("timeout".to_owned());
    let partly = [("a", MemberAnswer::Nothing), ("b", silent.clone()), ("c", table(c.clone()))];
    let mark = marked(&file, &partly, false).unwrap();
    assert_eq!(mark.tables.keys().collect::<Vec<_>>(), ["a", "c"]);
    // One more member of the set.
    let mut before = file.clone();
    before.sets[0].members = vec!["c".to_owned()];
    let known = |name: &str| {
        let mut known = on(name, &before, 1);
        known.disks.remove("a");
        table(known)
    };
    let mark =
        marked(&file, &[("a", MemberAnswer::Nothing), ("b", known("b")), ("c", known("c"))], false);
    assert_eq!(mark.unwrap().disk.count, 1);
}

#[test]
fn a_mark_is_refused_where_nobody_knows_what_is_right() {
    let file = pair();
    let [a, b, c] = ["a", "b", "c"].map(|name| table(on(name, &file, 1)));
    let others = [("b", b), ("c", c)];
    let refusal = |file: &WrittenTable, a: MemberAnswer, has_points: bool| {
        marked(file, &[&[("a", a)][..], &others].concat(), has_points).unwrap_err()
    };
    let nothing = || MemberAnswer::Nothing;
    assert!(refusal(&file, nothing(), true).contains("begin with an empty disk"));
    assert!(refusal(&file, MemberAnswer::Error("401".to_owned()), false).contains("401"));
    let other = table(on("c", &file, 1));
    assert!(refusal(&file, other, false).contains("its server is the member \"c\""));
    let mut strange = on("a", &file, 1);
    strange.written.cluster = "test".to_owned();
    assert!(refusal(&file, table(strange), false).contains("of the cluster \"test\""));
    let mut later = pair();
    later.placement = super::agreement::file(&[FIRST, LATER]).placement;
    assert!(refusal(&later, nothing(), false).contains("is not complete"));
    let mut more = pair();
    more.sets[1].members.push("z".to_owned());
    assert!(refusal(&more, nothing(), false).contains("has other sets than the file"));
    let mut gone = pair();
    gone.sets[0].members.remove(0);
    assert!(refusal(&gone, a, false).contains("in no [[influx.set]]"));
    let nobody = [("a", MemberAnswer::Nothing)];
    assert!(marked(&file, &nobody, false).unwrap_err().contains("weir placement apply"));
}

const DISK: DiskNumber = DiskNumber { count: 2, number: 99 };

fn note(position: u64, disk: Option<DiskNumber>) -> Note {
    let progress = Progress {
        position,
        end: position,
        whole_until: Duration::ZERO,
        lacks: 0,
        given_up: 0,
        state: GatewayState::Running,
    };
    Note { host: "gw".to_owned(), run: 1, count: 1, disk, progress }
}

fn notes(of: &[(&str, &[(&str, Note)])]) -> BTreeMap<String, MemberNotes> {
    let member = |notes: &[(&str, Note)]| {
        notes.iter().map(|(name, note)| (GatewayId::from(*name), note.clone())).collect()
    };
    of.iter().map(|(name, notes)| ((*name).to_owned(), member(notes))).collect()
}

#[test]
fn a_member_is_filled_once_all_gateways_hold_their_points_and_the_source_has_those_before() {
    let waits = |a: &[(&str, Note)], c: &[(&str, Note)]| {
        awaited(&notes(&[("a", a), ("c", c)]), ("a", DISK), "c").join("; ")
    };
    let (held, there) = (note(50, Some(DISK)), |position| note(position, None));
    assert_eq!(waits(&[("g", held.clone())], &[("g", there(50))]), "");
    assert_eq!(waits(&[("g", held.clone())], &[("g", there(80))]), "");
    assert!(waits(&[("g", held.clone())], &[("g", there(49))]).contains("has points for c"));
    assert!(waits(&[("g", held.clone())], &[]).contains("has points for c"));
    // A note of before the mark says nothing.
    let other = DiskNumber { count: 1, number: 7 };
    for of_before in [note(50, Some(other)), note(50, None)] {
        let words = waits(&[("g", of_before)], &[("g", there(50))]);
        assert!(words.contains("gateway g on gw, which has not seen"), "{words}");
    }
    let words = waits(&[("g", held.clone())], &[("g", there(50)), ("silent", there(9))]);
    assert!(words.starts_with("gateway silent on gw"), "{words}");
    let mut forgotten = there(9);
    forgotten.progress.state = GatewayState::Forgotten;
    assert_eq!(waits(&[("g", held)], &[("g", there(50)), ("silent", forgotten)]), "");
    assert_eq!(waits(&[], &[]), "", "nobody has written anything yet");
}

#[test]
fn it_is_said_how_long_a_journal_has_room_where_it_grows() {
    let at = |end| notes(&[("c", &[("g", note(end, None))])]);
    let said = room((&at(0), &at(10 << 20)), Duration::from_secs(10), 3600 << 20);
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("gw grows by 1.0 MiB a second"), "{said:?}");
    assert!(room((&at(7), &at(7)), Duration::from_secs(10), 1 << 30).is_empty());
}

#[test]
fn what_is_copied_goes_by_shard_groups_in_order_and_leaves_out_what_is_dropped_soon() {
    let answer = json!({ "results": [{ "series": [{
        "columns": ["id", "database", "retention_policy", "start_time", "end_time", "expiry_time"],
        "values": [
            [2, "db", "kept", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z",
             "2026-11-30T00:00:00Z"],
            [1, "db", "kept", "1677-09-01T00:00:00Z", "2026-11-23T00:00:00Z",
             "2026-11-23T00:00:00Z"],
            [3, "db", "short", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z",
             "2026-12-02T00:00:00Z"],
            [4, "db", "short", "2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z",
             "2026-12-03T00:00:00Z"],
            [5, "_internal", "monitor", "2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z",
             "2026-12-03T00:00:00Z"],
        ],
    }] }] });
    let groups = read_groups(&answer);
    assert_eq!(groups.len(), 5);
    let policy = |duration: &str| Policy { duration: duration.to_owned(), ..Policy::default() };
    let policies = BTreeMap::from([
        ("kept".to_owned(), policy("0s")),
        ("short".to_owned(), policy("24h0m0s")),
    ]);
    let policies = Policies { default: "kept".to_owned(), policies };
    let listing = Listing { databases: BTreeMap::from([("db".to_owned(), policies)]) };
    let names = vec!["n".to_owned(), "m".to_owned()];
    let measurements = BTreeMap::from([("db".to_owned(), names)]);
    let of = |groups: &[_], span: TimeSpan| -> Vec<String> {
        let slices: Vec<Slice> = slices(&listing, &measurements, groups, (span, NOW_NS));
        slices.iter().map(Slice::source).collect()
    };
    let all = of(&groups, TimeSpan::ALL);
    let week = "time >= 1795392000000000000 AND time < 1795996800000000000";
    assert_eq!(
        all,
        [
            "FROM \"db\".\"kept\".\"m\" WHERE time < 1795392000000000000".to_owned(),
            "FROM \"db\".\"kept\".\"n\" WHERE time < 1795392000000000000".to_owned(),
            format!("FROM \"db\".\"kept\".\"m\" WHERE {week}"),
            format!("FROM \"db\".\"kept\".\"n\" WHERE {week}"),
            "FROM \"db\".\"short\".\"m\" WHERE time >= 1796083200000000000 AND time < \
             1796169600000000000"
                .to_owned(),
            "FROM \"db\".\"short\".\"n\" WHERE time >= 1796083200000000000 AND time < \
             1796169600000000000"
                .to_owned(),
        ]
    );
    let hour = TimeSpan { from_ns: 1_795_400_000_000_000_000, to_ns: 1_795_400_000_000_000_001 };
    let bounds = "WHERE time >= 1795400000000000000 AND time < 1795400000000000001";
    assert_eq!(
        of(&groups, hour),
        ["m", "n"].map(|name| { format!("FROM \"db\".\"kept\".\"{name}\" {bounds}") })
    );
    // A Weir lists none, and drops what is older than a policy keeps it.
    let all = of(&[], TimeSpan::ALL);
    assert_eq!(all[0], "FROM \"db\".\"kept\".\"m\"");
    assert_eq!(all[2], format!("FROM \"db\".\"short\".\"m\" WHERE time >= {NOW_NS}"));
}

#[test]
fn a_member_that_is_rebuilt_is_given_notes_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let placement = Placement::new(dir.path());
    let (wanted, settings) = written("[[placement]]\nsets = [\"a\", \"b\"]\n", &["a", "b"]);
    let table = wanted.table(&backends(&settings)).unwrap();
    let prepared =
        super::super::PreparedTable { written: wanted.clone(), table, check_interval: TEN_S };
    let checked = placement.check(Some(prepared), &["a", "b"]).unwrap();
    placement.put_in_force(checked);
    let (own, _) = placement.notes().heard();
    let own = own.unwrap();
    let place = JournalPlace { cursor: 60, given_up: 0, end: 100, noted: None };
    let asked = Instant::now();
    let hear = |asked: Instant, table: MemberTable, note: Option<Note>| {
        let notes = note.map(|note| (own.clone(), note)).into_iter().collect();
        let answer = MemberAnswer::Table(Box::new(table), notes);
        placement.hear("a", (asked, place), answer).unwrap().fit()
    };
    let mine = |position| {
        let line = placement.notes().next("a", note(position, None).progress).unwrap().line;
        let line = String::from_utf8(line).unwrap();
        let run = line.split("run\\\":").nth(1).unwrap().split(',').next().unwrap();
        Some(Note { run: run.parse().unwrap(), ..note(position, None) })
    };
    // A disk of yesterday.
    let words = hear(asked, on("a", &wanted, 1), mine(20)).unwrap_err();
    assert!(words.contains("put back") && words.contains("weir placement rebuild"), "{words}");
    assert!(placement.is_fit_for_notes("a").is_err() && !placement.is_rebuilding("a"));
    let mark = MemberTable { rebuilding: true, ..on("a", &wanted, 1) };
    let words = hear(Instant::now(), mark.clone(), mine(20)).unwrap_err();
    assert!(words.contains("is being rebuilt"), "{words}");
    assert!(matches!(placement.is_fit("a"), Err(Unfit::Differs(_))));
    assert!(placement.is_fit_for_notes("a").is_ok() && placement.is_rebuilding("a"));
    let line = placement.notes().next("a", note(60, None).progress).unwrap().line;
    assert!(String::from_utf8(line).unwrap().contains("\\\"disk\\\":{\\\"count\\\":1"));
    // An answer that was overtaken changes nothing.
    hear(asked, on("a", &wanted, 1), mine(60)).unwrap_err();
    assert!(placement.is_rebuilding("a"));
    hear(Instant::now(), on("a", &wanted, 1), mine(60)).unwrap();
    assert!(placement.is_fit("a").is_ok() && !placement.is_rebuilding("a"));
}

#[test]
fn what_another_member_has_in_other_shard_groups_is_not_taken_for_copied() {
    let slice = |policy: &str, (from_ns, to_ns): (i64, i64), measurement: &str| Slice {
        db: "db".to_owned(),
        policy: policy.to_owned(),
        span: TimeSpan { from_ns, to_ns },
        measurement: measurement.to_owned(),
    };
    let last = slice("p", (10, 20), "m");
    let is_copied = |of: Slice| of.is_copied_with(&last);
    assert!(is_copied(last.clone()));
    for copied in [
        slice("a", (90, 99), "z"),
        slice("p", (0, 10), "z"),
        slice("p", (i64::MIN, 10), "z"),
        slice("p", (10, 20), "a"),
        slice("p", (12, 20), "m"),
    ] {
        assert!(is_copied(copied.clone()), "{copied:?}");
    }
    for left in [
        slice("q", (0, 10), "a"),
        slice("p", (10, 20), "n"),
        slice("p", (20, 30), "a"),
        // It is before the last one in the order of slices, and reaches into what is to come.
        slice("p", (5, 15), "n"),
        slice("p", (5, 15), "a"),
        slice("p", (0, 40), "m"),
        slice("p", (10, 21), "m"),
    ] {
        assert!(!is_copied(left.clone()), "{left:?}");
    }
}
