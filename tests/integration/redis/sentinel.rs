//! A master that real Sentinels find.

use rig::redis::{Redis, RedisClient, Sentinels};
use rig::wait;
use rig::weir::{Setup, Weir};

use super::ledger::{Load, Servers, WriteOutcomes, check, write};
use super::scene::{ADMIN, admin};

/// Weir before a master that Sentinels know, with more lines in `[redis]`.
fn before(sentinels: &Sentinels, lines: &str) -> Weir {
    let table = format!(
        "[redis]\nlisten = \"{{redis}}\"\n{lines}\n{ADMIN}\n\
         [[redis.backend]]\nname = \"m\"\n{}\n",
        sentinels.setting()
    );
    Setup::new().table(&table).start()
}

/// A master with one replica.
fn pair() -> [Redis; 2] {
    let first = Redis::start_with(&["--repl-diskless-sync-delay", "0"]);
    let port = first.address.port().to_string();
    let second = Redis::start_with(&["--replicaof", "127.0.0.1", &port]);
    wait::until("the replica follows", wait::LONG, || {
        second.client().line("INFO replication").contains("link_status:up")
    });
    [first, second]
}

/// Whether a server has a client that writes.
fn is_written_to(server: &Redis) -> bool {
    let all = server.client().line("CLIENT LIST");
    ["cmd=incr", "cmd=rpush", "cmd=set"].iter().any(|cmd| all.contains(cmd))
}

/// Clients that write through Weir while something is done.
fn under_load(
    weir: &Weir,
    names: std::ops::Range<usize>,
    done: impl FnOnce(&Load),
) -> Vec<WriteOutcomes> {
    let load = Load::default();
    std::thread::scope(|scope| {
        let writers: Vec<_> = names
            .map(|n| {
                let load = &load;
                scope.spawn(move || write(weir, "l", &format!("c{n}"), load))
            })
            .collect();
        load.goes_on(100);
        done(&load);
        load.goes_on(100);
        load.ends();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

#[test]
fn a_failover_under_load_is_followed_and_nothing_runs_twice() {
    let [mut first, second] = pair();
    let sentinels = Sentinels::start(&first, 3, 1);
    let weir = before(&sentinels, "timeout = \"3s\"");
    let mut told = under_load(&weir, 0..4, |_| {
        first.kill();
        sentinels.wait_for(&second);
    });
    let mut ann = admin(&weir);
    wait::until("the new master is written to", wait::LONG, || ann.line("SET after 1") == "+OK");
    assert_eq!(second.client().line("GET after"), "$1 1");
    check(&mut ann, "l", &told, Servers::Lose);
    let shown = || weir.ask_admin("/status").json()["redis"]["backends"][0]["url"].clone();
    assert_eq!(shown(), second.url());

    // The former master is back, as a replica; then it is the master again, and the other one
    // lives: who is connected there goes.
    first.start_again();
    // A Sentinel that makes it one ends the connections of its clients.
    let replication = || {
        let mut client = RedisClient::try_connect(first.address)?;
        client.try_ask(&["INFO", "replication"])
    };
    wait::until("it is a replica now", wait::LONG, || {
        replication().is_ok_and(|said| String::from_utf8_lossy(&said).contains("link_status:up"))
    });
    assert_eq!(shown(), second.url());
    told.extend(under_load(&weir, 4..8, |_| {
        let failover = || sentinels.all[0].client().line("SENTINEL FAILOVER it");
        wait::until("a failover begins", wait::LONG, || failover() == "+OK");
        sentinels.wait_for(&first);
        wait::until("Weir goes by it", wait::LONG, || shown() == first.url());
        wait::until("the former master is let go", wait::LONG, || !is_written_to(&second));
    }));
    check(&mut ann, "l", &told, Servers::Lose);
}

#[test]
fn what_a_client_had_at_the_former_master_is_gone_and_it_hears_so() {
    let [first, second] = pair();
    let sentinels = Sentinels::start(&first, 1, 1);
    let weir = before(&sentinels, "");
    let [mut ann, mut bob, mut hearer] = [admin(&weir), admin(&weir), admin(&weir)];
    assert_eq!(bob.line("SET k 1"), "+OK");
    for line in ["WATCH k", "MULTI", "SET k 2"] {
        assert!(ann.line(line).starts_with('+'), "{line}");
    }
    assert_eq!(hearer.line("SUBSCRIBE news"), "*3 $9 subscribe $4 news :1");
    assert_eq!(bob.line("WAIT 1 60000"), ":1");
    let failover = || sentinels.all[0].client().line("SENTINEL FAILOVER it");
    wait::until("a failover begins", wait::LONG, || failover() == "+OK");
    sentinels.wait_for(&second);
    assert!(hearer.is_closed());
    let heard = ann.line("EXEC");
    assert!(heard.starts_with("-EXECABORT") || heard.starts_with("-ERR weir"), "{heard}");
    // What was written before may be lost with it, and is not counted as if it were not.
    let heard = bob.line("WAIT 0 100");
    assert!(heard.contains("has ended since this client wrote there"), "{heard}");
    wait::until("the new master is read", wait::LONG, || bob.line("GET k") == "$1 1");
    assert_eq!(bob.line("SET k 3"), "+OK");
    assert_eq!(second.client().line("GET k"), "$1 3");
}

#[test]
fn without_a_sentinel_that_knows_clients_hear_so_and_nothing_is_sent() {
    let server = Redis::start();
    let sentinels = Sentinels::start(&server, 1, 0);
    let table = format!(
        "[redis]\nlisten = \"{{redis}}\"\n[[redis.backend]]\nname = \"m\"\n{}\n",
        sentinels.setting().replace("\"it\"", "\"other\"")
    );
    let weir = Setup::new().table(&table).start();
    let mut ann = super::scene::client(&weir);
    let heard = ann.line("SET k 1");
    assert!(heard.starts_with("-ERR weir: not sent: m cannot be reached: no Sentinel"), "{heard}");
    weir.wait_log("no Sentinel says where the master is");
    assert_eq!(server.client().line("EXISTS k"), ":0");
}
