//! Many clients with sessions of their own on few connections to a real PostgreSQL: each finds its
//! own answers, settings, transactions and rows, whatever the others do and however they leave.

mod actor;
mod acts;
mod harsh;
mod model;
mod strangers;
mod transactions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use actor::{ActResult, Actor, IsolationTarget, USERS, seen};
use model::Ledger;
use rig::chance::{self, Length};
use rig::postgres::{Cluster, MessageClient};
use rig::wait;
use rig::weir::{Setup, Weir};
use wire::postgres::frontend::put_query;

const CLIENTS: usize = 120;
/// What each of them does.
const ACTS: u64 = 70;
/// Server connections of each user.
const POOL: usize = 15;

fn weir(cluster: &Cluster) -> Weir {
    let url = cluster.url();
    let table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\nshare-reads = true\n\
         [postgres.pool]\nsize = {POOL}\n\
         [[postgres.auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n\
         [[postgres.backend]]\nname = \"a\"\nurl = \"{url}\"\n"
    );
    Setup::new().top("workers = 2").table(&table).start()
}

fn place(cluster: &Cluster, weir: &Weir) -> IsolationTarget {
    cluster.sql(
        "CREATE TABLE ledger (client int, n int8);
         GRANT ALL ON ledger TO public;
         CREATE INDEX ON ledger (client, n);
         CREATE ROLE actor",
    );
    for user in 0..USERS {
        cluster.sql(&format!("CREATE ROLE u{user} LOGIN; GRANT actor TO u{user}"));
    }
    let shown = |name| cluster.value(&format!("SHOW {name}"));
    let [zone, timeout, path] = ["TimeZone", "statement_timeout", "search_path"].map(shown);
    let defaults = [String::new(), String::new(), zone, timeout, path];
    IsolationTarget { address: weir.postgres, defaults, seed: chance::seed() }
}

/// A client until it has done its acts or something is wrong; how many it did.
fn live(
    number: usize,
    place: &IsolationTarget,
    length: Length,
    stop: &AtomicBool,
) -> ActResult<(u64, Ledger)> {
    let mut done = 0;
    let lived = Actor::new(number, place).and_then(|mut actor| {
        while length.goes_on(done) && !stop.load(Ordering::Relaxed) {
            actor.act()?;
            done += 1;
        }
        Ok(actor.ledger)
    });
    if lived.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    lived.map(|ledger| (done, ledger))
}

#[test]
fn every_client_finds_its_own_session_whatever_the_others_do() {
    let cluster = Cluster::start();
    let weir = weir(&cluster);
    let place = place(&cluster, &weir);
    let stop = AtomicBool::new(false);
    let length = Length::of(ACTS);
    let lived: Vec<_> = thread::scope(|scope| {
        let (place, stop) = (&place, &stop);
        let clients: Vec<_> =
            (0..CLIENTS).map(|n| scope.spawn(move || live(n, place, length, stop))).collect();
        clients.into_iter().map(|client| client.join().expect("no panic")).collect()
    });
    let wrong: Vec<_> = lived.iter().filter_map(|lived| lived.as_ref().err()).collect();
    let (seed, count) = (place.seed, wrong.len());
    assert!(wrong.is_empty(), "seed {seed}: {count} are wrong, the first:\n{}", wrong[0]);
    let lived: Vec<_> = lived.into_iter().flatten().collect();
    let acts: u64 = lived.iter().map(|(done, _)| done).sum();
    eprintln!("{acts} acts of {CLIENTS} clients");

    nothing_is_left(&cluster);
    for (number, (_, ledger)) in lived.iter().enumerate() {
        rows_are_there_once(&cluster, number, ledger);
    }
    new_clients_find_the_defaults(&place);
    for trouble in ["panicked", "nobody asked for", "a lane is given up"] {
        assert!(!weir.log().contains(trouble), "{trouble}");
    }
}

/// No transaction is open, and nothing of a session is there, once those who left are forgotten.
fn nothing_is_left(cluster: &Cluster) {
    for (what, sql) in [
        ("no transaction is open", "FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"),
        ("no statement runs", "FROM pg_stat_activity WHERE state = 'active' AND usename LIKE 'u_'"),
        ("no temporary table is there", "FROM pg_class WHERE relpersistence = 't'"),
        ("no row is locked", "FROM pg_locks WHERE relation = 'ledger'::regclass"),
    ] {
        wait::until(what, wait::LONG, || cluster.value(&format!("SELECT count(*) {sql}")) == "0");
    }
}

fn rows_are_there_once(cluster: &Cluster, number: usize, ledger: &Ledger) {
    let rows = cluster.sql(&format!("SELECT n FROM ledger WHERE client = {number} ORDER BY n"));
    let rows: Vec<u64> = rows.iter().filter_map(|row| row[0].as_deref()?.parse().ok()).collect();
    assert!(rows.is_sorted_by(|a, b| a < b), "client {number} has a row twice");
    for n in 1..=ledger.used() {
        let there = rows.binary_search(&n).is_ok();
        let known = !ledger.perhaps.contains(&n);
        assert!(!known || there == ledger.there.contains(&n), "client {number}: row {n}: {there}");
    }
}

/// Clients that say nothing of settings, at once on many connections, and on a lane.
fn new_clients_find_the_defaults(place: &IsolationTarget) {
    let mut clients = Vec::new();
    for (begin, count) in [("BEGIN;", POOL - 4), ("", 3)] {
        for user in (0..USERS).flat_map(|user| vec![user; count]) {
            let user = format!("u{user}");
            let parameters = [("user", &*user), ("database", "postgres")];
            let mut peer =
                MessageClient::connect(place.address, &parameters).expect("it takes clients");
            let mut out = Vec::new();
            put_query(&mut out, format!("{begin}SELECT {}", seen()).as_bytes());
            peer.send(&out).expect("it is sent");
            let reply = peer.reply().expect("it answers");
            let mut wanted = place.defaults.to_vec();
            wanted.push(format!("{user}/{user}"));
            assert_eq!(reply.rows, [wanted.into_iter().map(Some).collect::<Vec<_>>()]);
            clients.push(peer);
        }
    }
}
