use proptest::prelude::*;

use super::*;

/// What is heard of bytes that come in pieces of this size.
fn cut_all(bytes: &[u8], piece: usize, limits: &Limits) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let (mut commands, mut heard, mut from) = (Commands::default(), Vec::new(), 0);
    let mut end = piece.min(bytes.len());
    loop {
        match commands.cut(&bytes[from..end], limits) {
            Ok(CommandFrame::More) if end == bytes.len() => return (heard, None),
            Ok(CommandFrame::More) => end = (end + piece).min(bytes.len()),
            Ok(CommandFrame::Nothing(len)) => from += len,
            Ok(CommandFrame::Command(len)) => {
                let command = commands.command(&bytes[from..end]);
                assert!(command.iter().eq((0..command.len()).map(|at| command.get(at).unwrap())));
                let mut again = Vec::new();
                put_command(&mut again, command.iter().collect::<Vec<_>>().iter());
                let whole = command.bytes();
                assert_eq!(whole, again, "what is passed on is written in the one way there is");
                heard.push(command.iter().map(<[u8]>::to_vec).collect());
                from += len;
            }
            Err(error) => return (heard, Some(error.to_string())),
        }
    }
}

fn texts(commands: &[&[&str]]) -> Vec<Vec<Vec<u8>>> {
    let words = |of: &&[&str]| of.iter().map(|word| word.as_bytes().to_vec()).collect();
    commands.iter().map(words).collect()
}

#[test]
fn commands_are_cut_off_however_they_come() {
    let cases: [(&[u8], &[&[&str]]); 10] = [
        (b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n", &[&["GET", "a"], &["PING"]]),
        (b"*0\r\n*-10\r\n\r\n*1\r\n$0\r\n\r\n", &[&[""]]),
        (b"PING\r\nGET a\n", &[&["PING"], &["GET", "a"]]),
        (b"  SET  a   'b c'  \r\n", &[&["SET", "a", "b c"]]),
        (b"SET a \"\\x41\\n\\\"\\q\"\r\n", &[&["SET", "a", "A\n\"q"]]),
        (b"SET a 'it\\'s'\r\n", &[&["SET", "a", "it's"]]),
        (b"SET \"\" ''\r\n", &[&["SET", "", ""]]),
        (b"*2\r\n$3\r\nGET\r\n$4\r\n\r\n\r\n\r\n", &[&["GET", "\r\n\r\n"]]),
        (b"*1\r\n$4\r\nPI", &[]),
        (b"", &[]),
    ];
    for (bytes, wanted) in cases {
        for piece in 1..=bytes.len().max(1) {
            let heard = cut_all(bytes, piece, &Limits::default());
            assert_eq!(heard, (texts(wanted), None), "{} by {piece}", bytes.escape_ascii());
        }
    }
}

#[test]
fn what_is_no_command_is_told_in_the_servers_words() {
    let long = [b'*'; 70_000];
    let cases: [(&[u8], &str); 22] = [
        (b"*01\r\n", "invalid multibulk length"),
        (b"*-0\r\n", "invalid multibulk length"),
        (b"*1\r\n$04\r\nPING\r\n", "invalid bulk length"),
        (b"*1\r\n$-0\r\n\r\n", "invalid bulk length"),
        (b"*1\r\n$+4\r\nPING\r\n", "invalid bulk length"),
        (b"*1\rx$4\r\nPING\r\n", "invalid CRLF in request"),
        (b"*1\r\n$4\rxPING\r\n", "invalid CRLF in request"),
        (b"GET a\0b\r\n", "NUL in inline request"),
        (b"*3000000000\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\n$4\r\n", "invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$-10\r\n", "invalid bulk length"),
        (b"*1\r\n$2000000000\r\n", "invalid bulk length"),
        (b"*1\r\n$text\r\n", "invalid bulk length"),
        (b"*1\r\nGET", "expected '$', got 'G'"),
        (b"*1\r\n$1\r\nabc", "invalid CRLF in request"),
        (b"SET a \"b\r\n", "unbalanced quotes in request"),
        (b"SET a 'b'c\r\n", "unbalanced quotes in request"),
        (&long, "too big mbulk count string"),
    ];
    for (bytes, wanted) in cases {
        for piece in [1000, bytes.len()] {
            let (heard, error) = cut_all(bytes, piece, &Limits::default());
            assert_eq!((heard.len(), error), (0, Some(format!("Protocol error: {wanted}"))));
        }
    }
    let before = Limits::UNAUTHENTICATED;
    for (bytes, wanted) in [
        (&b"*11\r\n"[..], "unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
    ] {
        let error = cut_all(bytes, 1, &before).1;
        assert_eq!(error, Some(format!("Protocol error: {wanted}")));
    }
    let error = cut_all(&[b'a'; 70_000], 100, &Limits::default()).1;
    assert_eq!(error.as_deref(), Some("Protocol error: too big inline request"));
}

#[test]
fn of_a_command_that_comes_is_known_how_long_it_will_be() {
    let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\nxxx";
    let mut commands = Commands::default();
    assert_eq!(commands.cut(&bytes[..20], &Limits::default()), Ok(CommandFrame::More));
    assert!(commands.coming(&bytes[..20]).is_none_or(|coming| coming.total.is_none()));
    assert_eq!(commands.cut(bytes, &Limits::default()), Ok(CommandFrame::More));
    let coming = commands.coming(bytes).unwrap();
    assert_eq!((coming.args, coming.bulk), (3, 1000));
    assert_eq!(coming.total, Some(bytes.len() as u64 - 3 + 1000 + 2));
    assert_eq!(coming.command.iter().collect::<Vec<_>>(), [&b"SET"[..], b"k"]);
}

/// What is heard of replies that come in pieces of this size: each, and the fault at the end.
fn scan_all(bytes: &[u8], piece: usize) -> (Vec<(Piece, Vec<u8>)>, Option<&'static str>) {
    let (mut replies, mut heard, mut reply) = (Replies::default(), Vec::new(), Vec::new());
    let (mut from, mut end) = (0, piece.min(bytes.len()));
    loop {
        if from < end {
            match replies.scan(&bytes[from..end]) {
                Err(why) => return (heard, Some(why)),
                Ok(step) => {
                    reply.extend_from_slice(&bytes[from..from + step.len]);
                    from += step.len;
                    if step.what != Piece::Part {
                        heard.push((step.what, std::mem::take(&mut reply)));
                    }
                    if step.len > 0 {
                        continue;
                    }
                }
            }
        }
        if end == bytes.len() {
            return (heard, None);
        }
        end = (end + piece).min(bytes.len());
    }
}

const REPLIES: [&str; 22] = [
    "+OK\r\n",
    "-ERR no\r\n",
    ":1\r\n",
    ":-9223372036854775808\r\n",
    "$3\r\nfoo\r\n",
    "$0\r\n\r\n",
    "$2\r\n\r\n\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*0\r\n",
    "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
    "*2\r\n*0\r\n*0\r\n",
    "_\r\n",
    "#t\r\n",
    ",1.5\r\n",
    "(123456789012345678901234567890\r\n",
    "=7\r\ntxt:abc\r\n",
    "!3\r\nERR\r\n",
    "%1\r\n+a\r\n*1\r\n:1\r\n",
    "~2\r\n:1\r\n:2\r\n",
    "|1\r\n+a\r\n+b\r\n:5\r\n",
    "*1\r\n|1\r\n+a\r\n+b\r\n:5\r\n",
];

#[test]
fn replies_end_where_they_end_however_they_come() {
    let all = REPLIES.concat();
    for piece in 1..all.len() {
        let (heard, why) = scan_all(all.as_bytes(), piece);
        assert_eq!(why, None);
        let wanted = REPLIES.map(|of| (Piece::End, of.as_bytes().to_vec()));
        assert_eq!(heard, wanted, "by {piece}");
    }
    for reply in REPLIES {
        assert_eq!(value(reply.as_bytes()).map(|(_, len)| len), Ok(reply.len()), "{reply:?}");
    }
    let pushed = b"+a\r\n>2\r\n+x\r\n$1\r\ny\r\n:1\r\n";
    for piece in 1..pushed.len() {
        let (heard, why) = scan_all(pushed, piece);
        let kinds: Vec<Piece> = heard.iter().map(|(kind, _)| *kind).collect();
        assert_eq!((kinds, why), (vec![Piece::End, Piece::Push, Piece::End], None));
    }
}

#[test]
fn what_is_no_reply_is_a_fault() {
    let deep = "*1\r\n".repeat(20_000);
    for bytes in [
        "$-2\r\n",
        "*-2\r\n",
        "$x\r\n",
        "$99999999999999999999\r\n",
        ":1x\r\n",
        "+OK\n",
        "hello\r\n",
        "\r\n",
        "$3\r\nfooxx",
        "$3\r\nfoo\rx",
        "$?\r\n",
        "*1\r\n>1\r\n+a\r\n",
        ">-1\r\n",
        deep.as_str(),
    ] {
        for piece in [1, bytes.len()] {
            assert!(scan_all(bytes.as_bytes(), piece).1.is_some(), "{:.40} by {piece}", bytes);
        }
        assert!(value(bytes.as_bytes()).is_err() || bytes.contains('>'), "{bytes:.40}");
    }
    let endless = vec![b':'; 100_000];
    assert!(scan_all(&endless, 1000).1.is_some());
}

#[test]
fn a_script_may_answer_with_as_many_arrays_within_each_other_as_its_stack_has() {
    let reply = ["*1\r\n".repeat(7995).as_str(), "-ERR reached lua stack limit\r\n"].concat();
    let next = [reply.as_bytes(), b":1\r\n"].concat();
    for piece in [1, 1000, next.len()] {
        let wanted = vec![(Piece::End, reply.clone().into()), (Piece::End, b":1\r\n".to_vec())];
        assert!(scan_all(&next, piece) == (wanted, None), "by {piece}");
    }
}

#[test]
fn a_script_may_answer_with_a_line_of_any_length() {
    for kind in ["+", "-", "*2\r\n:1\r\n+"] {
        let reply = [kind.as_bytes(), &[b'x'; 300_000], b"\r\r\n"].concat();
        let next = [&reply[..], b":1\r\n"].concat();
        for piece in [1, 1000, 65_536, next.len()] {
            let wanted = vec![(Piece::End, reply.clone()), (Piece::End, b":1\r\n".to_vec())];
            assert!(scan_all(&next, piece) == (wanted, None), "by {piece}");
        }
    }
    let mut replies = Replies::default();
    let part = Step { len: 4, what: Piece::Part };
    assert_eq!(replies.scan(b"+abc"), Ok(part), "nothing of it waits");
    assert!(replies.scan(b"\n").is_err(), "its CR is missing");
}

#[test]
fn a_short_push_before_much_else_is_a_push() {
    let mut bytes = b">2\r\n+a\r\n+b\r\n".to_vec();
    let len = bytes.len();
    bytes.resize(2 << 20, b'x');
    assert_eq!(Replies::default().scan(&bytes), Ok(Step { len, what: Piece::Push }));
    let long = [&b">2\r\n$2000000\r\n"[..], &bytes].concat();
    assert!(Replies::default().scan(&long).is_err());
}

proptest! {
    #[test]
    fn commands_come_through_as_they_were(
        all in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6), 1..5),
        piece in 1_usize..50,
    ) {
        let mut bytes = Vec::new();
        for words in &all {
            put_command(&mut bytes, words.iter());
        }
        prop_assert_eq!(cut_all(&bytes, piece, &Limits::default()), (all, None));
    }

    #[test]
    fn nothing_panics_and_pieces_change_nothing(
        bytes in "[*$:+>%|~0-9a\r\n\"'-]{0,60}",
        piece in 1_usize..10,
    ) {
        let bytes = bytes.as_bytes();
        let limits = Limits::default();
        let whole = cut_all(bytes, bytes.len().max(1), &limits);
        prop_assert_eq!(cut_all(bytes, piece, &limits), whole);
        let (all, why) = scan_all(bytes, bytes.len().max(1));
        let (pieces, why_in_pieces) = scan_all(bytes, piece);
        prop_assert_eq!(all, pieces);
        prop_assert_eq!(why.is_some(), why_in_pieces.is_some());
        let _ = value(bytes);
    }
}
