//! Commits that are confirmed together, through Weir, on servers that crash, refuse and wait.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rand::Rng as _;
use rig::beside::EndGuard;
use rig::postgres::{Cluster, MessageClient, SUPERUSER, Setup};
use rig::weir::Weir;
use rig::{chance, wait};
use rustix::process::{Pid, Signal, kill_process};
use wire::postgres::frontend::put_query;

use super::scene::{client, console, peer, rows, until_known, weir};

/// Crashes of the server.
const CRASHES: usize = 20;
/// More than there are server connections, so that commits are worth sharing.
const WRITERS: usize = 12;
/// Commits of all clients are shared.
const SHARED: &str = "[[postgres.database]]\nname = \"*\"\ncommit = \"shared\"\npool-size = 4";
/// After so long what was told has been heard.
const SETTLES: Duration = Duration::from_millis(300);
/// SQLSTATE of a statement of which nobody knows whether it took effect.
const UNKNOWN: &str = "08007";

/// A server that flushes asynchronous commits as late as it can.
fn lazy() -> Cluster {
    let cluster = Setup::new().setting("wal_writer_delay", "10s").start();
    cluster.sql("CREATE TABLE ledger (id int PRIMARY KEY)");
    cluster
}

fn with(cluster: &Cluster, lines: &str) -> Weir {
    let weir = weir(&[cluster], &format!("{lines}\n{SHARED}"));
    until_known(&weir, &mut client(&weir).expect("it takes clients"));
    weir
}

fn counted(weir: &Weir, name: &str) -> f64 {
    weir.metrics().sum(name, &[])
}

/// Commits that were told once a mark had confirmed them.
fn confirmed(weir: &Weir) -> f64 {
    counted(weir, "weir_postgres_commits_confirmed_total")
}

/// What clients were told of the rows that they have written.
#[derive(Default)]
struct Ledger {
    next: AtomicU32,
    told: Mutex<Vec<u32>>,
    unknown: Mutex<Vec<u32>>,
    ends: AtomicBool,
}

/// How a row is written.
#[derive(Clone, Copy)]
enum Form {
    /// By one statement, which may share a transaction.
    Statement,
    /// In a transaction of the client's own.
    Transaction,
}

impl Ledger {
    fn told(&self) -> MutexGuard<'_, Vec<u32>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self) -> MutexGuard<'_, Vec<u32>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes rows, until it ends or the connection does.
    fn write(&self, peer: &mut MessageClient, form: Form) -> io::Result<()> {
        while !self.ends.load(Ordering::Relaxed) {
            let row = self.next.fetch_add(1, Ordering::Relaxed);
            let insert = format!("INSERT INTO ledger VALUES ({row})");
            let ending = match form {
                Form::Statement => insert,
                Form::Transaction => {
                    ask(peer, "BEGIN")?;
                    if ask(peer, &insert)?.is_some() {
                        ask(peer, "ROLLBACK")?;
                        continue;
                    }
                    "COMMIT".to_owned()
                }
            };
            match ask(peer, &ending)?.as_deref() {
                None => self.told().push(row),
                Some(UNKNOWN) => self.unknown().push(row),
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Writes rows through Weir, on another connection whenever one ends, until it ends.
    fn write_on(&self, weir: &Weir, form: Form) {
        while !self.ends.load(Ordering::Relaxed) {
            let parameters = [("user", SUPERUSER), ("database", SUPERUSER)];
            if let Ok(mut peer) = MessageClient::connect(weir.postgres, &parameters) {
                let _ = self.write(&mut peer, form);
            }
        }
    }

    /// Has clients write until `meanwhile` is over.
    fn while_writing(&self, weir: &Weir, meanwhile: impl FnOnce()) {
        self.ends.store(false, Ordering::Relaxed);
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let form = [Form::Statement, Form::Transaction][writer % 2];
                scope.spawn(move || self.write_on(weir, form));
            }
            let _end = EndGuard(&self.ends);
            meanwhile();
        });
    }

    /// Those that were told to be there and are not.
    fn missing(&self, cluster: &Cluster) -> Vec<u32> {
        let there = written(cluster);
        self.told().iter().copied().filter(|row| !there.contains(row)).collect()
    }
}

fn written(cluster: &Cluster) -> HashSet<u32> {
    let rows = cluster.sql("SELECT id FROM ledger");
    rows.iter().filter_map(|row| row[0].as_deref()?.parse().ok()).collect()
}

/// The SQLSTATE of the error to a Query, where there is one.
fn ask(peer: &mut MessageClient, sql: &str) -> io::Result<Option<String>> {
    let mut query = Vec::new();
    put_query(&mut query, sql.as_bytes());
    peer.send(&query)?;
    Ok(peer.reply()?.error)
}

/// Marks that wait for a standby.
const STUCK: &str = "application_name = 'weir: commit' AND wait_event = 'SyncRep'";

/// Has commits wait for a standby that is not there, until a mark does. Those that wait for
/// themselves before that keep a server connection each, and are let go.
fn lose_standby(cluster: &Cluster) {
    wait_for_standbys(cluster, "absent");
    let stuck = format!("SELECT count(*) FROM pg_stat_activity WHERE {STUCK}");
    wait::until("a mark waits", wait::LONG, || {
        let_go(cluster);
        cluster.value(&stuck) != "0"
    });
}

/// Cancels the wait of commits that wait for themselves.
fn let_go(cluster: &Cluster) {
    cluster.sql(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
         WHERE wait_event = 'SyncRep' AND application_name <> 'weir: commit'",
    );
}

/// Has the server wait for standbys of these names.
fn wait_for_standbys(cluster: &Cluster, names: &str) {
    cluster.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
    cluster.reload();
    let shown = || cluster.value("SHOW synchronous_standby_names") == names;
    wait::until("the setting is taken", wait::LONG, shown);
}

#[test]
fn a_commit_that_was_told_outlives_each_crash_of_its_server() {
    let (mut cluster, mut chance) = (lazy(), chance::draws());
    let weir = with(&cluster, "");
    let ledger = Ledger::default();
    let (mut lost, mut before) = (0, 0.0);
    for crash in 0..CRASHES {
        let lives = Duration::from_millis(chance.random_range(0..150));
        ledger.while_writing(&weir, || {
            wait::until("commits are shared", wait::LONG, || confirmed(&weir) > before);
            thread::sleep(lives);
            cluster.kill();
            thread::sleep(Duration::from_millis(100));
            cluster.start_again();
        });
        before = confirmed(&weir);
        let missing = ledger.missing(&cluster);
        assert!(missing.is_empty(), "crash {crash} took what was told: {missing:?}");
        let there = written(&cluster);
        lost += ledger.unknown().iter().filter(|row| !there.contains(row)).count();
    }
    assert!(lost > 0, "no crash took anything: nothing was tried");
}

#[test]
fn commits_whose_mark_is_lost_are_told_to_be_unknown_and_later_ones_go_on() {
    let cluster = lazy();
    let weir = with(&cluster, "commit-wait = \"1h\"");
    let ledger = Ledger::default();
    ledger.while_writing(&weir, || {
        wait::until("commits are shared", wait::LONG, || confirmed(&weir) > 0.0);
        lose_standby(&cluster);
        // What was confirmed before that is still on its way.
        thread::sleep(SETTLES);
        let told = ledger.told().len();
        thread::sleep(SETTLES);
        assert_eq!(ledger.told().len(), told, "something was told without its standby");
        assert!(counted(&weir, "weir_postgres_commits_held") > 0.0);
        cluster
            .sql(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {STUCK}"));
        wait::until("it is told", wait::LONG, || !ledger.unknown().is_empty());
        wait_for_standbys(&cluster, "");
        let before = confirmed(&weir);
        wait::until("commits are shared again", wait::LONG, || confirmed(&weir) > before);
    });
    assert!(counted(&weir, "weir_postgres_commits_unconfirmed_total") > 0.0);
    assert!(ledger.missing(&cluster).is_empty());
}

#[test]
fn a_client_that_says_what_its_commits_wait_for_waits_for_itself() {
    let cluster = lazy();
    let weir = with(&cluster, "commit-wait = \"1h\"");
    let mut own = peer(&weir);
    assert_eq!(ask(&mut own, "SET synchronous_commit = local").unwrap(), None);
    let ledger = Ledger::default();
    ledger.while_writing(&weir, || {
        wait::until("commits are shared", wait::LONG, || confirmed(&weir) > 0.0);
        lose_standby(&cluster);
        let mut query = Vec::new();
        put_query(&mut query, b"INSERT INTO ledger VALUES (-1)");
        own.send(&query).expect("it is taken");
        wait::until("it is answered", wait::LONG, || {
            // Others keep all server connections.
            let_go(&cluster);
            own.hears_within(Duration::from_millis(20)).expect("it is there")
        });
        assert_eq!(own.reply().expect("it is answered").error, None);
        wait_for_standbys(&cluster, "");
    });
    assert!(ledger.missing(&cluster).is_empty());
}

#[test]
fn a_pause_waits_for_commits_that_are_not_confirmed() {
    let cluster = lazy();
    let weir = with(&cluster, "commit-wait = \"1h\"");
    let ledger = Ledger::default();
    ledger.while_writing(&weir, || {
        wait::until("commits are shared", wait::LONG, || confirmed(&weir) > 0.0);
        let mut operator = console(&weir);
        operator.simple_query("PAUSE").expect("it pauses");
        assert_eq!(counted(&weir, "weir_postgres_commits_held"), 0.0);
        operator.simple_query("RESUME").expect("it resumes");
        let before = confirmed(&weir);
        wait::until("commits are shared again", wait::LONG, || confirmed(&weir) > before);
        assert!(!rows(&mut operator, "SHOW POOLS").is_empty());
    });
    assert!(ledger.missing(&cluster).is_empty());
}

#[test]
fn what_is_sent_behind_a_commit_is_answered_behind_it() {
    let cluster = lazy();
    let weir = with(&cluster, "");
    let ledger = Ledger::default();
    ledger.while_writing(&weir, || {
        wait::until("commits are shared", wait::LONG, || confirmed(&weir) > 0.0);
        let mut peer = peer(&weir);
        for row in 1..=100 {
            assert_eq!(ask(&mut peer, "BEGIN").unwrap(), None);
            let insert = format!("INSERT INTO ledger VALUES (-{row})");
            assert_eq!(ask(&mut peer, &insert).unwrap(), None);
            let mut both = Vec::new();
            put_query(&mut both, b"COMMIT");
            put_query(&mut both, format!("SELECT {row}").as_bytes());
            peer.send(&both).expect("it is taken");
            let (committed, read) = (peer.reply().unwrap(), peer.reply().unwrap());
            assert_eq!((&committed.tags[..], committed.status), (&["COMMIT".to_owned()][..], 'I'));
            assert_eq!(read.value(), Some(&*row.to_string()));
        }
    });
    assert_eq!(cluster.value("SELECT count(*) FROM ledger WHERE id < 0"), "100");
}

/// A COMMIT on `slow` takes two seconds.
const SLOW: &str = "CREATE TABLE slow (id int); \
    CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS \
    $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$; \
    CREATE CONSTRAINT TRIGGER nap AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED \
    FOR EACH ROW EXECUTE FUNCTION nap()";

/// Commits that take long, at the server.
const NAPPING: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE query = 'COMMIT' AND wait_event = 'PgSleep'";

/// Has a client's COMMIT run at the server while others' wait for marks.
fn commit_slowly(cluster: &Cluster, weir: &Weir, peer: &mut MessageClient) {
    wait::until("commits are shared", wait::LONG, || confirmed(weir) > 0.0);
    for sql in ["BEGIN", "INSERT INTO slow VALUES (1)"] {
        assert_eq!(ask(peer, sql).expect("it is answered"), None);
    }
    let mut commit = Vec::new();
    put_query(&mut commit, b"COMMIT");
    peer.send(&commit).expect("it is taken");
    wait::until("it is under way", wait::LONG, || cluster.value(NAPPING) == "1");
}

#[test]
fn a_commit_under_way_is_told_before_weir_stops() {
    let cluster = lazy();
    cluster.sql(SLOW);
    let mut weir = with(&cluster, "");
    let process = i32::try_from(weir.running().id()).expect("its number");
    let process = Pid::from_raw(process).expect("it is one");
    let ledger = Ledger::default();
    ledger.while_writing(&weir, || {
        let mut peer = peer(&weir);
        commit_slowly(&cluster, &weir, &mut peer);
        kill_process(process, Signal::TERM).expect("it is there");
        let reply = peer.reply().expect("it is answered");
        assert_eq!((reply.error, &reply.tags[..]), (None, &["COMMIT".to_owned()][..]));
    });
    assert_eq!(cluster.value("SELECT count(*) FROM slow"), "1");
}

#[test]
fn what_was_notified_amid_a_commit_is_told_behind_it() {
    let cluster = lazy();
    cluster.sql(SLOW);
    let weir = with(&cluster, "");
    let ledger = Ledger::default();
    ledger.while_writing(&weir, || {
        let mut peer = peer(&weir);
        assert_eq!(ask(&mut peer, "LISTEN c").unwrap(), None);
        commit_slowly(&cluster, &weir, &mut peer);
        cluster.sql("NOTIFY c");
        let tags: Vec<u8> = (0..3).map(|_| peer.message().expect("it is told").0).collect();
        assert_eq!(tags, *b"CZA");
    });
}
