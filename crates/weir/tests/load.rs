//! `weir load` beside a server that answers at once: its files and exit codes. A busy machine may
//! make a run INVALID, so no verdict is held.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use meter::{directory, hlog};

const LONG: Duration = Duration::from_secs(60);

/// Answers every request at once, as long as the test's process lives.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                // A request is short, and the next one comes behind its answer.
                while stream.read(&mut [0; 4096]).is_ok_and(|len| len > 0) {
                    if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn load(dir: &Path, url: &str, words: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["load", url, "--connections", "2", "--warmup", "100ms"]).args(words);
    command.current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> (Output, String) {
    let output = child.wait_with_output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    (output, String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_run_leaves_its_results_in_a_directory_and_none_of_its_secrets() {
    let place = tempfile::tempdir().unwrap();
    let url = format!("http://ann:hush@{}/write?db=d&p=hush", server());
    let words = ["--rate", "50", "--duration", "2s", "-H", "X-Token: hush", "--body", "hush"];
    let (output, said) = ended(load(place.path(), &url, &words));
    assert!([Some(0), Some(4)].contains(&output.status.code()), "{said}");
    let line = said.lines().find_map(|line| line.strip_prefix("report: ")).unwrap();
    let report = place.path().join(line);
    let dir = report.parent().unwrap();
    assert!(line.starts_with("weir-load/2"), "{line}");
    for name in [directory::RUN, directory::LOG, directory::ROWS, directory::TEXT, directory::JSON]
    {
        let text = fs::read_to_string(dir.join(name)).unwrap();
        assert!(!text.is_empty() && !text.contains("hush"), "{name}: {text}");
    }
    let text = fs::read_to_string(&report).unwrap();
    assert!(text.contains("VALID  ") && text.contains("[total, rate, throughput]"), "{text}");
    let log = fs::read_to_string(dir.join(directory::LOG)).unwrap();
    let all = hlog::read(&log).unwrap();
    let all = all.iter().filter(|line| line.tag.is_none()).map(|line| line.times.count());
    assert_eq!(all.sum::<u64>(), 100);
    assert_eq!(fs::read_to_string(dir.join(directory::ROWS)).unwrap().lines().count(), 3);
}

#[test]
fn a_run_that_is_killed_leaves_every_window_that_had_ended() {
    let place = tempfile::tempdir().unwrap();
    let words = ["--rate", "50", "--duration", "10m", "--out", "results"];
    let mut child = load(place.path(), &format!("http://{}/", server()), &words);
    let read = |name| fs::read_to_string(place.path().join("results").join(name));
    let begun = Instant::now();
    while read(directory::ROWS).unwrap_or_default().lines().count() < 3 {
        assert!(begun.elapsed() < LONG, "no window ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(read(directory::TEXT).unwrap().starts_with("UNFINISHED  "));
    let (log, rows) = (read(directory::LOG).unwrap(), read(directory::ROWS).unwrap());
    let windows = hlog::read(&log).unwrap().iter().filter(|line| line.tag.is_none()).count();
    assert!(windows >= 2 && windows + 1 >= rows.lines().count(), "{windows}:\n{rows}");
}

#[test]
fn a_run_that_can_not_begin_leaves_nothing_and_one_with_files_of_another_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let (output, said) = ended(load(place.path(), &url, &[]));
    assert!(output.status.code() == Some(1) && said.contains("refused"), "{said}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    fs::write(place.path().join("mine"), "mine").unwrap();
    let (output, said) = ended(load(place.path(), &url, &["--out", "."]));
    assert!(output.status.code() == Some(1) && said.contains("--out"), "{said}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}
