//! Clients that say anything at any place of a COPY: they hear what they would hear without Weir,
//! and nobody else hears of it.
//!
//! `WEIR_TEST_ANSWERS` is how many answers the others are to have each time; `WEIR_TEST_SEED`
//! begins another run. `make copies` is the long form.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rig::chance;
use rig::late::Late;
use rig::postgres::{Cluster, MessageClient, SUPERUSER};
use rig::weir::{Setup, Weir};
use wire::postgres::frontend::{
    put_bind, put_execute, put_flush, put_parse, put_query, put_sync, put_terminate,
};
use wire::postgres::message;

use super::scene::table;

/// Clients whose answers are their own business.
const OTHERS: u64 = 4;
const COPIERS: u64 = 3;
/// How long the answers of a short run take at most.
const PATIENCE: Duration = Duration::from_secs(60);
/// An answer takes less in the mean, also from a pool of one where each COPY that fails costs a
/// login at a server that is heard late.
const ANSWER_MAX: Duration = Duration::from_millis(200);

const CONTENTS: &str = "CREATE TABLE copied (n int); CREATE TABLE acked (n int8)";
/// What a stream ends with, wherever the server is by then.
const END: &str = "the end of the stream";

/// A part of what a copying client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyMessage {
    Begin,
    Query,
    QueryOfTwo,
    Execute,
    /// Another statement, which is not bound to anything.
    BadBind,
    Line,
    BadLine,
    Done,
    Fail,
    Sync,
    Flush,
    Select,
    Goodbye,
}

impl CopyMessage {
    fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Begin => put_query(out, b"BEGIN"),
            Self::Query => put_query(out, b"COPY copied FROM STDIN"),
            Self::QueryOfTwo => put_query(out, b"COPY copied FROM STDIN; COPY copied FROM STDIN"),
            Self::Execute => {
                put_parse(out, b"", b"COPY copied FROM STDIN", &[]);
                put_bind(out, b"", b"", &[]);
                put_execute(out, b"", 0);
            }
            Self::BadBind => {
                put_parse(out, b"", b"COPY copied FROM STDIN", &[]);
                put_bind(out, b"", b"", &[Some(b"1")]);
                put_execute(out, b"", 0);
            }
            Self::Line => message(out, b'd', |out| out.extend_from_slice(b"1\n")),
            Self::BadLine => message(out, b'd', |out| out.extend_from_slice(b"no number\n")),
            Self::Done => message(out, b'c', |_| {}),
            Self::Fail => message(out, b'f', |out| out.extend_from_slice(b"no\0")),
            Self::Sync => put_sync(out),
            Self::Flush => put_flush(out),
            Self::Select => put_query(out, b"SELECT 1"),
            Self::Goodbye => put_terminate(out),
        }
    }
}

fn put_all(parts: &[CopyMessage]) -> Vec<u8> {
    let mut out = Vec::new();
    parts.iter().for_each(|part| part.put(&mut out));
    out
}

fn connect(address: SocketAddr) -> std::io::Result<MessageClient> {
    MessageClient::connect(address, &[("user", SUPERUSER), ("database", SUPERUSER)])
}

/// The kinds of all messages that answer a stream; `!` where the connection ends.
fn heard(address: SocketAddr, parts: &[CopyMessage], waits: bool) -> String {
    let mut peer = connect(address).expect("it is let in");
    let mut heard = String::new();
    let hears = |peer: &mut MessageClient, heard: &mut String, until: u8| loop {
        let Ok((tag, body)) = peer.message() else {
            heard.push('!');
            return false;
        };
        match tag {
            b'S' | b'N' => {}
            b'Z' => heard.extend(['Z', char::from(body[0])]),
            _ => heard.push(char::from(tag)),
        }
        if tag == until && (tag != b'D' || body.ends_with(END.as_bytes())) {
            return true;
        }
    };
    let mut rest = parts;
    if waits {
        let begins = parts.iter().position(|part| {
            matches!(part, CopyMessage::Query | CopyMessage::QueryOfTwo | CopyMessage::Execute)
        });
        let (first, behind) = parts.split_at(begins.map_or(0, |at| at + 1));
        // A round that goes on has no answer before a Flush.
        peer.send(&put_all(&[first, &[CopyMessage::Flush]].concat())).expect("it is taken");
        if !hears(&mut peer, &mut heard, b'G') {
            return heard;
        }
        rest = behind;
        for part in rest {
            // The connection may have ended.
            let _ = peer.send(&put_all(&[*part]));
        }
    } else {
        peer.send(&put_all(rest)).expect("it is taken");
    }
    let mut end = put_all(&[CopyMessage::Fail, CopyMessage::Sync]);
    put_query(&mut end, format!("ROLLBACK; SELECT '{END}'").as_bytes());
    let _ = peer.send(&end);
    if hears(&mut peer, &mut heard, b'D') {
        hears(&mut peer, &mut heard, b'Z');
    }
    heard
}

/// Each COPY, with one or two messages more at each of its places.
fn streams() -> Vec<Vec<CopyMessage>> {
    use CopyMessage::{BadLine, Begin, Done, Execute, Fail, Flush, Line, Query, QueryOfTwo, Sync};
    let mut streams = Vec::new();
    for (begin, end) in [
        (&[Query][..], &[Done][..]),
        (&[Execute], &[Done, Sync]),
        (&[Execute, Sync], &[Done, Sync]),
        (&[QueryOfTwo], &[Done, Line, Done]),
    ] {
        for lines in [[Line, Line], [BadLine, Line], [Line, BadLine]] {
            for in_transaction in [false, true] {
                let begin =
                    if in_transaction { [&[Begin], begin].concat() } else { begin.to_vec() };
                let stream = [&begin, &lines[..], end].concat();
                let more = [&[Sync][..], &[Flush], &[Done], &[Fail], &[Sync, Sync], &[Fail, Sync]];
                for at in begin.len()..=stream.len() {
                    for more in more {
                        streams.push([&stream[..at], more, &stream[at..]].concat());
                    }
                    // Amid the data and behind it.
                    streams.push([&stream[..at], &[Sync], &stream[at..], &[Sync]].concat());
                }
                streams.push(stream);
            }
        }
    }
    streams
}

fn weir(cluster: &Cluster, port: Option<SocketAddr>, pool: usize, lanes: bool) -> Weir {
    let lines = format!("pool.size = {pool}\nlanes.on = {lanes}");
    let mut table = table(&[cluster], &lines);
    if let Some(port) = port {
        table = table.replace(&cluster.address.to_string(), &port.to_string());
        assert!(table.contains(&port.to_string()), "{table}");
    }
    Setup::new().top("workers = 1").table(&table).start()
}

#[test]
fn a_client_hears_of_a_copy_what_it_would_hear_alone_whatever_it_sends_amid_it() {
    let cluster = Cluster::start();
    cluster.sql(CONTENTS);
    let weir = weir(&cluster, None, 1, false);
    let mut other = connect(weir.postgres).expect("it is let in");
    let streams = streams();
    for (n, stream) in streams.iter().enumerate() {
        for waits in [false, true] {
            let directly = heard(cluster.address, stream, waits);
            let through = heard(weir.postgres, stream, waits);
            assert_eq!(through, directly, "{stream:?}, apart: {waits}");
            let mut out = Vec::new();
            put_query(&mut out, format!("SELECT {n}").as_bytes());
            other.send(&out).expect("it is taken");
            let reply = other.reply().expect("it is answered");
            assert_eq!(reply.value(), Some(&*n.to_string()), "behind {stream:?}, apart: {waits}");
        }
    }
    eprintln!("{} streams, at once and apart", streams.len());
    for trouble in ["panicked", "nobody asked for", "do not add up"] {
        assert!(!weir.log().contains(trouble), "{trouble}: {}", weir.log());
    }
}

#[test]
fn a_copy_in_one_packet_is_answered_whole_with_the_round_behind_it() {
    use CopyMessage::{Done, Execute, Line, Select, Sync};
    let cluster = Cluster::start();
    cluster.sql(CONTENTS);
    let weir = weir(&cluster, None, 1, false);
    for _ in 0..20 {
        for behind in [&[][..], &[Select]] {
            let stream = [&[Execute, Line, Done, Sync], behind].concat();
            let mut peer = connect(weir.postgres).expect("it is let in");
            peer.send(&put_all(&stream)).expect("it is taken");
            assert_eq!(peer.reply().expect("it asks for data").status, 'G');
            let reply = peer.reply().expect("it is answered");
            assert_eq!((reply.tags, reply.status), (vec!["COPY 1".to_owned()], 'I'));
            for _ in behind {
                assert_eq!(peer.reply().expect("it is answered").value(), Some("1"));
            }
        }
    }
}

#[test]
fn a_connection_on_which_a_copy_failed_with_a_sync_amid_its_data_ends_with_its_client() {
    use CopyMessage::{BadLine, Query, Sync};
    let cluster = Cluster::start();
    cluster.sql(CONTENTS);
    let weir = weir(&cluster, None, 1, false);
    let process = |peer: &mut MessageClient| {
        let mut out = Vec::new();
        put_query(&mut out, b"SELECT pg_backend_pid()");
        peer.send(&out).expect("it is taken");
        peer.reply().expect("it is answered").value().map(str::to_owned)
    };
    let mut peer = connect(weir.postgres).expect("it is let in");
    peer.send(&put_all(&[Query, BadLine, Sync, Sync])).expect("it is taken");
    assert_eq!(peer.reply().expect("it asks for data").status, 'G');
    assert_eq!(peer.reply().expect("it is answered").error.as_deref(), Some("22P02"));
    for _ in 0..2 {
        assert_eq!(peer.reply().expect("each Sync is answered").status, 'I');
    }
    let its = process(&mut peer);
    assert_eq!(process(&mut peer), its, "it keeps the connection");
    drop(peer);
    let mut next = connect(weir.postgres).expect("it is let in");
    assert_ne!(process(&mut next), its, "the next one has another");
}

/// A stream by chance, of a client that knows the protocol or does not.
fn chance(random: &mut StdRng) -> Vec<CopyMessage> {
    use CopyMessage::{
        BadBind, BadLine, Begin, Done, Execute, Fail, Flush, Goodbye, Line, Query, QueryOfTwo,
        Select, Sync,
    };
    let mut parts = Vec::new();
    if random.random_ratio(1, 5) {
        parts.push(Begin);
    }
    for _ in 0..random.random_range(1..3) {
        parts
            .push([Query, Query, QueryOfTwo, Execute, Execute, BadBind][random.random_range(0..6)]);
        for _ in 0..random.random_range(0..6) {
            let of = [
                Sync, Sync, Sync, Line, Line, BadLine, BadLine, Flush, Done, Fail, Select, Goodbye,
            ];
            parts.push(of[random.random_range(0..of.len())]);
        }
        parts.push([Done, Fail, Sync, BadLine][random.random_range(0..4)]);
        if random.random() {
            parts.push(Sync);
        }
    }
    parts
}

/// Copies until it is stopped, coming and going; how many times.
fn copies(address: SocketAddr, seed: u64, stop: &AtomicBool) -> u64 {
    let mut random = StdRng::seed_from_u64(seed);
    let mut times = 0;
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut peer) = connect(address) else { continue };
        for n in 0..random.random_range(1..4) {
            let parts = chance(&mut random);
            let at_once = random.random();
            let sent = if at_once {
                peer.send(&put_all(&parts))
            } else {
                parts.iter().try_for_each(|part| peer.send(&put_all(&[*part])))
            };
            times += 1;
            // Its turn comes; then it may be told more, or be closed, or think that it never will.
            let mut patience = if n == 0 { PATIENCE } else { Duration::from_millis(5) };
            while sent.is_ok() && peer.hears_within(patience).is_ok_and(|hears| hears) {
                if peer.message().is_err() {
                    break;
                }
                patience = Duration::from_millis(random.random_range(1..20));
            }
            if sent.is_err() {
                break;
            }
        }
    }
    times
}

/// Asks until as many answers were heard as are wanted; the rows it was told of.
fn asks(
    address: SocketAddr,
    number: u64,
    wanted: u64,
    heard: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Vec<u64>, String> {
    let mut acked = Vec::new();
    let mut peer = connect(address).map_err(|e| e.to_string())?;
    let mut n = 0;
    while heard.load(Ordering::Relaxed) < wanted && !stop.load(Ordering::Relaxed) {
        let mut out = Vec::new();
        let ids: Vec<u64> = (0..1 + n % 4).map(|more| number * 1_000_000_000 + n + more).collect();
        for id in &ids {
            match id % 4 {
                0 => put_query(&mut out, format!("INSERT INTO acked VALUES ({id})").as_bytes()),
                1 => {
                    put_parse(&mut out, b"", format!("SELECT {id}::int8").as_bytes(), &[]);
                    put_bind(&mut out, b"", b"", &[]);
                    put_execute(&mut out, b"", 0);
                    put_sync(&mut out);
                }
                _ => put_query(&mut out, format!("SELECT {id}").as_bytes()),
            }
        }
        n += ids.len() as u64;
        peer.send(&out).map_err(|e| e.to_string())?;
        for id in ids {
            let reply = peer.reply().map_err(|e| format!("{id}: {e}"))?;
            let is_its = match id % 4 {
                0 => reply.tags == ["INSERT 0 1"],
                _ => reply.value() == Some(&*id.to_string()),
            };
            if !is_its || reply.error.is_some() || reply.status != 'I' {
                return Err(format!("{id} was answered by {reply:?}"));
            }
            if id % 4 == 0 {
                acked.push(id);
            }
            heard.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(acked)
}

/// Clients that copy beside others, until those have had so many answers.
fn beside_copiers(cluster: &Cluster, weir: &Weir, wanted: u64, seed: u64) {
    let (stop, heard) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let address = weir.postgres;
    let (answers, times) = thread::scope(|scope| {
        let (stop, heard) = (&stop, &heard);
        let copiers: Vec<_> = (0..COPIERS)
            .map(|n| scope.spawn(move || copies(address, seed * 100 + n, stop)))
            .collect();
        let others: Vec<_> = (0..OTHERS)
            .map(|n| {
                scope.spawn(move || {
                    let asked = asks(address, n + 1, wanted, heard, stop);
                    if asked.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    asked
                })
            })
            .collect();
        let limit = PATIENCE + ANSWER_MAX * u32::try_from(wanted).unwrap_or(u32::MAX);
        while !others.iter().all(|of| of.is_finished()) && begun.elapsed() < limit {
            thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        let answers: Vec<_> = others.into_iter().map(|of| of.join().expect("no panic")).collect();
        let times = copiers.into_iter().map(|of| of.join().expect("no panic")).sum::<u64>();
        (answers, times)
    });
    let heard = heard.load(Ordering::Relaxed);
    eprintln!("{heard} answers beside {times} streams of a COPY in {:?}", begun.elapsed());
    assert!(heard >= wanted || answers.iter().any(Result::is_err), "hardly anything is answered");
    let wrong: Vec<_> = answers.iter().filter_map(|of| of.as_ref().err()).collect();
    assert!(
        wrong.is_empty(),
        "WEIR_TEST_SEED={seed}: {} wrong, the first: {}",
        wrong.len(),
        wrong[0]
    );
    let rows = cluster.sql("SELECT n FROM acked");
    let there: HashSet<u64> =
        rows.iter().filter_map(|row| row[0].as_deref()?.parse().ok()).collect();
    let lost = answers.into_iter().flatten().flatten().filter(|id| !there.contains(id)).count();
    assert_eq!(lost, 0, "acknowledged and not there");
    cluster.sql("TRUNCATE acked");
    for trouble in ["panicked", "do not add up"] {
        assert!(!weir.log().contains(trouble), "{trouble}");
    }
}

#[test]
fn nobody_hears_the_answers_to_what_others_send_amid_a_copy() {
    let wanted = chance::number("WEIR_TEST_ANSWERS").unwrap_or(8_000);
    let seed = chance::seed();
    let cluster = Cluster::start();
    cluster.sql(CONTENTS);
    // With lanes and batches, too.
    // A pool of one answers few, because each COPY that fails costs it a login.
    for (pool, lanes, tenths) in [(1, false, 1), (2, false, 3), (20, true, 6)] {
        beside_copiers(&cluster, &weir(&cluster, None, pool, lanes), wanted / 10 * tenths, seed);
    }
}

#[test]
fn nobody_hears_them_where_the_server_is_heard_late() {
    let wanted = chance::number("WEIR_TEST_ANSWERS").unwrap_or(100_000) / 100;
    let seed = chance::seed();
    let cluster = Cluster::start();
    cluster.sql(CONTENTS);
    let late = Late::before(cluster.address, Duration::from_millis(15));
    for pool in [1, 2] {
        beside_copiers(
            &cluster,
            &weir(&cluster, Some(late.address), pool, false),
            wanted / 2,
            seed,
        );
    }
}

/// It goes behind any message of a stream, most of the times before it has heard anything.
#[test]
fn whoever_goes_amid_a_copy_leaves_its_server_connection_to_the_next() {
    let seed = chance::seed();
    let cluster = Cluster::start();
    cluster.sql(CONTENTS);
    let weir = weir(&cluster, None, 1, false);
    let mut random = StdRng::seed_from_u64(seed);
    for n in 0..600 {
        let mut parts = chance(&mut random);
        parts.truncate(random.random_range(1..=parts.len()));
        let mut peer = connect(weir.postgres).expect("it is let in");
        if random.random() {
            // The connection may have ended.
            let _ = peer.send(&put_all(&parts));
        } else {
            parts.iter().for_each(|part| drop(peer.send(&put_all(&[*part]))));
        }
        if random.random_ratio(1, 4) {
            let _ = peer.hears_within(Duration::from_millis(20));
        }
        drop(peer);
        let mut next = connect(weir.postgres).expect("it is let in");
        let mut out = Vec::new();
        put_query(&mut out, b"SELECT 1");
        next.send(&out).expect("it is taken");
        let reply = next.reply().ok().and_then(|reply| reply.value().map(str::to_owned));
        let behind = format!("WEIR_TEST_SEED={seed}: {n}, behind {parts:?}");
        assert_eq!(reply.as_deref(), Some("1"), "{behind}");
    }
}
