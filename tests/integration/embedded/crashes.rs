//! `kill -9` of the whole program at every step that its store takes on the disk: nothing
//! acknowledged is lost, nothing is there twice, and no leftover stays after the next start.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;

use rig::http::{Connection, Request};
use rig::wait;
use rig::weir::{Setup, Weir};

use super::{count, must_run, rows, values};
use crate::scene::point;

const FIRST_NS: u64 = 1_600_000_000_000_000_000;
const KILLED: i32 = 9;

/// Weir with what is known of its writes.
struct Scene {
    weir: Weir,
    /// The numbers of acknowledged points.
    acknowledged: Vec<u64>,
    /// The number of the next point.
    next: u64,
    /// What was written to be dropped is for certain.
    dropped: bool,
}

impl Scene {
    /// A Weir that writes files all the time; not started.
    fn new() -> Self {
        Self::with("flush-interval = \"50ms\"")
    }

    fn with(store: &str) -> Self {
        let weir = Setup::new().embedded().with_faults().store(store);
        Self { weir: weir.prepare(), acknowledged: Vec::new(), next: 0, dropped: true }
    }

    /// Has it killed at a step, and does what leads to it besides writing points.
    fn kill_at(&mut self, step: &str) {
        let (order, weir) = (format!("kill {step}"), &self.weir);
        if step.starts_with("store-flush remove") {
            weir.must_write("db", "gone v=1i 1\n");
            wait::until("all is in files", wait::LONG, || {
                weir.metrics().sum("weir_store_memory_bytes", &[]) == 0.0
            });
            weir.store_faults(&order);
            // It may be killed before it answers, and by another flush before it has the statement.
            let drop = Request::query("DROP MEASUREMENT gone", &[("db", "db")]);
            let answer = rig::http::send(weir.http, &drop);
            self.dropped = answer.is_ok_and(|answer| answer.status() == 200);
        } else if step.contains("create directory") {
            must_run(weir, "CREATE DATABASE other");
            weir.store_faults(&order);
            let _ = rig::http::send(weir.http, &Request::post("/write?db=other", "m v=1i 1\n"));
        } else {
            weir.store_faults(&order);
        }
        self.write_until(|| false);
        self.wait_killed();
    }

    /// Writes points, each with a new series, and one point again and again, until Weir is gone or
    /// `done`.
    fn write_until(&mut self, mut done: impl FnMut() -> bool) {
        let Ok(mut connection) = Connection::open(self.weir.http) else { return };
        while !done() {
            let n = self.next;
            let lines = format!("{}new,t={n} v=1 1\nsame v={n}i {FIRST_NS}\n", point(n));
            self.next += 1;
            match connection.send(&Request::post("/write?db=db", lines)) {
                Ok(answer) => {
                    assert_eq!(answer.status(), 204, "{}", answer.text());
                    self.acknowledged.push(n);
                }
                Err(_) => return,
            }
        }
    }

    /// Waits until it has been killed by itself.
    fn wait_killed(&mut self) {
        let running = self.weir.running();
        let status = wait::value("it is killed", wait::LONG, || running.ended());
        assert_eq!(status.signal(), Some(KILLED), "{status}");
    }

    /// Starts it with its store standing still, and looks whether everything is as it should be.
    fn start_and_check(&mut self, after: &str) {
        self.weir.store_faults("hold store-");
        self.weir.start_again();
        let found = values(&self.weir);
        let has = |n: &&u64| found.get(&(FIRST_NS + **n)) == Some(&(**n as i64));
        let lost: Vec<_> = self.acknowledged.iter().filter(|n| !has(n)).collect();
        let all = self.acknowledged.len();
        assert!(lost.is_empty(), "after {after}: lost {lost:?} of {all}");
        assert!(found.keys().all(|at| *at < FIRST_NS + self.next), "after {after}: never sent");
        assert_eq!(count(&self.weir), found.len() as u64, "after {after}: twice");
        let same = rows(&self.weir, "SELECT v FROM same");
        let newest = same.first().and_then(|row| row[1].as_u64());
        assert!(newest >= self.acknowledged.last().copied(), "after {after}: {newest:?}");
        let gone = rows(&self.weir, "SELECT v FROM gone").is_empty();
        assert!(gone || !self.dropped, "after {after}: deleted");
        assert!(self.weir.account("store").adds_up(), "after {after}");
        assert_eq!(present(&self.weir), listed(&self.weir), "after {after}: leftovers");
        self.weir.store_faults("");
        if !gone {
            must_run(&self.weir, "DROP MEASUREMENT gone");
        }
        self.dropped = true;
    }
}

/// The files in the store's directory.
fn present(weir: &Weir) -> BTreeSet<String> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![weir.store_dir()]);
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            match entry.path().is_dir() {
                true => waiting.push(entry.path()),
                false => {
                    found.insert(entry.file_name().into_string().unwrap());
                }
            }
        }
    }
    found
}

/// Those that the manifest lists, and those that are always there.
fn listed(weir: &Weir) -> BTreeSet<String> {
    let dir = weir.store_dir().display().to_string();
    let report = weir.must_run(&["store", "inspect", &dir, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let mut names: BTreeSet<String> = ["lock", "manifest"].map(str::to_owned).into();
    // There is none before the first flush.
    let databases = report["databases"].as_array().unwrap();
    let policies = databases.iter().filter_map(|database| database["policies"].as_array());
    for policy in policies.flatten() {
        names.insert("series.log".to_owned());
        for file in policy["files"].as_array().unwrap() {
            assert!(file["fault"].is_null(), "{file}");
            let number = file["info"]["number"].as_u64().unwrap();
            names.insert(format!("{number:012}.parquet"));
            names.insert(format!("{number:012}.runs"));
        }
    }
    names
}

/// What the store's threads do on the disk, found out by letting them.
fn steps(scene: &mut Scene) -> BTreeSet<String> {
    scene.weir.store_faults("list");
    scene.weir.start_again();
    must_run(&scene.weir, "CREATE DATABASE db");
    scene.weir.must_write("db", "gone v=1i 1\n");
    let path = scene.weir.store_dir().with_extension("faults.steps");
    let seen = || fs::read_to_string(&path).unwrap_or_default();
    wait::until("it is in files", wait::LONG, || seen().contains("store-flush rename manifest"));
    must_run(&scene.weir, "DROP MEASUREMENT gone");
    // A join that is done to its end, the removal of what was joined included.
    scene.write_until(|| seen().contains("store-compact remove .runs"));
    seen().lines().filter(|step| step.starts_with("store-")).map(str::to_owned).collect()
}

#[test]
fn a_kill_at_any_step_of_a_flush_or_a_join_loses_nothing_and_leaves_nothing() {
    let mut scene = Scene::new();
    let steps = steps(&mut scene);
    assert!(steps.len() >= 16, "of both: {steps:?}");
    for step in steps {
        scene.kill_at(&step);
        scene.start_and_check(&step);
    }
}

#[test]
fn a_kill_while_it_starts_or_stops_loses_nothing_and_leaves_nothing() {
    let mut scene = Scene::new();
    for step in ["create directory", "create manifest.new", "write", "sync", "rename manifest"] {
        scene.weir.store_faults(&format!("kill main {step}"));
        scene.weir.start_unready();
        scene.wait_killed();
    }
    scene.weir.store_faults("");
    scene.weir.start_again();
    must_run(&scene.weir, "CREATE DATABASE db");
    // The next start has leftovers to remove, and is killed at it.
    scene.kill_at("store-flush rename manifest");
    for _ in 0..3 {
        scene.weir.store_faults("kill main remove");
        scene.weir.start_unready();
        scene.wait_killed();
    }
    scene.start_and_check("starts");
}

#[test]
fn a_kill_during_the_last_flush_of_a_stop_loses_nothing() {
    let mut scene = Scene::with("flush-interval = \"600s\"");
    scene.weir.start_again();
    must_run(&scene.weir, "CREATE DATABASE db");
    let mut left = 100;
    scene.write_until(|| {
        left -= 1;
        left == 0
    });
    scene.weir.store_faults("kill control rename manifest");
    scene.weir.running().signal(rustix::process::Signal::TERM);
    scene.wait_killed();
    scene.start_and_check("a stop");
}
