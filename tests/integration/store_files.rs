//! The embedded store's files, looked at from outside.

use std::fmt::Write;
use std::path::PathBuf;

use rig::http::Request;
use rig::weir::{Setup, Weir};
use rig::{clients, places, wait};

const ROWS: u64 = 3000;

/// Three thousand points in a few series, in files.
fn with_files() -> Weir {
    let weir = Setup::new().embedded().store("flush-interval = \"1s\"").start();
    weir.query("CREATE DATABASE files", &[]);
    for begin in (0..ROWS).step_by(1000) {
        let mut lines = String::new();
        for n in begin..begin + 1000 {
            let zone = if n % 7 % 2 == 0 { ",zone=eu\\,\\ west" } else { "" };
            let whole = if n % 3 == 0 { format!("i={}i,", n * n) } else { String::new() };
            let _ = writeln!(
                lines,
                "m,host=h{}{zone} f={},{whole}b={},s=\"text \\\"{n}\\\" ü\" {}000000000",
                n % 7,
                n as f64 / 8.0,
                n % 2 == 0,
                1_600_000_000 + n,
            );
        }
        weir.must_write("files", &lines);
    }
    wait::until("all points are in files", wait::LONG, || rows_in_files(&weir) == ROWS);
    weir
}

/// All files of the store's policies.
fn files_of(weir: &Weir) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for policy in std::fs::read_dir(weir.store_dir().join("data")).unwrap() {
        let within = std::fs::read_dir(policy.unwrap().path()).unwrap();
        files.extend(within.map(|entry| entry.unwrap().path()));
    }
    files
}

fn report(weir: &Weir, command: &str) -> serde_json::Value {
    let dir = weir.dir().join("store");
    let said = weir.must_run(&["store", command, &dir.display().to_string(), "--json"]);
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn rows_in_files(weir: &Weir) -> u64 {
    let report = report(weir, "inspect");
    let databases = report["databases"].as_array().cloned().unwrap_or_default();
    let policies = databases.iter().filter_map(|database| database["policies"].as_array());
    let files = policies.flatten().filter_map(|policy| policy["files"].as_array());
    files.flatten().filter_map(|file| file["info"]["rows"].as_u64()).sum()
}

/// Where the package can't be had this says so, loudly, and is no proof of anything.
#[test]
fn another_program_reads_the_parquet_files() {
    places::need("python3");
    let weir = with_files();
    let output = clients::script("pyarrow")
        .env("WEIR_DIR", weir.dir())
        .env("WEIR_STORE", weir.dir().join("store"))
        .output()
        .expect("bash can be started");
    let said = clients::said(&output);
    if said.contains("No matching distribution") || said.contains("NewConnectionError") {
        eprintln!("SKIPPED: pyarrow can't be installed, so no other reader was tried\n{said}");
        return;
    }
    assert!(output.status.success(), "{}\n{said}", output.status);
    println!("{said}");
}

#[test]
fn inspect_shows_what_the_store_holds_and_verify_finds_a_flipped_bit() {
    let mut weir = with_files();
    let dir = weir.dir().join("store").display().to_string();
    let shown = weir.must_run(&["store", "inspect", &dir]);
    for words in ["journal position", "files.autogen", "measurement m", "7 series", "no file is"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(weir.must_run(&["store", "verify", &dir]).contains("every checksum"));

    let output = weir.command(&["store", "inspect", "/nowhere"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("/nowhere holds no store"), "{said}");

    weir.terminate();
    let files = files_of(&weir);
    let parquet = files.iter().find(|path| path.extension().is_some_and(|of| of == "parquet"));
    let parquet = parquet.expect("there are files");
    let mut bytes = std::fs::read(parquet).unwrap();
    bytes[100] ^= 1;
    std::fs::write(parquet, bytes).unwrap();
    let output = weir.command(&["store", "verify", &dir]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(3), "{shown}");
    let name = parquet.file_name().unwrap().to_string_lossy();
    assert!(shown.contains("DAMAGED") && shown.contains(&*name), "{shown}");
}

/// What the head of an answer says is missing, and its body.
fn asked(weir: &Weir, accept: &str) -> (Vec<String>, String) {
    let pairs = [("db", "files"), ("epoch", "ns")];
    let request = Request::query("SELECT f FROM m", &pairs).header("accept", accept);
    let answer = weir.send(&request);
    let missing = answer.headers.iter().filter(|(name, _)| name == "x-weir-missing");
    (missing.map(|(_, text)| text.clone()).collect(), answer.text())
}

#[test]
fn what_a_damaged_file_has_lost_is_said_with_every_answer_until_it_is_accepted() {
    let mut weir = with_files();
    let points = |weir: &Weir| asked(weir, "application/json").1.matches("[16").count() as u64;
    assert_eq!(points(&weir), ROWS);
    let damaged = |weir: &Weir| weir.metrics().sum("weir_store_damaged_files", &[]);
    weir.terminate();
    let parquet =
        files_of(&weir).into_iter().find(|path| path.extension() == Some("parquet".as_ref()));
    let parquet = parquet.expect("there are files");
    let whole = std::fs::read(&parquet).unwrap();
    let mut bytes = whole.clone();
    let footer = bytes.len() - 30;
    bytes[footer] ^= 1;
    std::fs::write(&parquet, bytes).unwrap();
    for _ in 0..2 {
        weir.start_again();
        for _ in 0..2 {
            let (head, body) = asked(&weir, "application/json");
            assert!(points(&weir) < ROWS && body.contains("points of measurement m are missing"));
            assert_eq!(head.len(), 1, "{head:?}");
            let (head, _) = asked(&weir, "application/csv");
            assert!(head.len() == 1 && head[0].contains("points of measurement m"), "{head:?}");
        }
        let shown = weir.must_run(&["status"]);
        assert!(shown.contains("MISSING: ") && shown.contains("measurement m"), "{shown}");
        assert!(
            damaged(&weir) == 1.0 && weir.metrics().sum("weir_store_missing_points", &[]) > 0.0
        );
        let server = format!("http://{}", weir.http);
        let exported = weir.command(&["export", "--db", "files", "--url", &server]);
        let said = String::from_utf8_lossy(&exported.stderr).into_owned();
        assert_eq!(exported.status.code(), Some(3), "{said}");
        assert!(said.contains("are missing"), "{said}");
        weir.terminate();
    }
    weir.start_again();
    let said = weir.must_run(&["store", "accept", &weir.store_dir().display().to_string()]);
    assert!(said.contains("is accepted"), "{said}");
    wait::until("it is taken", wait::LONG, || damaged(&weir) == 0.0);
    let (head, body) = asked(&weir, "application/json");
    assert!(head.is_empty() && !body.contains("messages"), "{head:?}");
    assert!(!weir.must_run(&["status"]).contains("MISSING"));
    // Restored from a backup, it is read again.
    weir.terminate();
    std::fs::write(&parquet, whole).unwrap();
    weir.start_again();
    wait::until("all is read again", wait::LONG, || points(&weir) == ROWS);
}
