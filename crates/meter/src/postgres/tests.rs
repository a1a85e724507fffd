//! Scripts as bytes, and replies in pieces.

use proptest::prelude::{any, prop_assert_eq, proptest};
use wire::postgres::backend::{
    Status, put_authentication_cleartext, put_authentication_md5, put_authentication_ok,
    put_command_complete, put_data_row, put_ready_for_query,
};
use wire::postgres::{Refusal, frame};

use super::{Options, Postgres, PostgresError, Protocol, Replies, Source, names};
use crate::keys::Order;
use crate::recorder::Kind;
use crate::workload::{Reader as _, Workload as _};

fn options() -> Options {
    Options {
        protocol: None,
        pipelined: false,
        tables: 1,
        table_size: 1000,
        scale: 1,
        variables: vec![("ten".to_owned(), 10)],
        order: Order::Sequence,
        seed: 1,
        user: "ann".to_owned(),
        password: None,
        run: None,
    }
}

fn of(text: &str, options: &Options) -> Result<Postgres, PostgresError> {
    let source = Source { name: "own".to_owned(), text: Some(text.to_owned()), share: 1 };
    Postgres::new(&"postgres://h/d".parse().unwrap(), &[source], options)
}

fn named(names: &[&str], options: &Options) -> Postgres {
    let source = |name: &&str| Source { name: (*name).to_owned(), text: None, share: 1 };
    let sources: Vec<_> = names.iter().map(source).collect();
    Postgres::new(&"postgres://h/d".parse().unwrap(), &sources, options).unwrap()
}

/// The messages of a request, each as its tag and body.
fn sent(postgres: &mut Postgres, number: u64) -> Vec<(char, String)> {
    let mut out = Vec::new();
    postgres.request(number, &mut out);
    let (mut rest, mut all) = (&out[..], Vec::new());
    while let Some(message) = frame::next(rest, 1 << 20).unwrap() {
        all.push((message.tag.into(), String::from_utf8_lossy(message.body).into_owned()));
        rest = &rest[message.whole.len()..];
    }
    all
}

fn texts(postgres: &mut Postgres, number: u64) -> Vec<String> {
    let all = sent(postgres, number).into_iter();
    all.map(|(_, body)| body.trim_end_matches('\0').to_owned()).collect()
}

#[test]
fn a_script_is_sent_with_its_values_in_each_protocol() {
    let text = "-- what for\n\\set id key(1, 9)\n\\set c digit_groups(2)\n\
                UPDATE t SET c=:c, d = ':id' WHERE id=:id::int;\n\nSELECT 1 ; ";
    let simple = texts(&mut of(text, &options()).unwrap(), 3);
    let (front, back) = simple[0].split_once("c='").unwrap();
    assert_eq!((front, &back[23..]), ("UPDATE t SET ", "', d = ':id' WHERE id=4::int"));
    assert!(back[..23].bytes().enumerate().all(|(at, b)| b.is_ascii_digit() != (at == 11)));
    assert_eq!(simple[1], "SELECT 1");
    let extended = Options { protocol: Some(Protocol::Extended), ..options() };
    let messages = sent(&mut of(text, &extended).unwrap(), 3);
    let tags: String = messages.iter().map(|(tag, _)| tag).collect();
    assert_eq!(tags, "PBDESPBDES");
    assert!(messages[0].1.contains("SET c=$1, d = ':id' WHERE id=$2::int"), "{messages:?}");
    let prepared = Options { protocol: Some(Protocol::Prepared), pipelined: true, ..options() };
    let messages = sent(&mut of(text, &prepared).unwrap(), 3);
    let tags: String = messages.iter().map(|(tag, _)| tag).collect();
    assert_eq!(tags, "BDEBDES");
    assert!(messages[0].1.contains("load_1") && messages[3].1.contains("load_2"));
}

#[test]
fn each_script_that_there_is_can_be_sent_in_each_protocol() {
    for name in names() {
        for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
            let run = (name == "ledger").then_some(7);
            let options = Options { protocol: Some(protocol), run, ..options() };
            let mut postgres = named(&[name], &options);
            assert!(!sent(&mut postgres, 7).is_empty(), "{name}");
            assert_eq!(sent(&mut postgres, 7), sent(&mut named(&[name], &options), 7), "{name}");
        }
    }
    let read_write = sent(&mut named(&["oltp_read_write"], &options()), 0);
    assert_eq!(read_write.iter().filter(|(tag, _)| *tag == 'E').count(), 20);
}

#[test]
fn each_kind_of_statement_of_a_transaction_goes_to_a_table_of_its_own_draw_as_sysbench_has_it() {
    let several = Options { tables: 3, protocol: Some(Protocol::Simple), ..options() };
    let mut postgres = named(&["oltp_read_write"], &several);
    let table = |text: &String| {
        let behind = text.split_once("sbtest").map(|(_, behind)| behind);
        behind
            .map(|behind| behind.split(|at: char| !at.is_ascii_digit()).next().unwrap().to_owned())
    };
    let (mut tables, mut together) = (std::collections::BTreeMap::new(), 0);
    for number in 0..100 {
        let sent: Vec<_> = texts(&mut postgres, number).iter().filter_map(table).collect();
        assert_eq!(sent.len(), 18);
        assert!(sent[..10].iter().all(|of| *of == sent[0]), "ten point selects: {sent:?}");
        assert_eq!(sent[16], sent[17], "a row goes and comes back");
        together += usize::from(sent.iter().all(|of| *of == sent[0]));
        sent.into_iter().for_each(|of| *tables.entry(of).or_insert(0) += 1);
    }
    assert!(together < 10, "{together} of 100 in one table alone");
    assert_eq!(tables.keys().collect::<Vec<_>>(), ["1", "2", "3"]);
    assert!(tables.values().all(|count| (400..800).contains(count)), "{tables:?}");
    // Each table has prepared statements of its own, and those of one text share one.
    let prepared = Options { protocol: None, ..several };
    let messages = sent(&mut named(&["oltp_point_select"], &prepared), 0);
    assert!(messages[0].1.contains("load_"), "{messages:?}");
    let names: std::collections::BTreeSet<_> = (0..100)
        .map(|number| sent(&mut named(&["oltp_read_write"], &prepared), number).remove(4).1)
        .map(|body| body.split('\0').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["load_2", "load_3", "load_4"]);
    assert!(
        Postgres::new(
            &"postgres://h/d".parse().unwrap(),
            &[Source { name: "oltp_insert".to_owned(), text: None, share: 1 }],
            &Options { tables: 0, ..options() }
        )
        .is_err()
    );
}

#[test]
fn a_mix_of_scripts_is_drawn_by_the_number_alone() {
    let mut mixed = named(&["select-only", "tpcb-like"], &options());
    assert_eq!(mixed.operations(), ["select-only", "tpcb-like"]);
    let first = (0..1000).filter(|number| mixed.request(*number, &mut Vec::new()) == 0).count();
    assert!((400..600).contains(&first), "{first}");
    for number in 0..100 {
        assert_eq!(mixed.operation(number), mixed.request(number, &mut Vec::new()));
    }
    assert_eq!(Source::share_of("oltp_insert=9"), ("oltp_insert", 9));
    assert_eq!(Source::share_of("@a=b.sql"), ("@a=b.sql", 1));
}

#[test]
fn variables_are_worked_out_as_they_are_written() {
    for (expression, value) in [
        ("1 + 2 * 3", 7),
        ("-(1 + 2) * :ten", -30),
        ("random(5, 5)", 5),
        ("random_zipfian(7, 7, 1.1) - 1", 6),
        ("key(4, 3)", 4),
        ("100000 * :scale", 100_000),
        ("2 + 7 / 2 * 3", 11),
        ("(0 - 7) / 2 + 100 * ((0 - 7) % 4)", -303),
        ("7 % -4", 3),
        ("(-9223372036854775807 - 1) / -1", i64::MIN),
        ("9223372036854775807 + 1", i64::MIN),
    ] {
        let mut postgres = of(&format!("\\set x {expression}\nSELECT :x"), &options()).unwrap();
        assert_eq!(texts(&mut postgres, 0), [format!("SELECT {value}")], "{expression}");
    }
    let mut postgres = of("\\set x random(-5, 5)\nSELECT :x", &options()).unwrap();
    for number in 0..100 {
        let text = texts(&mut postgres, number).remove(0);
        let value: i64 = text.trim_start_matches("SELECT ").parse().unwrap();
        assert!((-5..=5).contains(&value), "{value}");
    }
}

#[test]
fn what_is_wrong_in_a_script_is_told_with_its_line() {
    for (text, part) in [
        ("", "no statement"),
        ("SELECT 1;\n\\sleep 1 s", "line 2: \\sleep is not understood"),
        ("SELECT :nobody", "\"nobody\""),
        ("\\set x 1 ^ 2\nSELECT 1", "\"^\" is not understood"),
        ("\\set x 1 / 0\nSELECT 1", "a whole number other than 0"),
        ("\\set x 1 % :ten\nSELECT 1", "a whole number other than 0"),
        ("\\set x random(1)\nSELECT 1", "random(1, 9)"),
        ("\\set x (1\nSELECT 1", "missing"),
        ("\\set x\nSELECT 1", "\\set name expression"),
        ("\\set x digit_groups(0)\nSELECT 1", "digit_groups"),
        ("\\set x random_zipfian(1, 2, 9)\nSELECT 1", "random_zipfian"),
        ("SELECT 'open", "a quote or a comment"),
    ] {
        let error = of(text, &options()).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let deep = format!("\\set x {}1\nSELECT 1", "(".repeat(100_000));
    assert!(of(&deep, &options()).is_err());
    let unknown = Source { name: "tpcc".to_owned(), text: None, share: 1 };
    let url = "postgres://h".parse().unwrap();
    let error = Postgres::new(&url, &[unknown], &options()).unwrap_err().to_string();
    assert!(error.contains("oltp_point_select"), "{error}");
    assert!(Postgres::new(&url, &[], &options()).is_err());
    let long = "postgres://h/a/b".parse().unwrap();
    let source = Source { name: "select-only".to_owned(), text: None, share: 1 };
    assert!(Postgres::new(&long, &[source], &options()).is_err());
}

/// A request of that script, sent as far as it goes without an answer.
fn begun(script: &str, options: &Options) -> (Replies, Vec<u8>, usize) {
    let mut postgres = of(script, options).unwrap();
    let (mut out, mut replies) = (Vec::new(), postgres.reader());
    replies.begin(postgres.request(0, &mut out));
    let sent = replies.go_on(&mut out, 0);
    (replies, out, sent)
}

fn answered(status: Status) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_data_row(&mut bytes, [Some(&b"some value"[..])]);
    put_command_complete(&mut bytes, "SELECT 1");
    put_ready_for_query(&mut bytes, status);
    bytes
}

fn refused(status: Status) -> Vec<u8> {
    let mut bytes = Vec::new();
    Refusal::error("23505", "it is there already").encode(&mut bytes);
    put_ready_for_query(&mut bytes, status);
    bytes
}

#[test]
fn a_script_waits_for_each_answer_before_it_goes_on() {
    let (mut replies, mut out, sent) = begun("SELECT 1; SELECT 2", &options());
    assert_eq!(sent, out.len() / 2);
    assert_eq!(replies.go_on(&mut out, sent), sent);
    assert_eq!(replies.read(&answered(Status::Idle)).unwrap(), None);
    assert_eq!(replies.go_on(&mut out, sent), out.len());
    let answer = replies.read(&answered(Status::Idle)).unwrap().unwrap();
    assert_eq!((answer.kind, answer.commands), (Kind::Succeeded, 2));
    let pipelined = Options { pipelined: true, ..options() };
    let (mut replies, out, sent) = begun("SELECT 1; SELECT 2", &pipelined);
    assert_eq!(sent, out.len());
    assert_eq!(replies.read(&answered(Status::Idle)).unwrap(), None);
    assert_eq!(replies.read(&answered(Status::Idle)).unwrap().unwrap().commands, 2);
}

#[test]
fn what_fails_is_rolled_back_and_told_in_the_servers_words() {
    let (mut replies, mut out, sent) = begun("BEGIN; INSERT 1; COMMIT", &options());
    assert_eq!(replies.read(&answered(Status::InTransaction)).unwrap(), None);
    let sent = replies.go_on(&mut out, sent);
    assert_eq!(replies.read(&refused(Status::Failed)).unwrap(), None);
    let all = replies.go_on(&mut out, sent);
    assert!(all == out.len() && out.ends_with(b"ROLLBACK\0"));
    let answer = replies.read(&answered(Status::Idle)).unwrap().unwrap();
    assert_eq!((answer.kind, answer.commands, answer.reusable), (Kind::Server, 1, true));
    assert_eq!(replies.failure(&answer), "it is there already (23505)");
    // Nothing is to be rolled back, and nothing more is sent.
    let (mut replies, ..) = begun("SELECT 1; SELECT 2", &options());
    assert_eq!(replies.read(&refused(Status::Idle)).unwrap().unwrap().kind, Kind::Server);
    // The server says why it goes.
    let (mut replies, ..) = begun("SELECT 1", &options());
    let mut fatal = Vec::new();
    Refusal::fatal("57P01", "terminating").encode(&mut fatal);
    assert_eq!(replies.read(&fatal).unwrap(), None);
    assert!(!replies.ended().unwrap().reusable);
    assert_eq!(begun("SELECT 1", &options()).0.ended(), None);
}

#[test]
fn what_is_no_reply_is_none() {
    let garbage: [&[u8]; 5] = [
        b"HTTP/1.1 400 Bad Request\r\n",
        &[b'Z', 0, 0, 0, 3],
        &[b'Z', 0, 0, 0, 5, b'?'],
        &[b'E', 0xff, 0xff, 0xff, 0xff],
        &[b'G', 0, 0, 0, 7, 0, 0, 0],
    ];
    for bytes in garbage {
        assert!(begun("SELECT 1", &options()).0.read(bytes).is_err(), "{bytes:?}");
    }
    let twice = [answered(Status::Idle), answered(Status::Idle)].concat();
    assert!(begun("SELECT 1", &options()).0.read(&twice).is_err());
}

fn greeted(url: &str, came: &[u8]) -> Result<String, String> {
    let source = Source { name: "select-only".to_owned(), text: None, share: 1 };
    let postgres = Postgres::new(&url.parse().unwrap(), &[source], &options()).unwrap();
    let (mut greeting, mut out) = (postgres.greeting().unwrap(), Vec::new());
    assert_eq!(greeting.step(b"", &mut out), Ok(false));
    assert!(out.windows(8).any(|part| part == b"weir-loa"));
    out.clear();
    let stepped = greeting.step(came, &mut out).map_err(|error| error.to_string())?;
    Ok(format!("{stepped} {}", String::from_utf8_lossy(&out)))
}

#[test]
fn a_login_says_what_the_server_asks_for() {
    let (mut ok, mut clear, mut md5) = (Vec::new(), Vec::new(), Vec::new());
    put_authentication_ok(&mut ok);
    put_ready_for_query(&mut ok, Status::Idle);
    put_authentication_cleartext(&mut clear);
    put_authentication_md5(&mut md5, *b"salt");
    assert_eq!(greeted("postgres://h", &ok).unwrap(), "true ");
    assert!(greeted("postgres://h", &clear).unwrap_err().contains("PGPASSWORD"));
    assert!(greeted("postgres://:hush@h", &clear).unwrap().contains("hush"));
    let hashed = greeted("postgres://:hush@h", &md5).unwrap();
    assert!(hashed.contains("md5") && !hashed.contains("hush"), "{hashed}");
    assert!(greeted("postgres://h", b"HTTP/1.1 400 Bad").unwrap_err().contains("PostgreSQL"));
    // Whoever lets us in before he has proven himself is not the server that we asked.
    let mut early = Vec::new();
    wire::postgres::backend::put_authentication_sasl(&mut early, ["SCRAM-SHA-256"]);
    early.extend_from_slice(&ok);
    assert!(greeted("postgres://:hush@h", &early).is_err());
}

proptest! {
    #[test]
    fn replies_may_come_in_any_pieces(cuts in proptest::collection::vec(1_usize..20, 0..20)) {
        let bytes = answered(Status::Idle);
        let (mut replies, ..) = begun("SELECT 1", &options());
        let (mut rest, mut answers) = (&bytes[..], 0);
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            if !piece.is_empty() {
                answers += usize::from(replies.read(piece).unwrap().is_some());
            }
            rest = behind;
        }
        if !rest.is_empty() {
            answers += usize::from(replies.read(rest).unwrap().is_some());
        }
        prop_assert_eq!(answers, 1);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,60}") {
        let _ = begun("SELECT 1", &options()).0.read(&bytes);
        let _ = greeted("postgres://:hush@h", &bytes);
        let _ = of(&text, &options());
        let _ = of(&format!("\\set x {text}\nSELECT 1"), &options());
    }
}

#[test]
fn a_ledger_knows_what_each_request_has_put_into_its_table() {
    let kept = Options { run: Some(7), ..options() };
    let url = "postgres://h/d".parse().unwrap();
    let source = |name: &str, text: Option<&str>| Source {
        name: name.to_owned(),
        text: text.map(str::to_owned),
        share: 1,
    };
    let own = "BEGIN; INSERT INTO weir_ledger VALUES (:run, :number, :content); COMMIT";
    let sources = [source("own", Some(own)), source("none", Some("SELECT 1"))];
    let mut both = Postgres::new(&url, &sources, &kept).unwrap();
    let read = super::LedgerRows::read(&url, &both.kept(), &options()).unwrap().unwrap();
    let mut written = 0;
    for number in 0..100 {
        let sent = texts(&mut both, number);
        let insert = sent.into_iter().find(|text| text.starts_with("INSERT"));
        let wanted = read.content(number).map(|content| {
            let content = String::from_utf8(content).unwrap();
            format!("INSERT INTO weir_ledger VALUES (7, {number}, '{content}')")
        });
        assert_eq!(insert, wanted);
        written += u64::from(insert.is_some());
    }
    assert!((30..70).contains(&written), "{written}");
    for (text, part) in [("SELECT 1", "no script puts any there"), (&own.repeat(2), "2 times")] {
        let refused = of(text, &kept).unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
    }
    let missing = Postgres::new(&url, &[source("ledger", None)], &options()).unwrap_err();
    assert!(missing.to_string().contains("--ledger"), "{missing}");
}
