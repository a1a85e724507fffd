//! Valkey as a master, where it is to be had.

use std::path::Path;

use rig::faults::{DiskOrder, HOLD_SYNCS};
use rig::redis::{Redis, valkeys};
use rig::wait;

use super::scene::{Scene, digest, info, wait_loaded};

const FUNCTION: &str = "#!lua name=f\nserver.register_function('f', function(keys, args) \
                        return server.call('INCRBY', keys[1], args[1]) end)";

fn start(program: &Path, args: &[&str]) -> Redis {
    let usual = ["--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"];
    Redis::start_as(program, &[&usual, args].concat())
}

#[test]
fn a_master_of_valkeys_is_followed_and_a_server_of_its_own_starts_from_the_files() {
    for program in valkeys() {
        follows(&program);
    }
}

fn follows(program: &Path) {
    let master = start(program, &["--repl-backlog-size", "16mb"]);
    let mut client = master.client();
    let version = info(&mut client, "server", "valkey_version");
    println!("Valkey {version}");
    client.line("SET before 1");
    let mut scene = Scene::with_faults(&master.url(), "increment-size = \"1MiB\"");
    scene.wait_caught_up(&master);
    assert!(client.ask(&["FUNCTION", "LOAD", FUNCTION]).starts_with('$'));
    assert_eq!(client.line("FCALL f 1 n 7"), ":7");
    let filler = "f".repeat(300_000);
    for n in 0..10 {
        client.line(&format!("SELECT {}", n % 3));
        client.ask(&["SET", &format!("k{n}"), &filler]);
        client.line(&format!("SET gone{n} x PX 1"));
        client.send(b"MULTI\r\nINCR a\r\nXADD s * a b\r\nEXEC\r\n");
        (0..4).for_each(|_| drop(client.hear()));
    }
    // Weir's file is the one that is durable, and no server's own counts.
    assert_eq!(client.line("WAITAOF 0 1 60000"), "*2 :0 :1");
    scene.weir.kill();
    assert_eq!(client.line("SET while-away 1"), "+OK");
    assert_eq!(client.line("WAITAOF 0 1 100"), "*2 :0 :0");
    scene.weir.start_again();
    scene.wait_caught_up(&master);
    assert_eq!(info(&mut client, "stats", "sync_full"), "1");
    assert_eq!(client.line("SET k0 w"), "+OK");
    assert_eq!(client.line("WAITAOF 0 1 60000"), "*2 :0 :1");
    // A new base beside the stream is one of Valkey's, too.
    let dir = scene.dir();
    scene.weir.must_run(&["redis", "rewrite", dir.to_str().unwrap()]);
    wait::until("the new base is in force", wait::LONG, || !dir.join("weir.rewrite").exists());
    client.line("SET behind-the-base 1");
    let gone = |client: &mut rig::redis::RedisClient| {
        let count =
            |db| client.line(&format!("SELECT {db}")).len() + client.line("KEYS gone*").len();
        (0..3).map(count).sum::<usize>()
    };
    wait::until("what was to expire has", wait::LONG, || gone(&mut client) == 3 * 5);
    scene.wait_caught_up(&master);
    let copy = scene.copy();
    let dir = copy.path().to_str().unwrap();
    let restored = start(program, &["--appendonly", "yes", "--dir", dir]);
    wait_loaded(&restored);
    assert_eq!(digest(&restored), digest(&master));
    let functions = |of: &Redis| of.client().line("FUNCTION DUMP");
    assert_eq!(functions(&restored), functions(&master));
    let (code, said) = scene.verify();
    assert_eq!(code, Some(0), "{said}");
    // While the disk stands still nothing is confirmed, and nobody waits who does not ask.
    let held = DiskOrder::give(&scene.dir(), HOLD_SYNCS);
    assert_eq!(client.line("SET held 1"), "+OK");
    assert_eq!(client.line("WAITAOF 0 1 300"), "*2 :0 :0");
    drop(held);
    assert_eq!(client.line("WAITAOF 0 1 60000"), "*2 :0 :1");
}
