//! Queries of a cluster beside one InfluxDB that has everything.

use rig::http::Request;
use rig::influxd::Influxd;
use rig::weir::{Setup, Weir};
use serde_json::Value;

use super::{sets, start_applied};
use crate::influxql::clustered::is_same;

const HOUR_NS: u64 = 3_600_000_000_000;
/// The first of December 2026, a Tuesday.
const FIRST_NS: u64 = 1_796_083_200_000_000_000;

/// Two sets of one InfluxDB each behind Weir, and one that has all that they have.
struct Beside {
    members: [Influxd; 2],
    whole: Influxd,
    weir: Weir,
}

impl Beside {
    fn new(placement: &str) -> Self {
        Self::with(placement, "")
    }

    /// The same with more lines in the cluster's table.
    fn with(placement: &str, cluster: &str) -> Self {
        let (members, whole) = ([Influxd::start(), Influxd::start()], Influxd::start());
        let mut setup = Setup::new();
        for (name, server) in ["a", "b"].iter().zip(&members) {
            setup = setup.backend(name, &server.url());
        }
        let placement = format!(
            "[[influx.placement]]\nsets = [\"s1\", \"s2\"]\nfuture-max = \"20000d\"\n{placement}"
        );
        let interval = "check-interval = \"2s\"\n";
        let tables = sets(&["s1: a", "s2: b"]).replace(interval, &format!("{interval}{cluster}"));
        let weir = start_applied(setup.table(&(tables + &placement)));
        let both = Self { members, whole, weir };
        both.change("CREATE DATABASE db");
        let lines: String = (0..240).map(line).collect();
        both.weir.must_write("db", &lines);
        let request = rig::http::Request::post("/write?db=db", lines.into_bytes());
        assert_eq!(both.whole.send(&request).status(), 204);
        both.weir.wait_delivered();
        both
    }

    fn change(&self, sql: &str) {
        let answer = self.weir.query(sql, &[("db", "db")]);
        let error = answer.json()["results"][0]["error"].clone();
        assert!(answer.status() == 200 && error.is_null(), "{sql}: {}", answer.text());
        self.whole.ask(sql, &[("db", "db")]);
    }

    /// What Weir answers, which has to be what one server answers.
    #[track_caller]
    fn asks(&self, sql: &str) -> Value {
        let pairs = [("db", "db"), ("epoch", "ns")];
        let (found, wanted) = (self.weir.query(sql, &pairs).json(), self.whole.ask(sql, &pairs));
        assert!(is_same(&wanted, &found), "{sql}\n{wanted}\n{found}");
        found
    }

    /// The words with which Weir refuses a statement.
    fn refused(&self, sql: &str) -> String {
        let answer = self.weir.query(sql, &[("db", "db")]).json();
        answer["results"][0]["error"]
            .as_str()
            .unwrap_or_else(|| panic!("{sql}: {answer}"))
            .to_owned()
    }
}

/// One of some points of two measurements, twelve hosts and twenty hours.
fn line(n: u64) -> String {
    let time = FIRST_NS + n % 20 * HOUR_NS + n;
    match n % 3 {
        0 => format!("mem,host=h{},rack=r{} used={n}i {time}\n", n % 12, n % 2),
        _ => format!("cpu,host=h{} load={n},state=\"s{}\" {time}\n", n % 12, n % 5),
    }
}

const SCHEMA: [&str; 14] = [
    "SHOW DATABASES",
    "SHOW RETENTION POLICIES",
    "SHOW MEASUREMENTS",
    "SHOW MEASUREMENTS WITH MEASUREMENT =~ /m/ LIMIT 1",
    "SHOW MEASUREMENTS LIMIT 1 OFFSET 1",
    "SHOW TAG KEYS",
    "SHOW TAG KEYS FROM mem LIMIT 1",
    "SHOW TAG VALUES WITH KEY = host",
    "SHOW TAG VALUES WITH KEY IN (host, rack) WHERE host =~ /h1/ LIMIT 3 OFFSET 1",
    "SHOW FIELD KEYS",
    "SHOW FIELD KEYS FROM cpu",
    "SHOW SERIES",
    "SHOW SERIES FROM cpu LIMIT 5 OFFSET 3",
    "SHOW SERIES EXACT CARDINALITY",
];

#[test]
fn by_series_the_schema_is_that_of_one_server() {
    let beside = Beside::new("");
    let counts = beside.members.each_ref().map(|member| member.count("db", "cpu", "load"));
    assert!(counts.iter().all(|count| *count > 0) && counts.iter().sum::<u64>() == 160);
    for sql in SCHEMA {
        beside.asks(sql);
    }
    let all = SCHEMA.join("; ");
    beside.asks(&all);
    let plan = beside.weir.query("EXPLAIN SELECT load FROM cpu", &[("db", "db")]).text();
    assert!(plan.contains("QUERY PLAN") && plan.contains("a member of each of s1, s2"), "{plan}");
    for sql in [
        "SELECT * INTO other FROM cpu",
        "CREATE CONTINUOUS QUERY q ON db BEGIN \
         SELECT max(load) INTO m FROM cpu GROUP BY time(1h) END",
    ] {
        assert!(
            beside.refused(sql).contains("is not supported in a cluster")
                || beside.refused(sql).contains("are not supported in a cluster")
        );
    }
    beside.change("DELETE FROM cpu WHERE host = 'h1'");
    beside.change("DROP SERIES FROM cpu WHERE host = 'h2'");
    beside.asks("SHOW SERIES");
    beside.change("DROP MEASUREMENT cpu");
    beside.asks("SHOW MEASUREMENTS");
    beside.change("CREATE RETENTION POLICY short ON db DURATION 2d REPLICATION 1");
    beside.asks("SHOW RETENTION POLICIES ON db");
}

/// What is merged of partial results, whatever points are shared out by.
const MERGED: [&str; 34] = [
    "SELECT count(load) FROM cpu",
    "SELECT sum(load) FROM cpu",
    "SELECT min(load) FROM cpu",
    "SELECT max(load) FROM cpu",
    "SELECT mean(load) FROM cpu",
    "SELECT spread(load) FROM cpu",
    "SELECT first(load) FROM cpu",
    "SELECT last(load) FROM cpu",
    "SELECT first(state) FROM cpu",
    "SELECT last(state) FROM cpu GROUP BY host",
    "SELECT count(state) AS n FROM cpu WHERE host =~ /h1/ GROUP BY host",
    "SELECT max(load), max(load), mean(load), min(load) AS low, spread(load) FROM cpu",
    "SELECT count(load), mean(load), max(load) FROM cpu GROUP BY host",
    "SELECT max(load) FROM cpu GROUP BY host",
    "SELECT max(load) FROM cpu GROUP BY host ORDER BY time DESC",
    "SELECT sum(used), count(used) FROM mem GROUP BY host, rack SLIMIT 2 SOFFSET 1",
    "SELECT count(load), sum(used) FROM cpu, mem",
    "SELECT count(load), sum(used) FROM /./ GROUP BY host",
    "SELECT sum(load) FROM cpu WHERE load > 100 AND state = 's1'",
    "SELECT sum(load) FROM cpu WHERE time >= {from} AND time < {to}",
    "SELECT max(load) FROM cpu WHERE time >= {from} AND time < {to}",
    "SELECT max(load), min(load) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY host",
    "SELECT mean(load) FROM cpu GROUP BY time(3h) fill(none)",
    "SELECT mean(load), count(load) FROM cpu GROUP BY time(3h), host fill(none)",
    "SELECT mean(load) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(1h)",
    "SELECT count(load) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(17m), host",
    "SELECT mean(load), sum(load) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(90m), host fill(0)",
    "SELECT spread(load), count(load) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(90m, 20m), host fill(previous)",
    "SELECT min(load) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(2h), host fill(7) LIMIT 2 OFFSET 1",
    "SELECT max(load) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(2h), host ORDER BY time DESC LIMIT 2",
    "SELECT sum(load) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(1d) TZ('America/New_York')",
    "SELECT mean(used) FROM mem WHERE time >= {from} AND time < {to} \
     GROUP BY time(5h), * fill(null) SLIMIT 3",
    "SELECT mean(nothing) FROM cpu",
    "SELECT mean(load) FROM nothing",
];

/// What is answered set by set where a series never leaves its set.
const JOINED: [&str; 8] = [
    "SELECT * FROM cpu GROUP BY *",
    "SELECT load FROM cpu GROUP BY * LIMIT 2",
    "SELECT load FROM cpu GROUP BY * ORDER BY time DESC LIMIT 2 SLIMIT 4",
    "SELECT percentile(load, 50), median(load) FROM cpu GROUP BY * SLIMIT 3 SOFFSET 2",
    "SELECT derivative(mean(load)) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(2h), *",
    "SELECT mean(load) * 2 FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(2h), * fill(linear)",
    "SELECT top(used, 2), rack FROM mem GROUP BY *",
    "SELECT * FROM /./ GROUP BY *",
];

/// What is computed of partial results: of functions of them, arithmetic, `fill()` and limits.
const COMPUTED: [&str; 33] = [
    "SELECT mean(load) * 2 FROM cpu",
    "SELECT sum(load) / count(load), mean(load) FROM cpu GROUP BY host",
    "SELECT max(load) * 2 FROM cpu",
    "SELECT min(used) + 0.5 FROM mem GROUP BY rack",
    "SELECT max(load) - min(load), spread(load) FROM cpu GROUP BY host",
    "SELECT sum(used) % 7, sum(used) & 12, floor(mean(used)), pow(max(used), 2) FROM mem",
    "SELECT count(distinct(state)) FROM cpu GROUP BY host",
    "SELECT count(DISTINCT load) * 2, mean(load) AS m, mean(load) FROM cpu",
    "SELECT count(distinct(state)) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(3h), host",
    "SELECT mean(load) FROM cpu GROUP BY time(1h)",
    "SELECT count(load), sum(load) FROM cpu GROUP BY time(2h) LIMIT 3",
    "SELECT max(load) - min(load) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(4h)",
    "SELECT sum(load) / count(load) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(17m), host fill(0) LIMIT 30 OFFSET 4",
    "SELECT sum(load) - 1, count(load) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(50m), * fill(none) SLIMIT 4 SOFFSET 1",
    "SELECT mean(load) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(30m) fill(linear)",
    "SELECT count(load), max(load) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(30m), host fill(linear) LIMIT 9",
    "SELECT sum(used), mean(used) FROM mem WHERE time >= {from} AND time < {to} \
     GROUP BY time(30m), rack fill(previous) ORDER BY time DESC",
    "SELECT mean(used), count(used) FROM mem WHERE time >= {from} AND time < {to} \
     GROUP BY time(30m), rack fill(1.5)",
    "SELECT derivative(mean(load)) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(2h)",
    "SELECT non_negative_derivative(max(load), 1m), max(load) FROM cpu \
     WHERE time >= {from} AND time < {to} GROUP BY time(90m, 20m), host",
    "SELECT difference(count(load)) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(30m), host",
    "SELECT difference(sum(used)) * 2 FROM mem WHERE time >= {from} AND time < {to} \
     GROUP BY time(2h), rack ORDER BY time DESC",
    "SELECT non_negative_difference(sum(load)) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(1h) fill(none)",
    "SELECT moving_average(max(load), 3) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(2h)",
    "SELECT cumulative_sum(count(load)) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(2h), host fill(0) LIMIT 5",
    "SELECT elapsed(sum(load), 1m) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(1h), host fill(none)",
    "SELECT difference(mean(load)) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(40m), host fill(previous)",
    "SELECT difference(spread(load)) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(40m) fill(linear)",
    "SELECT difference(moving_average(mean(load), 2)) FROM cpu \
     WHERE time >= {from} AND time < {to} GROUP BY time(2h)",
    "SELECT derivative(count(distinct(state))) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(4h)",
    "SELECT derivative(mean(load)) / 2 FROM cpu WHERE time >= {from} AND time < {to} \
     AND state =~ /s[12]/ GROUP BY time(2h) TZ('America/New_York')",
    "SELECT count(host) * 2 FROM cpu",
    "SELECT derivative(mean(nothing)) FROM cpu WHERE time >= {from} AND time < {to} \
     GROUP BY time(2h)",
];

/// What runs on the points of all sets, wherever these are.
const FETCHED: [&str; 27] = [
    "SELECT load FROM cpu",
    "SELECT * FROM cpu",
    "SELECT * FROM /./ LIMIT 7",
    "SELECT * FROM cpu ORDER BY time DESC LIMIT 5 OFFSET 2",
    "SELECT load, host FROM cpu WHERE load > 30 AND state = 's1' LIMIT 4",
    "SELECT state, load * 2 + 1 FROM cpu WHERE time >= {from} AND time < {to} LIMIT 9",
    "SELECT /o/ FROM cpu LIMIT 3",
    "SELECT host, used FROM mem WHERE rack = 'r1' GROUP BY rack",
    "SELECT first(load) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(1h)",
    "SELECT last(load), host FROM cpu",
    "SELECT max(load), host, state FROM cpu",
    "SELECT min(load), max(load), first(state) FROM cpu GROUP BY time(6h)",
    "SELECT mean(load) FROM (SELECT load FROM cpu)",
    "SELECT max(m) FROM (SELECT mean(load) AS m FROM cpu GROUP BY host)",
    "SELECT m - n FROM (SELECT mean(load) AS m, min(load) AS n FROM cpu GROUP BY host)",
    "SELECT stddev(load), median(load), mode(load) FROM cpu",
    "SELECT percentile(load, 90) FROM cpu GROUP BY time(5h), host fill(none)",
    "SELECT distinct(state) FROM cpu",
    "SELECT distinct(state) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(5h)",
    "SELECT mean(load) - median(load) FROM cpu GROUP BY host",
    "SELECT top(load, 3), host FROM cpu",
    "SELECT bottom(used, host, 2) FROM mem",
    "SELECT cumulative_sum(used) FROM mem",
    "SELECT mean(*) FROM /./ GROUP BY rack",
    "SELECT count(/e$|d$/) FROM cpu",
    "SELECT nothing FROM cpu",
    "SELECT load FROM nothing",
];

/// A query over a time that several groups and windows share.
fn over(sql: &str) -> String {
    let (from, to) = (FIRST_NS + HOUR_NS + 7, FIRST_NS + 14 * HOUR_NS);
    sql.replace("{from}", &from.to_string()).replace("{to}", &to.to_string())
}

#[test]
fn queries_over_several_sets_are_answered_as_by_one_server() {
    for (placement, is_joined) in [
        ("", true),
        ("split-by = [\"host\"]", true),
        ("split-by = \"point\"", false),
        ("split = 1\nspan = \"5h\"", false),
    ] {
        let beside = Beside::new(placement);
        for sql in MERGED {
            beside.asks(&over(sql));
        }
        let ways =
            |way| beside.weir.metrics().sum("weir_influx_cluster_queries_total", &[("way", way)]);
        for sql in COMPUTED {
            let merged = ways("merged") + ways("joined");
            beside.asks(&over(sql));
            assert!(ways("merged") + ways("joined") > merged, "{sql} is fetched");
        }
        for sql in JOINED.into_iter().chain(FETCHED) {
            beside.asks(&over(sql));
        }
        println!("{} were merged, {} fetched", ways("merged"), ways("fetched"));
        assert!(ways("merged") > 0.0 && ways("fetched") > 0.0);
        assert_eq!(ways("joined") > 0.0, is_joined);
        for epoch in ["", "ms", "s", "h"] {
            let pairs = [("db", "db"), ("epoch", epoch), ("chunked", "true")];
            let pairs = if epoch.is_empty() { &pairs[..1] } else { &pairs[..2] };
            let sql = over("SELECT max(load) FROM cpu GROUP BY host; SELECT count(load) FROM cpu");
            let (found, wanted) =
                (beside.weir.query(&sql, pairs).json(), beside.whole.ask(&sql, pairs));
            assert_eq!(found, wanted, "{epoch}");
        }
    }
}

#[test]
fn points_that_pass_through_are_those_of_one_server() {
    for placement in ["", "split-by = \"point\"", "split = 1\nspan = \"5h\""] {
        let beside = Beside::with(placement, "held-rows = 0\n");
        for sql in JOINED.into_iter().chain(FETCHED) {
            beside.asks(&over(sql));
        }
        let sql = "SELECT load, state FROM cpu LIMIT 20; SELECT * FROM mem GROUP BY host";
        beside.asks(sql);
        for pairs in [
            vec![("chunked", "true"), ("chunk_size", "7")],
            vec![("epoch", "ms"), ("pretty", "true")],
            vec![],
        ] {
            let pairs: Vec<(&str, &str)> = [("db", "db")].into_iter().chain(pairs).collect();
            let request = Request::query("SELECT load, host FROM cpu GROUP BY state", &pairs);
            let csv = request.clone().header("Accept", "application/csv");
            for request in [request, csv] {
                let (found, wanted) = (beside.weir.send(&request), beside.whole.send(&request));
                assert_eq!(found.text(), wanted.text(), "{pairs:?}");
            }
        }
        let ways =
            |way| beside.weir.metrics().sum("weir_influx_cluster_queries_total", &[("way", way)]);
        println!("{} were fetched, {} of them streamed", ways("fetched"), ways("streamed"));
        assert!(ways("streamed") > 10.0);
    }
}

/// The time of the five hours that are so many groups behind those of the first point.
fn within(group: u64) -> String {
    // Groups begin at multiples of five hours since the year 1.
    let hours_to_1970 = 719_162 * 24;
    let begin = (FIRST_NS / HOUR_NS + group * 5 + hours_to_1970) / 5 * 5 - hours_to_1970;
    format!("time >= {} AND time < {}", begin * HOUR_NS, (begin + 5) * HOUR_NS)
}

#[test]
fn groups_that_go_round_the_sets_are_asked_where_they_are() {
    let beside = Beside::new("span = \"5h\"\nsplit = 1");
    let mut sets = std::collections::BTreeSet::new();
    for group in 0..4 {
        let within = within(group);
        for sql in [
            format!("SELECT * FROM cpu WHERE {within}"),
            format!("SELECT * FROM /./ WHERE {within} LIMIT 7"),
            format!("SELECT mean(load) FROM cpu WHERE {within} GROUP BY time(1h), host fill(none)"),
            format!(
                "SELECT max(m) FROM (SELECT mean(load) AS m FROM cpu WHERE {within} GROUP BY host)"
            ),
        ] {
            beside.asks(&sql);
            let answer = beside.weir.query(&sql, &[("db", "db")]);
            sets.insert(answer.header("x-weir-backend").unwrap_or_default().to_owned());
        }
    }
    assert_eq!(sets.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    let (middle, end) = (FIRST_NS + 4 * HOUR_NS, FIRST_NS + 11 * HOUR_NS);
    beside.asks(&format!("SELECT load FROM cpu WHERE time >= {middle} AND time < {end}"));
    // Each statement of a request goes its own way.
    let sql = |group| format!("SELECT count(used) FROM mem WHERE {}", within(group));
    let four: Vec<String> = (0..4).map(sql).collect();
    beside.asks(&four.join("; "));
}

#[test]
fn a_query_that_names_the_tags_of_the_split_is_asked_of_one_set() {
    let mut beside = Beside::new(
        "split-by = [\"host\"]\n[[influx.placement.rule]]\n\
         measurement = \"^mem$\"\nsplit-by = \"measurement\"",
    );
    for host in 0..12 {
        beside.asks(&format!("SELECT * FROM cpu WHERE host = 'h{host}'"));
        let select = "SELECT percentile(load, 90) FROM cpu";
        beside.asks(&format!("{select} WHERE host = 'h{host}' AND load > 20 GROUP BY state"));
    }
    beside.asks("SELECT sum(used) FROM mem GROUP BY rack");
    beside.asks("SELECT load FROM cpu");
    // A set without any member that answers is told, and the other one answers.
    beside.members[1].kill();
    let answers = (0..12).map(|host| {
        let sql = format!("SELECT * FROM cpu WHERE host = 'h{host}'");
        beside.weir.query(&sql, &[("db", "db")]).status()
    });
    let answers: Vec<u16> = answers.collect();
    assert!(answers.contains(&200) && answers.contains(&503), "{answers:?}");
}
