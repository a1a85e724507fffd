//! What somebody types in the first minute with `weir load`, and what goes wrong around a load: its
//! output and files are held, and not the verdict.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rig::fake::Fake;
use rig::places;
use rig::redis::Redis;
use rig::tls::Certificate;
use rig::wait;
use rig::weir::Setup;
use rustix::process::{Pid, Signal, kill_process};

use crate::disk_faults::Mount;

/// Short enough to be run again and again.
const SHORT: [&str; 4] = ["--duration", "1s", "--warmup", "100ms"];

fn spawn(place: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(places::weir());
    command.current_dir(place).arg("load").args(args);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("weir can be started")
}

fn load(place: &Path, args: &[&str]) -> (Option<i32>, String) {
    said(&spawn(place, args).wait_with_output().expect("it ends"))
}

fn said(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// A load that ends as it should, and leaves its page.
#[track_caller]
fn works(place: &Path, args: &[&str], parts: &[&str]) {
    let (code, said) = load(place, args);
    assert!(matches!(code, Some(0 | 4)), "{args:?}: {said}");
    for part in [&["no errors", "report: weir-load/20", "injector "], parts].concat() {
        assert!(said.contains(part), "{part}: {said}");
    }
    let page = said.lines().find_map(|line| line.strip_prefix("report: ")).expect("there is one");
    let page = fs::read_to_string(place.join(page)).expect("the page is there");
    assert!(page.contains("VALID") && page.len() < 1_000_000);
}

#[test]
fn the_loads_of_the_first_minute_work_as_they_stand() {
    // `make run`: Weir with its own store.
    let (weir, place) = (Setup::new().embedded().start(), places::directory());
    let (url, place) = (format!("http://{}", weir.http), place.path());
    let ping = format!("{url}/ping");
    works(place, &[&[&*ping], &SHORT[..]].concat(), &["100 requests in 1 s", "latency "]);
    let rated = ["--rate", "2000", "--require", "p99<20s"];
    works(place, &[&[&*ping], &rated[..], &SHORT].concat(), &["2,000 requests in 1 s"]);
    let writes = [&*url, "--workload", "influx-write", "--db", "load", "--prepare", "--closed"];
    works(place, &[&writes[..], &SHORT].concat(), &["points in these requests", "Little's law"]);
    let redis = Redis::start();
    let mix = ["--mix", "get=9,set=1", "--rate", "5000"];
    works(place, &[&[&*redis.url()], &mix[..], &SHORT].concat(), &["5,000 requests", "set "]);
    // The search takes its time: what it has found so far is told when it is ended.
    let mut search = spawn(place, &[&ping, "--find-limit", "p99<20s", "--out", "search"]);
    let mut lines = BufReader::new(search.stdout.take().expect("it is piped")).lines();
    let first: Vec<String> = lines.by_ref().take(3).map(|line| line.expect("it is text")).collect();
    assert_eq!(first[0], "the highest rate with p99<20s, from 100 a second, in steps of 5s");
    assert!(first[1].starts_with("began ") && first[1].contains(" on "), "{first:?}");
    assert!(first[2].starts_with("      100/s  p50 "), "{first:?}");
    kill_process(Pid::from_child(&search), Signal::INT).expect("it runs");
    let rest: Vec<String> = lines.map(|line| line.expect("it is text")).collect();
    assert!(search.wait().expect("it ends").code() == Some(1), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with("STOPPED  before a limit")), "{rest:?}");
    let report = fs::read_to_string(place.join("search/limit.txt")).expect("it is there");
    assert!(report.starts_with(&first.join("\n")), "{report}");
}

#[test]
fn a_run_file_with_steps_is_a_load() {
    let (weir, place) = (Setup::new().embedded().start(), places::directory());
    let made = weir.query("CREATE DATABASE shop", &[]);
    assert_eq!(made.status(), 200);
    let template = Command::new(places::weir()).args(["load", "init"]).output();
    let template = template.expect("weir can be started").stdout;
    // What is printed is a run file; here it gets other values, and steps.
    fs::write(place.path().join("users.csv"), "name\nann\nbob\n").expect("there is room");
    let run = format!(
        "{}\nduration = '1s'\nwarmup = '0s'\nrate = 20\ndata = 'users.csv'\n\
         [[step]]\nname = 'write'\nmethod = 'POST'\ntarget = '/write?db=shop'\n\
         body = 'visits,user={{{{name}}}} n={{{{seq}}}}i'\ncheck = 'status 204'\n\
         [[step]]\nname = 'query'\ntarget = '/query?db=shop&q=SELECT+last(n)+FROM+visits'\n\
         check = ['json /results/0/series/0/name = visits', 'header Content-Type ~ json']\n\
         take = 'last = json /results/0/series/0/values/0/1'\n\
         [[step]]\nname = 'again'\ntarget = '/ping?last={{{{last}}}}'\n",
        String::from_utf8_lossy(&template)
            .replace("http://127.0.0.1:8086/ping", &format!("http://{}", weir.http)),
    );
    fs::write(place.path().join("load.toml"), run).expect("there is room");
    works(place.path(), &["run", "load.toml"], &["write ", "query ", "again "]);
    let users = weir.query("SELECT count(n) FROM visits GROUP BY \"user\"", &[("db", "shop")]);
    let users = users.json();
    let counts = [0, 1].map(|at| users["results"][0]["series"][at]["values"][0][1].as_u64());
    assert_eq!(counts, [Some(10), Some(10)], "{users}");
}

#[test]
fn a_certificate_is_checked_unless_somebody_says_otherwise() {
    let (good, other, place) = (Certificate::new(), Certificate::new(), places::directory());
    let server = Fake::start_tls("a", &["db"], &good);
    let url = format!("{}/ping", server.url());
    let (ours, theirs) = (place.path().join("ours"), place.path().join("theirs"));
    for dir in [&ours, &theirs] {
        fs::create_dir(dir).expect("there is room");
    }
    let (ours, theirs) = (good.write(&ours).0, other.write(&theirs).0);
    let path = |path: &Path| path.display().to_string();
    let few = ["--rate", "20", "--connections", "2"];
    let base = [&[&*url], &few[..], &SHORT].concat();
    works(place.path(), &[&base[..], &["--ca", &path(&ours)]].concat(), &["20 requests"]);
    works(place.path(), &[&base[..], &["--insecure"]].concat(), &["20 requests"]);
    for more in [&[][..], &["--ca", &path(&theirs)]] {
        let (code, said) = load(place.path(), &[&base[..], more].concat());
        assert!(code == Some(1) && said.contains("TLS") && said.contains("ertificate"), "{said}");
    }
}

#[test]
fn a_run_whose_disk_is_full_goes_on_and_says_what_is_missing() {
    let (weir, place) = (Setup::new().embedded().start(), places::directory());
    let mount = place.path().join("disk");
    fs::create_dir(&mount).expect("there is room");
    let _mounted = Mount::tmpfs(&mount, "64k");
    let url = format!("http://{}/ping", weir.http);
    let rest = ["--rate", "200", "--duration", "8s", "--warmup", "0s", "--out", "disk/results"];
    let child = spawn(place.path(), &[&[&*url], &rest[..]].concat());
    let rows = mount.join("results/windows.csv");
    wait::until("a window has ended", wait::LONG, || {
        fs::read_to_string(&rows).is_ok_and(|rows| rows.lines().count() > 1)
    });
    assert!(fs::write(mount.join("ballast"), vec![1; 64 << 10]).is_err(), "there is no room left");
    let (code, said) = said(&child.wait_with_output().expect("it ends"));
    assert!(matches!(code, Some(0 | 4)), "{said}");
    assert!(said.contains("1,600 requests in 8 s, no errors"), "{said}");
    assert!(said.contains("; the run goes on, and no further windows are kept"), "{said}");
    assert!(said.contains("report: disk/results/report.txt, in part: "), "{said}");
    let kept = fs::read_to_string(&rows).expect("what found room is there").lines().count();
    assert!((2..9).contains(&kept), "{kept}");
}
