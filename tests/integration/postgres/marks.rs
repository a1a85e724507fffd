//! Answers of commits that are held for marks, as a gateway would hold them, on real servers that
//! crash, refuse marks and wait for standbys.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use flow::barrier::{Admission, Barrier, Limits, Request, Unproven};
use postgres::commit::level::CommitLevel;
use postgres::commit::mark::{MARK, MarkFault, MarkReply, MarkVerdict, opening};
use rand::Rng as _;
use rustix::process::{Pid, Signal, kill_process};
use wire::postgres::frontend::put_query;
use wire::postgres::{frame, message};

use rig::postgres::{Cluster, MessageClient, Reply, SUPERUSER, Setup};
use rig::{chance, wait};

const CRASHES: usize = 20;
const WRITERS: usize = 6;

fn connect(address: SocketAddr, user: &str) -> io::Result<MessageClient> {
    MessageClient::connect(address, &[("user", user), ("database", "postgres")])
}

fn ask(client: &mut MessageClient, sql: &str) -> io::Result<Reply> {
    let mut query = Vec::new();
    put_query(&mut query, sql.as_bytes());
    client.send(&query)?;
    client.reply()
}

/// A connection on which marks are sent.
struct MarkClient {
    client: MessageClient,
    reply: MarkReply,
}

impl MarkClient {
    fn open(address: SocketAddr, user: &str, level: CommitLevel) -> io::Result<Self> {
        let mut client = connect(address, user)?;
        assert_eq!(ask(&mut client, &opening(level))?.error, None);
        Ok(Self { client, reply: MarkReply::default() })
    }

    fn send(&mut self) -> io::Result<()> {
        let mut query = Vec::new();
        put_query(&mut query, MARK.as_bytes());
        self.client.send(&query)
    }

    fn verdict(&mut self) -> io::Result<Result<MarkVerdict, MarkFault>> {
        loop {
            let (tag, body) = self.client.message()?;
            let mut whole = Vec::new();
            message(&mut whole, tag, |out| out.extend_from_slice(&body));
            let message = frame::next(&whole, usize::MAX).ok().flatten().expect("it is whole");
            match self.reply.hear(message) {
                Ok(None) => {}
                Ok(Some(verdict)) => return Ok(Ok(verdict)),
                Err(fault) => return Ok(Err(fault)),
            }
        }
    }

    fn mark(&mut self) -> io::Result<Result<MarkVerdict, MarkFault>> {
        self.send()?;
        self.verdict()
    }
}

/// Clients whose commits share marks, until their server is gone.
struct Writers {
    clients: Vec<MessageClient>,
    marks: MarkClient,
    barrier: Barrier<u32>,
    /// Which rows were told to be there.
    told: Vec<u32>,
    /// Those of which nobody knows.
    unproven: Vec<u32>,
    next: u32,
}

impl Writers {
    fn open(address: SocketAddr, next: u32) -> io::Result<Self> {
        let marks = MarkClient::open(address, SUPERUSER, CommitLevel::On)?;
        let mut barrier = Barrier::new(Limits::default());
        barrier.logged_in();
        let mut clients = Vec::new();
        for _ in 0..WRITERS {
            let mut client = connect(address, SUPERUSER)?;
            ask(&mut client, "SET synchronous_commit = off")?;
            clients.push(client);
        }
        let (told, unproven) = (Vec::new(), Vec::new());
        Ok(Self { clients, marks, barrier, told, unproven, next })
    }

    fn shared(&mut self) -> Request {
        match self.barrier.commit(false, Instant::now()) {
            Admission::Shared(request) => request,
            other => panic!("{other:?}"),
        }
    }

    /// One row by each client, all of them held.
    fn write(&mut self) -> io::Result<()> {
        for at in 0..self.clients.len() {
            let request = self.shared();
            let row = self.next;
            self.next += 1;
            match ask(&mut self.clients[at], &format!("INSERT INTO ledger VALUES ({row})")) {
                Ok(reply) if reply.error.is_none() => {
                    self.barrier.hold(request, row, b"").expect("the mark's connection is there");
                }
                other => {
                    self.barrier.lose(request);
                    return other.map(drop);
                }
            }
        }
        Ok(())
    }

    /// Writes before each mark and while it is under way.
    fn write_and_mark(&mut self) -> io::Result<()> {
        self.write()?;
        assert!(self.barrier.mark(Instant::now()));
        self.marks.send()?;
        self.write()?;
        assert_eq!(self.marks.verdict()?, Ok(MarkVerdict::Durable));
        let told = &mut self.told;
        self.barrier.confirmed(|answer| told.push(answer.ticket)).expect("it was under way");
        Ok(())
    }

    fn until_the_server_is_gone(&mut self) {
        while self.write_and_mark().is_ok() {}
        let unproven = &mut self.unproven;
        self.barrier.broken(|Unproven(row)| unproven.push(row));
    }
}

fn ledger(cluster: &Cluster) -> HashSet<u32> {
    let rows = cluster.sql("SELECT id FROM ledger");
    rows.iter().filter_map(|row| row[0].as_deref()?.parse().ok()).collect()
}

/// A server that flushes asynchronous commits as late as it can.
fn lazy() -> Cluster {
    let cluster = Setup::new().setting("wal_writer_delay", "10s").start();
    cluster.sql("CREATE TABLE ledger (id int PRIMARY KEY)");
    cluster
}

#[test]
fn what_a_mark_has_released_outlives_each_crash_of_its_server() {
    let (mut cluster, mut chance) = (lazy(), chance::draws());
    let (mut told, mut lost, mut next) = (Vec::new(), 0, 0);
    for crash in 0..CRASHES {
        let mut writers = Writers::open(cluster.address, next).expect("the server takes clients");
        let lives = Duration::from_micros(chance.random_range(5_000..150_000));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(lives);
                cluster.kill();
            });
            writers.until_the_server_is_gone();
        });
        cluster.start_again();
        told.append(&mut writers.told);
        next = writers.next;
        let there = ledger(&cluster);
        let missing: Vec<_> = told.iter().filter(|row| !there.contains(row)).collect();
        assert!(missing.is_empty(), "crash {crash} took what was told: {missing:?}");
        lost += writers.unproven.iter().filter(|row| !there.contains(row)).count();
    }
    assert!(told.len() > CRASHES * WRITERS, "only {} were told", told.len());
    assert!(lost > 0, "no crash took anything: nothing was tried");
}

#[test]
fn a_mark_of_a_new_connection_proves_nothing_of_before_a_crash() {
    let cluster = lazy();
    let mut writers = Writers::open(cluster.address, 0).expect("the server takes clients");
    // Answered before the crash, and read by the gateway after the mark's connection is a new one.
    let late = writers.shared();
    assert_eq!(ask(&mut writers.clients[0], "INSERT INTO ledger VALUES (7)").unwrap().error, None);
    let id = ask(&mut writers.clients[1], "SELECT pg_backend_pid()").expect("it answers");
    let id = id.value().and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
    kill_process(id.expect("an id"), Signal::KILL).expect("it runs");
    wait::until("the mark's connection ends", wait::LONG, || {
        writers.marks.client.message().is_err()
    });
    writers.barrier.broken(|Unproven(row)| panic!("{row} was held"));
    writers.marks = wait::value("the server is back", wait::LONG, || {
        MarkClient::open(cluster.address, SUPERUSER, CommitLevel::On).ok()
    });
    writers.barrier.logged_in();
    assert_eq!(writers.marks.mark().expect("it answers"), Ok(MarkVerdict::Durable));
    assert!(!ledger(&cluster).contains(&7), "the crash took it");
    assert_eq!(writers.barrier.hold(late, 7, b""), Err(Unproven(7)));
}

#[test]
fn a_mark_waits_for_a_standby_and_a_cancelled_wait_is_no_full_proof() {
    let cluster = Cluster::start();
    let [mut marks, mut local] = [CommitLevel::On, CommitLevel::Local]
        .map(|level| MarkClient::open(cluster.address, SUPERUSER, level).expect("let in"));
    let id = ask(&mut marks.client, "SELECT pg_backend_pid()").expect("it answers");
    let id = id.value().expect("an id").to_owned();
    let names = |names: &str| {
        cluster.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
        cluster.reload();
        let shown = || cluster.value("SHOW synchronous_standby_names") == names;
        wait::until("the setting is taken", wait::LONG, shown);
    };
    names("absent");
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {id} AND wait_event = 'SyncRep'"
    );
    // Sessions wait once the checkpointer has taken the setting, too.
    wait::until("a mark waits for the standby", wait::LONG, || {
        marks.send().expect("sent");
        let waits_now = wait::value("the mark waits or is answered", wait::LONG, || {
            let heard = marks.client.hears_within(Duration::from_millis(1));
            let is_answered = heard.expect("the connection is open");
            is_answered.then_some(false).or_else(|| (cluster.value(&waits) == "1").then_some(true))
        });
        if !waits_now {
            assert_eq!(marks.verdict().expect("it answers"), Ok(MarkVerdict::Durable));
        }
        waits_now
    });
    assert_eq!(local.mark().expect("it answers"), Ok(MarkVerdict::Durable));
    cluster.sql(&format!("SELECT pg_cancel_backend({id})"));
    let verdict = marks.verdict().expect("it answers");
    assert!(matches!(verdict, Ok(MarkVerdict::LocallyDurable(_))), "{verdict:?}");
    names("");
    assert_eq!(marks.mark().expect("it answers"), Ok(MarkVerdict::Durable));
}

#[test]
fn a_mark_that_its_role_may_not_send_proves_nothing() {
    let cluster = Cluster::start();
    cluster.create_user("plain", "secret");
    let mut marks = MarkClient::open(cluster.address, "plain", CommitLevel::On).expect("let in");
    assert_eq!(marks.mark().expect("it answers"), Ok(MarkVerdict::Durable));
    cluster
        .sql("REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) FROM PUBLIC");
    let refused = MarkFault::Refused("42501".to_owned());
    assert_eq!(marks.mark().expect("it answers"), Err(refused));
}
