//! Tests of the parts together; what they share.

mod agreement;
mod notes;
mod plan;
mod rebuild;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use wire::influxql;
use wire::line::{MarkKey, Marks, Options, Precision, normalise};

use super::placer::Placer;
use super::reach::{QueryScope, Reach};
use super::shares::{OwnLine, SharedOut};
use super::*;
use crate::settings::{BackendSettings, BackendTable, Settings};

const TEN_S: Duration = Duration::from_secs(10);
const HOUR_NS: i64 = 3_600_000_000_000;
/// The first of December 2026.
const NOW_NS: i64 = 1_796_083_200_000_000_000;

fn backends(settings: &Settings) -> Vec<BackendSettings> {
    let members = settings.set.iter().flat_map(|set| &set.members);
    let table = |name: &String| BackendTable::new(name, "http://127.0.0.1:1").settings().unwrap();
    members.collect::<BTreeSet<_>>().into_iter().map(table).collect()
}

/// The table that these lines say; each set has the one member of its name.
fn written(placement: &str, sets: &[&str]) -> (WrittenTable, Settings) {
    let set = |name: &&str| format!("[[set]]\nname = \"{name}\"\nmembers = [\"{name}\"]\n");
    let sets: String = sets.iter().map(set).collect();
    let text = format!("[cluster]\nname = \"c\"\n{sets}{placement}");
    let settings: Settings = toml::from_str(&text).unwrap();
    (WrittenTable::of(&settings).unwrap().unwrap(), settings)
}

pub fn table(placement: &str, sets: &[&str]) -> Table {
    let (written, settings) = written(placement, sets);
    written.table(&backends(&settings)).unwrap()
}

fn set_of(table: &Table, db: &str, series: &str, time_ns: i64) -> usize {
    table.set_of_point(db, series.as_bytes(), time_ns)
}

#[test]
fn groups_go_round_the_sets() {
    let by_group = table(
        "[[placement]]\nsets = [\"a\", \"b\", \"c\"]\nspan = \"1h\"\nsplit = 1",
        &["a", "b", "c"],
    );
    let first = set_of(&by_group, "d", "m,x=1", NOW_NS);
    for hour in 0..9 {
        for series in ["m,x=1", "m,x=2", "n"] {
            let set = set_of(&by_group, "d", series, NOW_NS + hour * HOUR_NS + 7);
            assert_eq!(set, (first + hour as usize) % 3, "{hour} {series}");
        }
    }
    // Groups begin at whole hours since the year 1.
    assert_eq!(set_of(&by_group, "d", "m", NOW_NS - 1), (first + 2) % 3);
    for time_ns in [i64::MIN, i64::MAX] {
        assert!(set_of(&by_group, "d", "m", time_ns) < 3);
    }
}

#[test]
fn two_of_four_sets_share_a_group_and_the_next_two_the_next() {
    let sets = ["a", "b", "c", "d"];
    let pairs = table(
        "[[placement]]\nsets = [\"a\", \"b\", \"c\", \"d\"]\nspan = \"1h\"\nsplit = 2",
        &sets,
    );
    let of = |hour: i64| -> BTreeSet<usize> {
        let series = (0..50).map(|n| format!("m,x={n}"));
        series.map(|series| set_of(&pairs, "d", &series, NOW_NS + hour * HOUR_NS)).collect()
    };
    let (one, other) = (of(0), of(1));
    assert_eq!((one.len(), other.len(), one.union(&other).count()), (2, 2, 4));
    assert_eq!(of(2), one);
}

#[test]
fn the_first_rule_that_fits_counts() {
    let ruled = table(
        "[[placement]]\nsets = [\"a\", \"b\"]\nspan = \"1h\"\n\
         [[placement.rule]]\ndatabase = \"^d$\"\nmeasurement = \"^stress\"\nsplit-by = \"point\"\n\
         [[placement.rule]]\nmeasurement = \"^s\"\nsplit = 1\n",
        &["a", "b"],
    );
    let sets = |db: &str, series: &str| -> usize {
        let times = (0..64).map(|n| NOW_NS + n);
        times.map(|time| set_of(&ruled, db, series, time)).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(sets("d", "stress,x=1"), 2, "by point");
    assert_eq!(sets("e", "stress,x=1"), 1, "by group");
    assert_eq!(sets("d", "other,x=1"), 1, "by series");
}

/// Sets come five times, each in a period of its own: no point of a period before moves.
#[test]
fn a_cluster_grows_to_fifty_sets_and_no_point_changes_its_set() {
    let names: Vec<String> = (0..50).map(|n| format!("s{n}")).collect();
    let mut text = String::new();
    let mut before: Option<(Table, WrittenTable)> = None;
    for step in 0..5_usize {
        let sets: Vec<&str> = names[..10 * (step + 1)].iter().map(String::as_str).collect();
        let from = format!("from = \"{}-01-01T00:00:00Z\"\n", 2027 + step);
        let from = if step == 0 { "" } else { &from };
        text.push_str(&format!("[[placement]]\n{from}sets = {sets:?}\nspan = \"7d\"\n"));
        let (written, settings) = written(&text, &sets);
        let grown = written.table(&backends(&settings)).unwrap();
        if let Some((table, before)) = &before {
            written.keeps(before, &[]).unwrap();
            written.may_be_added(step, NOW_NS, TEN_S).unwrap();
            let begins = grown.periods.last().unwrap().from_ns;
            for n in 0..2_000_i64 {
                let (series, time) = (format!("m,host=h{n}"), begins - 1 - n * 97 * HOUR_NS);
                let places = [table, &grown].map(|of| set_of(of, "d", &series, time));
                assert_eq!(places[0], places[1], "{series} at {time}");
            }
        }
        before = Some((grown, written));
    }
    let (table, _) = before.unwrap();
    let mut counts = [0_u32; 50];
    let time_ns = table.periods[4].from_ns + HOUR_NS;
    let (mut placer, mut series) = (Placer::new(Arc::new(table)), Vec::new());
    for n in 0..1_000_000 {
        use std::io::Write as _;
        series.clear();
        write!(series, "cpu,host=host{n}").unwrap();
        counts[placer.set("d", &series, time_ns)] += 1;
    }
    let furthest = counts.iter().map(|count| count.abs_diff(20_000)).max().unwrap();
    assert!(furthest <= 600, "a set is {furthest} series from the mean of 20,000");
}

#[test]
fn every_line_is_one_members_own() {
    let by_host = table(
        "[[placement]]\nsets = [\"a\", \"b\", \"c\"]\nspan = \"1h\"\nsplit-by = [\"host\"]",
        &["a", "b", "c"],
    );
    let body: String = (0..200).map(|n| format!("m,host=h{n} s=\"a\nb\",v={n} {n}\n")).collect();
    let mut all: Vec<OwnLine> = Vec::new();
    let shared = SharedOut::of(&mut Placer::new(Arc::new(by_host)), "d", body.as_bytes()).unwrap();
    for set in 0..3 {
        let own = shared.of_set(set);
        assert!(own.len() > 30, "{own:?}");
        all.extend_from_slice(own);
    }
    all.sort_by_key(|line| line.index);
    let lines: Vec<&[u8]> = wire::line::points(body.as_bytes()).collect();
    assert_eq!(all.len(), lines.len());
    for (n, (own, line)) in all.iter().zip(lines).enumerate() {
        assert_eq!(own.index as usize, n);
        assert_eq!(&body.as_bytes()[own.range.clone()], line);
    }
}

#[test]
fn errors_name_the_key_and_what_is_right() {
    let error = |text: &str| {
        let settings: Settings = toml::from_str(text).unwrap();
        let names = ["a", "b"]
            .map(|name| BackendTable::new(name, "http://127.0.0.1:1").settings().unwrap());
        let table = WrittenTable::of(&settings);
        let table = table.and_then(|written| written.unwrap().table(&names).map(drop));
        table.unwrap_err().to_string()
    };
    let sets = "[cluster]\nname = \"c\"\n[[set]]\nname = \"s\"\nmembers = [\"a\"]\n";
    let checked = |text: &str| WrittenTable::check(&toml::from_str(text).unwrap());
    assert!(checked("").is_ok() && checked(sets).is_err());
    for (text, wanted) in [
        ("[[set]]\nname = \"s\"\nmembers = [\"a\"]", "influx.cluster: needs a name"),
        ("[cluster]\nname = \"\"", "influx.cluster: needs a name"),
        ("[cluster]\nname = \"c\"", "no [[influx.set]]"),
        (sets, "influx.placement: is missing"),
    ] {
        assert!(error(text).contains(wanted), "{text}: {}", error(text));
    }
    for (text, wanted) in [
        ("[[set]]\nname = \"s\"\nmembers = [\"b\"]\n[[placement]]\nsets = [\"s\"]", "twice"),
        ("[[set]]\nname = \"t\"\nmembers = []\n[[placement]]\nsets = [\"s\"]", "no members"),
        ("[[set]]\nname = \"t\"\nmembers = [\"a\"]\n[[placement]]\nsets = [\"s\"]", "in a set"),
        ("[[set]]\nname = \"t\"\nmembers = [\"x\"]\n[[placement]]\nsets = [\"s\"]", "\"x\""),
        ("[[placement]]\nsets = [\"x\"]", "no [[influx.set]] of the name \"x\""),
        ("[[placement]]\nsets = []", "at least one"),
        ("[[placement]]\nsets = [\"s\", \"s\"]", "twice"),
        ("[[placement]]\nsets = [\"s\"]\nsplit = 2", "from 1 to 1"),
        ("[[placement]]\nsets = [\"s\"]\nspan = \"1ms\"", "span must be"),
        ("[[placement]]\nsets = [\"s\"]\nsplit-by = []", "at least one tag"),
        ("[[placement]]\nsets = [\"s\"]\nsplit-by = [\"a\", \"a\"]", "twice"),
        ("[[placement]]\nsets = [\"s\"]\nsplit-by = [\"time\"]", "not \"time\""),
        ("[[placement]]\nsets = [\"s\"]\n[[placement.rule]]\nmeasurement = \"(\"", "rule: "),
        ("[[placement]]\nsets = [\"s\"]\nfrom = \"2027-01-01T00:00:00Z\"", "no `from`"),
        ("[[placement]]\nsets = [\"s\"]\n[[placement]]\nsets = [\"s\"]", "needs a `from`"),
        (
            "[[placement]]\nsets = [\"s\"]\n[[placement]]\nfrom = \"soon\"\nsets = [\"s\"]",
            "is not a time",
        ),
    ] {
        let error = error(&format!("{sets}{text}"));
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

/// The sets that a query is asked of.
fn reach(table: &Table, sql: &str) -> Reach {
    let statements = influxql::parse(sql, &influxql::Params::default()).unwrap();
    table.reach(&statements[0], QueryScope { db: "d", now_ns: NOW_NS })
}

fn sets(reach: Reach) -> Vec<usize> {
    match reach {
        Reach::Sets(sets) => sets.into_iter().collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_query_reaches_the_sets_that_can_have_its_points() {
    let names = ["a", "b", "c"];
    let all = "sets = [\"a\", \"b\", \"c\"]";
    let by_group = table(&format!("[[placement]]\n{all}\nspan = \"1h\"\nsplit = 1"), &names);
    let by_host = table(&format!("[[placement]]\n{all}\nsplit-by = [\"host\"]"), &names);
    let by_measurement =
        table(&format!("[[placement]]\n{all}\nsplit-by = \"measurement\""), &names);
    let within = "time >= '2026-12-01T00:00:00Z' AND time < '2026-12-01T01:00:00Z'";
    let group = vec![set_of(&by_group, "d", "m", NOW_NS)];
    for (table, sql, wanted) in [
        (&by_group, format!("SELECT v FROM m WHERE {within}"), group.clone()),
        (&by_group, format!("SELECT v FROM m WHERE ({within}) AND v > 1"), group.clone()),
        (&by_group, format!("SELECT max(v) FROM (SELECT v FROM m WHERE {within})"), group),
        (&by_group, "SELECT v FROM m".to_owned(), vec![0, 1, 2]),
        (&by_group, format!("SELECT v FROM (SELECT v FROM m) WHERE {within}"), vec![0, 1, 2]),
        (&by_group, "SELECT v FROM m WHERE host = 'x'".to_owned(), vec![0, 1, 2]),
        (&by_host, format!("SELECT v FROM m WHERE {within}"), vec![0, 1, 2]),
        (&by_host, "SELECT v FROM m WHERE host = 'x' OR host = 'y'".to_owned(), vec![0, 1, 2]),
        (&by_host, "SELECT v FROM m WHERE host =~ /x/".to_owned(), vec![0, 1, 2]),
        (&by_host, "SELECT v FROM m WHERE host::field = 'x'".to_owned(), vec![0, 1, 2]),
        (&by_host, "SELECT v FROM /m/ WHERE host = 'x'".to_owned(), vec![0, 1, 2]),
        (&by_measurement, "SELECT v FROM /m/".to_owned(), vec![0, 1, 2]),
    ] {
        assert_eq!(sets(reach(table, &sql)), wanted, "{sql}");
    }
    // A function of windows needs one before the first.
    let before = |windows: &str| {
        let sql = format!("SELECT {windows}(mean(v)) FROM m WHERE {within} GROUP BY time(10m)");
        sets(reach(&by_group, &sql)).len()
    };
    assert_eq!((before("derivative"), before("abs")), (2, 1));
    let x = vec![set_of(&by_host, "d", r"m\ 1,host=x\,1", NOW_NS)];
    for condition in
        ["host = 'x,1'", "v > 1 AND (host = 'x,1')", "'x,1' = host", "host::tag = 'x,1'"]
    {
        let sql = format!("SELECT v FROM \"m 1\" WHERE {condition}");
        assert_eq!(sets(reach(&by_host, &sql)), x, "{sql}");
    }
    let absent = vec![set_of(&by_host, "d", "m,rack=1", NOW_NS)];
    assert_eq!(sets(reach(&by_host, "SELECT v FROM m WHERE host = ''")), absent);
    let of_m = vec![set_of(&by_measurement, "d", "m,rack=1", NOW_NS)];
    assert_eq!(sets(reach(&by_measurement, "SELECT v FROM m")), of_m);
    assert_eq!(reach(&by_host, "SHOW TAG KEYS"), Reach::Schema);
    assert_eq!(reach(&by_host, "SHOW DATABASES"), Reach::Any);
    // Nothing that is so far ahead was ever taken, and no set has points of the past's future.
    assert_eq!(reach(&by_group, "SELECT v FROM m WHERE time > '2027-06-01T00:00:00Z'"), Reach::Any);
}

#[test]
fn points_that_could_not_be_found_again_are_not_taken() {
    let by_host = table("[[placement]]\nsets = [\"a\", \"b\"]\nsplit-by = [\"host\"]", &["a", "b"]);
    let day = 24 * HOUR_NS;
    let body = format!(
        "m,host=a v=1 {}\nm,host=a v=2 {}\nm v=1,host=\"a\" 1\nm v=3 2\n",
        NOW_NS + day,
        NOW_NS + day + 1
    );
    let marks = Marks::of(MarkKey::default(), body.as_bytes());
    let found = by_host.not_taken("d", body.as_bytes(), &marks, NOW_NS);
    assert_eq!(found.numbers, [1, 2]);
    assert!(found.reason.unwrap().contains("future-max"));
    let found = by_host.not_taken("d", &body.as_bytes()[..0], &Marks::new(MarkKey::default()), 0);
    assert_eq!(found, NotTaken::default());
}

proptest! {
    /// Wherever chance puts a point, a query that has it is asked of its set.
    #[test]
    fn a_point_is_in_reach_of_each_query_that_has_it(
        split in 1_usize..4, by in 0_usize..4, hours in 1_u32..30, ago in 0_i64..90,
        host in 0_u8..4, rack in proptest::option::of(0_u8..2), before in 0_i64..40,
        behind in 0_i64..40, form in any::<u8>(),
    ) {
        let by = ["\"series\"", "\"point\"", "\"measurement\"", "[\"host\", \"rack\"]"][by];
        let table = table(
            &format!(
                "[[placement]]\nsets = [\"a\", \"b\"]\nspan = \"5h\"\n\
                 [[placement]]\nfrom = \"2026-11-30T00:00:00Z\"\nsets = [\"c\", \"a\", \"b\"]\n\
                 span = \"{hours}h\"\nsplit = {split}\nsplit-by = {by}\n\
                 [[placement.rule]]\nmeasurement = \"^k\"\nsplit-by = \"measurement\""
            ),
            &["a", "b", "c"],
        );
        let time = NOW_NS + 24 * HOUR_NS - ago * HOUR_NS;
        let name = if form & 8 == 0 { "m" } else { "k" };
        let rack_tag = rack.map(|rack| format!(",rack=r{rack}")).unwrap_or_default();
        let line = format!("{name}{rack_tag},host=h{host} v=1 {time}");
        let mut out = Vec::new();
        let options = Options {
            precision: Precision::Nanosecond, now_ns: 0, stamp: &[], unsigned: false,
        };
        prop_assert_eq!(normalise(line.as_bytes(), &options, &mut out).points, 1);
        let point = wire::line::read(&out).unwrap();
        let set = table.set_of_point("d", point.series, point.time_ns);
        let mut condition = Vec::new();
        if form & 1 != 0 {
            condition.push(format!("time >= {}", time - before * HOUR_NS));
        }
        if form & 2 != 0 {
            condition.push(format!("time <= {}", time + behind * HOUR_NS));
        }
        if form & 4 != 0 {
            let rack = rack.map(|rack| format!("r{rack}")).unwrap_or_default();
            condition.push(format!("host = 'h{host}' AND rack = '{rack}'"));
        }
        let from = if form & 16 == 0 { name } else { "/./" };
        let condition = condition.join(" AND ");
        let condition = match condition.as_str() {
            "" => String::new(),
            some => format!(" WHERE {some}"),
        };
        let reached = sets(reach(&table, &format!("SELECT v FROM {from}{condition}")));
        prop_assert!(reached.contains(&set), "{} in {}: {:?}", line, condition, reached);
    }
}
