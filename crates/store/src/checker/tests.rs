mod orders;

use super::{Basis, Checker, LOOKUPS_AT_ONCE_MAX, Undecided};
use crate::catalogue::Ids;
use crate::testing::TestStore;
use wire::line::{MarkKey, Marks, Removal};

fn checker(test: &TestStore) -> MarkingChecker {
    MarkingChecker { key: MarkKey::default(), checker: Checker::new(test.store.clone()) }
}

/// A checker of lines that nobody has marked yet.
struct MarkingChecker {
    key: MarkKey,
    checker: Checker,
}

impl MarkingChecker {
    fn check(
        &mut self,
        ids: Ids,
        lines: &mut Vec<u8>,
        now_ns: i64,
        lookups_max: usize,
    ) -> Result<CheckedLines, Undecided> {
        let marks = Marks::of(self.key.clone(), lines);
        let checked = self.checker.check(ids, lines, &marks, now_ns, lookups_max)?;
        Removal::from(lines, &marks, &checked.refused);
        let dropped = checked.refused.len();
        let kept = marks.len() - dropped;
        Ok(CheckedLines { kept, dropped, reason: checked.reason, basis: checked.basis })
    }
}

/// What came of a check whose refused points were taken out of their lines.
#[derive(Debug, PartialEq)]
struct CheckedLines {
    kept: usize,
    dropped: usize,
    reason: Option<String>,
    basis: Basis,
}

fn check(
    test: &TestStore,
    checker: &mut MarkingChecker,
    lines: &str,
) -> Result<CheckedLines, Undecided> {
    let ids = test.store.catalogue().resolve("db", "").unwrap().ids;
    checker.check(ids, &mut lines.as_bytes().to_vec(), 0, usize::MAX)
}

/// Everything that was appended has been applied.
fn settle(test: &TestStore) {
    let line = test.store.begin_settling();
    assert!(test.store.is_released(line));
    test.store.settle(line);
}

#[test]
fn a_write_that_is_not_appended_leaves_its_types_to_others() {
    let test = TestStore::new();
    let (mut one, mut other) = (checker(&test), checker(&test));
    assert_eq!(check(&test, &mut one, "m f=1,g=t 1\n").unwrap().kept, 1);
    let waits = check(&test, &mut other, "m f=1i 1\n");
    assert!(matches!(waits, Err(Undecided::Promised(_))), "{waits:?}");
    settle(&test);
    assert_eq!(check(&test, &mut other, "m f=1i,g=1 1\n").unwrap().kept, 1);
}

#[test]
fn a_statement_voids_types_at_its_own_place_in_the_journal() {
    let test = TestStore::with("m f=1 1\n");
    let (mut one, mut other) = (checker(&test), checker(&test));
    let before = check(&test, &mut one, "m f=2 2\n").unwrap();
    assert!(test.store.stands(&before.basis));
    test.run("DROP MEASUREMENT m").unwrap();
    assert!(!test.store.stands(&before.basis), "it is checked again before it is appended");
    // It was appended behind the statement, before that was applied.
    assert!(check(&test, &mut other, "m f=1i 3\n").is_err());
    test.write("m f=2 2\n");
    let refused = check(&test, &mut other, "m f=1i 3\n").unwrap();
    assert_eq!((refused.kept, refused.dropped), (0, 1));
    // This time nothing was.
    test.run("DELETE FROM m").unwrap();
    settle(&test);
    assert_eq!(check(&test, &mut other, "m f=1i 3\n").unwrap().kept, 1);
}

#[test]
fn a_settling_waits_for_writes_under_way_and_those_that_come_later_look_again() {
    let test = TestStore::new();
    let (mut one, mut other) = (checker(&test), checker(&test));
    let quick = check(&test, &mut one, "m f=1 1\n").unwrap();
    let held = test.store.hold_promises();
    let line = test.store.begin_settling();
    assert!(!test.store.stands(&quick.basis));
    assert!(!test.store.is_released(line));
    drop(held);
    assert!(test.store.is_released(line));
    // Relied upon behind the line.
    assert_eq!(check(&test, &mut other, "m f=2 1\n").unwrap().kept, 1);
    test.store.settle(line);
    assert!(check(&test, &mut one, "m f=1i 1\n").is_err());
    settle(&test);
    assert_eq!(check(&test, &mut one, "m f=1i 1\n").unwrap().kept, 1);
    assert!(test.store.has_promises());
    test.write("m f=1i 1\n");
    settle(&test);
    assert!(!test.store.has_promises());
}

#[test]
fn a_write_knows_its_own_types() {
    let test = TestStore::new();
    let mut one = checker(&test);
    let checked = check(&test, &mut one, "m f=1 1\nm f=1i 2\nm g=1,h=1,g=t 3\nm g=1i 4\n");
    let checked = checked.unwrap();
    assert_eq!((checked.kept, checked.dropped), (2, 2));
}

#[test]
fn what_is_too_long_for_a_worker_is_left_to_others_whole() {
    let test = TestStore::new();
    let ids = test.store.catalogue().resolve("db", "").unwrap().ids;
    let fields: Vec<String> = (0..10_000).map(|n| format!("f{n}=1")).collect();
    let lines = format!("n f=1i 1\nm {} 1\n", fields.join(","));
    let mut checker = checker(&test);
    let mut bytes = lines.clone().into_bytes();
    let undecided = checker.check(ids, &mut bytes, 0, LOOKUPS_AT_ONCE_MAX);
    assert_eq!(undecided, Err(Undecided::TooLong));
    assert_eq!(bytes, lines.as_bytes());
    assert_eq!(checker.check(ids, &mut bytes, 0, usize::MAX).unwrap().kept, 2);
    test.write(&lines);
    let known = checker.check(ids, &mut bytes, 0, LOOKUPS_AT_ONCE_MAX);
    assert_eq!(known.unwrap().basis.number, None);
}

#[test]
fn a_measurement_that_expired_takes_another_type_also_after_a_crash() {
    use wire::influxql::ast::{PolicySpec, Statement};
    let test = TestStore::new();
    let (month, name) = (30 * 86_400_000_000_000, Some("autogen".to_owned()));
    test.write("m,h=a f=1 1\n");
    test.store.flush().unwrap();
    let policy = PolicySpec { name, duration_ns: Some(month), ..PolicySpec::default() };
    test.change(&Statement::AlterRetentionPolicy { db: "db".to_owned(), policy });
    assert_eq!(test.store.drop_expired(100 * month).unwrap(), 1);
    settle(&test);
    let mut checker = checker(&test);
    assert_eq!(check(&test, &mut checker, "m f=1i 1\n").unwrap().kept, 1);
    drop(checker);
    // Without what came after the flush, which the journal has: it is applied again.
    let test = test.reopened();
    test.write(&format!("m f=1i {}\n", 100 * month));
}

#[test]
fn a_type_once_claimed_stays() {
    let test = TestStore::new();
    let ids = test.store.catalogue().resolve("db", "").unwrap().ids;
    let (mut one, mut other) = (checker(&test), checker(&test));
    let mut lines = b"m f=1 1\nm g=1i,f=2 2\n".to_vec();
    let checked = one.check(ids, &mut lines, 0, usize::MAX).unwrap();
    assert_eq!((checked.kept, checked.dropped), (2, 0));
    test.write("m f=1 1\nm g=1i,f=2 2\n");
    let mut lines = b"m f=1i 1\nm f=3 2\nm h=1,g=t 3\nm f=4 4\nm k=1,k=1i 5\n".to_vec();
    let checked = other.check(ids, &mut lines, 0, usize::MAX).unwrap();
    assert_eq!((checked.kept, checked.dropped), (2, 3));
    assert_eq!(String::from_utf8_lossy(&lines), "m f=3 2\nm f=4 4\n");
    assert_eq!(
        checked.reason.unwrap(),
        "field type conflict: input field \"f\" on measurement \"m\" is type integer, \
         already exists as type float"
    );
    // What was refused has claimed nothing.
    let mut lines = b"m h=t 1\n".to_vec();
    assert_eq!(one.check(ids, &mut lines, 0, usize::MAX).unwrap().dropped, 0);
}

#[test]
fn what_is_applied_is_claimed() {
    let test = TestStore::with("m f=1 1\n");
    let ids = test.store.catalogue().resolve("db", "").unwrap().ids;
    let mut lines = b"m f=1i 1\n".to_vec();
    assert_eq!(checker(&test).check(ids, &mut lines, 0, usize::MAX).unwrap().dropped, 1);
    assert!(lines.is_empty());
}

#[test]
fn old_points_are_refused() {
    let test = TestStore::new();
    let hour = 3_600_000_000_000;
    let policy = wire::influxql::ast::PolicySpec {
        name: Some("short".to_owned()),
        duration_ns: Some(hour),
        ..Default::default()
    };
    let db = "db".to_owned();
    test.change(&wire::influxql::ast::Statement::CreateRetentionPolicy { db, policy });
    let ids = test.store.catalogue().resolve("db", "short").unwrap().ids;
    let mut lines = b"m f=1 1\nm f=1 7200000000000\n".to_vec();
    let checked = checker(&test).check(ids, &mut lines, 2 * hour, usize::MAX).unwrap();
    assert_eq!((checked.kept, checked.dropped), (1, 1));
    assert_eq!(checked.reason.unwrap(), "points beyond retention policy");
}
