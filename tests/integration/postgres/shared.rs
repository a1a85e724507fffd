//! Equal reads that wait together are asked once, and nobody reads anything older for that.
//!
//! All values are counters that only rise. What a client reads is at least what was acknowledged
//! before it asked, whoever wrote that; and it is not yet what the client itself writes behind it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rig::postgres::{Cluster, MessageClient, Reply, SUPERUSER};
use rig::wait;
use rig::weir::{Setup, Weir};
use wire::postgres::frontend::{
    Target, put_bind_written, put_describe, put_execute, put_parse, put_query, put_sync,
};

use super::scene::{asks, client, console, number, peer, row, table, until_known};

const KEYS: usize = 5;
const CLIENTS: usize = 24;
const TURNS: u64 = 300;

/// So many characters are more than is kept for those who wait with others.
const LONG: usize = 70_000;

/// What was acknowledged of each key.
type Acknowledged = [AtomicU64; KEYS];

/// One client, which counts its reads.
struct Racer<'a> {
    peer: MessageClient,
    number: u64,
    acknowledged: &'a Acknowledged,
}

fn weir(clusters: &[&Cluster], lines: &str) -> Weir {
    Setup::new().top("workers = 1").table(&table(clusters, lines)).start()
}

fn counters(cluster: &Cluster) {
    cluster.sql(&format!(
        "CREATE TABLE counters (k int PRIMARY KEY, n int8, long text);
         INSERT INTO counters SELECT k, 0, repeat('x', {LONG}) FROM generate_series(0, {KEYS}) k"
    ));
}

fn count(reply: &Reply) -> u64 {
    reply.value().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{reply:?}"))
}

fn query(sql: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_query(&mut out, sql.as_bytes());
    out
}

fn read(key: usize) -> String {
    format!("SELECT n FROM counters WHERE k = {key}")
}

/// The same beside more than is kept for those who wait with others.
fn long(key: usize) -> String {
    format!("SELECT n, long FROM counters WHERE k = {key}")
}

fn increase(key: usize) -> String {
    format!("UPDATE counters SET n = n + 1 WHERE k = {key} RETURNING n")
}

impl Racer<'_> {
    fn asks(&mut self, sql: &str) -> u64 {
        count(&asks(&mut self.peer, sql))
    }

    fn hears(&mut self) -> u64 {
        count(&self.peer.reply().expect("it is answered"))
    }

    /// Prepares a read, under a name of its own.
    fn prepares(&mut self) {
        let (mut out, name) = (Vec::new(), format!("of_{}", self.number));
        put_parse(&mut out, name.as_bytes(), b"SELECT n FROM counters WHERE k = $1", &[23]);
        put_sync(&mut out);
        self.peer.send(&out).expect("it is taken");
        assert_eq!(self.peer.reply().expect("it is answered").error, None);
    }

    /// Asks by what it has prepared.
    fn asks_prepared(&self, key: usize) -> Vec<u8> {
        let (mut out, name, value) = (Vec::new(), format!("of_{}", self.number), key.to_string());
        let mut values = Vec::from((value.len() as u32).to_be_bytes());
        values.extend_from_slice(value.as_bytes());
        put_bind_written(&mut out, name.as_bytes(), 1, &values);
        put_describe(&mut out, Target::Portal(b""));
        put_execute(&mut out, b"", 0);
        put_sync(&mut out);
        out
    }

    /// Reads what is there at least: as text, or by what it has prepared.
    fn reads(&mut self, key: usize, is_prepared: bool) {
        let least = self.acknowledged[key].load(Ordering::SeqCst);
        let out = if is_prepared { self.asks_prepared(key) } else { query(&read(key)) };
        self.peer.send(&out).expect("it is taken");
        let read = self.hears();
        assert!(read >= least, "{read} of at least {least}");
    }

    /// Reads again and again without waiting, the first time more than is kept for several: what
    /// it sees is never older than what it saw before.
    fn reads_on(&mut self, key: usize) {
        let least = self.acknowledged[key].load(Ordering::SeqCst);
        let (long, text) = (query(&long(key)), query(&read(key)));
        let prepared = self.asks_prepared(key);
        let all = [&*long, &text, &prepared, &text, &prepared];
        self.peer.send(&all.concat()).expect("it is taken");
        let read: Vec<u64> = all.iter().map(|_| self.hears()).collect();
        assert!(read[0] >= least && read.is_sorted(), "{read:?} of at least {least}");
    }

    fn writes(&mut self, key: usize) {
        let written = self.asks(&increase(key));
        self.acknowledged[key].fetch_max(written, Ordering::SeqCst);
        let read = self.asks(&read(key));
        assert!(read >= written, "{read} behind its own {written}");
    }

    /// Reads, writes and reads without waiting: in one piece, or each by itself. `first` is what it
    /// reads first.
    fn does_not_wait(&mut self, key: usize, first: &str, in_pieces: bool) {
        let least = self.acknowledged[key].load(Ordering::SeqCst);
        let all = [first, &increase(key), &read(key)].map(query);
        match in_pieces {
            true => all.iter().for_each(|of| self.peer.send(of).expect("it is taken")),
            false => self.peer.send(&all.concat()).expect("it is taken"),
        }
        let [before, written, behind] = [(); 3].map(|()| self.hears());
        assert!(
            least <= before && before < written && written <= behind,
            "{least} {before} {written} {behind}"
        );
        self.acknowledged[key].fetch_max(written, Ordering::SeqCst);
    }

    /// A transaction sees what was there when it read first, and what it writes.
    fn begins(&mut self, key: usize) {
        assert_eq!(asks(&mut self.peer, "BEGIN").status, 'T');
        let least = self.acknowledged[key].load(Ordering::SeqCst);
        let first = asks(&mut self.peer, &read(key));
        assert_eq!(first.status, 'T');
        assert!(count(&first) >= least, "{first:?} of at least {least}");
        let written = self.asks(&increase(key));
        assert!(self.asks(&read(key)) == written && written > count(&first));
        assert_eq!(asks(&mut self.peer, "COMMIT").status, 'I');
        self.acknowledged[key].fetch_max(written, Ordering::SeqCst);
    }

    fn races(&mut self) {
        let seed = self.number;
        self.prepares();
        for turn in 0..TURNS {
            // All are at the same few keys at a time.
            let key = (turn / 20 + seed % 2) as usize % KEYS;
            match (turn + seed) % 24 {
                0 => self.writes(key),
                1 => self.does_not_wait(key, &read(key), false),
                2 => self.does_not_wait(key, &read(key), true),
                3 => self.begins(key),
                4 | 16 if turn % 5 == 0 => {
                    self.does_not_wait(key, &long(key), turn % 2 == 0);
                }
                5 | 11 | 17 | 23 => self.reads_on(key),
                turn => self.reads(key, turn % 2 == 0),
            }
        }
    }
}

fn shared(weir: &Weir) -> u64 {
    weir.metrics().sum("weir_postgres_shared_total", &[]) as u64
}

/// Has many clients race, in one go.
fn race(cluster: &Cluster, weir: &Weir) {
    counters(cluster);
    until_known(weir, &mut client(weir).expect("it is let in"));
    let acknowledged = Acknowledged::default();
    thread::scope(|scope| {
        let racers: Vec<_> = (0..CLIENTS as u64)
            .map(|number| {
                let mut racer = Racer { peer: peer(weir), number, acknowledged: &acknowledged };
                scope.spawn(move || racer.races())
            })
            .collect();
        racers.into_iter().for_each(|racer| racer.join().expect("it reads right"));
    });
}

#[test]
fn a_shared_read_is_no_older_than_what_was_acknowledged_before_it() {
    // On lanes; where most find none with room; and where all wait for a server connection.
    for lanes in ["count = 1", "count = 1\ndepth = 2", "slow = \"1us\""] {
        let cluster = Cluster::start();
        let lines = format!("[postgres.pool]\nsize = 8\n[postgres.lanes]\n{lanes}");
        let weir = weir(&[&cluster], &lines);
        race(&cluster, &weir);
        let count = shared(&weir);
        assert!(count > 0, "{lanes}: nobody waited together");
        let stats = row(&mut console(&weir), "SHOW STATS_TOTALS", "database", SUPERUSER);
        assert_eq!(number(&stats, "shared_query_count"), count);
        // It tells what was summed up last, which is done each second.
        wait::until("the status tells it", wait::LONG, || {
            weir.must_run(&["status"]).contains("reads shared")
        });
        println!("{lanes}: {count} reads shared");
    }
}

#[test]
fn each_read_is_asked_where_reads_are_not_shared() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "share-reads = false\n[postgres.lanes]\ncount = 1");
    race(&cluster, &weir);
    assert_eq!(shared(&weir), 0);
}

/// A read of so many rows with each other: tables that nobody changes.
fn slow(cluster: &Cluster, rows: usize) -> String {
    cluster.sql(&format!(
        "DROP TABLE IF EXISTS heavy;
         CREATE TABLE heavy (v int); INSERT INTO heavy SELECT generate_series(1, {rows})"
    ));
    "SELECT count(*) FROM heavy a, heavy b WHERE a.v <> b.v".to_owned()
}

/// Has so many clients ask for the same at once; how many the server was asked for.
fn asked_at_once(weir: &Weir, clients: usize, sql: &str) -> u64 {
    let mut peers: Vec<_> = (0..clients).map(|_| peer(weir)).collect();
    // How long it runs is known from then on.
    for _ in 0..3 {
        assert_eq!(asks(&mut peers[0], sql).error, None);
    }
    let before = shared(weir);
    peers.iter_mut().for_each(|peer| peer.send(&query(sql)).expect("it is taken"));
    let heard: Vec<_> = peers.iter_mut().map(|peer| peer.reply().expect("an answer")).collect();
    assert!(heard.iter().all(|reply| reply.error.is_none() && reply.value() == heard[0].value()));
    clients as u64 - (shared(weir) - before)
}

#[test]
fn a_server_is_asked_once_for_what_many_wait_for() {
    for (rows, lines) in [
        (220, "[postgres.lanes]\ncount = 1\ndepth = 1\nslow = \"60s\""),
        (500, "[postgres.pool]\nsize = 2"),
    ] {
        let cluster = Cluster::start();
        let sql = slow(&cluster, rows);
        let weir = weir(&[&cluster], lines);
        until_known(&weir, &mut client(&weir).expect("it is let in"));
        let asked = asked_at_once(&weir, 200, &sql);
        println!("{lines:?}: 200 asked, the server ran {asked}");
        assert!(asked <= 10, "{lines}: {asked} of 200");
    }
}

/// Clients that wait for the only connection, behind whoever has it.
fn wait_together(
    weir: &Weir,
    first: &mut MessageClient,
    count: usize,
    sql: &str,
) -> Vec<MessageClient> {
    assert_eq!(asks(first, "BEGIN; SELECT 1").status, 'T');
    let mut peers: Vec<_> = (0..count).map(|_| peer(weir)).collect();
    peers.iter_mut().for_each(|peer| peer.send(&query(sql)).expect("it is taken"));
    let mut console = console(weir);
    wait::until("they wait", wait::LONG, || {
        let row = row(&mut console, "SHOW POOLS", "database", SUPERUSER);
        number(&row, "cl_waiting") == count as u64
    });
    peers
}

fn on_one_connection(cluster: &Cluster) -> Weir {
    let lines = "[postgres.pool]\nsize = 1\n[postgres.lanes]\nslow = \"1us\"";
    let weir = weir(&[cluster], lines);
    let mut client = client(&weir).expect("it is let in");
    wait::until("the catalogue is known", wait::LONG, || {
        client.simple_query("SELECT count(*) FROM pg_class").expect("it is run");
        weir.metrics().sum("weir_postgres_unproven_total", &[("reason", "proven")]) > 0.0
    });
    weir
}

#[test]
fn who_leaves_or_cancels_takes_the_answer_from_nobody() {
    let cluster = Cluster::start();
    let sql = slow(&cluster, 2_000);
    let weir = on_one_connection(&cluster);
    let mut first = peer(&weir);
    assert_eq!(asks(&mut first, &sql).error, None);
    let mut waiting = wait_together(&weir, &mut first, 6, &sql);
    // One leaves, and one is cancelled, before a server is asked.
    drop(waiting.pop());
    let mut cancelled = waiting.pop().expect("it waits");
    cancelled.cancel().expect("it is taken");
    assert_eq!(cancelled.reply().expect("it is told").error.as_deref(), Some("57014"));
    assert_eq!(asks(&mut first, "COMMIT").status, 'I');
    let runs = || {
        let like = "query LIKE '%heavy a%' AND state = 'active' AND pid <> pg_backend_pid()";
        cluster.value(&format!("SELECT count(*) FROM pg_stat_activity WHERE {like}"))
    };
    wait::until("it runs", wait::LONG, || runs() == "1");
    // One more of each while it runs; the others hear the answer.
    waiting[0].cancel().expect("it is taken");
    drop(waiting.pop());
    assert_eq!(waiting[0].reply().expect("it is told").error.as_deref(), Some("57014"));
    for peer in &mut waiting[1..] {
        assert_eq!(peer.reply().expect("it is answered").value(), Some("3998000"));
    }
    assert!(!cluster.log().contains("canceling statement"), "others waited for it");
    // The connection serves others, and it is the same.
    assert_eq!(asks(&mut cancelled, "SELECT 1").value(), Some("1"));
}

#[test]
fn a_read_that_all_have_cancelled_is_cancelled_at_the_server() {
    let cluster = Cluster::start();
    let sql = slow(&cluster, 0);
    let weir = on_one_connection(&cluster);
    let mut first = peer(&weir);
    assert_eq!(asks(&mut first, &sql).value(), Some("0"));
    cluster.sql("INSERT INTO heavy SELECT generate_series(1, 100000)");
    let mut waiting = wait_together(&weir, &mut first, 3, &sql);
    assert_eq!(asks(&mut first, "COMMIT").status, 'I');
    let runs = || {
        let like = "query LIKE '%heavy a%' AND state = 'active' AND pid <> pg_backend_pid()";
        cluster.value(&format!("SELECT count(*) FROM pg_stat_activity WHERE {like}"))
    };
    wait::until("it runs", wait::LONG, || runs() == "1");
    for peer in &waiting {
        peer.cancel().expect("it is taken");
    }
    for peer in &mut waiting {
        assert_eq!(peer.reply().expect("it is told").error.as_deref(), Some("57014"));
    }
    wait::until("it ends", wait::LONG, || runs() == "0");
    assert_eq!(asks(&mut first, "SELECT 1").value(), Some("1"));
}

#[test]
fn a_long_answer_is_asked_for_each_and_goes_as_fast_as_it_is_taken() {
    let cluster = Cluster::start();
    cluster.sql("CREATE TABLE lines (n int, line text)");
    cluster.sql("INSERT INTO lines SELECT n, repeat('x', 1000) FROM generate_series(1, 40000) n");
    let weir = on_one_connection(&cluster);
    let mut first = peer(&weir);
    let sql = "SELECT line FROM lines ORDER BY n";
    assert_eq!(asks(&mut first, "SELECT count(*) FROM lines").value(), Some("40000"));
    let mut waiting = wait_together(&weir, &mut first, 4, sql);
    assert_eq!(asks(&mut first, "COMMIT").status, 'I');
    // 40 MB each, which nobody reads for a while: more than Weir may hold for a client.
    thread::sleep(Duration::from_secs(1));
    thread::scope(|scope| {
        for peer in &mut waiting {
            let reads = || assert_eq!(peer.reply().expect("it is answered").rows.len(), 40_000);
            scope.spawn(reads);
        }
    });
    assert_eq!(shared(&weir), 0);
}

#[test]
fn what_is_not_the_same_at_any_moment_is_asked_by_itself() {
    let cluster = Cluster::start();
    let weir = on_one_connection(&cluster);
    let mut first = peer(&weir);
    for sql in
        ["SELECT gen_random_uuid()", "SELECT random()", "SELECT clock_timestamp()", "SELECT now()"]
    {
        let mut waiting = wait_together(&weir, &mut first, 4, sql);
        assert_eq!(asks(&mut first, "COMMIT").status, 'I');
        let replies = waiting.iter_mut().map(|peer| peer.reply().expect("it is answered"));
        let mut values: Vec<_> = replies.map(|reply| reply.value().map(str::to_owned)).collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), 4, "{sql}: {values:?}");
    }
    assert_eq!(shared(&weir), 0);
}

#[test]
fn only_those_share_a_read_who_see_the_same() {
    let cluster = Cluster::start();
    for schema in ["one", "two"] {
        cluster.sql(&format!(
            "CREATE SCHEMA {schema}; CREATE TABLE {schema}.named (name text);
             INSERT INTO {schema}.named VALUES ('{schema}')"
        ));
    }
    let weir = on_one_connection(&cluster);
    let mut first = peer(&weir);
    assert_eq!(asks(&mut first, "BEGIN; SELECT 1").status, 'T');
    let mut waiting = Vec::new();
    for at in 0..8 {
        let schema = ["one", "two"][at % 2];
        let mut peer = peer(&weir);
        peer.send(&query(&format!("SET search_path = {schema}"))).expect("it is taken");
        peer.send(&query("SELECT name FROM named")).expect("it is taken");
        waiting.push((peer, schema));
    }
    thread::sleep(Duration::from_millis(300));
    assert_eq!(asks(&mut first, "COMMIT").status, 'I');
    for (peer, schema) in &mut waiting {
        assert_eq!(peer.reply().expect("it is answered").tags, ["SET"]);
        assert_eq!(peer.reply().expect("it is answered").value(), Some(*schema));
    }
}
