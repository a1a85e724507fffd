//! Clients that send anything at any place of a COPY, beside a model of the server.

use std::collections::VecDeque;

use proptest::prelude::*;
use wire::postgres::Refusal;
use wire::postgres::backend::{self, Status};
use wire::postgres::message;

use super::*;

/// What a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// A Query of so many COPY, then a SELECT.
    Query(u8),
    /// Parse, Bind and Execute of a COPY.
    Copies,
    /// One that fails once data was asked for and before any is read, as by a trigger does.
    FailsAtOnce,
    /// The Execute of something else.
    Selects,
    /// The Bind of a COPY fails.
    Fails,
    Good,
    Bad,
    Done,
    Fail,
    Sync,
    Flush,
}

/// Where the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    /// It reads data; so many more COPY follow in the Query, or an Execute runs it.
    Copying {
        more: u8,
        of_query: bool,
    },
    Skipping,
    Gone,
}

/// PostgreSQL 14 or later, as far as rounds and COPY go.
#[derive(Debug)]
struct Server {
    stage: Stage,
    said: Vec<u8>,
}

impl Server {
    fn new() -> Self {
        Self { stage: Stage::Idle, said: Vec::new() }
    }

    fn ready(&mut self) {
        backend::put_ready_for_query(&mut self.said, Status::Idle);
    }

    fn asks_for_data(&mut self, more: u8, of_query: bool) {
        message(&mut self.said, b'G', |out| out.extend_from_slice(&[0, 0, 0]));
        self.stage = Stage::Copying { more, of_query };
    }

    fn fails(&mut self, code: &'static str, in_query: bool) {
        Refusal::error(code, "no").encode(&mut self.said);
        self.stage = if in_query { Stage::Idle } else { Stage::Skipping };
        if in_query {
            self.ready();
        }
    }

    /// The rest of a Query of which so many COPY are still to run.
    fn query(&mut self, copies: u8) {
        if copies > 0 {
            return self.asks_for_data(copies - 1, true);
        }
        backend::put_command_complete(&mut self.said, "SELECT 1");
        self.ready();
    }

    fn hears(&mut self, sent: Sent) {
        match (self.stage, sent) {
            (Stage::Gone, _) | (_, Sent::Flush) => {}
            (Stage::Copying { .. }, Sent::Good | Sent::Sync) => {}
            (Stage::Copying { of_query, .. }, Sent::Bad | Sent::Fail) => {
                self.fails("22P02", of_query);
            }
            (Stage::Copying { more, of_query }, Sent::Done) => {
                backend::put_command_complete(&mut self.said, "COPY 1");
                self.stage = Stage::Idle;
                if of_query {
                    self.query(more);
                }
            }
            (Stage::Copying { of_query, .. }, _) => {
                self.fails("08P01", of_query);
                Refusal::fatal("08P01", "no").encode(&mut self.said);
                self.stage = Stage::Gone;
            }
            (_, Sent::Good | Sent::Bad | Sent::Done | Sent::Fail) => {}
            (_, Sent::Sync) => {
                self.stage = Stage::Idle;
                self.ready();
            }
            (Stage::Skipping, _) => {}
            (Stage::Idle, Sent::Query(copies)) => self.query(copies),
            (Stage::Idle, Sent::Fails) => {
                backend::put_parse_complete(&mut self.said);
                self.fails("42601", false);
            }
            (Stage::Idle, Sent::Copies | Sent::FailsAtOnce | Sent::Selects) => {
                backend::put_parse_complete(&mut self.said);
                backend::put_bind_complete(&mut self.said);
                match sent {
                    Sent::Selects => backend::put_command_complete(&mut self.said, "SELECT 1"),
                    Sent::Copies => self.asks_for_data(0, false),
                    _ => {
                        self.asks_for_data(0, false);
                        self.fails("P0001", false);
                    }
                }
            }
        }
    }
}

/// What is on its way to the server.
#[derive(Debug, Clone, Copy)]
enum Onwards {
    OfClient(Sent),
    OwnSync,
    OwnQuery,
}

/// A client's connection to the server, through a script.
#[derive(Debug)]
struct Through {
    script: Script,
    server: Server,
    /// Not heard by the server.
    onwards: VecDeque<Onwards>,
    /// Not heard by Weir.
    back: Vec<u8>,
    heard: Vec<u8>,
    asked: u64,
    settled: u64,
    /// A COPY left open how many of its Syncs are answered.
    unsettled: bool,
    ended: bool,
}

impl Through {
    fn new() -> Self {
        Self {
            script: Script::default(),
            server: Server::new(),
            onwards: VecDeque::new(),
            back: Vec::new(),
            heard: Vec::new(),
            asked: 0,
            settled: 0,
            unsettled: false,
            ended: false,
        }
    }

    /// Sends a message on; false where it has to wait.
    fn takes(&mut self, sent: Sent) -> bool {
        let (tag, expects): (u8, &[Expect]) = match sent {
            Sent::Query(_) => (b'Q', &[Expect::Query(ResponseAction::Pass)]),
            Sent::Copies | Sent::FailsAtOnce | Sent::Selects | Sent::Fails => (
                b'P',
                &[
                    Expect::Parse(ResponseAction::Pass, 1),
                    Expect::Bind(ResponseAction::Pass),
                    Expect::Execute(ResponseAction::Pass),
                ],
            ),
            Sent::Good | Sent::Bad => (b'd', &[]),
            Sent::Done => (b'c', &[Expect::CopyEnd]),
            Sent::Fail => (b'f', &[Expect::CopyEnd]),
            Sent::Sync => (b'S', &[Expect::Sync]),
            Sent::Flush => (b'H', &[]),
        };
        match self.script.admits(tag) {
            Admission::Now => {}
            Admission::Later => return false,
            Admission::Never => {
                self.ended = true;
                return true;
            }
        }
        if self.script.is_skipping() && sent != Sent::Sync {
            return true;
        }
        expects.iter().for_each(|expected| self.script.expect(*expected));
        self.asked += u64::from(matches!(sent, Sent::Query(_) | Sent::Sync));
        self.onwards.push_back(Onwards::OfClient(sent));
        true
    }

    /// The server hears one message.
    fn arrives(&mut self) {
        match self.onwards.pop_front() {
            None => {}
            Some(Onwards::OfClient(sent)) => self.server.hears(sent),
            Some(Onwards::OwnSync) => self.server.hears(Sent::Sync),
            Some(Onwards::OwnQuery) if self.server.stage == Stage::Idle => {
                message(&mut self.server.said, b'I', |_| {});
                self.server.ready();
            }
            // It would be left out, and never answered.
            Some(Onwards::OwnQuery) => assert_eq!(self.server.stage, Stage::Gone),
        }
        self.back.append(&mut self.server.said);
    }

    /// Weir hears what has come.
    fn hears(&mut self) {
        if self.ended {
            return;
        }
        let said = std::mem::take(&mut self.back);
        let mut is_lost = false;
        let (heard, settled) = (&mut self.heard, &mut self.settled);
        let (unsettled, broken) = (&mut self.unsettled, &mut self.ended);
        let taken = self.script.hear(&said, &mut |piece| match piece {
            ServerEvent::Bytes(bytes) => heard.extend_from_slice(bytes),
            ServerEvent::Ready { .. }
            | ServerEvent::ReadyAgain(_)
            | ServerEvent::OwnSync
            | ServerEvent::LeftOut => {
                *settled += 1;
            }
            ServerEvent::Ignored(syncs) => *settled += syncs,
            ServerEvent::Unsettled { for_good } => {
                (*unsettled, is_lost) = (true, is_lost || for_good)
            }
            ServerEvent::Failed { body, .. } => {
                *broken |= Fields::read(body).is_ok_and(|fields| fields.is_fatal());
            }
            _ => {}
        });
        self.ended |= is_lost;
        assert!(is_lost || taken == Ok(said.len()), "{taken:?} of {said:?}: {self:?}");
        if self.ended {
            // It is closed.
            self.onwards.clear();
        } else if let Some(with_sync) = self.script.ask_to_settle() {
            self.asked += 1 + u64::from(with_sync);
            self.onwards.extend(with_sync.then_some(Onwards::OwnSync));
            self.onwards.push_back(Onwards::OwnQuery);
        }
    }

    /// Everything that is under way arrives.
    fn settles(&mut self) {
        while !self.onwards.is_empty() && !self.ended {
            self.arrives();
            self.hears();
        }
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        2 => Just(Sent::Query(1)),
        1 => Just(Sent::Query(0)),
        1 => Just(Sent::Query(2)),
        3 => Just(Sent::Copies),
        1 => Just(Sent::FailsAtOnce),
        1 => Just(Sent::Selects),
        1 => Just(Sent::Fails),
        3 => Just(Sent::Good),
        3 => Just(Sent::Bad),
        3 => Just(Sent::Done),
        1 => Just(Sent::Fail),
        5 => Just(Sent::Sync),
        1 => Just(Sent::Flush),
    ]
}

/// The same bytes as of a client without Weir.
fn directly(all: &[Sent]) -> Vec<u8> {
    let mut server = Server::new();
    all.iter().for_each(|sent| server.hears(*sent));
    server.said
}

fn check(all: &[Sent], pace: &[u8]) -> Result<(), TestCaseError> {
    let mut through = Through::new();
    let mut pace = pace.iter().cycle();
    for sent in all {
        // The server, and its answers, are behind by as much as chance has it.
        for _ in 0..pace.next().copied().unwrap_or(0) {
            match pace.next().copied().unwrap_or(0) % 3 {
                0 => through.hears(),
                _ => through.arrives(),
            }
        }
        while !through.ended && !through.takes(*sent) {
            prop_assert!(
                !through.onwards.is_empty() || !through.back.is_empty(),
                "{sent:?} waits for ever: {through:?}"
            );
            through.arrives();
            through.hears();
        }
        if through.ended {
            return Ok(());
        }
    }
    through.settles();
    through.hears();
    through.settles();
    if through.ended {
        return Ok(());
    }
    prop_assert_eq!(&through.heard, &directly(all), "{:?}", through);
    if through.script.is_idle() {
        // What is given back owes nothing, and its account says so.
        prop_assert_eq!(through.asked, through.settled);
        prop_assert_eq!(through.server.stage, Stage::Idle);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]
    #[test]
    fn a_client_hears_of_a_copy_what_it_would_hear_alone_however_late_its_answers_are(
        all in proptest::collection::vec(sent(), 1..16),
        pace in proptest::collection::vec(0..5_u8, 1..24),
    ) {
        check(&all, &pace)?;
    }
}

#[test]
fn syncs_behind_a_bad_line_are_answered_to_whom_they_are_of() {
    use Sent::{Bad, Copies, Done, Query, Sync};
    let rounds: [&[Sent]; 8] = [
        &[Query(1), Bad, Sync, Sync],
        &[Query(1), Sync, Bad, Sync, Done, Query(0)],
        &[Copies, Bad, Sync, Sync],
        &[Copies, Sync, Bad, Done, Sync],
        &[Copies, Sync, Bad, Sync, Sync, Done, Sync],
        &[Copies, Sent::Good, Done, Sync, Query(0)],
        &[Copies, Sync, Sent::Good, Done, Sync, Query(0)],
        &[Query(2), Sync, Sent::Good, Done, Sync, Bad, Sync],
    ];
    for all in rounds {
        // Weir hears each answer only once all was sent, or at once.
        for pace in [&[0][..], &[4, 1, 0, 1, 0]] {
            check(all, pace).unwrap_or_else(|wrong| panic!("{all:?} {pace:?}: {wrong}"));
        }
    }
}

#[test]
fn a_copy_that_was_completed_leaves_nothing_open() {
    use Sent::{Copies, Done, Good, Sync};
    let mut through = Through::new();
    for sent in [Copies, Sync, Sync, Good, Sync, Done, Sync] {
        assert!(through.takes(sent));
        through.settles();
        through.hears();
    }
    assert!(through.script.is_idle() && !through.unsettled);
    assert_eq!((through.asked, through.settled), (4, 4));
}

#[test]
fn a_ready_that_nothing_is_due_for_is_a_fault() {
    let ready = b"Z\0\0\0\x05I";
    for expected in [
        &[][..],
        // Its answer is still to come, and would be taken for that of the next one.
        &[Expect::Query(ResponseAction::Pass)],
        &[Expect::Query(ResponseAction::Swallow)],
        &[Expect::Parse(ResponseAction::Pass, 1), Expect::Sync],
        &[Expect::Execute(ResponseAction::Pass), Expect::Sync],
    ] {
        let mut script = Script::default();
        expected.iter().for_each(|answer| script.expect(*answer));
        assert_eq!(script.hear(ready, &mut |_| {}), Err(Unasked('Z')), "{expected:?}");
    }
    let mut script = Script::default();
    script.expect(Expect::Sync);
    assert_eq!(script.hear(&[*ready, *ready].concat(), &mut |_| {}), Err(Unasked('Z')));
}
