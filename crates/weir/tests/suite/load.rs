//! `weir load` beside a server that answers at once: its files and exit codes. A busy machine may
//! make a run INVALID, so no verdict is held.

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

fn weir(dir: &Path, words: &[&str]) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words).current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    ended(command.spawn().unwrap())
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
    assert!(line.ends_with("/report.html"), "{line}");
    // Whoever has no terminal gets a line a second.
    assert!(said.contains("    1 s  due       50  sent "), "{said}");
    let files = [directory::RUN, directory::LOG, directory::ROWS, directory::TEXT, directory::JSON];
    for name in files.into_iter().chain([directory::PAGE]) {
        let text = fs::read_to_string(dir.join(name)).unwrap();
        assert!(!text.is_empty() && !text.contains("hush"), "{name}: {text}");
    }
    let text = fs::read_to_string(dir.join(directory::TEXT)).unwrap();
    assert!(text.contains("VALID  ") && text.contains("[total, rate, throughput]"), "{text}");
    let log = fs::read_to_string(dir.join(directory::LOG)).unwrap();
    let all: Vec<_> = hlog::read(log.as_bytes()).map(Result::unwrap).collect();
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
    let windows = hlog::read(log.as_bytes()).filter(|line| line.as_ref().unwrap().tag.is_none());
    let windows = windows.count();
    assert!(windows >= 2 && windows + 1 >= rows.lines().count(), "{windows}:\n{rows}");
    // Its page is made from what is there, alone and beside itself.
    let (output, said) = weir(place.path(), &["load", "report", "results"]);
    assert!(output.status.success() && said == "report: results/report.html\n", "{said}");
    assert!(read(directory::PAGE).unwrap().contains("<b>UNFINISHED</b>"));
    let (output, said) = weir(place.path(), &["load", "report", "results", "results"]);
    assert!(output.status.success() && said == "report: report.html\n", "{said}");
    let (output, said) = weir(place.path(), &["load", "report", "."]);
    assert!(output.status.code() == Some(1) && said.contains("has no results of a run"), "{said}");
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
    let step = lines.nth(2).unwrap().unwrap();
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

#[test]
fn two_loads_are_run_in_turn_and_too_few_runs_tell_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (a, b) = (format!("http://{}/a", server()), format!("http://u:hush@{}/b", server()));
    let pair = ["load", "compare", &a, &b, "--pairs", "1", "--out", "both", "--"];
    let options = ["--duration", "1s", "--warmup", "0s", "--connections", "2"];
    let (output, said) = weir(place.path(), &[&pair[..], &options].concat());
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("too few to tell: ") && !said.contains("hush"), "{said}");
    assert!(said.contains("VALID  ") && said.contains("report: both/compare.txt"), "{said}");
    // What was run is held against each other again, and says the same.
    let (output, again) = weir(place.path(), &["load", "compare", "both/a", "both/b"]);
    assert_eq!(output.status.code(), Some(4), "{again}");
    assert!(again.ends_with(said.split("tell: ").nth(1).unwrap().split("report").next().unwrap()));
    // A load that can't be run is told in its own words.
    let (output, said) = weir(place.path(), &["load", "compare", &a, "http://127.0.0.1:1/"]);
    assert!(output.status.code() == Some(1) && said.contains("refused"), "{said}");
    let (output, said) = weir(place.path(), &["load", "compare", &a, "both/b"]);
    assert!(output.status.code() == Some(1) && said.contains("two of a kind"), "{said}");
}
