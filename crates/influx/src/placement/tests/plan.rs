//! What members are given so that a table comes in force.

use std::collections::BTreeMap;

use super::super::disk_number::DiskNumber;
use super::super::member::{MemberAnswer, MemberTable};
use super::super::read::begin_ns;
use super::super::tools::{FoundMember, Plan, PlanError};
use super::super::{MemberNotes, WrittenTable};
use super::agreement::{FIRST, LATER, file, on};
use super::{NOW_NS, TEN_S};

type FoundMembers = BTreeMap<String, FoundMember>;

fn found<const N: usize>(of: [(&str, Option<MemberTable>, bool); N]) -> FoundMembers {
    let member = |(name, table, has_points): (&str, Option<MemberTable>, bool)| {
        let answer = table.map_or(MemberAnswer::Nothing, |of| {
            MemberAnswer::Table(Box::new(of), MemberNotes::new())
        });
        (name.to_owned(), FoundMember { answer, has_points })
    };
    of.into_iter().map(member).collect()
}

fn plan(file: &WrittenTable, found: &FoundMembers) -> Result<Plan, PlanError> {
    Plan::of(file, found, (NOW_NS, TEN_S), || 99)
}

fn refusal(file: &WrittenTable, found: &FoundMembers) -> String {
    plan(file, found).unwrap_err().to_string()
}

#[test]
fn a_first_table_goes_to_all_members_and_draws_a_number_for_each_disk() {
    let one = file(&[FIRST]);
    let empty = found([("a", None, false), ("b", None, false)]);
    let first = plan(&one, &empty).unwrap();
    assert_eq!((first.new_members.len(), first.new_from_ns), (2, None));
    let a = &first.tables["a"];
    assert_eq!((a.member.as_str(), a.complete, &a.written), ("a", 0, &one));
    assert_eq!(a.disk(), Some(DiskNumber { count: 1, number: 99 }));
    assert_eq!(first.tables["b"].disks, a.disks);
    assert!(!first.is_done(&empty));
    // Killed behind the first of them: the other one's number is known already.
    let half = found([("a", Some(on("a", &one, 0)), false), ("b", None, false)]);
    let again = plan(&one, &half).unwrap();
    assert_eq!(again.new_members, ["b"]);
    assert_eq!(again.tables["b"].disks, on("b", &one, 0).disks);
    let whole = found([("a", Some(on("a", &one, 1)), true), ("b", Some(on("b", &one, 1)), false)]);
    assert!(plan(&one, &whole).unwrap().is_done(&whole));
}

#[test]
fn several_sets_begin_empty_and_a_lone_one_is_taken_as_it_is() {
    let has_points = found([("a", None, true), ("b", None, false)]);
    assert!(refusal(&file(&[FIRST]), &has_points).contains("begin with the one set"));
    let mut lone = file(&[FIRST]);
    lone.sets.truncate(1);
    plan(&lone, &found([("a", None, true)])).unwrap();
    // Another set comes later: it has no points, and its period is to come.
    let known = MemberTable { disks: BTreeMap::new(), ..on("a", &lone, 1) };
    let own = BTreeMap::from([("a".to_owned(), DiskNumber { count: 1, number: 7 })]);
    let known = || MemberTable { disks: own.clone(), ..known.clone() };
    let grown = file(&[FIRST, LATER]);
    let plan_of = plan(&grown, &found([("a", Some(known()), true), ("b", None, false)])).unwrap();
    assert_eq!(plan_of.new_from_ns, Some(begin_ns(&grown.placement[1])));
    assert_eq!(
        (plan_of.new_members.as_slice(), plan_of.tables["a"].complete),
        (&["b".into()][..], 1)
    );
    let used = found([("a", Some(known()), true), ("b", None, true)]);
    assert!(refusal(&grown, &used).contains("begins without any"));
    // One more member of a set that has points lacks them.
    let mut more = lone.clone();
    more.sets[0].members.push("b".to_owned());
    let late = found([("a", Some(known()), true), ("b", None, false)]);
    assert!(refusal(&more, &late).contains("lacks the points"));
    let early = found([("a", Some(known()), false), ("b", None, false)]);
    assert_eq!(plan(&more, &early).unwrap().new_members, ["b"]);
}

#[test]
fn what_could_have_points_lie_elsewhere_is_refused() {
    let (one, two) = (file(&[FIRST]), file(&[FIRST, LATER]));
    let both = |written: &WrittenTable, complete: usize| {
        let on = |name: &str| Some(on(name, written, complete));
        found([("a", on("a"), true), ("b", on("b"), true)])
    };
    let changed = file(&["[[placement]]\nsets = [\"b\"]\n"]);
    assert!(refusal(&changed, &both(&one, 1)).contains("stays as it is"));
    assert!(plan(&changed, &both(&one, 0)).is_err(), "they have points");
    let late = Plan::of(&two, &both(&one, 1), (begin_ns(&two.placement[1]), TEN_S), || 1);
    assert!(late.unwrap_err().to_string().contains("begins too early"));
    // It was looked at when it was begun.
    Plan::of(&two, &both(&two, 1), (begin_ns(&two.placement[1]), TEN_S), || 1).unwrap();
    // What is not complete may change.
    assert_eq!(plan(&one, &both(&two, 1)).unwrap().new_from_ns, None);
    assert!(refusal(&one, &both(&two, 2)).contains("stays as it is"));
}

#[test]
fn a_member_that_is_another_one_is_named() {
    let one = file(&[FIRST]);
    let with_a =
        |a: Option<MemberTable>| found([("a", a, true), ("b", Some(on("b", &one, 1)), true)]);
    let refusal = |a: Option<MemberTable>| refusal(&one, &with_a(a));
    assert!(refusal(Some(on("b", &one, 1))).contains("\"a\": its server is the member \"b\""));
    assert!(refusal(None).contains("its disk is another one"));
    let mut old = on("a", &one, 1);
    old.disks.insert("a".to_owned(), DiskNumber { count: 0, number: 3 });
    assert!(refusal(Some(old)).contains("a disk of before"));
    let mut other = on("a", &one, 1);
    other.written.cluster = "test".to_owned();
    assert!(refusal(Some(other)).contains("of the cluster \"test\""));
    let mut no_answer = with_a(None);
    no_answer.get_mut("a").unwrap().answer = MemberAnswer::Error("401".to_owned());
    assert!(super::plan::refusal(&one, &no_answer).contains("401"));
}
