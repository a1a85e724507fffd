//! A disk that takes nothing: the buffer is bounded, the master hears what is durable, and no room
//! costs no generation.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rig::faults::{DiskOrder, HOLD_SYNCS};
use rig::redis::{Redis, RedisClient};
use rig::wait;

use super::scene::{Scene, digest, info, master};

const MIB: usize = 1 << 20;

/// Sets so many keys of 1 MiB each.
fn write_large(client: &mut RedisClient, count: usize) {
    let value = "v".repeat(MIB);
    for n in 0..count {
        assert_eq!(client.ask(&["SET", &format!("large{}", n % 4), &value]), "+OK");
    }
}

fn assert_has_all(scene: &Scene, master: &Redis, full_syncs: &str) {
    scene.wait_caught_up(master);
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(master));
    assert_eq!(info(&mut master.client(), "stats", "sync_full"), full_syncs);
}

/// Bytes that the master holds for its only replica.
fn held_for_weir(client: &mut RedisClient) -> usize {
    let list = client.line("CLIENT LIST TYPE replica");
    let words = list.split(' ').find_map(|word| word.strip_prefix("omem="));
    words.map_or(0, |bytes| bytes.parse().unwrap())
}

#[test]
fn a_full_buffer_stops_the_reading_and_the_master_keeps_the_rest() {
    let master = master(&["--repl-diskless-sync-delay", "0"]);
    let scene = Scene::with_faults(&master.url(), "buffer = \"1MiB\"");
    scene.wait_caught_up(&master);
    let held = DiskOrder::give(&scene.dir(), HOLD_SYNCS);
    let mut client = master.client();
    write_large(&mut client, 40);
    wait::until("the master holds it", wait::LONG, || held_for_weir(&mut client) > 8 * MIB);
    let buffered = scene.status()["buffer_bytes"].as_u64().unwrap();
    assert!(buffered < 2 * MIB as u64, "{buffered} bytes in a buffer of 1 MiB");
    drop(held);
    assert_has_all(&scene, &master, "1");
}

#[test]
fn a_master_that_gives_up_on_a_full_buffer_is_joined_again() {
    // What a soft limit cuts is in the backlog still; a hard one is never below the backlog.
    let soft = ["0", "2mb", "1", "--repl-backlog-size", "64mb"];
    let hard = ["2mb", "0", "0", "--repl-backlog-size", "256kb"];
    for (limit, full_syncs) in [(soft, "1"), (hard, "2")] {
        let begin = ["--repl-diskless-sync-delay", "0", "--client-output-buffer-limit", "replica"];
        let master = master(&[&begin[..], &limit[..]].concat());
        let scene = Scene::with_faults(&master.url(), "buffer = \"1MiB\"");
        scene.wait_caught_up(&master);
        let held = DiskOrder::give(&scene.dir(), HOLD_SYNCS);
        let mut client = master.client();
        // It may be joined again at once; what is written from then on could have it cut once more.
        let is_cut = |client: &mut RedisClient| {
            info(client, "replication", "connected_slaves") == "0"
                || info(client, "stats", "sync_full") != "1"
                || info(client, "stats", "sync_partial_ok") != "0"
        };
        for _ in 0..40 {
            if !is_cut(&mut client) {
                write_large(&mut client, 1);
            }
        }
        wait::until("the master closes the link", wait::LONG, || is_cut(&mut client));
        drop(held);
        assert_has_all(&scene, &master, full_syncs);
    }
}

#[test]
fn a_full_disk_confirms_nothing_and_costs_no_generation() {
    let master = master(&["--repl-diskless-sync-delay", "0"]);
    let mut client = master.client();
    write_large(&mut client, 4);
    let scene = Scene::on_small_disk(&master.url(), "", "32m");
    client.line("SET precious 1");
    scene.wait_caught_up(&master);
    let manifest = scene.append_dir().join("appendonly.aof.manifest");
    let before = fs::read_to_string(&manifest).unwrap();
    let ballast = scene.files.join("ballast");
    assert!(fs::write(&ballast, vec![1; 40 * MIB]).is_err(), "there is no room left");
    write_large(&mut client, 4);
    assert_eq!(client.line("WAIT 1 300"), ":0");
    let is_said = || scene.status()["trouble"].as_str().is_some_and(|of| of.contains("No space"));
    wait::until("it is said", wait::LONG, is_said);
    wait::until("it follows no more", wait::LONG, || scene.status()["link"] == "connecting");
    // A new base finds no room either.
    assert_eq!(client.line("DEBUG CHANGE-REPL-ID"), "+OK");
    client.line("CLIENT KILL TYPE replica");
    wait::until("a base was begun", wait::LONG, || info(&mut client, "stats", "sync_full") == "2");
    wait::until("it is said again", wait::LONG, is_said);
    assert_eq!(fs::read_to_string(&manifest).unwrap(), before);
    let (restored, _dir) = scene.restored();
    assert_eq!(restored.client().line("GET precious"), "$1 1");
    fs::remove_file(&ballast).unwrap();
    scene.wait_caught_up(&master);
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(&master));
    let (code, said) = scene.verify();
    assert_eq!(code, Some(0), "{said}");
    wait::until("all is well", wait::LONG, || scene.status()["trouble"].is_null());
}

/// A master that sends an empty data set and then what it is told to.
fn join(listener: &TcpListener) -> TcpStream {
    loop {
        let (mut link, _) = listener.accept().unwrap();
        link.set_read_timeout(Some(wait::LONG)).unwrap();
        let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
        let mut answered = 0;
        while let Ok(read @ 1..) = link.read(&mut piece) {
            heard.extend_from_slice(&piece[..read]);
            let has = |word: &str| heard.windows(word.len()).any(|part| part == word.as_bytes());
            if answered == 0 && has("PING") {
                link.write_all(b"+PONG\r\n").unwrap();
                answered = 1;
            }
            if answered == 1 && has("psync2") {
                let replies = b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n+OK\r\n-NOPERM\r\n-NOPERM\r\n";
                link.write_all(replies).unwrap();
                answered = 2;
            }
            // Another connection, which asks how it is set.
            if has("replication") && !has("psync2") {
                break;
            }
            if has("-1\r\n") {
                let id = "0123456789".repeat(4);
                let full = format!("+FULLRESYNC {id} 7\r\n$18\r\nREDIS0009");
                link.write_all(full.as_bytes()).unwrap();
                link.write_all(b"\xff\0\0\0\0\0\0\0\0").unwrap();
                return link;
            }
        }
    }
}

/// The offset of the next `REPLCONF ACK`; what was heard and is behind it stays.
fn acknowledged(link: &mut TcpStream, heard: &mut String) -> u64 {
    loop {
        if let Some(at) = heard.find("$3\r\nACK\r\n")
            && let Some(end) = heard[at..].find("$4\r\nFACK\r\n").map(|len| at + len)
        {
            let offset = heard[at..end].lines().nth(3).unwrap().parse().unwrap();
            heard.drain(..end + 4);
            return offset;
        }
        let mut piece = [0; 4096];
        let read = link.read(&mut piece).unwrap();
        assert!(read > 0, "the link was closed");
        heard.push_str(std::str::from_utf8(&piece[..read]).unwrap());
    }
}

#[test]
fn each_question_of_a_master_is_answered_though_the_disk_stands_still() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let lines = "ask-every = \"1h\"";
    std::thread::scope(|scope| {
        let scene = scope.spawn(|| Scene::with_faults(&url, lines));
        let mut link = join(&listener);
        let mut heard = String::new();
        while acknowledged(&mut link, &mut heard) != 7 {}
        let scene = scene.join().unwrap();
        let _held = DiskOrder::give(&scene.dir(), HOLD_SYNCS);
        let deadline = Instant::now() + wait::LONG;
        // What is told once a second would take longer than the deadline.
        for _ in 0..100 {
            link.write_all(b"*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n").unwrap();
            assert!(acknowledged(&mut link, &mut heard) >= 7);
            assert!(Instant::now() < deadline, "they are answered at once");
        }
    });
}

#[test]
fn it_is_said_for_how_long_the_master_keeps_what_is_not_taken_and_tuned() {
    let lines = "ask-every = \"200ms\"\noutage = \"10m\"";
    for tune in [false, true] {
        let master = master(&["--repl-diskless-sync-delay", "0"]);
        let scene = Scene::new(&master.url(), lines, &format!("tune = {tune}"));
        let mut client = master.client();
        let begun = Instant::now();
        let is_done = |scene: &Scene, client: &mut RedisClient| match tune {
            true => {
                client.line("CONFIG GET repl-backlog-size") != "*2 $17 repl-backlog-size $7 1048576"
            }
            false => scene.status()["advice"].to_string().contains("its repl-backlog-size is too"),
        };
        while !is_done(&scene, &mut client) {
            write_large(&mut client, 1);
            assert!(begun.elapsed() < wait::LONG + Duration::from_secs(1), "{}", scene.status());
        }
        let said = scene.weir.must_run(&["status"]);
        assert!(said.contains("its backlog"), "{said}");
        assert_has_all(&scene, &master, "1");
    }
}
