//! A client's messages by way of Weir against the same to a server of its own.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;
use wire::postgres::backend::{
    Status, put_bind_complete, put_close_complete, put_command_complete, put_no_data,
    put_parameter_description, put_parse_complete, put_ready_for_query,
};
use wire::postgres::frontend::{put_bind, put_execute, put_query, put_sync};
use wire::postgres::{Refusal, sqlstate};

use super::super::names::{Limits, name_in};
use super::super::script::ServerEvent;
use super::*;

const AMPLE: Limits = Limits { count: 1000, bytes: 1 << 20 };

/// What a server does with prepared statements (`postgres.c`, `prepare.c`).
#[derive(Default)]
struct Server {
    statements: HashMap<Vec<u8>, Vec<u8>>,
    has_portal: bool,
    skipping: bool,
}

impl Server {
    fn takes(&mut self, message: Frame<'_>, out: &mut Vec<u8>) {
        if self.skipping && message.tag != tag::SYNC {
            return;
        }
        if let Err(refusal) = self.does(message, out) {
            refusal.encode(out);
            self.skipping = true;
        }
    }

    fn does(&mut self, message: Frame<'_>, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let body = message.body;
        match message.tag {
            tag::PARSE => {
                self.parse(&Parse::read(body).unwrap())?;
                put_parse_complete(out);
            }
            tag::BIND => {
                self.there(Bind::read(body).unwrap().statement)?;
                self.has_portal = true;
                put_bind_complete(out);
            }
            tag::DESCRIBE => {
                if let Target::Statement(name) = Target::of_describe(body).unwrap() {
                    self.there(name)?;
                    put_parameter_description(out, &[]);
                }
                put_no_data(out);
            }
            tag::CLOSE => {
                if let Target::Statement(name) = Target::of_close(body).unwrap() {
                    self.statements.remove(name);
                }
                put_close_complete(out);
            }
            tag::EXECUTE => {
                if !self.has_portal {
                    return Err(Refusal::error("34000", "portal \"\" does not exist"));
                }
                put_command_complete(out, "SELECT 0");
            }
            tag::SYNC => {
                (self.skipping, self.has_portal) = (false, false);
                put_ready_for_query(out, Status::Idle);
            }
            tag::QUERY => {
                self.statements.remove(&b""[..]);
                put_command_complete(out, "SELECT 1");
                put_ready_for_query(out, Status::Idle);
            }
            _ => unreachable!("no other is sent"),
        }
        Ok(())
    }

    fn parse(&mut self, parse: &Parse<'_>) -> Result<(), Refusal> {
        if parse.name.is_empty() {
            self.statements.remove(parse.name);
        }
        if parse.query == b"bad" {
            return Err(Refusal::error(sqlstate::SYNTAX_ERROR, "syntax error"));
        }
        if self.statements.contains_key(parse.name) {
            let name = String::from_utf8_lossy(parse.name);
            let what = format!("prepared statement \"{name}\" already exists");
            return Err(Refusal::error(sqlstate::DUPLICATE_PREPARED_STATEMENT, what));
        }
        self.statements.insert(parse.name.to_vec(), parse.query.to_vec());
        Ok(())
    }

    fn there(&self, name: &[u8]) -> Result<(), Refusal> {
        let undefined = || Refusal::error(sqlstate::UNDEFINED_PREPARED_STATEMENT, "not there");
        self.statements.get(name).map(drop).ok_or_else(undefined)
    }
}

/// A client, Weir, and a server that answers later.
struct ClientPath {
    names: Names,
    statements: Statements,
    prepared: PreparedStatements,
    fresh: Vec<u64>,
    script: Script,
    server: Server,
    sent: VecDeque<Vec<u8>>,
    heard: Vec<u8>,
}

impl ClientPath {
    fn new(names: Limits, prepared: Limits) -> Self {
        Self {
            names: Names::new(names),
            statements: Statements::new(AMPLE),
            prepared: PreparedStatements::new(prepared),
            fresh: Vec::new(),
            script: Script::default(),
            server: Server::default(),
            sent: VecDeque::new(),
            heard: Vec::new(),
        }
    }

    fn takes(&mut self, message: Frame<'_>) {
        if self.script.is_skipping() && message.tag != tag::SYNC {
            return;
        }
        let overwrites = message.tag == tag::PARSE;
        let unsure = |names: &Names| {
            let name = name_in(message).filter(|name| !(overwrites && name.is_empty()));
            name.is_some_and(|name| names.is_unsure(name))
        };
        if unsure(&self.names) {
            self.answers(usize::MAX);
            assert!(!unsure(&self.names), "a name that is never sure");
            return self.takes(message);
        }
        let mut composer = Composer {
            names: &mut self.names,
            statements: &self.statements,
            prepared: &mut self.prepared,
            fresh: &mut self.fresh,
            changes: 0,
            has_failed: false,
            may_have_failed: false,
            found: StatementUse::default(),
        };
        let mut out = Vec::new();
        composer.message(message, &mut out, &mut self.script).unwrap();
        self.sent.extend(messages(&out).map(|message| message.whole.to_vec()));
        self.invent();
    }

    fn invent(&mut self) {
        let Self { names, script, heard, .. } = self;
        script.answer_invented(&mut |event| note(names, heard, event));
    }

    /// The server deals with so many messages.
    fn answers(&mut self, count: usize) {
        for _ in 0..count {
            let Some(message) = self.sent.pop_front() else { return };
            let mut said = Vec::new();
            messages(&message).for_each(|message| self.server.takes(message, &mut said));
            let Self { names, script, heard, prepared, .. } = self;
            let taken = script.hear(&said, &mut |event| match event {
                ServerEvent::Prepared(number) => prepared.confirmed(number),
                ServerEvent::NotPrepared(number) => prepared.not_prepared(number),
                ServerEvent::Forgotten { number, left_out } => prepared.closed(number, left_out),
                event => note(names, heard, event),
            });
            assert_eq!(taken, Ok(said.len()));
        }
    }
}

fn note(names: &mut Names, heard: &mut Vec<u8>, event: ServerEvent<'_>) {
    match event {
        ServerEvent::Bytes(bytes) => heard.extend_from_slice(bytes),
        ServerEvent::Name(outcome) => {
            names.heard(outcome);
            names.settle();
        }
        ServerEvent::Refused(Why::Taken) => {
            let name = String::from_utf8_lossy(names.next_name()).into_owned();
            let what = format!("prepared statement \"{name}\" already exists");
            Refusal::error(sqlstate::DUPLICATE_PREPARED_STATEMENT, what).encode(heard);
        }
        ServerEvent::Refused(_) => {
            Refusal::error(sqlstate::PROGRAM_LIMIT, "too much").encode(heard)
        }
        _ => {}
    }
}

#[derive(Debug, Clone)]
enum Act {
    Sends(Vec<u8>),
    Answers(usize),
}

fn act() -> impl Strategy<Value = Act> {
    const NAMES: [&[u8]; 4] = [b"", b"a", b"b", b"weir_1"];
    const TEXTS: [&[u8]; 5] = [b"1", b"1", b"2", b"2", b"bad"];
    let name = || proptest::sample::select(&NAMES[..]);
    let sql = proptest::sample::select(&TEXTS[..]);
    let sends = |with: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        with(&mut out);
        Act::Sends(out)
    };
    prop_oneof![
        4 => (name(), sql).prop_map(move |(name, sql)| sends(&|o| put_parse(o, name, sql, &[]))),
        4 => name().prop_map(move |name| sends(&|o| put_bind(o, b"", name, &[]))),
        1 => name().prop_map(move |n| sends(&|o| put_describe(o, Target::Statement(n)))),
        3 => name().prop_map(move |n| sends(&|o| put_close(o, Target::Statement(n)))),
        1 => Just(()).prop_map(move |()| sends(&|o| put_execute(o, b"", 0))),
        5 => Just(()).prop_map(move |()| sends(&|o| put_sync(o))),
        3 => (0..9_usize).prop_map(Act::Answers),
    ]
}

/// What a client hears that has a server of its own, and what it hears through Weir.
fn both(acts: &[Act], prepared: Limits) -> (Vec<u8>, Vec<u8>) {
    let (mut way, mut server, mut wanted) =
        (ClientPath::new(AMPLE, prepared), Server::default(), Vec::new());
    let mut sync = Vec::new();
    put_sync(&mut sync);
    let mut query = Vec::new();
    put_query(&mut query, b"select");
    let ends = [Act::Sends(sync), Act::Sends(query)];
    for act in acts.iter().chain(&ends) {
        match act {
            Act::Sends(bytes) => messages(bytes).for_each(|message| {
                server.takes(message, &mut wanted);
                way.takes(message);
            }),
            Act::Answers(count) => way.answers(*count),
        }
    }
    way.answers(usize::MAX);
    assert!(way.script.is_idle() && way.names.is_settled());
    (way.heard, wanted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_client_finds_the_names_that_it_would_find_on_a_server_of_its_own(
        acts in proptest::collection::vec(act(), 0..40),
        kept in 1..4_usize,
    ) {
        let (heard, wanted) = both(&acts, Limits { count: kept, bytes: 1 << 20 });
        prop_assert_eq!(heard, wanted);
    }
}

/// The codes of errors, and the tags of other messages.
fn told(heard: &[u8]) -> String {
    let mut said = String::new();
    for message in messages(heard) {
        match wire::postgres::backend::Fields::read(message.body) {
            Ok(fields) if message.tag == b'E' => {
                said.push_str(&String::from_utf8_lossy(fields.code()));
            }
            _ => said.push(char::from(message.tag)),
        }
    }
    said
}

fn asks(way: &mut ClientPath, asks: &[(&[u8], &[u8])]) -> String {
    let mut out = Vec::new();
    asks.iter().for_each(|(name, sql)| put_parse(&mut out, name, sql, &[]));
    put_sync(&mut out);
    messages(&out).for_each(|message| way.takes(message));
    way.answers(usize::MAX);
    told(&std::mem::take(&mut way.heard))
}

#[test]
fn a_client_holds_so_many_statements_and_goes_on() {
    let mut way = ClientPath::new(Limits { count: 2, bytes: 1 << 20 }, AMPLE);
    assert_eq!(asks(&mut way, &[(b"a", b"1"), (b"b", b"1"), (b"", b"1")]), "111Z");
    assert_eq!(asks(&mut way, &[(b"c", b"1"), (b"d", b"1")]), "54000Z");
    let mut out = Vec::new();
    put_close(&mut out, Target::Statement(b"a"));
    messages(&out).for_each(|message| way.takes(message));
    assert_eq!(asks(&mut way, &[(b"c", b"1")]), "31Z");
}

#[test]
fn a_client_holds_so_many_bytes_whatever_their_number() {
    let long = [b'x'; 1000];
    let mut way = ClientPath::new(Limits { count: 100, bytes: 2500 }, AMPLE);
    assert_eq!(asks(&mut way, &[(b"a", &long), (b"b", &long)]), "11Z");
    assert_eq!(asks(&mut way, &[(b"c", &long)]), "54000Z");
    // The unnamed one is always taken, as often as it may be overwritten.
    assert_eq!(asks(&mut way, &[(&b""[..], &[b'y'; 9000][..]); 9]), "111111111Z");
    assert_eq!(asks(&mut way, &[(b"c", b"short")]), "1Z");
}
