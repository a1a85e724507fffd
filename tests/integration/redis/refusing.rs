//! Servers that are there and refuse: loading, busy, full, replicas of others. Nothing is ejected
//! for it, and nothing runs twice.

use rig::beside::EndGuard;
use rig::places;
use rig::redis::Redis;
use rig::wait;
use rig::weir::Weir;

use super::ledger::{Load, Servers, check, write};
use super::scene::{ADMIN, admin, weir};

/// What a server is started with that is to refuse in all of these ways.
const ARGS: [&str; 8] = [
    "--busy-reply-threshold",
    "50",
    // So long for each key, in microseconds; others are answered meanwhile.
    "--key-load-delay",
    "2000",
    "--loading-process-events-interval-bytes",
    "1024",
    "--rdbcompression",
    "no",
];

/// Weir before two servers. The first is the one that refuses; it has all that clients write.
struct Front {
    weir: Weir,
    list: String,
}

fn scene(lines: &str) -> (Front, [Redis; 2]) {
    let servers = [Redis::start_with(&ARGS), Redis::start()];
    let eject = "hash-tag = \"{}\"\neject = { failures = 1, retry = \"10m\" }";
    let weir = weir(&servers.each_ref(), &format!("{eject}\n{lines}"), ADMIN);
    let (mut root, mut first) = (admin(&weir), servers[0].client());
    let is_first = |tag: &String| {
        assert_eq!(root.ask(&["SET", tag, "x"]), "+OK");
        first.ask(&["EXISTS", tag]) == ":1"
    };
    let tag = (0..1000).map(|n| format!("t{n}")).find(is_first).expect("it has some of the keys");
    (Front { weir, list: format!("{{{tag}}}list") }, servers)
}

impl Front {
    /// Waits until a write hears this, or that a connection was refused with this.
    fn hears(&self, word: &str) {
        let (mut client, key) = (admin(&self.weir), format!("{}:probe", self.list));
        wait::until(word, wait::LONG, || client.ask(&["LPUSH", &key, "x"]).contains(word));
    }

    /// Clients write while something is done to the server; then all is as they were told.
    fn writes_while(&self, as_told: Servers, refuses: impl FnOnce(&Load)) {
        let load = Load::default();
        let told: Vec<_> = std::thread::scope(|scope| {
            let load = &load;
            let _end = EndGuard(&load.is_over);
            let writer = |name| scope.spawn(move || write(&self.weir, &self.list, name, load));
            let writers = ["a", "b", "c", "d"].map(writer);
            load.goes_on(50);
            refuses(load);
            load.goes_on(50);
            load.ends();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        check(&mut admin(&self.weir), &self.list, &told, as_told);
    }

    /// Nothing was a failure of the server's, and the other one has nothing of its keys.
    fn is_not_ejected(&self, other: &Redis) {
        let metrics = self.weir.metrics();
        for name in ["failures_total", "ejections_total", "ejected"] {
            let name = format!("weir_redis_server_{name}");
            assert!(metrics.has(&name), "{name}");
            assert_eq!(metrics.sum(&name, &[]), 0.0, "{name}");
        }
        assert_eq!(other.client().line("KEYS *list*"), "*0");
    }
}

/// Has a server fail to save, or undoes that: what is in the file's place can't be replaced.
fn save_fails(server: &Redis, fails: bool) {
    let (mut direct, place) = (server.client(), server.dir().join("dump.rdb"));
    let status = if fails { "err" } else { "ok" };
    if fails {
        let _ = std::fs::remove_file(&place);
        std::fs::create_dir_all(place.join("full")).unwrap();
    } else {
        std::fs::remove_dir_all(&place).unwrap();
    }
    assert!(direct.line("BGSAVE").starts_with('+'));
    let wanted = format!("rdb_last_bgsave_status:{status}");
    wait::until(&wanted, wait::LONG, || direct.line("INFO persistence").contains(&wanted));
}

#[test]
fn a_server_that_refuses_writes_for_a_while_has_run_each_once_and_keeps_its_keys() {
    let (front, servers) = scene("");
    let mut direct = servers[0].client();
    let nobody = places::free_address().port();
    assert_eq!(direct.ask(&["CONFIG", "SET", "save", "3600 1"]), "+OK");
    let mut set = |line: &str| assert_eq!(direct.line(line), "+OK", "{line}");
    front.writes_while(Servers::KeepAll, |load| {
        for _ in 0..2 {
            for (begin, word, end) in [
                ("CONFIG SET maxmemory 1", "-OOM ", "CONFIG SET maxmemory 0"),
                (&*format!("REPLICAOF 127.0.0.1 {nobody}"), "-READONLY ", "REPLICAOF NO ONE"),
                (
                    "CONFIG SET min-replicas-to-write 1",
                    "-NOREPLICAS ",
                    "CONFIG SET min-replicas-to-write 0",
                ),
            ] {
                set(begin);
                front.hears(word);
                set(end);
                load.goes_on(50);
            }
            save_fails(&servers[0], true);
            front.hears("-MISCONF ");
            save_fails(&servers[0], false);
            load.goes_on(50);
        }
    });
    front.is_not_ejected(&servers[1]);
}

#[test]
fn an_error_of_one_of_several_servers_keeps_its_first_word() {
    let servers = [Redis::start(), Redis::start()];
    let weir = weir(&servers.each_ref(), "", ADMIN);
    let mut ann = admin(&weir);
    let mut direct = servers[1].client();
    let keys: Vec<String> = (0..20).map(|n| format!("k{n} v")).collect();
    let all = format!("MSET {}", keys.join(" "));
    assert_eq!(ann.line(&all), "+OK");
    let nobody = places::free_address().port();
    for (begin, heard, end) in [
        ("CONFIG SET maxmemory 1", "-OOM weir: s1: ", "CONFIG SET maxmemory 0"),
        (&*format!("REPLICAOF 127.0.0.1 {nobody}"), "-READONLY weir: s1: ", "REPLICAOF NO ONE"),
        (
            "CONFIG SET min-replicas-to-write 1",
            "-NOREPLICAS weir: s1: ",
            "CONFIG SET min-replicas-to-write 0",
        ),
    ] {
        assert_eq!(direct.line(begin), "+OK");
        let said = ann.line(&all);
        assert!(said.starts_with(heard), "{said}");
        assert_eq!(direct.line(end), "+OK");
    }
    let said = ann.line("SCRIPT LOAD return(");
    assert!(said.starts_with("-ERR weir: s0: Error compiling script"), "{said}");
}

#[test]
fn a_server_that_a_script_keeps_busy_is_not_away() {
    let (front, servers) = scene("");
    let [mut busy, mut direct] = [servers[0].client(), servers[0].client()];
    front.writes_while(Servers::KeepAll, |load| {
        for _ in 0..3 {
            busy.say(&["EVAL", "while true do end", "0"]);
            front.hears("-BUSY ");
            assert_eq!(direct.line("SCRIPT KILL"), "+OK");
            assert!(busy.hear().contains("killed by user"));
            load.goes_on(50);
        }
    });
    front.is_not_ejected(&servers[1]);
}

#[test]
fn a_script_of_a_client_that_does_not_end_costs_others_no_write() {
    let (front, servers) = scene("timeout = \"300ms\"");
    let late = "-ERR weir: may have run: s0 did not answer in time";
    front.writes_while(Servers::RunLate, |load| {
        let (mut ann, mut root) = (admin(&front.weir), admin(&front.weir));
        let key = format!("{}:busy", front.list);
        for _ in 0..2 {
            // On the lane that all others ride, and whose silence is the script's.
            assert_eq!(ann.ask(&["EVAL", "while true do end", "1", &key]), late);
            front.hears("-BUSY ");
            let killed = root.line("SCRIPT KILL");
            assert!(killed.starts_with('+'), "{killed}");
            load.goes_on(50);
        }
    });
    front.is_not_ejected(&servers[1]);
}

#[test]
fn a_server_that_loads_is_not_away() {
    let (front, mut servers) = scene("");
    let mut root = admin(&front.weir);
    front.writes_while(Servers::KeepAll, |load| {
        for _ in 0..2 {
            // Nobody finds the server away: what clients ask is held back until it loads.
            assert_eq!(root.line("WEIR PAUSE"), "+OK");
            let mut direct = servers[0].client();
            let fill = "for n = 1, 1000 do redis.call('SET', 'fill' .. n, ARGV[1]) end return 1";
            assert_eq!(direct.ask(&["EVAL", fill, "0", &"x".repeat(500)]), ":1");
            assert_eq!(direct.line("SAVE"), "+OK");
            servers[0].kill();
            servers[0].start_again();
            assert_eq!(root.line("WEIR RESUME"), "+OK");
            front.hears("LOADING ");
            let mut direct = servers[0].client();
            wait::until("all is loaded", wait::LONG, || direct.line("PING") == "+PONG");
            load.goes_on(50);
        }
    });
    front.is_not_ejected(&servers[1]);
}
