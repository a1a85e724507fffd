//! Files that are not what was written: nothing is confirmed onto a generation that no server can
//! start from.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rig::redis::{Redis, RedisClient};
use rig::wait;

use super::scene::{Scene, digest, info, master};

const KEYS: u32 = 5001;

/// Writes all keys, of a kilobyte each that cannot be compressed, and `rests` twice for each MiB,
/// so that an increment may end there.
fn fill(client: &mut RedisClient, rests: impl Fn(&mut RedisClient)) {
    let value: String = (0..1060).map(|_| char::from(rand::random_range(b'!'..=b'~'))).collect();
    for first in (0..KEYS).step_by(500) {
        let some = first..(first + 500).min(KEYS);
        for n in some.clone() {
            client.say(&["SET", &format!("k{n}"), &value]);
        }
        some.for_each(|_| assert_eq!(client.hear(), "+OK"));
        rests(client);
    }
}

/// The base and the increments of the current generation.
fn parts(scene: &Scene) -> (PathBuf, Vec<PathBuf>) {
    let text = fs::read_to_string(manifest(scene)).unwrap();
    let path = |line: &str| scene.append_dir().join(line.split(' ').nth(1).unwrap());
    let all = |kind: &'static str| text.lines().filter(move |line| line.contains(kind)).map(path);
    (all(" type b").next().unwrap(), all(" type i").collect())
}

fn manifest(scene: &Scene) -> PathBuf {
    scene.append_dir().join("appendonly.aof.manifest")
}

fn is_confirmed(client: &mut RedisClient) {
    assert_eq!(client.line("WAIT 1 60000"), ":1");
}

fn turn_a_bit(path: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let (at, mut byte) = (file.metadata().unwrap().len() / 2, [0]);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn cut(path: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len().saturating_sub(bytes)).unwrap();
}

/// Writes the manifest anew, with another checksum or without one.
fn edit(scene: &Scene, is_older: bool, edit: impl Fn(Vec<&str>) -> Vec<&str>) {
    let text = fs::read_to_string(manifest(scene)).unwrap();
    let mut lines = edit(text.lines().collect());
    if is_older {
        lines[0] = "#WEIR generation 1";
        lines.retain(|line| !line.starts_with("#WEIR base"));
    }
    fs::write(manifest(scene), lines.join("\n") + "\n").unwrap();
}

fn without<'a>(mut lines: Vec<&'a str>, kind: &str, number: usize) -> Vec<&'a str> {
    let at = lines.iter().enumerate().filter(|(_, line)| line.contains(kind)).nth(number);
    let at = at.unwrap().0;
    lines.remove(at);
    lines
}

fn pinned(scene: &Scene) -> usize {
    let names = fs::read_dir(scene.append_dir()).unwrap().flatten().map(|of| of.file_name());
    names.filter(|name| name.to_str().unwrap().starts_with("pinned.")).count()
}

fn syncs(client: &mut RedisClient) -> u64 {
    info(client, "stats", "sync_full").parse().unwrap()
}

/// Waits until a new base is in force and confirmed; until then nothing is.
fn assert_a_new_base_comes(
    scene: &Scene,
    master: &Redis,
    (syncs_before, pinned_before): (u64, usize),
) {
    let mut client = master.client();
    // On a busy machine it may have come between two looks.
    wait::until("a new base comes", wait::LONG, || {
        scene.status()["link"] == "base" || syncs(&mut client) > syncs_before
    });
    assert_eq!(client.line("SET k0 x"), "+OK");
    // The master begins to send two seconds after it was asked.
    let heard = client.line("WAIT 1 300");
    if scene.status()["link"] == "base" {
        assert_eq!(heard, ":0");
    }
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    assert_eq!(syncs(&mut client), syncs_before + 1);
    assert!(pinned(scene) > pinned_before, "the old one is pinned");
    wait::until("all is well", wait::LONG, || {
        let status = scene.status();
        status["trouble"].is_null() && status["unverified_bytes"] == 0
    });
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(master));
}

type Damage = (&'static str, fn(&Scene));

const DAMAGES: [Damage; 14] = [
    ("an old increment is gone", |scene| fs::remove_file(&parts(scene).1[1]).unwrap()),
    ("an old increment is cut", |scene| cut(&parts(scene).1[1], 100)),
    ("an old increment is empty", |scene| cut(&parts(scene).1[2], u64::MAX)),
    ("the first increment has a bit turned", |scene| turn_a_bit(&parts(scene).1[0])),
    ("an old increment has a bit turned", |scene| turn_a_bit(&parts(scene).1[3])),
    ("an old increment is another", |scene| {
        fs::copy(&parts(scene).1[2], &parts(scene).1[1]).unwrap();
    }),
    ("the base is cut", |scene| cut(&parts(scene).0, 9)),
    ("the base has a bit turned", |scene| turn_a_bit(&parts(scene).0)),
    ("the base is empty", |scene| cut(&parts(scene).0, u64::MAX)),
    ("the manifest is cut", |scene| cut(&manifest(scene), 20)),
    ("the manifest has a bit turned", |scene| turn_a_bit(&manifest(scene))),
    ("the manifest lacks the last increment", |scene| {
        edit(scene, false, |lines| {
            let last = lines.len() - 1;
            lines[..last].to_vec()
        });
    }),
    ("the manifest lacks the first increment", |scene| {
        edit(scene, false, |lines| without(lines, " type i", 0));
    }),
    ("a manifest of an older version lacks an increment", |scene| {
        edit(scene, true, |lines| without(lines, " type i", 1));
    }),
];

#[test]
fn nothing_is_confirmed_onto_a_generation_that_no_server_can_start_from() {
    // With a checksum of its own a base would say by itself that it is damaged.
    let args = ["--rdbchecksum", "no", "--repl-diskless-sync-delay", "2"];
    let master = master(&[&args[..], &["--repl-backlog-size", "64mb"]].concat());
    let mut scene = Scene::new(&master.url(), "increment-size = \"1MiB\"\nkeep = 0", "");
    let mut client = master.client();
    scene.wait_caught_up(&master);
    for (name, damage) in DAMAGES {
        println!("{name}");
        fill(&mut client, is_confirmed);
        scene.wait_caught_up(&master);
        assert!(parts(&scene).1.len() >= 5, "there are increments");
        let before = (syncs(&mut client), pinned(&scene));
        scene.weir.kill();
        damage(&scene);
        let (code, said) = scene.verify();
        assert_eq!(code, Some(3), "{name}: {said}");
        scene.weir.start_again();
        assert_a_new_base_comes(&scene, &master, before);
        // What was pinned is seen; there would be more of it with each damage.
        let all = fs::read_dir(scene.append_dir()).unwrap().flatten();
        let is_pinned = |name: &str| name.starts_with("pinned.");
        for file in all.filter(|file| is_pinned(file.file_name().to_str().unwrap())) {
            fs::remove_file(file.path()).unwrap();
        }
    }
}

#[test]
fn files_of_an_older_version_are_gone_on_with_and_their_base_is_summed() {
    let master = master(&["--repl-diskless-sync-delay", "0"]);
    let mut scene = Scene::new(&master.url(), "", "");
    let mut client = master.client();
    client.line("SET a 1");
    scene.wait_caught_up(&master);
    let whole = fs::read_to_string(manifest(&scene)).unwrap();
    scene.weir.kill();
    edit(&scene, true, |lines| lines);
    scene.weir.start_again();
    client.line("SET b 1");
    scene.wait_caught_up(&master);
    wait::until("the base is summed", wait::LONG, || {
        fs::read_to_string(manifest(&scene)).unwrap() == whole
    });
    assert_eq!(syncs(&mut client), 1);
    assert_eq!(scene.verify().0, Some(0));
}

#[test]
fn what_was_there_at_the_start_is_unverified_until_it_is_read() {
    let master = master(&["--repl-diskless-sync-delay", "0"]);
    let mut client = master.client();
    fill(&mut client, |_| {});
    let mut scene = Scene::new(&master.url(), "scrub-rate = \"1MiB\"", "");
    scene.wait_caught_up(&master);
    assert_eq!(scene.status()["unverified_bytes"], 0, "its checksum was seen as it came");
    scene.weir.kill();
    scene.weir.start_again();
    scene.wait_caught_up(&master);
    assert!(scene.status()["unverified_bytes"].as_u64() > Some(4 << 20));
    let said = scene.weir.must_run(&["status"]);
    assert!(said.contains("m: unverified: "), "{said}");
    assert_eq!(client.line("SET a 1"), "+OK");
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    let scrape = scene.weir.metrics();
    assert!(scrape.sum("weir_redis_aof_unverified_bytes", &[("master", "m")]) > 0.0);
    wait::until("all is read", wait::LONG, || scene.status()["unverified_bytes"] == 0);
    assert!(!scene.weir.must_run(&["status"]).contains("unverified"));
}

#[test]
fn damage_that_comes_while_weir_runs_is_found_and_a_new_base_is_taken() {
    let master = master(&["--repl-diskless-sync-delay", "2", "--repl-backlog-size", "64mb"]);
    let lines = "increment-size = \"1MiB\"\nscrub-every = \"500ms\"\nscrub-rate = \"0\"";
    let scene = Scene::new(&master.url(), lines, "");
    let mut client = master.client();
    scene.wait_caught_up(&master);
    fill(&mut client, is_confirmed);
    scene.wait_caught_up(&master);
    // A manifest that somebody removes is written again, and costs nothing.
    let text = fs::read_to_string(manifest(&scene)).unwrap();
    fs::remove_file(manifest(&scene)).unwrap();
    wait::until("the manifest is there again", wait::LONG, || {
        fs::read_to_string(manifest(&scene)).is_ok_and(|now| now == text)
    });
    for damage in [DAMAGES[4].1, DAMAGES[0].1] {
        let before = (syncs(&mut client), pinned(&scene));
        damage(&scene);
        assert_a_new_base_comes(&scene, &master, before);
        fill(&mut client, is_confirmed);
        scene.wait_caught_up(&master);
    }
    scene.weir.wait_log("is damaged: at byte");
}
