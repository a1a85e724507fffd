//! Reads that go to replicas, where that is asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rig::beside::EndGuard;
use rig::places;
use rig::redis::{Redis, RedisClient, RedisCluster, Sentinels};
use rig::wait;
use rig::weir::{Setup, Weir};
use rustix::process::Signal;

use super::scene::{client, weir};

const READS: &str = "read-from = \"replicas\"";
const QUICK: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"];

/// A primary, and a replica of it that follows.
fn pair(args: &[&str]) -> [Redis; 2] {
    let primary = Redis::start_with(&QUICK);
    let port = primary.address.port().to_string();
    let replica =
        Redis::start_with(&[&QUICK[..], &["--replicaof", "127.0.0.1", &port], args].concat());
    wait::until("the replica follows", wait::LONG, || {
        replica.client().line("INFO replication").contains("link_status:up")
    });
    [primary, replica]
}

/// Writes that so many replicas have. `WAIT` asks for those of its own connection alone.
fn copied(primary: &Redis, replicas: usize, writes: &[&str]) {
    let mut direct = primary.client();
    for write in writes {
        assert!(!direct.line(write).starts_with('-'), "{write}");
    }
    assert_eq!(direct.line(&format!("WAIT {replicas} 60000")), format!(":{replicas}"));
}

/// How often a server was asked a command, whether it refused it or not.
fn calls(server: &Redis, command: &str) -> usize {
    let stats = server.client().line("INFO commandstats");
    let Some((_, rest)) = stats.split_once(&format!("cmdstat_{command}:")) else { return 0 };
    let rest = rest.split_whitespace().next().unwrap();
    let value = |key: &str| {
        let field = rest.split(',').find_map(|field| field.strip_prefix(key));
        field.map_or(0, |value| value.parse::<usize>().unwrap())
    };
    value("calls=") + value("rejected_calls=")
}

/// Waits until Weir reads so many replicas.
fn wait_read(weir: &Weir, count: usize) {
    wait::until("replicas are found", wait::LONG, || replicas(weir) == count);
}

/// How many replicas Weir knows of.
fn replicas(weir: &Weir) -> usize {
    let status = weir.ask_admin("/status").json();
    let backends = status["redis"]["backends"].as_array().unwrap().clone();
    backends.iter().filter(|of| of["replica_of"] == "s0" || of["replica_of"] == "m").count()
}

#[test]
fn reads_go_to_replicas_only_where_that_is_asked_for() {
    let [primary, replica] = pair(&[]);
    let users = "[[redis.user]]\nname = \"near\"\npassword = \"p\"\nread-from = \"replicas\"\n\
                 [[redis.user]]\nname = \"default\"\npassword = \"p\"\n";
    let weir = weir(&[&primary], "", users);
    let [mut near, mut plain] = [client(&weir), client(&weir)];
    assert_eq!([near.line("AUTH near p"), plain.line("AUTH p")], ["+OK", "+OK"]);
    copied(&primary, 1, &["MSET a 1 b 2", "HSET h f v"]);
    wait_read(&weir, 1);
    for _ in 0..10 {
        assert_eq!(plain.line("GET a"), "$1 1");
    }
    assert_eq!((calls(&primary, "get"), calls(&replica, "get")), (10, 0));
    for _ in 0..10 {
        assert_eq!(near.line("GET a"), "$1 1");
        assert_eq!(near.line("MGET a b"), "*2 $1 1 $1 2");
        assert_eq!(near.line("SELECT 0"), "+OK");
    }
    assert_eq!((calls(&primary, "get"), calls(&replica, "get")), (10, 10));
    assert_eq!((calls(&primary, "mget"), calls(&replica, "mget")), (0, 10));
    // What is not alike on both, and what is within a transaction, is the primary's.
    assert_eq!(near.line("HSCAN h 0"), "*2 $1 0 *2 $1 f $1 v");
    assert!(near.line("OBJECT ENCODING a").starts_with('$'));
    assert_eq!(near.line("EVAL_RO return(1) 0"), ":1");
    near.send(b"MULTI\r\nGET b\r\nEXEC\r\n");
    assert_eq!([near.hear(), near.hear(), near.hear()], ["+OK", "+QUEUED", "*1 $1 2"]);
    for command in ["hscan", "object|encoding", "eval_ro"] {
        assert_eq!((calls(&primary, command), calls(&replica, command)), (1, 0), "{command}");
    }
    assert_eq!((calls(&primary, "get"), calls(&replica, "get")), (11, 10));
}

#[test]
fn a_client_reads_its_own_writes_and_replicas_again_once_they_have_them() {
    let [primary, replica] = pair(&[]);
    let weir = weir(&[&primary], READS, "");
    wait_read(&weir, 1);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let end = EndGuard(&is_over);
        // The replica is behind, again and again.
        scope.spawn(|| {
            let mut direct = replica.client();
            while !is_over.load(Ordering::Relaxed) {
                direct.line("DEBUG SLEEP 0.02");
            }
        });
        let writers: Vec<_> = (0..4)
            .map(|n| {
                let (weir, key) = (&weir, format!("k{n}"));
                scope.spawn(move || {
                    let mut ann = client(weir);
                    for n in 0..300 {
                        let n = n.to_string();
                        // Pipelined, too: the read before it does not see the write.
                        ann.say(&["GETSET", &key, &n]);
                        ann.say(&["GET", &key]);
                        ann.say(&["SET", &key, "other"]);
                        ann.say(&["SET", &key, &n]);
                        ann.hear();
                        assert_eq!(ann.hear().split(' ').nth(1), Some(&*n));
                        assert_eq!([ann.hear(), ann.hear()], ["+OK", "+OK"]);
                        assert_eq!(ann.ask(&["GET", &key]).split(' ').nth(1), Some(&*n));
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        drop(end);
    });
    let mut ann = client(&weir);
    assert_eq!(ann.line("SET k 1"), "+OK");
    assert_eq!(ann.line("GET k"), "$1 1");
    let before = calls(&replica, "get");
    wait::until("it reads from the replica", wait::LONG, || {
        assert_eq!(ann.line("GET k"), "$1 1");
        calls(&replica, "get") > before
    });
    assert_eq!(ann.line("SET k 2"), "+OK");
    assert_eq!(ann.line("GET k"), "$1 2");
}

#[test]
fn a_replica_that_is_lost_or_cannot_be_read_costs_nobody_an_answer() {
    let [primary, mut replica] = pair(&["--replica-serve-stale-data", "no"]);
    copied(&primary, 1, &["SET a 1"]);
    let weir = weir(&[&primary], READS, "");
    let mut clients: Vec<RedisClient> = (0..4).map(|_| client(&weir)).collect();
    let mut read = |times: usize| {
        for _ in 0..times {
            clients.iter_mut().for_each(|client| client.send(b"GET a\r\nGET a\r\nGET a\r\n"));
            for client in &mut clients {
                assert_eq!([client.hear(), client.hear(), client.hear()], ["$1 1"; 3]);
            }
        }
    };
    wait_read(&weir, 1);
    for _ in 0..20 {
        read(5);
        replica.client().line("CLIENT KILL TYPE normal SKIPME yes");
    }
    assert!(calls(&replica, "get") > 0);
    replica.kill();
    read(50);
    replica.start_again();
    wait::until("it is read again", wait::LONG, || {
        read(1);
        calls(&replica, "get") > 0
    });
    // It has lost its primary, and says so before Weir has asked it.
    let before = calls(&replica, "get");
    assert_eq!(replica.client().line("REPLICAOF 127.0.0.1 1"), "+OK");
    read(20);
    assert!(calls(&replica, "get") > before);
    // Until Weir knows that it follows nobody.
    wait::until("it is not read", wait::LONG, || {
        let before = calls(&replica, "get");
        read(5);
        calls(&replica, "get") == before
    });
}

#[test]
fn replicas_are_read_for_a_while_where_their_primary_is_away() {
    let [mut primary, replica] = pair(&[]);
    copied(&primary, 1, &["SET a 1"]);
    let lines = format!("{READS}\nmax-replica-lag = \"4s\"");
    let weir = weir(&[&primary], &lines, "");
    let mut ann = client(&weir);
    wait_read(&weir, 1);
    primary.kill();
    for _ in 0..20 {
        assert_eq!(ann.line("GET a"), "$1 1");
    }
    assert!(ann.line("SET a 2").starts_with("-ERR weir: "));
    // What it may have written is not read from there.
    assert!(ann.line("GET a").starts_with("-ERR weir: not sent"));
    let mut bob = client(&weir);
    wait::until("it is read no more", wait::LONG, || {
        bob.line("GET a").starts_with("-ERR weir: not sent")
    });
    assert_eq!(replica.client().line("GET a"), "$1 1");
}

#[test]
fn the_port_of_an_append_only_file_is_never_read() {
    let primary = Redis::start_with(&QUICK);
    let (dir, port) = (places::directory(), places::free_address());
    let aof = format!(
        "[redis.aof]\ndir = {:?}\n[[redis.aof.master]]\nname = \"f\"\nurl = \"{}\"\n\
         listen = \"{port}\"\n",
        dir.path(),
        primary.url()
    );
    let weir = weir(&[&primary], READS, &aof);
    primary.client().line("SET a 1");
    wait::until("it is listed", wait::LONG, || {
        let info = primary.client().line("INFO replication");
        info.contains(&format!("port={}", port.port())) && info.contains("state=online")
    });
    // Weir has asked it a few times by then.
    let infos = calls(&primary, "info");
    wait::until("the primary is asked", wait::LONG, || calls(&primary, "info") > infos + 8);
    let mut ann = client(&weir);
    for _ in 0..20 {
        assert_eq!(ann.line("GET a"), "$1 1");
    }
    assert_eq!((calls(&primary, "get"), replicas(&weir)), (20, 0));
}

#[test]
fn replicas_of_what_sentinels_find_are_read_before_and_after_a_failover() {
    let [mut first, second] = pair(&[]);
    let port = first.address.port().to_string();
    let third = Redis::start_with(&[&QUICK[..], &["--replicaof", "127.0.0.1", &port]].concat());
    let sentinels = Sentinels::start(&first, 1, 2);
    copied(&first, 2, &["SET a 1"]);
    let table = format!(
        "[redis]\nlisten = \"{{redis}}\"\n{READS}\n[[redis.backend]]\nname = \"m\"\n{}\n",
        sentinels.setting()
    );
    let weir = Setup::new().table(&table).start();
    wait_read(&weir, 2);
    let mut ann = client(&weir);
    assert_eq!(ann.line("GET a"), "$1 1");
    assert_eq!(calls(&first, "get"), 0);
    first.kill();
    wait::until("another one is the master", wait::LONG, || ann.line("SET b 1") == "+OK");
    assert_eq!(ann.line("GET b"), "$1 1");
    wait_read(&weir, 1);
    let (now, other) = match second.client().line("ROLE").contains("master") {
        true => (&second, &third),
        false => (&third, &second),
    };
    let (before, mut bob) = (calls(now, "get"), client(&weir));
    wait::until("its replica is read", wait::LONG, || {
        assert_eq!(bob.line("GET a"), "$1 1");
        calls(other, "get") > 2
    });
    assert!(calls(now, "get") >= before);
}

#[test]
fn replicas_of_a_cluster_are_read() {
    let mut cluster = RedisCluster::start(3, true, &[]);
    let lines = format!("distribution = \"cluster\"\n{READS}");
    let weir = weir(&[&cluster.nodes[0]], &lines, "");
    let (mut ann, keys) = (client(&weir), ["{one}k", "{two}k", "{three}k", "{four}k"]);
    for key in keys {
        assert_eq!(ann.ask(&["SET", key, key]), "+OK");
    }
    // Only who wrote them may count on them before.
    let has = |node: &Redis| node.client().line("DBSIZE");
    wait::until("replicas have the keys", wait::LONG, || {
        let (primaries, replicas) = cluster.nodes.split_at(3);
        primaries.iter().zip(replicas).all(|(primary, replica)| has(primary) == has(replica))
    });
    let mut bob = client(&weir);
    let gets = |cluster: &RedisCluster| -> usize {
        cluster.nodes[3..].iter().map(|of| calls(of, "get")).sum()
    };
    wait::until("replicas are read", wait::LONG, || {
        for key in keys {
            assert_eq!(bob.ask(&["GET", key]).split(' ').nth(1), Some(key));
        }
        gets(&cluster) > 8
    });
    for node in 3..6 {
        cluster.nodes[node].running().signal(Signal::KILL);
    }
    for _ in 0..10 {
        for key in keys {
            assert_eq!(bob.ask(&["GET", key]).split(' ').nth(1), Some(key));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
