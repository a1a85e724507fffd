//! sysbench's OLTP scripts at 64 threads, and a table like the field report's.
//!
//! Statements are sent as text on every way, because the PgBouncer of Debian 12 does not know
//! prepared statements when it pools transactions.

use std::process::Command;

use rig::places;
use rig::postgres::{Cluster, SUPERUSER};

use super::{Seen, Stand, Way};
use crate::measure::Usage;
use crate::report::{Row, Verdict, at_least};
use crate::{Outcome, Scale};

const THREADS: usize = 64;
const TABLES: &str = "4";

/// One script, and what Weir has to be over a direct connection and over PgBouncer.
struct Script {
    name: &'static str,
    over_direct: (f64, f64),
    over_bouncer: Option<(f64, f64)>,
}

const SCRIPTS: [Script; 5] = [
    Script { name: "oltp_point_select", over_direct: (1.3, 2.0), over_bouncer: None },
    Script { name: "oltp_read_only", over_direct: (0.85, 1.0), over_bouncer: Some((1.15, 1.3)) },
    Script { name: "oltp_write_only", over_direct: (0.85, 1.0), over_bouncer: Some((1.15, 1.3)) },
    Script { name: "oltp_update_index", over_direct: (0.95, 1.1), over_bouncer: None },
    Script { name: "oltp_update_non_index", over_direct: (0.95, 1.1), over_bouncer: None },
];

/// What sysbench said.
struct Run {
    queries: f64,
    queries_per_second: f64,
    transactions_per_second: f64,
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let size = (100_000 / scale.one_in).to_string();
    let mut stand = Stand::start(|cluster| fill(cluster, &size));
    let ways = [stand.direct(), stand.bouncer(), stand.weir()];
    let (mut rows, mut table) = (Vec::new(), Vec::new());
    for script in &SCRIPTS {
        let mut seen: [Seen; 3] = Default::default();
        let mut transactions: [Seen; 3] = Default::default();
        for _ in 0..scale.rounds {
            for (place, way) in ways.iter().enumerate() {
                let usage = way.pid.map(Usage::begin);
                let run = run(*way, script.name, &size, scale)?;
                seen[place].note(run.queries, run.queries_per_second, usage);
                transactions[place].note(0.0, run.transactions_per_second, None);
            }
        }
        let notes: Vec<_> =
            ways.iter().zip(&seen).map(|(way, seen)| seen.line(way.name, "queries")).collect();
        rows.push(row(script, "direct", &seen[2], &seen[0], script.over_direct, notes));
        if let Some(wanted) = script.over_bouncer {
            rows.push(row(script, "PgBouncer", &seen[2], &seen[1], wanted, Vec::new()));
        }
        for place in [0, 2] {
            let (qps, tps) = (seen[place].rate(), transactions[place].rate());
            let name = script.name;
            let way = ways[place].name;
            table.push(format!("{name}, {way}: {qps:.0} QPS, {tps:.0} TPS, {THREADS} threads"));
        }
    }
    rows.push(Row {
        figure: "script, QPS, TPS, threads".to_owned(),
        measured: "see below".to_owned(),
        to_reach: "-".to_owned(),
        verdict: Verdict::Beside,
        notes: table,
        repeat: String::new(),
    });
    Ok(rows)
}

fn row(
    script: &Script,
    other: &str,
    ours: &Seen,
    theirs: &Seen,
    (to_reach, beyond): (f64, f64),
    notes: Vec<String>,
) -> Row {
    let ratio = ours.rate() / theirs.rate();
    Row {
        figure: format!("sysbench {}, {THREADS} threads / {other}", script.name),
        measured: format!("{ratio:.2}"),
        to_reach: format!("{to_reach}, beyond {beyond}"),
        verdict: at_least(ratio, to_reach),
        notes,
        repeat: format!("sysbench {} --threads={THREADS} --db-ps-mode=disable", script.name),
    }
}

fn sysbench(address: std::net::SocketAddr, script: &str, size: &str) -> Command {
    let mut command = Command::new(places::need("sysbench"));
    command.args([script, "--db-driver=pgsql", "--db-ps-mode=disable"]);
    command.arg(format!("--pgsql-host={}", address.ip()));
    command.arg(format!("--pgsql-port={}", address.port()));
    command.arg(format!("--pgsql-user={SUPERUSER}")).arg(format!("--pgsql-db={SUPERUSER}"));
    command.arg(format!("--tables={TABLES}")).arg(format!("--table-size={size}"));
    command
}

fn fill(cluster: &Cluster, size: &str) {
    let mut command = sysbench(cluster.address, "oltp_read_write", size);
    let done = command.arg("prepare").output().expect("sysbench can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

fn run(way: Way, script: &str, size: &str, scale: &Scale) -> Outcome<Run> {
    let mut command = sysbench(way.address, script, size);
    command.arg(format!("--threads={THREADS}")).arg("--percentile=99");
    command.arg(format!("--time={}", scale.duration.as_secs()));
    let done = command.arg("run").output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    // As `    queries:                             1234 (411.33 per sec.)`.
    let line = |name: &str| {
        let rest = said.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
        let (count, rate) = rest.split_once('(')?;
        Some((count.trim().parse::<f64>().ok()?, rate.split(' ').next()?.parse::<f64>().ok()?))
    };
    match (line("queries:"), line("transactions:"), done.status.success()) {
        (Some((queries, queries_per_second)), Some((_, transactions_per_second)), true) => {
            Ok(Run { queries, queries_per_second, transactions_per_second })
        }
        _ => {
            let fatal = said.lines().find(|line| line.contains("FATAL")).unwrap_or("no figures");
            Err(format!("{}: sysbench {script}: {fatal}", way.name).into())
        }
    }
}
