//! What a gateway's file and its members' tables agree on, and what is in force by that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::agreement::{Agreement, MemberTables, check_member};
use super::super::disk_number::DiskNumber;
use super::super::gateway::{CheckedTable, PreparedTable, Unfit};
use super::super::member::{MemberAnswer, MemberTable};
use super::super::own::Membership;
use super::super::read::begin_ns;
use super::super::{JournalPlace, MemberNotes, Placement, PlacementError, WrittenTable};
use super::{HOUR_NS, NOW_NS, TEN_S, backends, written};

pub const FIRST: &str = "[[placement]]\nsets = [\"a\"]\n";
pub const LATER: &str = "[[placement]]\nfrom = \"2027-01-01T00:00:00Z\"\nsets = [\"a\", \"b\"]\n";
const OTHER: &str = "[[placement]]\nfrom = \"2027-02-01T00:00:00Z\"\nsets = [\"b\"]\n";

/// These sets of one member each, with the periods of these texts.
pub fn file(periods: &[&str]) -> WrittenTable {
    written(&periods.concat(), &["a", "b"]).0
}

/// What stands on a member of these sets.
pub fn on(member: &str, written: &WrittenTable, complete: usize) -> MemberTable {
    let disk = |number| DiskNumber { count: 1, number };
    let disks = BTreeMap::from([("a".to_owned(), disk(7)), ("b".to_owned(), disk(8))]);
    let (member, written) = (member.to_owned(), written.clone());
    MemberTable { member, complete, disks, rebuilding: false, written }
}

fn tables(of: impl IntoIterator<Item = MemberTable>) -> MemberTables {
    of.into_iter().map(|table| (table.member.clone(), table)).collect()
}

fn between(file: &WrittenTable, of: impl IntoIterator<Item = MemberTable>) -> Agreement {
    Agreement::between(file, &tables(of), usize::MAX)
}

#[test]
fn points_wait_from_the_first_period_on_that_is_not_complete_everywhere() {
    let (one, two) = (file(&[FIRST]), file(&[FIRST, LATER]));
    let later = begin_ns(&two.placement[1]);
    // Nobody has it: everything waits.
    let nothing = between(&one, []);
    assert_eq!((nothing.periods, nothing.waits_from_ns), (0, Some(i64::MIN)));
    assert!(nothing.awaited.unwrap().contains("weir placement apply"));
    let pending = between(&one, [on("a", &one, 0), on("b", &one, 0)]);
    assert_eq!((pending.periods, pending.waits_from_ns), (0, Some(i64::MIN)));
    let all = between(&one, [on("a", &one, 1), on("b", &one, 1)]);
    assert_eq!(all, Agreement { periods: 1, ..Agreement::default() });
    // The file is ahead of the members; then they have it, not complete; then one says so.
    for (members, periods) in [((1, &one), 1), ((1, &two), 1), ((2, &two), 2)] {
        let (complete, written) = members;
        let agreed = between(&two, [on("a", written, complete), on("b", written, 1)]);
        assert_eq!(agreed.periods, periods);
        assert_eq!(agreed.waits_from_ns, (periods == 1).then_some(later));
        assert_eq!(agreed.unknown_from_ns, None);
    }
    // The members are ahead of the file; once it is complete, what reaches it is refused.
    for complete in [1, 2] {
        let agreed = between(&one, [on("a", &two, complete), on("b", &two, complete)]);
        assert_eq!((agreed.periods, agreed.waits_from_ns), (1, Some(later)));
        assert_eq!(agreed.unknown_from_ns, (complete == 2).then_some(later));
        assert!(agreed.awaited.unwrap().contains("the file lacks"));
    }
    // What was not complete may be another one there.
    let other = file(&[FIRST, OTHER]);
    let agreed = between(&other, [on("a", &two, 1), on("b", &two, 1)]);
    assert_eq!((agreed.periods, agreed.waits_from_ns), (1, Some(later)));
}

#[test]
fn a_member_is_used_only_with_its_own_name_disk_and_periods() {
    let (one, two) = (file(&[FIRST]), file(&[FIRST, LATER]));
    let words = |file: &WrittenTable, a: Option<MemberTable>, b: MemberTable| {
        let mut tables = MemberTables::from([("b".to_owned(), b)]);
        tables.extend(a.map(|a| ("a".to_owned(), a)));
        check_member(file, &tables, "a").map_or_else(|words| words, |_| String::new())
    };
    let (a, b) = (|| on("a", &one, 1), || on("b", &one, 1));
    assert_eq!(words(&one, Some(a()), b()), "");
    assert!(words(&one, None, b()).contains("no table yet"));
    // The URLs of two members are swapped.
    assert!(words(&one, Some(b()), a()).contains("is the member \"b\""));
    let mut other = a();
    other.written.cluster = "test".to_owned();
    assert!(words(&one, Some(other), b()).contains("of the cluster \"test\""));
    // Another member knows a disk that came after this one.
    let mut newer = b();
    newer.disks.insert("a".to_owned(), DiskNumber { count: 2, number: 1 });
    assert!(words(&one, Some(a()), newer).contains("a disk of before"));
    let mut more = one.clone();
    more.sets[0].members = vec!["z".to_owned()];
    assert!(words(&more, Some(a()), b()).contains("set \"a\" has the members"));
    more.sets[0].members = vec!["a".to_owned(), "z".to_owned()];
    assert_eq!(words(&more, Some(a()), b()), "", "one is to come");
    // Periods may differ at the end, and where they are not complete.
    let changed = file(&[FIRST, OTHER]);
    assert_eq!(words(&changed, Some(on("a", &two, 1)), b()), "");
    assert!(words(&changed, Some(on("a", &two, 2)), b()).contains("stays as it is"));
}

#[test]
fn a_table_is_read_back_as_it_was_put_there() {
    let mut table = on("a", &file(&[FIRST, LATER]), 1);
    table.written.cluster = "quo\"te\\ \u{1F}".to_owned();
    let line = table.line();
    let point = wire::line::read(&line).unwrap();
    let field = point.fields.into_iter().next().unwrap();
    let wire::line::Value::String(text) = field.value else { panic!("{field:?}") };
    let text = String::from_utf8(wire::line::unescape_string(text).into_owned()).unwrap();
    let series = serde_json::json!([{ "name": "placement", "values": [[0, text]] }]);
    let answer = serde_json::json!({ "results": [{ "series": series }] });
    let read = |answer: &str| MemberAnswer::read(200, answer.as_bytes());
    assert_eq!(read(&answer.to_string()), MemberAnswer::Table(Box::new(table), MemberNotes::new()));
    for nothing in [
        r#"{"results":[{"statement_id":0}]}"#,
        r#"{"results":[{"statement_id":0,"error":"database not found: _weir"}]}"#,
    ] {
        assert_eq!(read(nothing), MemberAnswer::Nothing, "{nothing}");
    }
    for error in [
        "no JSON",
        "{}",
        r#"{"error":"unable to parse authentication credentials"}"#,
        r#"{"results":[{"series":[{"name":"placement","values":[[0,"{}"]]}]}]}"#,
    ] {
        assert!(matches!(read(error), MemberAnswer::Error(_)), "{error}");
    }
}

/// A gateway with a directory of its own.
struct Gateway {
    placement: Arc<Placement>,
    dir: tempfile::TempDir,
}

impl Gateway {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { placement: Arc::new(Placement::new(dir.path())), dir }
    }

    fn check(&self, file: &str) -> Result<CheckedTable, PlacementError> {
        let (written, settings) = written(file, &["a", "b"]);
        let table = written.table(&backends(&settings))?;
        let check_interval = Duration::from_secs(3600);
        self.placement.check(Some(PreparedTable { written, table, check_interval }), &["a", "b"])
    }

    fn put(&self, file: &str) {
        self.placement.put_in_force(self.check(file).unwrap());
    }

    fn hear(&self, table: MemberTable) {
        let member = table.member.clone();
        let answer = MemberAnswer::Table(Box::new(table), MemberNotes::new());
        let asked = (Instant::now(), JournalPlace::default());
        self.placement.hear(&member, asked, answer).unwrap().fit().unwrap();
    }

    fn periods(&self) -> usize {
        self.placement.in_force().unwrap().periods.len()
    }
}

#[test]
fn what_is_agreed_on_is_kept_before_it_is_in_force_and_stays() {
    let gateway = Gateway::new();
    let both = [FIRST, LATER].concat();
    gateway.put(&both);
    assert_eq!(gateway.periods(), 0);
    let (one, two) = (file(&[FIRST]), file(&[FIRST, LATER]));
    gateway.hear(on("a", &one, 1));
    assert_eq!(gateway.periods(), 0, "it is not kept yet");
    gateway.placement.keep_agreed().unwrap();
    assert_eq!(gateway.periods(), 1);
    // What has to wait waits at once.
    gateway.hear(on("a", &two, 1));
    assert!(gateway.placement.in_force().unwrap().holds_back(begin_ns(&two.placement[1])));
    gateway.hear(on("a", &two, 2));
    gateway.placement.keep_agreed().unwrap();
    assert_eq!(gateway.periods(), 2);
    // A member that lags behind the others takes nothing back.
    gateway.hear(on("a", &one, 1));
    assert_eq!(gateway.periods(), 1);
    gateway.placement.keep_agreed().unwrap();
    gateway.hear(on("a", &two, 2));
    assert_eq!(gateway.periods(), 2);
    // Another start knows it, and refuses what does not keep it.
    let again = Gateway { placement: Arc::new(Placement::new(gateway.dir.path())), ..gateway };
    let error = again.check(FIRST).unwrap_err().to_string();
    assert!(error.contains("stays as it is"), "{error}");
    let error = again.placement.check(None, &[]).unwrap_err().to_string();
    assert!(error.contains("cluster \"c\"") && error.contains("put its tables back"), "{error}");
    again.put(&both);
    assert_eq!(again.periods(), 0, "no member has said anything yet");
    again.hear(on("b", &two, 2));
    assert_eq!(again.periods(), 2);
    std::fs::write(again.dir.path().join("placement.json"), "{").unwrap();
    assert!(again.check(&both).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn a_member_takes_its_own_lines_as_far_as_all_agree() {
    let gateway = Gateway::new();
    let placement = &gateway.placement;
    let mut copy = Membership::new(placement, "copy");
    assert!(copy.own().is_none() && copy.has("d", b"m v=1 1\n"));
    let mut member = Membership::new(placement, "a");
    assert!(member.own().is_none());
    gateway.put("[[placement]]\nsets = [\"a\", \"b\"]");
    assert!(!member.table().is_current() && copy.table().is_current());
    copy.renew();
    member.renew();
    assert!(copy.own().is_none() && placement.is_fit("copy").is_ok());
    assert!(member.own().unwrap().among(0, "d", b"m v=1 1\n").is_none(), "nothing is in force");
    assert_eq!(placement.is_fit("a"), Err(Unfit::NotRead));
    assert!(member.table().awaited().contains("weir placement apply"));
    let (table, _) = written("[[placement]]\nsets = [\"a\", \"b\"]", &["a", "b"]);
    let long_ago = Instant::now().checked_sub(Duration::from_secs(3601)).unwrap();
    let answer = MemberAnswer::Table(Box::new(on("a", &table, 1)), MemberNotes::new());
    let asked = (long_ago, JournalPlace::default());
    placement.hear("a", asked, answer).unwrap().fit().unwrap();
    assert_eq!(placement.is_fit("a"), Err(Unfit::NotRead));
    gateway.hear(on("a", &table, 1));
    placement.keep_agreed().unwrap();
    member.renew();
    let own = (0..100).filter(|n| member.has("d", format!("m,x={n} v=1 1\n").as_bytes())).count();
    assert!((30..70).contains(&own), "{own}");
    assert!(placement.is_fit("a").is_ok());
}

#[test]
fn a_table_keeps_what_is_in_force() {
    let before = file(&[FIRST]);
    let error = |table: &WrittenTable, before: &WrittenTable, configured: &[&str]| {
        table.keeps(before, configured).map_or_else(|error| error.to_string(), |()| String::new())
    };
    assert_eq!(error(&file(&[FIRST, LATER]), &before, &["a", "b"]), "");
    let changed = file(&["[[placement]]\nsets = [\"a\"]\nspan = \"1d\"\n"]);
    assert!(error(&changed, &before, &[]).contains("stays as it is"));
    let renamed = WrittenTable { cluster: "other".to_owned(), ..before.clone() };
    assert!(error(&renamed, &before, &[]).contains("keeps its name"));
    // A member leaves: it is no backend any more.
    let mut more = before.clone();
    more.sets[0].members.push("z".to_owned());
    assert_eq!(error(&before, &more, &["a"]), "");
    assert!(error(&before, &more, &["a", "z"]).contains("backend \"z\""));
}

#[test]
fn a_period_begins_behind_whatever_any_period_let_be_taken() {
    let two = file(&[FIRST, LATER]);
    two.may_be_added(1, NOW_NS, TEN_S).unwrap();
    two.may_be_added(0, NOW_NS + 31 * 24 * HOUR_NS, TEN_S).unwrap();
    two.may_be_added(2, NOW_NS + 31 * 24 * HOUR_NS, TEN_S).unwrap();
    let early = two.may_be_added(1, NOW_NS + 31 * 24 * HOUR_NS, TEN_S).unwrap_err().to_string();
    assert!(early.contains("from 2027-01-02T00:01:00Z on is late enough"), "{early}");
    // What lets points lie far ahead need not be the last period.
    let far = format!("{FIRST}future-max = \"90d\"\n");
    let error = file(&[&far, LATER, OTHER]).may_be_added(2, NOW_NS, TEN_S).unwrap_err().to_string();
    assert!(error.contains("begins too early"), "{error}");
}

#[test]
fn a_server_is_judged_by_its_own_answer_though_another_one_answered_later() {
    let gateway = Gateway::new();
    gateway.put("[[placement]]\nsets = [\"a\", \"b\"]");
    let (table, _) = written("[[placement]]\nsets = [\"a\", \"b\"]", &["a", "b"]);
    let placement = &gateway.placement;
    // A connection to the server of before the URLs were swapped answers last.
    let early = (Instant::now(), JournalPlace::default());
    gateway.hear(on("b", &table, 1));
    gateway.hear(on("a", &table, 1));
    let others = || MemberAnswer::Table(Box::new(on("b", &table, 1)), MemberNotes::new());
    for (answer, why) in [
        (others(), "is the member \"b\""),
        (MemberAnswer::Nothing, "no table yet"),
        (MemberAnswer::Error("no right".to_owned()), "can't be read: no right"),
    ] {
        let heard = placement.hear("a", early, answer).unwrap();
        assert!(heard.fit().unwrap_err().contains(why), "{why}");
        assert!(heard.fit_for_notes().unwrap_err().contains(why), "{why}");
        assert!(placement.is_fit("a").is_ok(), "what was heard last holds: {why}");
    }
    let own = MemberAnswer::Table(Box::new(on("a", &table, 1)), MemberNotes::new());
    placement.hear("a", early, own).unwrap().fit().unwrap();
}
