//! A master that comes back without its keys is not believed.

use rig::redis::Redis;
use rig::wait;

use super::scene::{Scene, digest, info, master};

const LINES: &str = "ask-every = \"100ms\"";

fn fill(master: &Redis, keys: u32) {
    let mut client = master.client();
    (0..keys).for_each(|n| assert_eq!(client.line(&format!("SET k{n} v")), "+OK"));
}

fn wait_counted(scene: &Scene, keys: u32) {
    wait::until("its keys are in the files", wait::LONG, || {
        // A master that had no replica before has `WAIT` answer once its data set is sent.
        let Some(file) = scene.last_increment_now().and_then(|path| std::fs::read(path).ok())
        else {
            return false;
        };
        let line = format!("#WEIR keys {keys}\r\n#WEIR mark");
        let file = String::from_utf8_lossy(&file).into_owned();
        let last = file.rfind("#WEIR keys").map(|at| file[at..].to_owned());
        last.is_some_and(|last| last.starts_with(&line[..line.len() - 12]))
    });
}

/// The master comes back empty, and Weir has taken its base.
fn lose(master: &mut Redis, scene: &Scene) {
    master.kill();
    master.start_again();
    wait::until("its keys are awaited", wait::LONG, || scene.status()["awaits_keys"] == true);
    let mut client = master.client();
    wait::until("it is followed", wait::LONG, || {
        info(&mut client, "replication", "connected_slaves") == "1"
    });
}

#[test]
fn a_master_that_has_lost_its_keys_is_confirmed_nothing_until_they_are_back_or_accepted() {
    let mut master =
        master(&["--repl-ping-replica-period", "1", "--repl-diskless-sync-delay", "0"]);
    let mut scene = Scene::new(&master.url(), LINES, "");
    fill(&master, 100);
    assert_eq!(master.client().line("WAIT 1 60000"), ":1");
    wait_counted(&scene, 100);
    lose(&mut master, &scene);
    fill(&master, 50);
    let mut client = master.client();
    assert_eq!(client.line("SET k0 other"), "+OK");
    assert_eq!(client.line("WAIT 1 1500"), ":0");
    assert!(scene.append_dir().join("pinned.1.manifest").exists());
    // A restart of Weir believes it no more.
    scene.weir.kill();
    scene.weir.start_again();
    wait::until("it is still awaited", wait::LONG, || {
        let status = scene.status();
        status["awaits_keys"] == true && status["link"] == "following"
    });
    assert_eq!(client.line("SET k0 more"), "+OK");
    assert_eq!(client.line("WAIT 1 500"), ":0");
    wait::until("it is said", wait::LONG, || {
        scene.status()["trouble"].to_string().contains("too few keys")
    });
    // They come back.
    fill(&master, 95);
    assert_eq!(client.line("SET k0 back"), "+OK");
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    wait::until("all is well", wait::LONG, || scene.status()["awaits_keys"] == false);
    // Lost again, and accepted.
    wait_counted(&scene, 95);
    lose(&mut master, &scene);
    let mut client = master.client();
    assert_eq!(client.line("SET new 1"), "+OK");
    assert_eq!(client.line("WAIT 1 300"), ":0");
    let dir = scene.dir().to_str().unwrap().to_owned();
    let said = scene.weir.must_run(&["redis", "accept", &dir]);
    assert!(said.contains("in the place of 95 keys"), "{said}");
    assert_eq!(client.line("WAIT 1 60000"), ":1");
    wait::until("what was accepted is done", wait::LONG, || {
        !scene.dir().join("weir.accept").exists()
    });
    let again = scene.weir.command(&["redis", "accept", &dir]);
    assert!(!again.status.success(), "nothing waits to be accepted any more");
    let (restored, _dir) = scene.restored();
    assert_eq!(digest(&restored), digest(&master));
    let (code, said) = scene.verify();
    assert_eq!(code, Some(0), "{said}");
}
