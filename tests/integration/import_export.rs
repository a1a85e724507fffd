//! `weir import`, `query` and `export`, beside a real InfluxDB and beside Weir.

use std::io::Write;
use std::process::Output;

use flate2::Compression;
use flate2::write::GzEncoder;
use rig::fake::{Fake, Mode};
use rig::influxd::Influxd;
use rig::wait;
use rig::weir::{Setup, Weir};
use serde_json::Value;

/// Points of every type, with everything that needs a backslash, in two policies.
fn dump() -> String {
    let mut text = String::from(
        "# DDL\nCREATE DATABASE \"d 1\"\nCREATE RETENTION POLICY \"two weeks\" ON \"d 1\" \
         DURATION 2w REPLICATION 1 SHARD DURATION 1d\n\n# DML\n# CONTEXT-DATABASE: d 1\n",
    );
    text.push_str("# CONTEXT-RETENTION-POLICY: autogen\n");
    for n in 0..12_345_u64 {
        let float = n as f64 / 7.0;
        text.push_str(&format!("load,host=h{},site=a\\ b f={float},i={n}i {n}\n", n % 10));
    }
    text.push_str("m\\ \\,x,k\\==c\\,d,t\\ u=é s=\"q\\\"\\\\ x\ny\",b=true,u\\ v=1e21 1\n");
    text.push_str("m\\ \\,x b=false 2\nhost,host=a host=1 3\n");
    text.push_str("# CONTEXT-RETENTION-POLICY: two weeks\n");
    // Far enough in the future for a policy of two weeks.
    text.push_str("load f=0.1 4000000000000000000\nlast s=\"\" 4000000000000000001");
    text
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn write(weir: &Weir, name: &str, bytes: &[u8]) -> String {
    let path = weir.dir().join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

/// Everything in a database of the dump.
fn everything(ask: impl Fn(&str) -> Value) -> Vec<Value> {
    let of = |policy: &str| format!("SELECT *::field FROM \"d 1\".\"{policy}\"./.*/ GROUP BY *");
    let mut fields = ask("SHOW FIELD KEYS ON \"d 1\"");
    fields.as_object_mut().unwrap().remove("messages");
    vec![ask(&of("autogen")), ask(&of("two weeks")), fields]
}

#[test]
fn what_is_imported_and_exported_is_the_same_elsewhere() {
    let (a, b) = (Influxd::start(), Influxd::start());
    let weir = Setup::new().prepare();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(dump().as_bytes()).unwrap();
    let file = write(&weir, "dump.lp.gz", &gzip.finish().unwrap());
    let said = weir.must_run(&["import", &file, "--url", &a.url()]);
    assert!(said.starts_with("12,350 lines in ") && said.contains(" 0 failed"), "{said}");
    let all = everything(|q| a.ask(q, &[("epoch", "ns")]));
    assert!(all[0].to_string().contains("1763.4285714285713"), "the 12,344th of them");

    let copy = weir.dir().join("copy.lp.gz").display().to_string();
    weir.must_run(&["export", "--db", "d 1", "--url", &a.url(), "--gzip", "-o", &copy]);
    weir.must_run(&["import", &copy, "--url", &b.url()]);
    assert_eq!(everything(|q| b.ask(q, &[("epoch", "ns")])), all);
    let policies = |server: &Influxd| server.ask("SHOW RETENTION POLICIES ON \"d 1\"", &[]);
    assert_eq!(policies(&a), policies(&b));

    let url = a.url();
    let some = ["export", "--db", "d 1", "--rp", "autogen", "--measurement", "load"];
    let some = [&some[..], &["--from", "10", "--to", "20", "--url", &url]].concat();
    let lines = weir.must_run(&some);
    assert_eq!(lines.lines().filter(|line| line.starts_with("load,")).count(), 10, "{lines}");
}

#[test]
fn an_answer_is_shown_as_table_csv_or_json() {
    let server = Influxd::start();
    server.ask("CREATE DATABASE db", &[]);
    let weir = Setup::new().prepare();
    let lines = "cpu,host=a v=1.5,note=\"x\" 1000000000\ncpu,host=b v=20 2000000000\n";
    let file = write(&weir, "lines", lines.as_bytes());
    let url = server.url();
    weir.must_run(&["import", &file, "--db", "db", "--url", &url]);
    let query =
        |words: &[&str]| weir.must_run(&[&["query", "--db", "db", "--host", &url], words].concat());
    let table = "\
name: cpu
tags: host=a
time                  note    v
--------------------  ----  ---
1970-01-01T00:00:01Z  x     1.5

name: cpu
tags: host=b
time                  note   v
--------------------  ----  --
1970-01-01T00:00:02Z        20
";
    let shown = query(&["SELECT * FROM cpu GROUP BY host"]);
    assert_eq!(shown, table);
    let csv = query(&["--format", "csv", "--precision", "s", "SELECT v FROM cpu"]);
    assert_eq!(csv, "name,tags,time,v\ncpu,,1,1.5\ncpu,,2,20\n");
    let json: Value =
        serde_json::from_str(&query(&["--format", "json", "SELECT count(v) FROM cpu"])).unwrap();
    assert_eq!(json["results"][0]["series"][0]["values"][0][1], 2);
    let failed = weir.command(&["query", "--url", &url, "SELECT v FROM cpu"]);
    assert_eq!(failed.status.code(), Some(3), "{}", err(&failed));
    assert!(err(&failed).contains("database name required"), "{}", err(&failed));
    let wrong = weir.command(&["query", "--url", &url, "SELEC"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(err(&wrong).contains("found SELEC, expected SELECT"), "{}", err(&wrong));
}

#[test]
fn an_import_counts_what_is_refused() {
    let server = Influxd::start();
    server.ask("CREATE DATABASE db", &[]);
    let weir = Setup::new().prepare();
    let lines: String = (0..20_000).map(|n| format!("m v={n}i {n}\n")).collect();
    let file = write(&weir, "lines", format!("{lines}no line\nnor this\n").as_bytes());
    let output = weir.command(&["import", &file, "--db", "db", "--url", &server.url()]);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("20,002 lines") && said.contains(" 2 failed"), "{said}");
    assert!(err(&output).contains("lines 20001 to 20002"), "{}", err(&output));
    assert_eq!(server.count("db", "m", "v"), 20_000);
    let nowhere = weir.command(&["import", &file, "--url", &server.url()]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(err(&nowhere).contains("--db"), "{}", err(&nowhere));
}

#[test]
fn an_import_goes_on_when_a_busy_server_is_ready_again() {
    let server = Fake::start("a", &["db"]);
    let weir = Setup::new().prepare();
    let lines: String = (0..12_000).map(|n| format!("m v={n}i {n}\n")).collect();
    let file = write(&weir, "lines", lines.as_bytes());
    server.set(Mode::error(503, "timeout").with_header("Retry-After", "1"));
    let url = server.url();
    let import = ["import", &file, "--db", "db", "--url", &url];
    let output = std::thread::scope(|scope| {
        let output = scope.spawn(|| weir.command(&import));
        wait::until("it was told to wait", wait::LONG, || server.requests() >= 3);
        server.set(Mode::Accept);
        output.join().unwrap()
    });
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(server.distinct(), 12_000);
}

#[test]
fn weir_itself_is_imported_into_and_exported_from() {
    let server = Influxd::start();
    let weir = Setup::new().embedded().start();
    let url = format!("http://{}", weir.http);
    let file = write(&weir, "dump.lp", dump().as_bytes());
    weir.must_run(&["import", &file, "--url", &url]);
    let copy = weir.dir().join("copy.lp").display().to_string();
    weir.must_run(&["export", "--db", "d 1", "--url", &url, "-o", &copy]);
    weir.must_run(&["import", &copy, "--url", &server.url()]);
    let other = Influxd::start();
    weir.must_run(&["import", &file, "--url", &other.url()]);
    let all = |server: &Influxd| everything(|q| server.ask(q, &[("epoch", "ns")]));
    assert_eq!(all(&server), all(&other));
}
