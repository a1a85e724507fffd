//! The life of `weir serve` as its operator sees it: start, reload, stop, and what stands in the
//! way. What it does for clients is tested with real servers in `tests/`.

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::running::{ALONE, DEADLINE, WeirProcess, call};
use rustix::process::{Pid, Signal, kill_process};

/// What `weir serve` says and answers when it can't start.
fn refused(dir: &Path, text: &str) -> (Option<i32>, String) {
    let (mut child, log) = call(dir, text);
    let code = child.wait().unwrap().code();
    (code, log.into_iter().collect::<Vec<_>>().join("\n"))
}

fn weir(dir: &Path, words: &[&str]) -> (Option<i32>, String) {
    let called =
        Command::new(env!("CARGO_BIN_EXE_weir")).args(words).current_dir(dir).output().unwrap();
    let text = [called.stdout, called.stderr].concat();
    (called.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn a_write_is_kept_while_the_backend_is_away_and_status_shows_it() {
    let dir = tempfile::tempdir().unwrap();
    let running = WeirProcess::start(dir.path(), ALONE);
    assert_eq!(running.ask("/ready").0, 200);
    assert_eq!(running.write("cpu v=1 1\ncpu v=2 2\n"), 204);
    let cursor = running.status()["influx"]["backends"][0]["cursor"].clone();
    assert_eq!((&cursor["accepted"], &cursor["waiting"]["items"]), (&2.into(), &2.into()));

    let (code, shown) = weir(dir.path(), &["status", "--admin", &running.admin]);
    assert_eq!(code, Some(0), "{shown}");
    let row = shown.lines().find(|line| line.starts_with("a ")).unwrap();
    assert_eq!(row.split_whitespace().nth(2), Some("2"), "{shown}");
}

#[test]
fn a_stop_is_orderly_and_the_next_start_knows_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let running = WeirProcess::start(dir.path(), ALONE);
    assert_eq!(running.write("cpu v=1 1"), 204);
    running.signal(Signal::TERM);
    running.logged("stopped");
    assert_eq!(running.ended(), Some(0));

    let running = WeirProcess::start(dir.path(), ALONE);
    let cursor = running.status()["influx"]["backends"][0]["cursor"].clone();
    assert_eq!((&cursor["accepted"], &cursor["waiting"]["items"]), (&1.into(), &1.into()));
}

#[test]
fn nobody_else_reads_what_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let running = WeirProcess::start(dir.path(), ALONE);
    assert_eq!(running.write("cpu v=1 1"), 204);
    let mut waiting = vec![dir.path().join("journal")];
    while let Some(path) = waiting.pop() {
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o077, 0, "{}", path.display());
        if metadata.is_dir() {
            waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

#[test]
fn a_second_signal_ends_a_weir_with_a_store_without_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let text = "workers = 1\n[influx]\nlisten = \"127.0.0.1:0\"\nauto-create-database = true\n\
                [admin]\nlisten = \"127.0.0.1:0\"\n";
    let running = WeirProcess::start(dir.path(), text);
    assert_eq!(running.write("cpu v=1 1"), 204);
    // A request that has begun holds the drain up.
    let mut client = TcpStream::connect(&running.http).unwrap();
    client
        .write_all(b"POST /write?db=d HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\ncpu")
        .unwrap();
    running.signal(Signal::TERM);
    running.logged("stopping");
    running.signal(Signal::TERM);
    running.logged("a second signal: ending without waiting any longer");
    let (code, rest) = running.ended_saying();
    assert_eq!(code, Some(1), "{rest}");
    assert!(!rest.contains("panicked"), "{rest}");
}

#[test]
fn a_backend_with_a_backlog_can_not_be_removed_by_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let running = WeirProcess::start(dir.path(), ALONE);
    assert_eq!(running.write("cpu v=1 1"), 204);
    running.signal(Signal::INT);
    assert_eq!(running.ended(), Some(0));

    let renamed = ALONE.replace("name = \"a\"", "name = \"b\"");
    let (code, said) = refused(dir.path(), &renamed);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("1 points wait for backend \"a\""), "{said}");
    assert!(said.contains("weir journal forget a"), "{said}");

    let (code, said) = weir(dir.path(), &["journal", "forget", "a"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("forgot a: 1 points"), "{said}");
    WeirProcess::start(dir.path(), &renamed);
}

#[test]
fn a_reload_says_what_needs_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let running = WeirProcess::start(dir.path(), ALONE);
    let changed = ALONE.replace("workers = 1", "workers = 2");
    std::fs::write(dir.path().join("weir.toml"), changed).unwrap();
    running.signal(Signal::HUP);
    running.logged("workers has changed in the file; that needs a restart");
    running.logged("the configuration was reloaded");

    std::fs::write(dir.path().join("weir.toml"), "wrokers = 3").unwrap();
    running.signal(Signal::HUP);
    let line = running.logged("the configuration was not reloaded; the former one stays");
    assert!(
        line["error"].to_string().contains("did you mean \\\"workers\\\""),
        "{}",
        line["error"]
    );
    assert_eq!(running.ask("/ready").0, 200);
}

#[test]
fn two_can_not_have_one_journal() {
    let dir = tempfile::tempdir().unwrap();
    let _running = WeirProcess::start(dir.path(), ALONE);
    let (code, said) = refused(dir.path(), ALONE);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("in use by another process"), "{said}");
}

/// Leaves points in the store of the default place below `dir`.
fn kept_points(dir: &Path) {
    let embedded = "workers = 1\n[influx]\nlisten = \"127.0.0.1:0\"\nauto-create-database = true\n\
                    [admin]\nlisten = \"127.0.0.1:0\"\n";
    let running = WeirProcess::start(dir, embedded);
    assert_eq!(running.write("cpu v=1 1"), 204);
    running.signal(Signal::TERM);
    assert_eq!(running.ended(), Some(0));
}

#[test]
fn a_gateway_that_is_about_something_else_starts_beside_points_in_the_default_store() {
    let dir = tempfile::tempdir().unwrap();
    kept_points(dir.path());
    let postgres = "[postgres]\nlisten = \"127.0.0.1:0\"\n[[postgres.user]]\nname = \"ann\"\n\
                    password = \"geheim\"\n[[postgres.backend]]\nname = \"a\"\n\
                    url = \"postgresql://127.0.0.1:1\"\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    let place = dir.path().join("weir-data/store");
    for text in [postgres, ALONE] {
        let (mut child, log) = call(dir.path(), text);
        let lines = std::iter::from_fn(|| log.recv_timeout(DEADLINE).ok());
        let warned = lines.take_while(|line| !line.contains("the admin port answers"));
        let warned = warned.filter(|line| line.contains("there are points in the store"));
        let warned = warned.collect::<Vec<_>>();
        child.kill().unwrap();
        child.wait().unwrap();
        let [warning] = &warned[..] else { panic!("{text}: {warned:?}") };
        assert!(warning.contains(&*place.to_string_lossy()), "{warning}");
        let (code, said) = weir(dir.path(), &["check"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("warning: there are points in the store"), "{said}");
    }
}

#[test]
fn a_file_that_names_a_store_with_points_and_does_not_serve_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    kept_points(dir.path());
    let (code, said) = refused(dir.path(), &format!("{ALONE}[store]\nmemory = \"64MiB\"\n"));
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains(&*dir.path().join("weir-data/store").to_string_lossy()), "{said}");
    assert!(said.contains("embedded = true"), "{said}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for key in ["[influx]\nlisten", "[admin]\nlisten"] {
        let dir = tempfile::tempdir().unwrap();
        let free = format!("{key} = \"127.0.0.1:0\"");
        let text = ALONE.replace(&free, &format!("{key} = \"{address}\""));
        let (code, said) = refused(dir.path(), &text);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&address.to_string()), "{said}");
        assert!(said.contains("in use"), "{said}");
    }
}

#[test]
fn the_service_manager_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let told = |words: &str| {
        let mut buffer = [0; 4096];
        loop {
            let length = socket.recv(&mut buffer).unwrap_or_else(|e| panic!("{words}: {e}"));
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.lines().any(|line| line == words) {
                return text;
            }
        }
    };
    // The watchdog's variables name the process they are for, which `exec` keeps.
    let script = "NOTIFY_SOCKET=$PWD/notify WATCHDOG_USEC=300000 WATCHDOG_PID=$$ exec \"$0\" serve";
    std::fs::write(dir.path().join("weir.toml"), ALONE).unwrap();
    let mut child = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_weir")])
        .current_dir(dir.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let signal = |signal| kill_process(Pid::from_child(&child), signal).unwrap();
    told("READY=1");
    told("WATCHDOG=1");
    signal(Signal::HUP);
    assert!(told("RELOADING=1").contains("MONOTONIC_USEC="));
    told("READY=1");
    signal(Signal::TERM);
    told("STOPPING=1");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
