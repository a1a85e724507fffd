//! Runs that agents send for a coordinator, and what becomes of them when one of them is gone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use rig::process::Process;
use rig::redis::Redis;
use rig::witness::{Manner, Witness};
use rig::{machine, network, places, wait};
use rustix::process::Signal;
use serde_json::Value;

use super::parts::{causes, load, report, words};

/// What coordinators and agents know.
const SECRET: &str = "a secret of all injectors";

/// `weir load agent` on a port of its own.
pub struct Agent {
    process: Process,
    pub address: String,
    out: PathBuf,
}

impl Agent {
    pub fn start(place: &Path, name: &str, more: &[&str]) -> Self {
        Self::start_by(Command::new(places::weir()), place, name, more)
    }

    /// By a command that runs Weir with whatever arguments.
    fn start_by(mut command: Command, place: &Path, name: &str, more: &[&str]) -> Self {
        let (secret, out) = (secret(place, "secret", SECRET), place.join(name));
        command.args(["load", "agent", "--listen", "127.0.0.1:0", "--secret-file"]).arg(secret);
        command.arg("--out").arg(&out).args(more);
        let log = place.join(format!("{name}.log"));
        let mut process = Process::start("an agent", &mut command, &log);
        let address = wait::value("the agent listens", wait::LONG, || {
            assert!(process.ended().is_none(), "{}", process.log());
            let log = process.log();
            Some(log.split_once("agent on ")?.1.split_once(", for")?.0.to_owned())
        });
        Self { process, address, out }
    }

    /// The file of that name of its only run.
    fn file(&self, name: &str) -> String {
        let runs = fs::read_dir(&self.out).expect("it has sent something");
        let runs: Vec<_> = runs.map(|run| run.unwrap().path()).collect();
        assert_eq!(runs.len(), 1, "{runs:?}");
        fs::read_to_string(runs[0].join(name)).unwrap()
    }
}

fn secret(place: &Path, name: &str, text: &str) -> PathBuf {
    let path = place.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A coordinator of these agents, for the options of a load.
pub fn coordinator(place: &Path, agents: &[&Agent], options: &[&str]) -> Command {
    let names: Vec<_> = agents.iter().map(|agent| &*agent.address).collect();
    let mut command = Command::new(places::weir());
    command.current_dir(place).arg("load").args(options);
    command.args(["--agents", &names.join(","), "--agent-secret-file", "secret"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a coordinator says to its end.
pub fn ran(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().expect("weir can be started");
    (output.status.code(), words(&output))
}

/// Waits until the server has answered so many requests.
fn wait_answered(server: &Witness, count: usize) {
    wait::until("requests come", wait::LONG, || server.answered().len() >= count);
}

/// How long after a moment the last request was answered, once none has come for a while.
fn answered_after(server: &Witness, moment: SystemTime) -> Duration {
    let (quiet, mut last) = (Duration::from_millis(1_500), (0, SystemTime::now()));
    wait::until("nothing is sent any more", wait::LONG, || {
        let count = server.answered().len();
        if count != last.0 {
            last = (count, SystemTime::now());
        }
        last.1.elapsed().unwrap_or_default() > quiet
    });
    let at = Duration::from_nanos(*server.answered().last().expect("something was sent"));
    (SystemTime::UNIX_EPOCH + at).duration_since(moment).unwrap_or_default()
}

/// The library with which a process has another wall clock.
fn faketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().map(|folder| folder.unwrap().path());
    let mut libraries = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists()).expect("Debian has it there")
}

fn requests(report: &Value) -> u64 {
    report["requests"].as_u64().expect("it is counted")
}

#[test]
fn agents_send_the_requests_of_one_run() {
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let place = place.path();
    fs::create_dir(place.join("run")).unwrap();
    fs::write(place.join("run/rows.csv"), "name\none\ntwo\n").unwrap();
    let text = format!(
        "url = '{}'\nrate = 300\nduration = '2s'\nwarmup = '500ms'\npoisson = true\n\
         connections = 9\nrequire = ['rate>5000']\ndata = ['run/rows.csv']\n\
         [[step]]\ntarget = '/?{{{{name}}}}'\n",
        server.url()
    );
    fs::write(place.join("run/load.toml"), &text).unwrap();
    let agents = ["a", "b", "c"].map(|name| Agent::start(place, name, &[]));
    let all: Vec<_> = agents.iter().collect();
    let (code, said) = ran(coordinator(place, &all, &["run", "run/load.toml", "--out", "all"]));
    assert!(matches!(code, Some(3 | 4)), "{said}");
    let whole = report(place, "all");
    let own: Vec<Value> =
        agents.iter().map(|of| serde_json::from_str(&of.file("report.json")).unwrap()).collect();
    assert_eq!(requests(&whole), own.iter().map(requests).sum::<u64>());
    load(place, &["run", "run/load.toml", "--out", "alone"]);
    assert_eq!(requests(&report(place, "alone")), requests(&whole), "it is split, not copied");
    assert_eq!((&whole["began"], &whole["connections"]), (&own[0]["began"], &9.into()));
    // The demand on the rate is of the whole run, and no part's.
    let missed = |report: &Value| report["missed"].as_array().map_or(0, Vec::len);
    assert_eq!((missed(&whole), own.iter().map(missed).sum::<usize>()), (1, 0), "{said}");
    assert!(said.contains("3 of 3 parts") && said.contains("clocks"), "{said}");
    // Percentiles are those of all samples in one histogram: what a merge of the parts says.
    let parts: Vec<_> = agents.iter().map(|of| fs::read_dir(&of.out).unwrap()).collect();
    let parts: Vec<_> = parts.into_iter().flatten().map(|run| run.unwrap().path()).collect();
    let parts: Vec<_> = parts.iter().map(|path| path.to_str().unwrap()).collect();
    load(place, &[&["merge"], &parts[..], &["--out", "merged"]].concat());
    let merged = report(place, "merged");
    assert_eq!(whole["latency"], merged["latency"], "{said}");
    assert_eq!(whole["windows"], merged["windows"]);
    // A second run over the same agents, of which the first one is too many for one of them.
    let slow = Agent::start(place, "slow", &["--max-rate", "50", "--max-duration", "10s"]);
    let options = ["run", "run/load.toml", "--out", "fast"];
    let (code, said) = ran(coordinator(place, &[all[0], &slow], &options));
    assert!(code == Some(1) && said.contains("--max-rate"), "{said}");
    assert!(said.contains(&slow.address) && !place.join("fast").exists(), "{said}");
    let options = ["run", "run/load.toml", "--rate", "90", "--out", "slow-run"];
    let (code, said) = ran(coordinator(place, &[all[0], &slow], &options));
    assert!(matches!(code, Some(3 | 4)), "{said}");
}

#[test]
fn a_search_and_a_gate_that_ends_a_run_work_over_agents() {
    let delays = vec![Duration::from_millis(2)];
    let (server, place) =
        (Witness::start(Manner { delays, ..Manner::default() }), places::directory());
    let (place, url) = (place.path(), server.url());
    let agents = ["a", "b"].map(|name| Agent::start(place, name, &[]));
    let all: Vec<_> = agents.iter().collect();
    let options =
        [&*url, "--rate", "200", "--duration", "60s", "--abort", "rate>5000", "--out", "x"];
    let (code, said) = ran(coordinator(place, &all, &options));
    assert!(matches!(code, Some(3 | 4)) && said.contains("ABORTED  rate>5000"), "{said}");
    assert!(requests(&report(place, "x")) < 4_000, "{said}");
    // No rate reaches it: each step ends as a miss.
    let options = [&*url, "--find-limit", "p50<1ms", "--out", "limit", "--connections", "4"];
    let (code, said) = ran(coordinator(place, &all, &options));
    assert!(matches!(code, Some(3 | 4)), "{said}");
    assert!(said.contains("100/s") && place.join("limit/limit.txt").exists(), "{said}");
    assert!(place.join("limit/01-100/windows.hlog").exists());
}

#[test]
fn an_agent_that_is_killed_is_told_at_once_and_the_run_goes_on() {
    let _alone = machine::alone();
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let (place, url) = (place.path(), server.url());
    let mut agents = ["a", "b"].map(|name| Agent::start(place, name, &[]));
    let all: Vec<_> = agents.iter().collect();
    let options = [&*url, "--rate", "200", "--duration", "8s", "--connections", "4", "--out", "x"];
    let run = coordinator(place, &all, &options).spawn().expect("weir can be started");
    wait_answered(&server, 200 + 500);
    wait::until("two windows are on its disk", wait::LONG, || {
        agents[1].file("windows.csv").lines().count() > 2
    });
    agents[1].process.kill();
    let output = run.wait_with_output().unwrap();
    let said = words(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    let lost = format!("agent {} was lost at second", agents[1].address);
    assert!(said.contains(&lost), "{said}");
    let report = report(place, "x");
    assert!(causes(&report).contains("was lost at second"), "{report}");
    // What it had sent counts, and its share was sent by nobody else.
    let sent = requests(&report);
    assert!((800 + 150..1_500).contains(&sent), "{sent}");
    assert_eq!(report["windows"].as_array().map(Vec::len), Some(8));
    assert!(agents[1].file("report.txt").starts_with("UNFINISHED"));
    assert!(agents[1].file("windows.csv").lines().count() > 2);
    assert!(!agents[0].file("report.txt").starts_with("UNFINISHED"));
}

#[test]
fn a_search_ends_with_an_agent_that_is_lost() {
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let (place, url) = (place.path(), server.url());
    let mut agents = ["a", "b"].map(|name| Agent::start(place, name, &[]));
    let all: Vec<_> = agents.iter().collect();
    let options = [&*url, "--find-limit", "p99<9s", "--out", "x", "--connections", "4"];
    let run = coordinator(place, &all, &options).spawn().expect("weir can be started");
    wait_answered(&server, 200);
    agents[1].process.kill();
    let said = words(&run.wait_with_output().unwrap());
    let gone = format!("agent {} is gone", agents[1].address);
    assert!(said.contains("was lost at second") && said.contains(&gone), "{said}");
}

#[test]
fn an_agent_that_hangs_is_lost_and_stops_when_it_is_back() {
    let _alone = machine::alone();
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let (place, url) = (place.path(), server.url());
    let agents = ["a", "b"].map(|name| Agent::start(place, name, &[]));
    let all: Vec<_> = agents.iter().collect();
    let options = [&*url, "--rate", "200", "--duration", "10s", "--connections", "4", "--out", "x"];
    let run = coordinator(place, &all, &options).spawn().expect("weir can be started");
    wait_answered(&server, 200 + 500);
    agents[1].process.signal(Signal::STOP);
    let output = run.wait_with_output().unwrap();
    let back = SystemTime::now();
    agents[1].process.signal(Signal::CONT);
    let said = words(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("nothing was heard of it for 3s"), "{said}");
    assert!(answered_after(&server, back) < Duration::from_secs(5));
    wait::until("its results are whole", wait::LONG, || {
        !agents[1].file("report.txt").starts_with("UNFINISHED")
    });
}

#[test]
fn agents_stop_when_their_coordinator_dies() {
    let _alone = machine::alone();
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let (place, url) = (place.path(), server.url());
    let agents = ["a", "b"].map(|name| Agent::start(place, name, &[]));
    let all: Vec<_> = agents.iter().collect();
    let options = [&*url, "--rate", "200", "--duration", "60s", "--connections", "4", "--out", "x"];
    // Killed, and stopped: nobody hears the end of its connections then.
    for (number, is_killed) in [(1, true), (2, false)] {
        let options = [&options[..7], &["--out", if is_killed { "x" } else { "y" }]].concat();
        let before = server.answered().len();
        let mut run: Child = coordinator(place, &all, &options).spawn().expect("weir is started");
        wait_answered(&server, before + 500);
        let id = rustix::process::Pid::from_child(&run);
        let signal = if is_killed { Signal::KILL } else { Signal::STOP };
        rustix::process::kill_process(id, signal).unwrap();
        let gone = SystemTime::now();
        assert!(answered_after(&server, gone) < Duration::from_secs(5));
        let _ = run.kill();
        let _ = run.wait();
        for agent in &agents {
            wait::until("it says so", wait::LONG, || {
                agent.process.log().matches("is stopped").count() == number
            });
        }
    }
    let runs = |of: &Agent| fs::read_dir(&of.out).unwrap().map(|run| run.unwrap().path());
    for path in agents.iter().flat_map(runs) {
        wait::until("its results are whole", wait::LONG, || {
            fs::read_to_string(path.join("report.txt")).unwrap().contains("STOPPED")
        });
    }
}

#[test]
fn agents_stop_when_the_network_to_their_coordinator_is_cut() {
    let _alone = machine::alone();
    network::test_apart(None, || {
        let (server, place) = (Witness::start(Manner::default()), places::directory());
        let (place, url) = (place.path(), server.url());
        let agents = ["a", "b"].map(|name| Agent::start(place, name, &[]));
        let all: Vec<_> = agents.iter().collect();
        let options =
            [&*url, "--rate", "200", "--duration", "10s", "--connections", "4", "--out", "x"];
        let run = coordinator(place, &all, &options).spawn().expect("weir can be started");
        wait_answered(&server, 200 + 500);
        let port = agents[1].address.rsplit_once(':').unwrap().1.parse().unwrap();
        let cut = network::Silence::of(port);
        let moment = SystemTime::now();
        wait::until("the agent stops", wait::LONG, || {
            agents[1].process.log().contains("is stopped")
        });
        assert!(moment.elapsed().unwrap() < Duration::from_secs(6));
        let output = run.wait_with_output().unwrap();
        drop(cut);
        let said = words(&output);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("was lost at second"), "{said}");
        wait::until("its results are whole", wait::LONG, || {
            !agents[1].file("report.txt").starts_with("UNFINISHED")
        });
    });
}

#[test]
fn a_clock_that_is_wrong_moves_no_request() {
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let (place, url) = (place.path(), server.url());
    // What `faketime` itself would start outlives it.
    places::need("faketime");
    let mut command = Command::new(places::weir());
    command.env("FAKETIME", "+3s").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    command.env("LD_PRELOAD", faketime());
    let ahead = Agent::start_by(command, place, "ahead", &[]);
    let agents = [&Agent::start(place, "right", &[]), &ahead];
    let options = [&*url, "--rate", "200", "--duration", "3s", "--connections", "4", "--out", "x"];
    let (code, said) = ran(coordinator(place, &agents, &options));
    assert!(matches!(code, Some(0 | 4)), "{said}");
    let report = report(place, "x");
    let clock = |at: usize| &report["sharing"]["injectors"][at]["clock"];
    let seconds = |at: usize| clock(at)["ahead_ns"].as_i64().unwrap() as f64 / 1e9;
    assert!((seconds(1) - 3.0).abs() < 0.2 && seconds(0).abs() < 0.2, "{report}");
    assert!(said.contains("+3.0") || said.contains("+2.9"), "{said}");
    // Both have begun at one moment: the whole run is as long as its duration and its warm-up.
    let answered = server.answered();
    let span = Duration::from_nanos(answered.last().unwrap() - answered.first().unwrap());
    assert!((3.8..4.6).contains(&span.as_secs_f64()), "{span:?}");
    assert_eq!(report["windows"].as_array().map(Vec::len), Some(3));
}

#[test]
fn an_agent_takes_orders_from_nobody_else_and_loads_nothing_else() {
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let (place, url) = (place.path(), server.url());
    let agent = Agent::start(place, "a", &["--targets", "127.0.0.7,::1"]);
    let short = [&*url, "--rate", "50", "--duration", "1s", "--out", "x"];
    // It may load none of this server's addresses.
    let (code, said) = ran(coordinator(place, &[&agent], &short));
    assert!(code == Some(1) && said.contains("not among the addresses"), "{said}");
    assert_eq!(server.answered().len(), 0);
    assert!(!place.join("x").exists());
    // Nor does it ask a registry there, which could name anybody.
    let registry = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    registry.set_nonblocking(true).unwrap();
    let service = format!("zookeeper://{}/com.acme.Echo", registry.local_addr().unwrap());
    let call = ["--method", "echo", "--types", "java.lang.String", "--arguments", "[\"a\"]"];
    let calls = [&[&*service][..], &short[1..], &call].concat();
    let (code, said) = ran(coordinator(place, &[&agent], &calls));
    assert!(code == Some(1) && said.contains("not among the addresses"), "{said}");
    assert_eq!(registry.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // Nor does it hear who knows another secret, nor who says nothing of one.
    let refused = |text: &str| {
        secret(place, "secret", text);
        let (code, said) = ran(coordinator(place, &[&agent], &short));
        assert_eq!(code, Some(1), "{said}");
        said
    };
    assert!(refused("another secret of somebody").contains("the secret is not the agent's"));
    assert!(refused("short").contains("16 to 1024 characters"));
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff], &[0; 64]] {
        let mut stream = std::net::TcpStream::connect(&agent.address).unwrap();
        std::io::Write::write_all(&mut stream, bytes).unwrap();
    }
    wait::until("they are refused", wait::LONG, || {
        agent.process.log().matches("was refused").count() >= 4
    });
    fs::set_permissions(place.join("secret"), fs::Permissions::from_mode(0o644)).unwrap();
    let (_, said) = ran(coordinator(place, &[&agent], &short));
    assert!(said.contains("chmod 600"), "{said}");
    // A file that is not below the folder of the run is not sent.
    secret(place, "secret", SECRET);
    let outside = [&short[..], &["--body", "@/etc/hostname"]].concat();
    let (code, said) = ran(coordinator(place, &[&agent], &outside));
    assert!(code == Some(1) && said.contains("below"), "{said}");
}

#[test]
fn an_agent_sends_one_run_at_a_time() {
    let (server, place) = (Witness::start(Manner::default()), places::directory());
    let (place, url) = (place.path(), server.url());
    let agent = Agent::start(place, "a", &[]);
    let options = |out| [&*url, "--rate", "50", "--duration", "4s", "--out", out];
    let first = coordinator(place, &[&agent], &options("first")).spawn().unwrap();
    wait_answered(&server, 20);
    let (code, said) = ran(coordinator(place, &[&agent], &options("second")));
    assert!(code == Some(1) && said.contains("it is busy: it sends run first"), "{said}");
    let output = first.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", words(&output));
    let (code, said) = ran(coordinator(place, &[&agent], &options("third")));
    assert!(matches!(code, Some(0 | 4)), "{said}");
}

#[test]
fn ledgers_of_agents_are_verified_as_one_and_passwords_are_in_no_result() {
    let (server, place) = (Redis::start_with(&["--requirepass", "hush-hush"]), places::directory());
    let place = place.path();
    let agents = ["a", "b"].map(|name| Agent::start(place, name, &[]));
    let all: Vec<_> = agents.iter().collect();
    let url = server.url().replace("redis://", "redis://:hush-hush@");
    let options = [
        &*url,
        "--mix",
        "set",
        "--rate",
        "100",
        "--connections",
        "4",
        "--ledger",
        "--threads",
        "2",
        "--duration",
        "2s",
        "--out",
        "both",
    ];
    let (_, said) = ran(coordinator(place, &all, &options));
    assert!(said.contains("ledger: weir load verify both"), "{said}");
    let (code, said) = load(place, &["verify", "both", "--url", &url]);
    assert_eq!(code, Some(0), "{said}");
    let found = Command::new("grep").args(["-r", "hush-hush", "."]).current_dir(place).output();
    assert!(found.unwrap().stdout.is_empty(), "a password is in a file");
}
