//! Four JMeters at once, each with its stock listener for InfluxDB and the same tags: what they
//! overwrite of each other, and what keeps them apart.

mod relay;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use rig::influxd::Influxd;
use rig::weir::{Setup, Weir};
use rig::{machine, places, wait};
use serde_json::Value;

use self::relay::{Relay, SentPoint, SentPoints};

const INJECTORS: [&str; 4] = ["a", "b", "c", "d"];

/// What the script ends with where the registry does not serve JMeter.
const NOT_SERVED: i32 = 77;

/// Brings JMeter here, where the registry serves it.
fn is_installed() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    *INSTALLED.get_or_init(|| {
        places::need("mvn");
        places::need("jar");
        let mut script = rig::clients::script("jmeter");
        let output = script.arg("install").output().expect("bash can be started");
        let said = rig::clients::said(&output);
        if output.status.code() == Some(NOT_SERVED) {
            println!("{said}\nthe registry does not serve JMeter: not tried");
            return false;
        }
        assert!(output.status.success(), "{said}");
        true
    })
}

/// Weir with its store, in front of a real InfluxDB.
struct Backends {
    weir: Weir,
    influxd: Influxd,
}

impl Backends {
    fn start(change: impl FnOnce(Setup) -> Setup) -> Self {
        let influxd = Influxd::start();
        // On a busy machine the injectors do not all start within 10 s.
        let window = "[influx.collisions]\nwindow = \"60s\"";
        // The listener has one object for all its requests: answers are to be there before the
        // next flush.
        let setup = Setup::new().journal("ack = \"written\"").table(window);
        let setup = setup.embedded().backend("a", &influxd.url());
        let weir = change(setup).start();
        let created = weir.query("CREATE DATABASE jmeter", &[]);
        assert_eq!(created.status(), 200, "{}", created.text());
        weir.wait_catalogue();
        Self { weir, influxd }
    }

    /// What Weir's store and InfluxDB answer, which is the same.
    #[track_caller]
    fn ask(&self, query: &str) -> Value {
        let pairs = [("db", "jmeter")];
        let stored = self.weir.query(query, &pairs).json();
        assert_eq!(stored, self.influxd.ask(query, &pairs), "{query}");
        stored["results"][0]["series"].clone()
    }

    fn collisions(&self) -> Value {
        self.weir.ask_admin("/status").json()["influx"]["collisions"]["measurements"].clone()
    }
}

/// Runs an injector by each name; gives what they sent, and the directory of each.
fn run_injectors(weir: &Weir) -> (Vec<SentPoint>, Vec<PathBuf>) {
    let sent = SentPoints::begin();
    let run = |number: usize, dir: &Path| {
        let from = IpAddr::from([127, 0, 0, 2 + number as u8]);
        let relay = Relay::open(from, weir.http, &sent).unwrap();
        let (address, name) = (relay.address(), INJECTORS[number]);
        let mut script = rig::clients::script("jmeter");
        script.env("WEIR_DIR", dir);
        script.env("WEIR_URL", format!("http://{address}/write?db=jmeter&injector={name}"));
        thread::scope(|scope| {
            scope.spawn(|| relay.serve());
            let output = script.output().expect("bash can be started");
            relay.close();
            assert!(output.status.success(), "{}", rig::clients::said(&output));
        });
    };
    let dirs: Vec<_> = INJECTORS.iter().map(|name| weir.dir().join(name)).collect();
    thread::scope(|scope| {
        for (number, dir) in dirs.iter().enumerate() {
            std::fs::create_dir(dir).unwrap();
            scope.spawn(move || run(number, dir));
        }
    });
    weir.wait_delivered();
    (sent.into_points(), dirs)
}

/// How many samples of each name are in JMeter's own file, and how many in `all`.
fn samples(dir: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(dir.join("result.jtl")).unwrap();
    let mut samples = BTreeMap::new();
    for line in text.lines().skip(1) {
        let label = line.split(',').nth(2).unwrap();
        for name in [label, "all"] {
            *samples.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    samples
}

/// Points that gave a field another value, and points that repeated all they had in common with
/// an older one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    overwritten: u64,
    equal: u64,
}

impl Counts {
    fn sum(self) -> u64 {
        self.overwritten + self.equal
    }
}

/// What is to be counted of a measurement.
fn expected_counts(sent: &[SentPoint], measurement: &str) -> Counts {
    let mut stored: HashMap<_, BTreeMap<&String, &String>> = HashMap::new();
    let mut counts = Counts::default();
    for point in sent.iter().filter(|point| point.measurement == measurement) {
        let known = stored.entry((&point.series, point.time_ns)).or_default();
        let mut common = 0;
        let mut changed = 0;
        for (name, value) in &point.fields {
            if let Some(older) = known.insert(name, value) {
                common += 1;
                changed += u64::from(older != value);
            }
        }
        match (common, changed) {
            (0, _) => {}
            (_, 0) => counts.equal += 1,
            _ => counts.overwritten += 1,
        }
    }
    counts
}

/// What Weir has counted of a measurement, where all who met are hosts.
fn shown_counts(collisions: &Value, measurement: &str) -> Counts {
    let all = collisions.as_array().unwrap();
    let Some(of) = all.iter().find(|of| of["measurement"] == measurement) else {
        return Counts::default();
    };
    let count = |outcome: &str| {
        assert_eq!((&of[outcome]["connections"], &of[outcome]["self"]), (&0.into(), &0.into()));
        of[outcome]["hosts"].as_u64().unwrap()
    };
    Counts { overwritten: count("overwritten"), equal: count("equal") }
}

/// How many points of each series of a measurement are stored, by the series' tags.
fn stored_points(backends: &Backends, measurement: &str) -> BTreeMap<BTreeSet<String>, usize> {
    let all = backends.ask(&format!("SELECT * FROM \"{measurement}\" GROUP BY *"));
    let points = |series: &Value| {
        let tags = series["tags"].as_object().unwrap().iter();
        let tags = tags.map(|(name, value)| (name, value.as_str().unwrap()));
        let present = tags.filter(|(_, value)| !value.is_empty());
        let tags = present.map(|(name, value)| format!("{name}={value}")).collect();
        (tags, series["values"].as_array().unwrap().len())
    };
    all.as_array().unwrap().iter().map(points).collect()
}

/// How many different times the points of each series have, by the series' tags.
fn sent_times(sent: &[SentPoint], measurement: &str) -> BTreeMap<BTreeSet<String>, usize> {
    let mut times: BTreeMap<BTreeSet<String>, BTreeSet<u128>> = BTreeMap::new();
    for point in sent.iter().filter(|point| point.measurement == measurement) {
        let tags = point.series.split(',').skip(1).map(|tag| tag.replace("\\ ", " ")).collect();
        times.entry(tags).or_default().insert(point.time_ns);
    }
    times.into_iter().map(|(tags, times)| (tags, times.len())).collect()
}

fn sent_points(sent: &[SentPoint], measurement: &str) -> usize {
    sent.iter().filter(|point| point.measurement == measurement).count()
}

#[test]
fn injectors_with_the_same_tags_overwrite_each_other_and_each_point_lost_is_counted() {
    // Four virtual machines that start take the CPUs from whoever measures.
    let _alone = machine::alone();
    if !is_installed() {
        return;
    }
    let backends = Backends::start(|setup| setup);
    let (sent, dirs) = run_injectors(&backends.weir);
    for measurement in ["jmeter", "events"] {
        let expected = expected_counts(&sent, measurement);
        let counts = || shown_counts(&backends.collisions(), measurement);
        wait::until("all collisions are counted", wait::LONG, || counts().sum() >= expected.sum());
        assert_eq!(counts(), expected, "{measurement}");
        let stored = stored_points(&backends, measurement);
        assert_eq!(stored, sent_times(&sent, measurement));
        let lost = sent_points(&sent, measurement) - stored.values().sum::<usize>();
        assert!(lost > 0, "{measurement}");
        assert_eq!(lost as u64, expected.sum(), "{measurement}");
    }
    println!("{}", backends.weir.must_run(&["status"]));
    let all: u64 = dirs.iter().map(|dir| samples(dir)["all"]).sum();
    let query = "SELECT sum(\"count\") FROM jmeter WHERE \"transaction\" = 'all'";
    let shown = backends.ask(query)[0]["values"][0][1].as_u64().unwrap();
    println!("{all} samples, {shown} of them in the sum");
    assert!(shown < all, "{shown} of {all}");
}

#[test]
fn injectors_with_a_stamp_by_parameter_lose_no_point_and_the_sums_are_those_of_jmeters_files() {
    // Four virtual machines that start take the CPUs from whoever measures.
    let _alone = machine::alone();
    if !is_installed() {
        return;
    }
    let stamp = "stamp = { injector = \"parameter:injector\" }";
    let backends = Backends::start(|setup| setup.influx(stamp));
    let (sent, dirs) = run_injectors(&backends.weir);
    assert!(expected_counts(&sent, "jmeter").overwritten > 0, "without the stamp they meet");
    assert_eq!(backends.collisions(), serde_json::json!([]));
    for measurement in ["jmeter", "events"] {
        let stored: usize = stored_points(&backends, measurement).values().sum();
        assert_eq!(stored, sent_points(&sent, measurement), "{measurement}");
    }
    let query = "SELECT sum(\"count\") FROM jmeter WHERE statut = 'all' GROUP BY injector, \
                 \"transaction\"";
    let mut sums: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for series in backends.ask(query).as_array().unwrap() {
        let tag = |name: &str| series["tags"][name].as_str().unwrap().to_owned();
        let sum = series["values"][0][1].as_u64().unwrap();
        sums.entry(tag("injector")).or_default().insert(tag("transaction"), sum);
    }
    let names = INJECTORS.map(str::to_owned);
    let expected: BTreeMap<_, _> =
        names.into_iter().zip(dirs.iter().map(|dir| samples(dir))).collect();
    assert_eq!(sums, expected);
    let all: u64 = expected.values().map(|samples| samples["all"]).sum();
    let query = "SELECT sum(\"count\") FROM jmeter WHERE \"transaction\" = 'all'";
    assert_eq!(backends.ask(query)[0]["values"][0][1], all);
    // The other query that docs/jmeter.md has: threads of all injectors.
    let query = "SELECT sum(\"maxAT\") FROM (SELECT last(\"maxAT\") AS \"maxAT\" FROM jmeter WHERE \
                 \"transaction\" = 'internal' GROUP BY time(1s), injector) GROUP BY time(1s)";
    let threads = backends.ask(query);
    let rows = threads[0]["values"].as_array().unwrap();
    let most = rows.iter().filter_map(|row| row[1].as_u64()).max();
    assert_eq!(most, Some(4 * INJECTORS.len() as u64));
}
