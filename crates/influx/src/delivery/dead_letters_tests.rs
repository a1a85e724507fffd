use super::*;
use proptest::prelude::{any, proptest};

fn letter(position: u64, index: u32, line: &[u8]) -> Letter {
    Letter {
        id: Id { position, index },
        time_ns: 1_000 + position,
        db: "d".into(),
        rp: String::new(),
        reason: "field type conflict".into(),
        line: line.to_vec(),
    }
}

fn ids(dir: &Path) -> Vec<String> {
    read(dir, "a").unwrap().map(|letter| letter.unwrap().id.to_string()).collect()
}

proptest! {
    #[test]
    fn a_letter_comes_back_as_it_was_put(line in proptest::collection::vec(any::<u8>(), 0..40),
                                         reason in "\\PC{0,20}", rp in "\\PC{0,9}") {
        let dir = tempfile::tempdir().unwrap();
        let letter = Letter { reason, rp, ..letter(7, 3, &line) };
        let mut letters = DeadLetters::open(dir.path(), "a", 1 << 20, 0).unwrap();
        letters.append(std::slice::from_ref(&letter)).unwrap();
        let read: Vec<_> = read(dir.path(), "a").unwrap().map(Result::unwrap).collect();
        assert_eq!(read, [letter]);
    }

    #[test]
    fn ids_read_back(position in any::<u64>(), index in any::<u32>(), text in ".{0,9}") {
        let id = Id { position, index };
        assert_eq!(id.to_string().parse(), Ok(id));
        let _ = text.parse::<Id>();
    }
}

#[test]
fn a_point_that_comes_again_after_a_restart_is_kept_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut letters = DeadLetters::open(dir.path(), "a", 1 << 20, 0).unwrap();
    letters.append(&[letter(5, 0, b"x"), letter(6, 0, b"y")]).unwrap();
    letters.append(&[letter(6, 0, b"y")]).unwrap();
    let mut letters = DeadLetters::open(dir.path(), "a", 1 << 20, 6).unwrap();
    letters.append(&[letter(6, 0, b"y"), letter(6, 1, b"z")]).unwrap();
    assert_eq!(ids(dir.path()), ["5:0", "6:0", "6:1"]);
    letters.committed(7);
    assert!(letters.recent.is_empty());
}

#[test]
fn a_kill_at_any_step_tears_no_letter_and_keeps_what_was_acknowledged() {
    let run = |dir: &Path, faults: &disk::Faults| {
        let mut kept = 0;
        let _ = (|| {
            let disk = Disk::with(faults.clone());
            let mut letters = DeadLetters::open_on(disk.clone(), dir, "a", 1 << 20, 0)?;
            for position in 0..3 {
                letters.append(&[letter(position, 0, b"x"), letter(position, 1, b"y")])?;
                kept = 2 * (position as usize + 1);
            }
            let these = Selection::These([Id { position: 1, index: 0 }].into());
            drop_on(&disk, dir, "a", &these).inspect(|_| kept -= 1)
        })();
        kept
    };
    let (dir, faults) = (tempfile::tempdir().unwrap(), disk::Faults::counting());
    assert_eq!(run(dir.path(), &faults), 5);
    let steps = faults.steps();
    assert!(steps.len() > 12, "{steps:?}");
    for (step, loses_power) in (0..steps.len()).flat_map(|step| [(step, false), (step, true)]) {
        let (dir, faults) = (tempfile::tempdir().unwrap(), disk::Faults::counting());
        faults.die_at(step);
        let kept = run(dir.path(), &faults);
        if loses_power {
            faults.lose_power(|| false).unwrap();
        }
        let letters = DeadLetters::open(dir.path(), "a", 1 << 20, 0).unwrap();
        let there = letters.recent.len();
        // The letters at hand may be there as well, all of them or one; a drop may have happened.
        assert!(there + 1 >= kept && there <= kept + 2, "{}: {there} of {kept}", steps[step]);
        let damaged: u64 = list(dir.path()).unwrap().iter().map(|of| of.damaged).sum();
        assert_eq!(damaged, 0, "{}", steps[step]);
    }
}

#[test]
fn a_full_file_takes_nothing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut letters = DeadLetters::open(dir.path(), "a", 200, 0).unwrap();
    letters.append(&[letter(1, 0, b"x")]).unwrap();
    let full = letters.append(&[letter(2, 0, &[b'x'; 100])]).unwrap_err();
    assert!(matches!(full, LetterError::Full { max: 200, .. }), "{full}");
    assert_eq!(ids(dir.path()), ["1:0"]);
    drop(dir.path(), "a", &Selection::All).unwrap();
    letters.append(&[letter(2, 0, &[b'x'; 100])]).unwrap();
}

#[test]
fn more_letters_than_a_file_may_hold_get_through_it_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let mut letters = DeadLetters::open(dir.path(), "a", 200, 0).unwrap();
    let large = vec![b'x'; 500];
    let all = [letter(1, 0, b"x"), letter(2, 0, &large), letter(3, 0, b"x")];
    for (kept, done) in [("1:0", false), ("2:0", false), ("3:0", true)] {
        assert_eq!(letters.append(&all).is_ok(), done, "{kept}");
        assert_eq!(ids(dir.path()), [kept]);
        drop(dir.path(), "a", &Selection::All).unwrap();
    }
    letters.append(&all).unwrap();
    assert!(ids(dir.path()).is_empty(), "nothing is kept twice");
}

#[test]
fn a_torn_end_is_cut_and_a_damaged_line_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(dir.path(), "a");
    let mut letters = DeadLetters::open(dir.path(), "a", 1 << 20, 0).unwrap();
    letters.append(&[letter(1, 0, b"x")]).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"not a letter\n{\"position\":2,\"ind").unwrap();
    let mut letters = DeadLetters::open(dir.path(), "a", 1 << 20, 0).unwrap();
    letters.append(&[letter(2, 0, b"y")]).unwrap();
    assert_eq!(ids(dir.path()), ["1:0", "2:0"]);
    let summary = &list(dir.path()).unwrap()[0];
    assert_eq!((summary.letters, summary.damaged), (2, 1));
    assert_eq!((summary.oldest_ns, summary.newest_ns), (Some(1_001), Some(1_002)));
}

#[test]
fn a_file_that_is_one_torn_line_becomes_empty() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(file_of(dir.path(), "a"), vec![b'x'; 10_000]).unwrap();
    DeadLetters::open(dir.path(), "a", 1 << 20, 0).unwrap();
    assert_eq!(fs::metadata(file_of(dir.path(), "a")).unwrap().len(), 0);
}

#[test]
fn dropping_some_keeps_the_others_and_what_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let mut letters = DeadLetters::open(dir.path(), "a", 1 << 20, 0).unwrap();
    letters.append(&[letter(1, 0, b"x"), letter(1, 1, b"y"), letter(2, 0, b"z")]).unwrap();
    let mut file = OpenOptions::new().append(true).open(file_of(dir.path(), "a")).unwrap();
    file.write_all(b"damaged\n").unwrap();
    let these = Selection::These([Id { position: 1, index: 1 }].into());
    assert_eq!(drop(dir.path(), "a", &these).unwrap(), 1);
    assert_eq!(ids(dir.path()), ["1:0", "2:0"]);
    assert_eq!(list(dir.path()).unwrap()[0].damaged, 1);
    assert_eq!(drop(dir.path(), "a", &Selection::All).unwrap(), 2);
    assert_eq!(list(dir.path()).unwrap()[0].bytes, 0);
}

#[test]
fn dropping_leaves_the_file_to_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_of(dir.path(), "a");
    let mut letters = DeadLetters::open(dir.path(), "a", 1 << 20, 0).unwrap();
    letters.append(&[letter(1, 0, b"x"), letter(1, 1, b"y")]).unwrap();
    // Only root can give it away; for others it is their own, before and after.
    let _ = std::os::unix::fs::chown(&path, Some(12_345), Some(12_345));
    let owner = |path: &std::path::Path| fs::metadata(path).unwrap().uid();
    let before = owner(&path);
    drop(dir.path(), "a", &Selection::All).unwrap();
    assert_eq!(owner(&path), before);
}

#[test]
fn an_unknown_backend_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = drop(dir.path(), "b", &Selection::All).unwrap_err();
    assert!(error.to_string().contains("\"b\""), "{error}");
    assert!(list(&dir.path().join("none")).unwrap().is_empty());
}
