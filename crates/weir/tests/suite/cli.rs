//! The program as it is called: what it prints, where, and its exit code.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

struct Called {
    code: i32,
    out: String,
    err: String,
}

/// Calls `weir` in `dir`, without any of the caller's own configuration.
fn weir_in(dir: &Path, words: &[&str], input: &str) -> Called {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(words)
        .current_dir(dir)
        .env_remove("WEIR_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Called { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
}

fn weir(words: &[&str]) -> Called {
    weir_in(tempfile::tempdir().unwrap().path(), words, "")
}

/// A directory with `text` as its weir.toml.
fn configured(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("weir.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    dir
}

const USABLE: &str = r#"
[journal]
dir = "journal"
ack = "written"
when-full = "drop-oldest"

[influx]
listen = ["127.0.0.1:9096", "0.0.0.0:9097"]
stamp = { instance = "peer", site = "lab" }

[[influx.udp]]
listen = "127.0.0.1:8089"

[[influx.backend]]
name = "a"
url = "http://127.0.0.1:18086"
user = "weir"
password = "hunter2"

[[influx.backend]]
name = "b"
url = "https://b.example.net"
kind = "influxdb2"
token = "s3cret"
"#;

#[test]
fn the_version_is_told() {
    let called = weir(&["--version"]);
    assert_eq!((called.code, called.out.as_str()), (0, "weir 0.1.0\n"));
}

#[test]
fn a_wrong_command_line_shows_the_right_one() {
    let called = weir(&["server"]);
    assert_eq!(called.code, 2);
    assert!(called.err.contains("'serve'"), "{}", called.err);
}

#[test]
fn without_a_file_it_would_keep_everything_itself() {
    let dir = tempfile::tempdir().unwrap();
    let called = weir_in(dir.path(), &["check"], "");
    assert_eq!((called.code, called.err.as_str()), (0, ""));
    for plan in [
        "The default can be used",
        "on http://127.0.0.1:8086 for InfluxDB clients",
        "each database that a write names and that is not there",
        "store, the store within Weir, in ",
        "/weir-data/store, after at most 64MiB in memory",
    ] {
        assert!(called.out.contains(plan), "{plan}: {}", called.out);
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let called = weir(&["serve", "--config", "nowhere.toml"]);
    assert_eq!(called.code, 78);
    assert!(called.err.contains("nowhere.toml: No such file"), "{}", called.err);
}

#[test]
fn check_says_what_serve_would_do_without_secrets() {
    let dir = configured(USABLE);
    let called = weir_in(dir.path(), &["check"], "");
    assert_eq!((called.code, called.err.as_str()), (0, ""));
    let dir = dir.path().canonicalize().unwrap();
    let plan = called.out.replace(&*dir.to_string_lossy(), "DIR");
    let workers = plan.lines().find(|line| line.trim_start().starts_with("run ")).unwrap();
    let plan = plan.replace(workers, "  run            N workers");
    assert_eq!(plan, include_str!("../golden/check.txt"));
    assert!(!plan.contains("hunter2") && !plan.contains("s3cret"), "{plan}");
}

#[test]
fn check_names_what_is_wrong_with_its_line() {
    let dir = configured("[journal]\nmax_size = \"1GiB\"\n");
    let called = weir_in(dir.path(), &["check"], "");
    assert_eq!((called.code, called.out.as_str()), (78, ""));
    assert_eq!(
        called.err,
        "weir: weir.toml can't be used:\n  \
         line 2: [journal] has no key \"max_size\"; did you mean \"max-size\"?\n"
    );
}

#[test]
fn check_names_the_ports_that_masters_are_told_and_a_table_that_nothing_uses() {
    let master = "[[redis.aof.master]]\nname = \"cache\"\nurl = \"redis://127.0.0.1:1\"\n";
    let port = "[redis.aof.port]\npassword = \"geheim\"\n";
    let listen = "listen = \"127.0.0.1:7001\"\n";
    let unused = "warning: redis.aof.port is for the ports";
    for (text, is_told, fills, is_unused) in [
        (format!("{master}{listen}"), true, false, false),
        (format!("{master}{listen}{port}"), true, true, false),
        (format!("{master}{port}"), false, false, true),
        (master.to_owned(), false, false, false),
    ] {
        let dir = configured(&text);
        let called = weir_in(dir.path(), &["check"], "");
        assert_eq!(called.code, 0, "{}", called.err);
        let has = |words: &str| called.out.contains(words);
        let told = "on redis://127.0.0.1:7001 as a replica of cache";
        assert_eq!((has(told), has("fill servers there")), (is_told, fills), "{}", called.out);
        assert_eq!(has(unused), is_unused, "{}", called.out);
        assert!(!has("geheim"), "{}", called.out);
    }
}

#[test]
fn what_nutcracker_did_weir_can_do() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../redis/src/migrate/fixtures/all.yml");
    let called = weir(&["check", "--from", fixture]);
    // One of its pools is for memcached.
    assert_eq!(called.code, 3, "{}", called.err);
    assert!(called.err.contains("small: without \"redis: true\""), "{}", called.err);
    assert!(called.out.contains("It holds what redis_auth held"), "{}", called.out);
    let dir = configured(&called.out);
    let called = weir_in(dir.path(), &["check"], "");
    assert_eq!(called.code, 0, "{}", called.err);
    for words in ["redis://127.0.0.1:22121 for Redis clients", "in the pool    sessions"] {
        assert!(called.out.contains(words), "{words} in {}", called.out);
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nutcracker.yml");
    std::fs::write(&file, "p:\n  listen: cache:1\n  redis: true\n  servers:\n   - a:1:1\n")
        .unwrap();
    let called = weir(&["check", "--from", file.to_str().unwrap()]);
    assert_eq!(called.code, 3, "{}", called.out);
    assert!(!called.out.contains("redis_auth"), "it has none: {}", called.out);
    assert!(called.err.contains("redis.pool \"p\" listen: needs an address"), "{}", called.err);
    std::fs::write(&file, "p:\n  listen: 127.0.0.1:1\n  servers: {}\n").unwrap();
    let called = weir(&["check", "--from", file.to_str().unwrap()]);
    assert_eq!((called.code, called.out.as_str()), (1, ""));
    assert!(called.err.contains("line 3"), "{}", called.err);
}

#[test]
fn what_pgbouncer_did_weir_can_do() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../postgres/src/migrate/fixtures");
    for (name, to_do) in [
        ("container.ini", "write the password of postgres"),
        ("trusting.ini", "::1:6001 shares no database with 127.0.0.1:6000"),
    ] {
        let called = weir(&["check", "--from", &format!("{fixtures}/{name}")]);
        assert_eq!(called.code, 3, "{name}: {}", called.err);
        assert!(called.err.contains(to_do), "{to_do}: {}", called.err);
        assert!(called.out.contains("# To do before it serves"), "{}", called.out);
        let dir = configured(&called.out);
        let called = weir_in(dir.path(), &["check"], "");
        assert_eq!(called.code, 0, "{}", called.err);
        assert!(called.out.contains("for PostgreSQL clients"), "{}", called.out);
        assert!(!called.out.contains("InfluxDB"), "{}", called.out);
    }
    let called = weir(&["check", "--from", "nowhere.ini"]);
    assert_eq!(called.code, 1);
    assert!(called.err.contains("nowhere.ini can't be read"), "{}", called.err);
}

#[test]
fn what_influxdb_relay_did_weir_can_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("relay.toml");
    let from = || weir(&["check", "--from", file.to_str().unwrap()]);
    let output = "{ name = \"local1\", location = \"http://127.0.0.1:8087/write\" }";
    let http = format!("[[http]]\nbind-addr = \"127.0.0.1:9096\"\noutput = [{output}]\n");
    std::fs::write(&file, &http).unwrap();
    let called = from();
    assert_eq!((called.code, called.err.as_str()), (0, ""));
    let dir = configured(&called.out);
    let checked = weir_in(dir.path(), &["check"], "");
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.out.contains("on http://127.0.0.1:9096 for InfluxDB"), "{}", checked.out);
    std::fs::write(&file, format!("{http}[[udp]]\nbind-addr = \"127.0.0.1:9096\"\n")).unwrap();
    let called = from();
    assert_eq!(called.code, 3, "{}", called.err);
    assert!(called.err.contains("write the database of its points"), "{}", called.err);
    std::fs::write(&file, "[influx]\n").unwrap();
    let called = from();
    assert_eq!((called.code, called.out.as_str()), (1, ""));
    assert!(called.err.contains("not a file of influxdb-relay"), "{}", called.err);
}

#[test]
fn status_says_that_nobody_answers() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let called = weir(&["status", "--admin", &port.to_string()]);
    assert_eq!(called.code, 1);
    assert!(called.err.contains(&format!("weir: {port} can't be asked: ")), "{}", called.err);
    assert!(called.err.contains("is `weir serve` running"), "{}", called.err);
}

#[test]
fn a_password_is_hashed_from_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let called = weir_in(dir.path(), &["hash-password"], "correct horse\n");
    assert_eq!((called.code, called.err.as_str()), (0, ""));
    assert!(called.out.starts_with("$argon2id$v=19$"), "{}", called.out);
    let called = weir_in(dir.path(), &["hash-password"], "\n");
    assert_eq!(called.code, 1);
    assert!(called.err.contains("the password is empty"), "{}", called.err);
}

#[test]
fn completions_are_there_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let called = weir(&["completions", shell]);
        assert_eq!(called.code, 0);
        assert!(called.out.contains("dead-letters"), "{shell}");
    }
}

#[test]
fn whoever_reads_only_the_first_lines_of_an_answer_hears_of_no_fault() {
    for words in [["completions", "fish"], ["help", "load"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let called = command.args(words).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(called.stderr).unwrap();
        assert_eq!((called.status.code(), err.as_str()), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn a_journal_that_is_not_there_is_an_error() {
    for command in ["inspect", "verify"] {
        let called = weir(&["journal", command, "nowhere"]);
        assert_eq!(called.code, 1, "{}", called.out);
        assert!(called.err.contains("nowhere"), "{}", called.err);
    }
}

#[test]
fn no_dead_letters_is_good_news() {
    let journal = tempfile::tempdir().unwrap();
    let dir = journal.path().to_str().unwrap();
    let called = weir(&["dead-letters", "list", "--dir", dir]);
    assert_eq!((called.code, called.out.as_str()), (0, "there are no dead letters\n"));
    let called = weir(&["dead-letters", "show", "a", "--dir", dir]);
    assert_eq!(called.code, 1);
    assert!(called.err.contains("no dead letters of a backend \"a\""), "{}", called.err);
}

#[test]
fn where_there_is_no_journal_nothing_is_said_of_dead_letters() {
    for command in [&["list"][..], &["show", "a"], &["drop", "a", "--all"]] {
        let called = weir(&[&["dead-letters"], command, &["--dir", "/nowhere"]].concat());
        assert_eq!((called.code, called.out.as_str()), (1, ""));
        assert!(called.err.contains("there is no journal in /nowhere"), "{}", called.err);
    }
}

#[test]
fn dropping_dead_letters_needs_to_be_told_which() {
    let called = weir(&["dead-letters", "drop", "a"]);
    assert_eq!(called.code, 2);
    assert!(called.err.contains("--all"), "{}", called.err);
    let called = weir(&["dead-letters", "drop", "a", "seven"]);
    assert_eq!(called.code, 2);
    assert!(called.err.contains("4096:0"), "{}", called.err);
}

#[test]
fn a_load_of_nobody_ends_at_once_with_the_reason() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ping", free.local_addr().unwrap());
    drop(free);
    let called = weir(&["load", &url]);
    assert_eq!((called.code, &*called.out), (1, ""));
    assert!(called.err.contains("refused"), "{}", called.err);
}

#[test]
fn a_load_says_what_came_of_it_and_whether_that_can_be_believed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ping", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    let words = ["load", &url, "--duration", "1s", "--warmup", "0", "--require", "errors<1"];
    let called = weir(&words);
    // Whether the injector had the CPU that it needs is this machine's affair.
    let word = if called.code == 0 { "VALID" } else { "INVALID" };
    assert!([0, 4].contains(&called.code) && called.out.starts_with(word), "{}", called.out);
    for part in ["100 requests in 1 s, no errors", "from when each was due", "from its send"] {
        assert!(called.out.contains(part), "{part}: {}", called.out);
    }
    let called = weir(&[&words[..], &["--require", "max<1ns"]].concat());
    let (missed, unjudged) = ("MISSED  max<1ns", "max<1ns can't be judged");
    let says = |words| called.out.contains(words);
    let is_told = match called.code {
        3 => says(missed),
        4 => says(missed) || says(unjudged),
        _ => false,
    };
    assert!(is_told, "{}: {}", called.code, called.out);
}

/// Answers each request of a connection without a body.
fn answer_all(mut stream: std::net::TcpStream) {
    let mut read = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(len @ 1..) = std::io::Read::read(&mut stream, &mut chunk) {
        read.extend_from_slice(&chunk[..len]);
        while let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            read.drain(..end + 4);
            if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
                return;
            }
        }
    }
}
