use proptest::prelude::*;
use wire::resp::{CommandFrame, Commands, Limits, put_command};

use super::*;

fn keys(line: &str) -> Result<Vec<String>, Wrong> {
    let mut bytes = Vec::new();
    let words: Vec<&str> = line.split(' ').collect();
    put_command(&mut bytes, words.iter());
    let mut commands = Commands::default();
    assert!(matches!(commands.cut(&bytes, &Limits::default()), Ok(CommandFrame::Command(_))));
    let command = commands.command(&bytes);
    let spec = find(command.name()).expect("it is in the list");
    let of = |at: usize| String::from_utf8_lossy(command.get(at).unwrap()).into_owned();
    spec.keys_of(&command).map(|positions| positions.iter().map(of).collect())
}

#[test]
fn keys_are_where_the_server_has_them() {
    for (line, wanted) in [
        ("GET k", "k"),
        ("get k", "k"),
        ("MSET a 1 b 2", "a b"),
        ("BLPOP a b 0", "a b"),
        ("LMOVE a b LEFT LEFT", "a b"),
        ("EVAL return 2 a b c", "a b"),
        ("EVAL return 0 a", ""),
        ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", "a b d"),
        ("BITOP AND d a b", "d a b"),
        ("XREAD COUNT 2 STREAMS a b 0 0", "a b"),
        ("XREADGROUP GROUP streams BLOCK STREAMS a >", "a"),
        ("SORT a BY w STORE d", "a d"),
        ("GEORADIUS a 1 2 3 m STORE d STOREDIST e", "a e"),
        ("OBJECT ENCODING a", "a"),
        ("LMPOP 2 a b LEFT", "a b"),
        ("PING", ""),
    ] {
        assert_eq!(keys(line), Ok(wanted.split_terminator(' ').map(str::to_owned).collect()));
    }
}

#[test]
fn what_is_not_clear_is_no_command() {
    for line in ["GET", "GET a b", "MSET a"] {
        assert!(matches!(keys(line), Err(Wrong::Arity(_))), "{line}");
    }
    for line in [
        "EVAL return 3 a b",
        "EVAL return -1 a",
        "EVAL return x a",
        "EVAL return 01 a",
        "EVAL return 99999999999999999999 a",
        "XREAD COUNT 2 a b",
        "XREAD STREAMS a b c",
        "XREAD FAST STREAMS a 0",
    ] {
        assert_eq!(keys(line), Err(Wrong::Keys), "{line}");
    }
    assert_eq!(find(b"NOSUCH"), None);
    assert_eq!(find(&[b'A'; 1000]), None);
}

#[test]
fn names_are_there_once() {
    let mut names: Vec<&str> = all().iter().map(|spec| spec.name).collect();
    names.dedup();
    assert_eq!(names.len(), all().len());
    assert_eq!(BY_NAME.len(), all().len());
}

proptest! {
    #[test]
    fn keys_are_among_the_arguments(
        at in 0..table::TABLE.len(),
        args in proptest::collection::vec("[0-9]{1,2}|STREAMS|BLOCK|STORE|GROUP|[a-z]{1,3}", 0..8),
    ) {
        let spec = &table::TABLE[at];
        let mut bytes = Vec::new();
        let words: Vec<&str> =
            std::iter::once(spec.name).chain(args.iter().map(String::as_str)).collect();
        put_command(&mut bytes, words.iter());
        let mut commands = Commands::default();
        commands.cut(&bytes, &Limits::default()).unwrap();
        let command = commands.command(&bytes);
        if let Ok(positions) = spec.keys_of(&command) {
            prop_assert!(positions.iter().all(|at| at > 0 && command.get(at).is_some()));
        }
    }
}

#[test]
fn keys_of_a_named_command_are_where_command_info_says() {
    let keys = |first, last, step, line: &str| {
        let keys = Keys::Range { first, last, step };
        let spec = Spec { name: "X", arity: -1, keys, what: Do::Read };
        let (mut bytes, words): (_, Vec<&str>) = (Vec::new(), line.split(' ').collect());
        put_command(&mut bytes, words.iter());
        let mut commands = Commands::default();
        assert!(matches!(commands.cut(&bytes, &Limits::default()), Ok(CommandFrame::Command(_))));
        let found = spec.keys_of(&commands.command(&bytes));
        found.map(|found| found.iter().collect::<Vec<_>>()).map_err(|_| ())
    };
    assert_eq!(keys(1, 1, 1, "X a b c"), Ok(vec![1]));
    assert_eq!(keys(1, -1, 1, "X a b c"), Ok(vec![1, 2, 3]));
    assert_eq!(keys(1, -2, 1, "X a b c"), Ok(vec![1, 2]));
    assert_eq!(keys(1, -1, 2, "X a 1 b 2"), Ok(vec![1, 3]));
    assert_eq!(keys(2, 3, 1, "X a b c d"), Ok(vec![2, 3]));
    // Nobody counts beyond what there is.
    assert_eq!(keys(2, 9, 1, "X a b"), Ok(vec![2]));
    assert_eq!(keys(1, -128, 1, "X a b"), Ok(vec![]));
    assert_eq!(keys(1, 1, 1, "X"), Err(()));
}
