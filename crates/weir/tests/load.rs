//! `weir load` beside a server that answers at once: its files and exit codes. A busy machine may
//! make a run INVALID, so no verdict is held.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use meter::{directory, hlog};
use rustix::process::{Pid, Signal, kill_process};

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

/// Waits until so many windows of the run into `results` have ended.
fn wait_for_windows(dir: &Path, windows: usize) {
    let (rows, begun) = (dir.join("results").join(directory::ROWS), Instant::now());
    while fs::read_to_string(&rows).unwrap_or_default().lines().count() <= windows {
        assert!(begun.elapsed() < LONG, "no window ended");
        std::thread::sleep(Duration::from_millis(20));
    }
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
    wait_for_windows(place.path(), 2);
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

#[test]
fn an_injector_that_is_stopped_for_a_while_blames_no_server() {
    let place = tempfile::tempdir().unwrap();
    let words = ["--rate", "500", "--duration", "4s", "--out", "results"];
    let child = load(place.path(), &format!("http://{}/", server()), &words);
    wait_for_windows(place.path(), 1);
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    kill_process(pid, Signal::CONT).unwrap();
    let (output, said) = ended(child);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("a thread stood still for"), "{said}");
    assert!(said.contains("sends were late by over 1 ms"), "{said}");
}

#[test]
fn a_search_judges_its_steps_by_stretches_too() {
    let place = tempfile::tempdir().unwrap();
    let words = ["--find-limit", "p99>1h in any 1s"];
    let mut child = load(place.path(), &format!("http://{}/", server()), &words);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let step = lines.nth(1).unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let seen = step.contains("missed, p99>1h in any 1s: it was") && step.contains(" in the 1 s up");
    assert!(seen || step.contains("INVALID"), "{step}");
}

#[test]
fn a_server_that_dies_at_the_end_misses_what_is_demanded_of_any_stretch() {
    let place = tempfile::tempdir().unwrap();
    // It takes connections, and answers nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let demand = "p99<1s in any 1s";
    let words = ["--rate", "50", "--duration", "1s", "--timeout", "2s", "--require", demand];
    let (output, said) = ended(load(place.path(), &url, &words));
    assert!([Some(3), Some(4)].contains(&output.status.code()), "{said}");
}
