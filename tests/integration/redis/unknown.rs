//! Commands that Weir does not know as steps of transactions.

use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::Weir;

use super::scene::{client, weir};

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.";

/// A server of which Weir does not know some commands.
fn server() -> Redis {
    let renamed = "--rename-command GET MY.GET --rename-command INCR MY.INCR \
                   --rename-command BLPOP MY.BLPOP --rename-command FLUSHALL MY.WIPE \
                   --rename-command SELECT MY.SELECT --rename-command EXISTS MY.EXISTS \
                   --rename-command EVAL MY.EVAL";
    Redis::start_with(&renamed.split_whitespace().collect::<Vec<_>>())
}

/// A key that is on a server, where it is 5.
fn key_on(weir: &Weir, server: &Redis) -> String {
    let (mut through, mut direct) = (client(weir), server.client());
    let mut names = (0..1000).map(|n| format!("k{n}"));
    let is_there = |key: &String| {
        assert_eq!(through.ask(&["SET", key, "5"]), "+OK");
        direct.ask(&["MY.GET", key]) == "$1 5"
    };
    names.find(is_there).expect("each server has some of the keys")
}

/// What a client hears to these, of which it hears each before it sends the next.
fn step_by_step(client: &mut RedisClient, lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| client.line(line)).collect()
}

/// What a client hears to these, sent in one packet.
fn at_once(client: &mut RedisClient, lines: &[&str]) -> Vec<String> {
    let packet: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    client.send(packet.as_bytes());
    lines.iter().map(|_| client.hear()).collect()
}

#[test]
fn a_transaction_with_what_weir_does_not_know_is_answered_as_by_the_server() {
    let server = server();
    let steps = |name: &str| {
        let unknown = format!("{name} k");
        ["MULTI", "SET k 1", "PING", &unknown, "APPEND k x", "EXEC", "STRLEN k"].map(str::to_owned)
    };
    // The servers are asked about a command once, whichever of these comes first.
    for (name, ask) in [
        ("MY.GET", step_by_step as fn(&mut RedisClient, &[&str]) -> Vec<String>),
        ("MY.INCR", at_once),
    ] {
        let weir = weir(&[&server], "", "");
        let lines = steps(name);
        let lines = lines.each_ref().map(String::as_str);
        let wanted = step_by_step(&mut server.client(), &lines);
        assert_eq!(wanted[3], "+QUEUED");
        for turn in 0..3 {
            let mut ann = client(&weir);
            assert_eq!(ask(&mut ann, &lines), wanted, "{name} {turn}");
            assert_eq!(ask(&mut ann, &lines), wanted, "{name} {turn}");
        }
        // It is the first step, or the only one.
        let alone = ["SET k 5", "MULTI", &format!("{name} k"), "EXEC"];
        let wanted = step_by_step(&mut server.client(), &alone);
        assert_eq!(ask(&mut client(&weir), &alone), wanted);
    }
    let weir = weir(&[&server], "", "");
    let lines = ["WATCH k", "MY.GET k", "MULTI", "MY.INCR k", "EXEC", "MY.GET k"];
    server.client().line("SET k 5");
    let heard = at_once(&mut client(&weir), &lines);
    assert_eq!(heard, ["+OK", "$1 5", "+OK", "+QUEUED", "*1 :6", "$1 6"]);
}

#[test]
fn a_step_that_no_server_knows_or_that_may_not_be_one_aborts_the_transaction() {
    let server = server();
    let weir = weir(&[&server], "", "");
    let mut ann = client(&weir);
    let moves = "-ERR weir: MY.SELECT is refused within MULTI: it may change the connection";
    for (line, wanted) in [
        ("NO.SUCH k", "-ERR unknown command 'NO.SUCH'"),
        ("MY.BLPOP k 0", "-ERR weir: MY.BLPOP is refused: it may block, or is for one server"),
        ("MY.WIPE", "-NOPERM weir: MY.WIPE is for users with admin = true"),
        ("MY.SELECT 1", moves),
    ] {
        let lines = ["MULTI", "SET a 1", line, "SET b 1", "EXEC", "STRLEN a"];
        for ask in [at_once, step_by_step] {
            let heard = ask(&mut ann, &lines);
            assert_eq!(heard, ["+OK", "+QUEUED", wanted, "+QUEUED", ABORTED, ":0"], "{line}");
        }
    }
    assert_eq!(server.client().line("DBSIZE"), ":0");
    // A server refuses it in its own words.
    let heard = at_once(&mut ann, &["MULTI", "MY.GET", "EXEC"]);
    let own = step_by_step(&mut server.client(), &["MULTI", "MY.GET", "EXEC"]);
    assert_eq!(heard, own);
}

#[test]
fn what_weir_does_not_know_belongs_to_the_server_of_its_transaction() {
    let mut servers = [server(), server()];
    let weir = {
        let servers = servers.each_ref();
        weir(&servers, "timeout = \"1s\"", "")
    };
    let (here, there) = (key_on(&weir, &servers[0]), key_on(&weir, &servers[1]));
    let mut ann = client(&weir);
    let [set, get] = [format!("SET {here} 7"), format!("MY.GET {here}")];
    for _ in 0..2 {
        let heard = at_once(&mut ann, &["MULTI", "PING", &get, &set, &get, "EXEC"]);
        assert_eq!(heard[2..5], ["+QUEUED", "+QUEUED", "+QUEUED"]);
        assert!(heard[5].ends_with(" +OK $1 7"), "{}", heard[5]);
    }
    let heard = at_once(&mut ann, &["MULTI", &set, &format!("MY.GET {there}"), "EXEC"]);
    let crosses = "-CROSSSLOT weir: the keys of a transaction are on several servers";
    assert_eq!(heard, ["+OK", "+QUEUED", crosses, ABORTED]);
    let both = format!("MY.EXISTS {here} {there}");
    let heard = at_once(&mut ann, &["MULTI", &both, "EXEC"]);
    assert_eq!(heard[1], "-CROSSSLOT weir: its keys are on several servers");
    let heard = at_once(&mut ann, &["MULTI", &set, "MY.EVAL return(1) 0", "EXEC"]);
    assert_eq!(heard[2..], ["-ERR weir: which server it is for is not clear", ABORTED]);
    // Where a server does not say what a command is, it is not run.
    servers[1].kill();
    let heard = at_once(&mut ann, &["MULTI", &set, &format!("MY.INCR {here}"), "EXEC"]);
    assert!(heard[2].starts_with("-ERR weir: not sent: s1 does not say"), "{}", heard[2]);
    assert_eq!(heard[3], ABORTED);
}

/// The numbers of a server's connections that are in a transaction.
fn in_multi(server: &mut RedisClient) -> Vec<String> {
    let all = server.line("CLIENT LIST");
    let ids = all.split("id=").skip(1).filter(|of| !of.contains(" multi=-1 "));
    ids.filter_map(|of| Some(of.split(' ').next()?.to_owned())).collect()
}

#[test]
fn the_connection_of_what_weir_does_not_know_is_closed_behind_its_transaction() {
    let server = server();
    let weir = weir(&[&server], "", "");
    let (mut ann, mut direct) = (client(&weir), server.client());
    for (step, ends, is_shared) in [
        ("SET k 1", ["EXEC", "DISCARD", "RESET"], true),
        ("MY.INCR k", ["EXEC", "DISCARD", "RESET"], false),
    ] {
        for end in ends {
            assert_eq!(step_by_step(&mut ann, &["MULTI", step, "PING"])[1], "+QUEUED");
            let own = in_multi(&mut direct);
            assert_eq!(own.len(), 1, "{step}");
            let is_there = |direct: &mut RedisClient| {
                let all = direct.line("CLIENT LIST");
                all.contains(&format!("id={} ", own[0]))
            };
            ann.line(end);
            if is_shared {
                wait::until("it is given back", wait::LONG, || in_multi(&mut direct).is_empty());
                assert!(is_there(&mut direct), "{step} {end}");
            } else {
                wait::until("it is closed", wait::LONG, || !is_there(&mut direct));
            }
        }
    }
}

#[test]
fn what_nodes_of_a_cluster_serve_is_a_step_as_for_the_server() {
    let server = Redis::start_with(&[]);
    let weir = weir(&[&server], "", "");
    for step in ["READONLY", "READWRITE", "ASKING"] {
        for lines in [
            ["MULTI", "SET k 1", step, "EXEC", "GET k"],
            ["MULTI", step, "SET k 2", "EXEC", "GET k"],
            ["MULTI", step, "DISCARD", "GET k", "PING"],
        ] {
            let wanted = step_by_step(&mut server.client(), &lines);
            assert_eq!(step_by_step(&mut client(&weir), &lines), wanted, "{lines:?}");
            assert_eq!(at_once(&mut client(&weir), &lines), wanted, "{lines:?}");
        }
    }
}
