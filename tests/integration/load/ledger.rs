//! `weir load --ledger` and `weir load verify`, beside real servers: what is taken out, altered and
//! doubled behind a load's back is named, and nothing else is.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rig::http::Request;
use rig::influxd::Influxd;
use rig::places;
use rig::postgres::Setup;
use rig::redis::{Redis, RedisClient};
use rig::wait;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// The results of a load with a ledger.
struct LoadResults {
    place: TempDir,
}

/// What `weir load verify` found.
struct VerifyReport {
    code: Option<i32>,
    text: String,
    report: Value,
}

fn weir(place: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(places::weir());
    command.current_dir(place).env("PGUSER", "postgres").arg("load").args(args);
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("weir can be started")
}

fn words(output: &Output) -> String {
    let said = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

impl LoadResults {
    /// Runs a load to its end.
    #[track_caller]
    fn run(url: &str, args: &[&str]) -> Self {
        let (kept, mut command) = Self::made(url, args);
        let ended = output(command.args(["--duration", "1s"]));
        let said = words(&ended);
        assert!(matches!(ended.status.code(), Some(0 | 4)), "{said}");
        assert!(said.contains("ledger: weir load verify run"), "{said}");
        kept
    }

    /// Begins one that has no end.
    fn begin(url: &str, args: &[&str]) -> (Self, Child) {
        let (kept, mut command) = Self::made(url, args);
        command.args(["--duration", "60s"]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("weir can be started");
        (kept, child)
    }

    fn made(url: &str, args: &[&str]) -> (Self, Command) {
        let place = places::directory();
        let fixed = [url, "--ledger", "--out", "run", "--warmup", "0s", "--connections", "4"];
        let command = weir(place.path(), &[&fixed[..], args].concat());
        (Self { place }, command)
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.place.path().join("run").join(name)).expect("it is there")
    }

    fn document(&self) -> Value {
        serde_json::from_slice(&self.file("ledger.json")).expect("it is JSON")
    }

    /// The numbers of requests with these bits: 1 has no answer, 2 was acknowledged.
    fn numbers(&self, bits: u8) -> Vec<u64> {
        let bytes = self.file("ledger/00-000.bits");
        let of = |number: u64| bytes[number as usize / 4] >> (number % 4 * 2) & 3;
        (0..bytes.len() as u64 * 4).filter(|number| of(*number) == bits).collect()
    }

    /// How many requests have failed, by the lines of seconds so far.
    fn failed(&self) -> u64 {
        let rows = String::from_utf8(self.file("windows.csv")).expect("it is text");
        let failed = rows.lines().filter_map(|row| row.split(',').nth(4)?.parse::<u64>().ok());
        failed.sum()
    }

    fn verify(&self, args: &[&str]) -> VerifyReport {
        let command = [&["verify", "run"][..], args].concat();
        let ended = output(&mut weir(self.place.path(), &command));
        let report = fs::read(self.place.path().join("run/verify.json")).unwrap_or_default();
        let report = serde_json::from_slice(&report).unwrap_or_default();
        VerifyReport { code: ended.status.code(), text: words(&ended), report }
    }
}

impl VerifyReport {
    /// The names of the writes with that fault.
    fn names(&self, fault: &str) -> Vec<String> {
        let names = self.report["loads"][0]["faults"][fault]["names"].as_array();
        let names = names.unwrap_or_else(|| panic!("{} {}", self.text, self.report));
        names.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    #[track_caller]
    fn has(&self, faults: [Vec<String>; 4]) {
        let found = ["lost", "altered", "doubled", "strange"].map(|fault| self.names(fault));
        assert_eq!(found, faults, "{}", self.text);
        let is_right = faults.iter().all(Vec::is_empty);
        let (code, word) = if is_right { (0, "RIGHT  ") } else { (3, "WRONG  ") };
        assert_eq!(self.code, Some(code), "{}", self.text);
        assert!(self.text.starts_with(word), "{}", self.text);
        assert_eq!(self.report["right"], is_right);
    }

    #[track_caller]
    fn is_right(&self) {
        self.has([const { Vec::new() }; 4]);
    }

    fn count(&self, place: &str) -> u64 {
        let count = self.report["loads"][0].pointer(place).and_then(Value::as_u64);
        count.unwrap_or_else(|| panic!("{place} in {}", self.report))
    }
}

/// A bulk string as a client shows it.
fn bulk(client: &mut RedisClient, command: &[&str]) -> Option<String> {
    let shown = client.ask(command);
    let text = shown.strip_prefix('$').and_then(|rest| rest.split_once(' '));
    text.map(|(_, text)| text.to_owned())
}

#[test]
fn values_of_redis_that_are_lost_altered_and_doubled_are_named() {
    let server = Redis::start();
    let mix = ["--mix", "set=2,rpush=2,get=1", "--keys", "2", "--size", "20-40", "--pipeline", "2"];
    let kept = LoadResults::run(&server.url(), &[&mix[..], &["--rate", "100"]].concat());
    let found = kept.verify(&[]);
    found.is_right();
    let (sets, pushes) = (super::calls(&server, "set"), super::calls(&server, "rpush"));
    assert!(sets > 20 && pushes > 20, "{sets} {pushes}");
    assert_eq!(found.count("/acknowledged"), sets + pushes, "{}", found.text);
    for (count, name) in [(sets, "set"), (pushes, "rpush")] {
        let line = format!("server   counted {count} {name} while it ran, of whomever\n");
        assert!(found.text.contains(&line), "{}", found.text);
    }

    // The values of commands of their own.
    let run = kept.document()["loads"][0]["kept"]["redis"]["run"].as_u64().expect("it has one");
    let mut client = server.client();
    let key = |number: u64| format!("ledger:{run:016x}:{number:012}");
    let own: Vec<_> = (0..200).filter(|of| client.ask(&["EXISTS", &key(*of)]) == ":1").collect();
    let [lost, altered, other, ..] = own[..] else { panic!("{own:?}") };
    client.ask(&["DEL", &key(lost)]);
    client.ask(&["APPEND", &key(altered), "x"]);
    client.ask(&["DEL", &key(other)]);
    client.ask(&["RPUSH", &key(other), "another type"]);
    let of = |number| format!("{} of request {}", key(number), number / 2);
    let altered = vec![of(altered), of(other)];
    kept.verify(&[]).has([vec![of(lost)], altered.clone(), vec![], vec![]]);

    // Those at the ends of lists.
    let list = format!("ledger:{run:016x}:list:{:012}", 1);
    let at = |client: &mut RedisClient, index: &str| {
        let value = bulk(client, &["LINDEX", &list, index]).expect("it has such an element");
        let number: u64 = value[..12].parse().expect("it begins with a number");
        (value, format!("{number} in {list} of request {}", number / 2))
    };
    let (gone, changed) = (at(&mut client, "0").1, at(&mut client, "1"));
    let twice = at(&mut client, "2");
    client.ask(&["LSET", &list, "1", &format!("{}:x", &changed.0[..12])]);
    client.ask(&["RPUSH", &list, &twice.0]);
    client.ask(&["RPUSH", &list, "somebody's"]);
    client.ask(&["LPOP", &list]);
    let altered = [altered, vec![changed.1]].concat();
    let doubled = vec![format!("{}, 2 times", twice.1)];
    let strange = vec![format!("somebody's in {list}")];
    let lost = vec![of(lost), gone];
    kept.verify(&[]).has([lost, altered, doubled, strange]);
}

#[test]
fn rows_of_postgres_that_are_lost_altered_and_doubled_are_named() {
    let cluster = Setup::new().start();
    let (place, url) = (places::directory(), format!("postgres://{}/kept", cluster.address));
    let script = |name: &str, text: &str| {
        let file = place.path().join(name);
        fs::write(&file, text).expect("there is room");
        format!("@{}", file.display())
    };
    let own = script(
        "own",
        "BEGIN;\nINSERT INTO weir_ledger VALUES (:run, :number, :content);\nCOMMIT;\n",
    );
    let scripts = format!("ledger=2,{own}=1,{}=1", script("none", "SELECT 1;\n"));
    let kept = LoadResults::run(&url, &["--script", &scripts, "--prepare", "--rate", "100"]);
    let found = kept.verify(&[]);
    found.is_right();
    let rows = |sql: &str| {
        let mut client = cluster.connect_as("postgres", "", "kept").expect("it is there");
        let rows = rig::postgres::rows(&mut client, sql).expect("it is understood");
        rows.into_iter().flatten().flatten().collect::<Vec<String>>()
    };
    let numbers = rows("SELECT number FROM weir_ledger ORDER BY number");
    assert!((50..100).contains(&numbers.len()), "{}", numbers.len());
    assert_eq!(found.count("/acknowledged"), numbers.len() as u64, "{}", found.text);
    assert!(found.text.contains(" rows inserted while it ran, of whomever\n"), "{}", found.text);

    let [lost, altered, doubled] = [3, 5, 7].map(|at| numbers[at].clone());
    // A request of the script that writes nothing.
    let none = (0..).find(|number: &u64| !numbers.contains(&number.to_string()));
    let none = none.expect("there is one");
    let insert = "INSERT INTO weir_ledger SELECT run";
    for sql in [
        format!("DELETE FROM weir_ledger WHERE number = {lost}"),
        format!("UPDATE weir_ledger SET content = content || '0' WHERE number = {altered}"),
        format!("{insert}, number, content FROM weir_ledger WHERE number = {doubled}"),
        format!("{insert}, {none}, content FROM weir_ledger WHERE number = {doubled} LIMIT 1"),
        format!("{insert}, -4, content FROM weir_ledger WHERE number = {altered}"),
    ] {
        rows(&sql);
    }
    let row = |number: &str| format!("the row of request {number}");
    let strange = vec![row(&none.to_string()), "a row with the number -4".to_owned()];
    let doubled = vec![format!("{}, 2 times", row(&doubled))];
    let found = kept.verify(&[]);
    found.has([vec![row(&lost)], vec![row(&altered)], doubled, strange]);
    // Another run has rows of its own in the same table.
    LoadResults::run(&url, &["--script", "ledger", "--rate", "50"]).verify(&[]).is_right();
}

#[test]
fn points_of_influxdb_that_are_lost_and_altered_are_named() {
    let server = Influxd::start();
    let place = ["--workload", "influx-write", "--db", "load", "--prepare"];
    let what = ["--rows", "cpu-only", "--series", "3", "--batch", "10", "--out-of-order", "0.2"];
    let kept = LoadResults::run(&server.url(), &[&place[..], &what, &["--rate", "30"]].concat());
    let found = kept.verify(&[]);
    found.is_right();
    assert_eq!(found.count("/acknowledged"), 300, "{}", found.text);

    let ask = |q: &str| server.ask(q, &[("db", "load"), ("epoch", "ns")]);
    let points = ask("SELECT usage_user FROM cpu WHERE hostname = 'host_1'");
    let times = points.pointer("/results/0/series/0/values").and_then(Value::as_array);
    let times = times.expect("it has points").iter().filter_map(|row| row[0].as_i64());
    let [lost, altered, ..] = times.collect::<Vec<_>>()[..] else { panic!("{points}") };
    ask(&format!("DELETE FROM cpu WHERE hostname = 'host_1' AND time = {lost}"));
    // All of its tags are those of its series.
    let tags = ask("SHOW SERIES FROM cpu WHERE hostname = 'host_1'");
    let series = tags.pointer("/results/0/series/0/values/0/0").and_then(Value::as_str);
    let series = series.expect("it has a series");
    let write = |line: &str| {
        let answer = server.send(&Request::post("/write?db=load&precision=ns", line));
        assert_eq!(answer.status(), 204, "{}", answer.text());
    };
    write(&format!("{series} usage_user=1234567i {altered}"));
    // A point of another host at a time of the run's, and one at a time that is none.
    let foreign = series.replace("host_1", "host_77");
    write(&format!("{foreign} usage_user=1i {lost}"));
    write(&format!("{series} usage_user=1i {}", altered + 77));
    let found = kept.verify(&[]);
    let [lost_now, altered_now, strange] =
        ["lost", "altered", "strange"].map(|fault| found.names(fault));
    for (names, time) in [(lost_now, lost), (altered_now, altered)] {
        let [name] = &names[..] else { panic!("{}", found.text) };
        assert!(name.starts_with("cpu,hostname=host_1,"), "{name}");
        assert!(name.contains(&format!(" {time} of request ")), "{name}");
    }
    let [name] = &strange[..] else { panic!("{}", found.text) };
    assert!(name.contains("host_77") && name.ends_with(&format!(" at {lost}")), "{name}");
    assert_eq!((found.code, found.count("/faults/doubled/count")), (Some(3), 0));
}

#[test]
fn a_write_without_an_answer_is_unknown_and_never_lost() {
    let mut server = Redis::start();
    let args = ["--mix", "set", "--rate", "200", "--timeout", "200ms"];
    let (kept, mut load) = LoadResults::begin(&server.url(), &args);
    let bits = kept.place.path().join("run/ledger/00-000.bits");
    let noted = || fs::metadata(&bits).map_or(0, |file| file.len());
    wait::until("it loads", wait::LONG, || noted() > 10);
    server.running().signal(Signal::STOP);
    // One on each connection, which each second's line tells of.
    wait::until("requests have had no answer", wait::LONG, || kept.failed() >= 4);
    server.running().signal(Signal::CONT);
    let before = noted();
    wait::until("it goes on", wait::LONG, || noted() > before + 10);
    load.kill().expect("it can be killed");
    load.wait().expect("it ends");
    let unknown = kept.numbers(1);
    let found = kept.verify(&[]);
    found.is_right();
    assert_eq!(found.count("/acknowledged"), kept.numbers(2).len() as u64);
    let known = [found.count("/unknown/found"), found.count("/unknown/not_found")];
    // What was sent before the server stood still it did when it went on.
    assert_eq!(known.iter().sum::<u64>(), unknown.len() as u64, "{}", found.text);
    assert!(known[0] > 0, "{}", found.text);
    assert!(found.text.contains("since it began, for it was killed"), "{}", found.text);
    // One of those that is taken away is not lost: nobody was told that it was there.
    let run = kept.document()["loads"][0]["kept"]["redis"]["run"].as_u64().expect("it has one");
    let mut client = server.client();
    let keys = unknown.iter().map(|number| format!("ledger:{run:016x}:{number:012}"));
    let gone = keys.filter(|key| client.ask(&["DEL", key]) == ":1").count() as u64;
    let found = kept.verify(&[]);
    found.is_right();
    assert_eq!((gone, found.count("/unknown/not_found")), (known[0], unknown.len() as u64));
}

#[test]
fn what_no_ledger_can_be_kept_of_is_told_before_anything_is_sent() {
    let place = places::directory();
    let (http, redis) = ("http://127.0.0.1:1", "redis://127.0.0.1:1");
    let postgres = "postgres://127.0.0.1:1/d";
    for (args, words_of_it) in [
        (&[http, "--ledger"][..], "--ledger is kept of what is written to databases"),
        (&[http, "--ledger", "--find-limit", "p99<1s"], "cannot be used with"),
        (&[redis, "--ledger", "--mix", "set,incr"], "incr changes what a ledger is kept of"),
        (&[redis, "--ledger", "--mix", "get"], "kept of set and rpush"),
        (&[redis, "--ledger", "--mix", "set", "--size", "5"], "13 bytes at least"),
        (&[postgres, "--ledger"], "no script puts any there"),
        (&[postgres, "--script", "ledger"], "is for runs with --ledger"),
        (
            &["http://127.0.0.1:1/write?db=d", "--workload", "influx-write", "--ledger"],
            "is named by --db",
        ),
        (&["verify", "."], "only a run with --ledger has one"),
    ] {
        let ended = output(&mut weir(place.path(), args));
        let said = words(&ended);
        assert!(matches!(ended.status.code(), Some(1 | 2)), "{args:?}: {said}");
        assert!(said.contains(words_of_it), "{args:?}: {said}");
    }
    assert!(!place.path().join("weir-load").exists());
}

#[test]
fn a_ledger_that_is_damaged_or_read_elsewhere_is_told() {
    let server = Redis::start();
    let kept = LoadResults::run(&server.url(), &["--mix", "set", "--rate", "50"]);
    let elsewhere = Redis::start();
    let found = kept.verify(&["--url", &elsewhere.url()]);
    assert_eq!((found.code, found.names("lost").len()), (Some(3), 50), "{}", found.text);
    assert!(found.text.contains("lost     and 30 more\n"), "{}", found.text);
    let twice = ["--url", &*server.url(), "--url", &server.url()];
    let refused = kept.verify(&twice);
    assert!(refused.text.contains("the run has 1 loads, and there are 2 URLs"), "{}", refused.text);
    let gone = kept.verify(&["--url", "redis://127.0.0.1:1"]);
    assert_eq!(gone.code, Some(1), "{}", gone.text);
    assert!(gone.text.contains("can't reach the server"), "{}", gone.text);
    let run = kept.place.path().join("run");
    fs::remove_file(run.join("ledger/00-000.bits")).expect("it was there");
    let refused = kept.verify(&[]);
    assert!(refused.text.contains("00-000.bits"), "{}", refused.text);
    fs::write(run.join("ledger.json"), "{").expect("there is room");
    let refused = kept.verify(&[]);
    assert!(refused.code == Some(1) && refused.text.contains("is damaged"), "{}", refused.text);
}
