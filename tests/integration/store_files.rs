//! The embedded store's files, looked at from outside.

use std::fmt::Write;
use std::process::Command;

use rig::weir::{Setup, Weir};
use rig::{places, wait};

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
    let script = places::root().join("tests/clients/pyarrow/run.sh");
    let output = Command::new("bash")
        .arg(&script)
        .env("WEIR_DIR", weir.dir())
        .env("WEIR_STORE", weir.dir().join("store"))
        .output()
        .expect("bash can be started");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (said(&output.stdout), said(&output.stderr));
    if err.contains("No matching distribution") || err.contains("NewConnectionError") {
        eprintln!("SKIPPED: pyarrow can't be installed, so no other reader was tried\n{err}");
        return;
    }
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    println!("{out}");
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
    let mut files = Vec::new();
    for policy in std::fs::read_dir(weir.dir().join("store/data")).unwrap() {
        let within = std::fs::read_dir(policy.unwrap().path()).unwrap();
        files.extend(within.map(|entry| entry.unwrap().path()));
    }
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
