//! A member is rebuilt under the load of two gateways, while all around it is killed: the command
//! at each of its steps, the member that is copied from, the member itself, and a gateway.

use std::io::Read as _;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use meter::engine::Stop as StopLoad;
use rig::gate::{Gate, Stop};
use rig::http::{self, Request};
use rig::influxd::Influxd;
use rig::sending::Report;
use rig::status::Account;
use rig::wait;
use rig::weir::{Setup, Weir};
use serde_json::Value;

use super::gateways::until_said;
use super::noted::load;
use super::rebuilt::{
    SECOND, assert_alike, begin_rebuild, fill, numbers, progress, setup, setup_at,
};
use super::start_applied;

const LIMIT: Duration = Duration::from_secs(60);

/// The member, and the request to it that is a step of a rebuild.
const STEPS: [(&str, &str); 9] = [
    ("b", "DROP MEASUREMENT note"),
    ("b", "note,gateway="),
    ("b", "rebuilding\\\":true"),
    ("a", "placement table="),
    ("b", "DURATION INF"),
    ("b", "/write?db=db"),
    ("b", "rebuild copied="),
    ("b", "DURATION 720000h"),
    ("b", "rebuilding\\\":false"),
];

/// Clients that write to two gateways, and one that asks both.
struct TwoLoads {
    writes: [(StopLoad, JoinHandle<Report>); 2],
    reads: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    /// Queries that were answered with what there is.
    answered: Arc<AtomicU64>,
}

impl TwoLoads {
    fn start(gateways: &[Weir; 2]) -> Self {
        let writes = [0, 1].map(|n| load(&gateways[n], 2, n as u64 * SECOND));
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopped, counted) = (stop.clone(), answered.clone());
        let addresses = gateways.each_ref().map(|weir| weir.http);
        let reads = thread::spawn(move || {
            let query = Request::query("SELECT count(whole) FROM \"all types\"", &[("db", "db")]);
            while !stopped.load(Ordering::Relaxed) {
                for answer in addresses.iter().filter_map(|at| http::send(*at, &query).ok()) {
                    // What is not all that there is has to be an error.
                    let document = answer.json();
                    let result = &document["results"][0];
                    if answer.status() == 200 && result["error"].is_null() {
                        let count = &result["series"][0]["values"][0][1];
                        assert_eq!(count.as_u64(), Some(2_000), "{document}");
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        gateways.iter().for_each(|weir| crate::kill::until_taken(weir, 500.0));
        Self { writes, reads, stop, answered }
    }

    /// Ends them; every acknowledged point has to be on these members, once.
    fn end(self, gateways: &[Weir; 2], members: &[&Influxd]) {
        let reports = self.writes.map(|(stop, load)| {
            stop.ask();
            load.join().unwrap()
        });
        self.stop.store(true, Ordering::Relaxed);
        self.reads.join().unwrap();
        gateways.iter().for_each(Weir::wait_delivered);
        for member in members {
            let there = numbers(member);
            assert_eq!(there.len() as u64, member.count("db", "load", "v"), "a point is doubled");
            for (n, report) in reports.iter().enumerate() {
                let first = n as u64 * SECOND;
                let lost = report.acknowledged.iter().filter(|n| !there.contains(&(first + **n)));
                assert_eq!(lost.count(), 0, "of {} acknowledged", report.acknowledged.len());
            }
            assert_alike(members[0], member);
        }
        let acknowledged = reports.each_ref().map(|report| report.acknowledged.len());
        let answered = self.answered.load(Ordering::Relaxed);
        println!("{acknowledged:?} points acknowledged, {answered} queries answered");
        assert!(answered > 0);
        assert!(gateways.iter().flat_map(Weir::accounts).all(|account| Account::adds_up(&account)));
    }
}

/// Waits until a command has ended that cannot do what it was asked for; gives what it said.
fn failed(mut running: Child) -> String {
    let mut words = String::new();
    running.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(1), "{words}");
    words
}

/// The names of all gateways that have noted something on a member.
fn names(member: &Influxd) -> Vec<String> {
    let answer = member.ask("SHOW TAG VALUES ON \"_weir\" WITH KEY = gateway", &[]);
    let rows = answer["results"][0]["series"][0]["values"].as_array().cloned().unwrap_or_default();
    rows.iter().filter_map(|row| Value::as_str(&row[1]).map(str::to_owned)).collect()
}

/// Starts a gateway that leaves notes, and has it forgotten.
fn forget_one(by: &Weir, setup: Setup, member: &Influxd) -> String {
    let before = names(member);
    let mut lost = setup.start();
    wait::until("a note", LIMIT, || names(member).len() > before.len());
    lost.kill();
    let name = names(member).into_iter().find(|name| !before.contains(name)).unwrap();
    by.must_run(&["placement", "forget", &name]);
    name
}

#[test]
fn a_rebuild_that_is_killed_at_each_step_is_run_again_and_no_point_is_lost() {
    let (a, b) = (Influxd::start(), Influxd::start());
    let gates = [Gate::before(a.address), Gate::before(b.address)];
    let of = || setup(&[("a", &a), ("b", &b)]);
    let gateways = [start_applied(of()), of().start()];
    fill(&gateways[0]);
    gateways[0].wait_delivered();
    let forgotten = forget_one(&gateways[0], of(), &a);
    // The command goes through the gates; the gateways do not.
    let command = setup_at(&[("a", gates[0].url()), ("b", gates[1].url())]).prepare();
    let loads = TwoLoads::start(&gateways);
    for (member, words) in STEPS {
        for stop in [Stop::Before, Stop::Behind] {
            let gate = &gates[usize::from(member == "b")];
            gate.stop_at(words, stop);
            let mut running = begin_rebuild(&command, &["b"]);
            wait::until(&format!("{words:?} to {member}, {stop:?}"), LIMIT, || {
                assert!(running.try_wait().unwrap().is_none(), "it ends: {}", said(&mut running));
                gate.is_stopped()
            });
            running.kill().unwrap();
            running.wait().unwrap();
            gate.open();
        }
    }
    // It was put in force, and nobody heard that.
    let taken = gateways.each_ref().map(|weir| weir.account("b").accepted);
    wait::until("more points behind it", LIMIT, || {
        gateways.iter().zip(taken).all(|(weir, taken)| weir.account("b").accepted > taken + 50)
    });
    assert!(names(&b).contains(&forgotten));
    loads.end(&gateways, &[&a, &b]);
    gateways[0].must_run(&["placement", "show"]);
    let verified = gateways[0].must_run(&["placement", "verify"]);
    assert!(verified.contains(", 0 differ"), "{verified}");
}

fn said(running: &mut Child) -> String {
    let mut words = String::new();
    let _ = running.stdout.take().map(|mut out| out.read_to_string(&mut words));
    let _ = running.stderr.take().map(|mut err| err.read_to_string(&mut words));
    words
}

#[test]
fn the_source_the_target_and_a_gateway_are_killed_while_a_member_is_rebuilt() {
    let (mut a, mut b, c) = (Influxd::start(), Influxd::start(), Influxd::start());
    let of = |a: &Influxd, b: &Influxd| setup(&[("a", a), ("b", b), ("c", &c)]);
    let mut gateways = [start_applied(of(&a, &b)), of(&a, &b).start()];
    fill(&gateways[0]);
    gateways[0].wait_delivered();
    let loads = TwoLoads::start(&gateways);
    b.lose_disk();
    gateways.iter().for_each(|weir| until_said(weir, "b", "it has no table yet"));
    let slowly = ["b", "--rate", "500"];
    let until_more = |b: &Influxd, far: &Option<String>| {
        wait::until("more to be copied", LIMIT, || progress(b) != *far);
    };
    let running = begin_rebuild(&gateways[0], &slowly);
    until_more(&b, &None);
    a.kill();
    let words = failed(running);
    assert!(words.contains("member \"a\""), "{words}");
    let far = progress(&b);
    let running = begin_rebuild(&gateways[0], &slowly);
    until_more(&b, &far);
    b.kill();
    let words = failed(running);
    assert!(words.contains("member \"b\""), "{words}");
    b.start_again();
    // A gateway is silent, and comes back when the member is in force.
    let far = progress(&b);
    let running = begin_rebuild(&gateways[0], &slowly);
    until_more(&b, &far);
    gateways[1].kill();
    let output = running.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for words in ["goes on", "copied from c", "b: is in force"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    a.start_again();
    gateways[1].start_again();
    crate::kill::until_taken(&gateways[1], 100.0);
    loads.end(&gateways, &[&c, &b, &a]);
}
