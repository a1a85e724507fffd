//! sysbench's OLTP scripts at 64 threads, and a table like the field report's.
//!
//! Statements are sent as text on every way, because the PgBouncer of Debian 12 does not know
//! prepared statements when it pools transactions.

use std::process::Command;
use std::time::Duration;

use rig::places;
use rig::postgres::{Cluster, SUPERUSER};

use super::{BOUNCER, DIRECT, Mode, PostgresSetup, WEIR};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, median, unit};
use crate::rows::turns::{ClientRoute, RouteSamples, Run, series, take_turns};

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

/// The rows.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let size = (100_000 / scale.one_in).to_string();
    let mut stand = PostgresSetup::start(|cluster| fill(cluster, &size));
    let ways = stand.ways(Mode::Simple);
    let (mut rows, mut table) = (Vec::new(), Table::default());
    for script in &SCRIPTS {
        let seen =
            take_turns(&ways, scale, |way| run(way, script.name, &size, scale.duration, &[]))?;
        let mut notes: Vec<_> = seen.iter().map(RouteSamples::line).collect();
        notes.extend(stand.missing());
        rows.push(row(script.name, &seen, DIRECT, script.over_direct).noted(notes));
        if let Some(wanted) = script.over_bouncer {
            rows.push(row(script.name, &seen, BOUNCER, wanted));
        }
        if script.name == "oltp_read_only" {
            rows.extend(stand.rows_over_optional(&name(script.name), &seen));
        }
        table.add(script.name, &seen[DIRECT]);
        table.add(script.name, &seen[WEIR]);
    }
    rows.push(table.row());
    Ok(rows)
}

/// The table of the field report.
struct Table(Vec<String>);

impl Default for Table {
    fn default() -> Self {
        Self(
            ["| script | way | QPS | TPS | threads |", "|---|---|---|---|---|"]
                .map(String::from)
                .to_vec(),
        )
    }
}

impl Table {
    fn add(&mut self, script: &str, seen: &RouteSamples) {
        let (name, queries) = (seen.way.name, seen.rate());
        let transactions = median(&seen.transactions_per_second);
        let line = format!("| {script} | {name} | {queries:.0} | {transactions:.0} | {THREADS} |");
        self.0.push(line);
    }

    fn row(self) -> Row {
        Row::notes_on("sysbench: queries and transactions a second", self.0)
    }
}

/// What such a run is called.
pub fn name(script: &str) -> String {
    format!("sysbench {script}, {THREADS} threads")
}

fn row(script: &str, seen: &[RouteSamples], over: usize, (least, beyond): (f64, f64)) -> Row {
    let ratio = seen[WEIR].rate() / seen[over].rate();
    let figure = format!("{} / {}", name(script), seen[over].way.name);
    Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_least(least, beyond))
        .of(series(seen))
        .repeat(format!("sysbench {script} --threads={THREADS} --db-ps-mode=disable"))
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

/// Fills a server with tables of `size` rows.
///
/// # Panics
/// When that fails.
pub fn fill(cluster: &Cluster, size: &str) {
    let mut command = sysbench(cluster.address, "oltp_read_write", size);
    let done = command.arg("prepare").output().expect("sysbench can be started");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

/// Runs a script at [`THREADS`] threads; `more` are further arguments.
///
/// # Errors
/// sysbench can't be run, or gives no figures.
pub fn run(
    way: ClientRoute,
    script: &str,
    size: &str,
    duration: Duration,
    more: &[&str],
) -> Outcome<Run> {
    let mut command = sysbench(way.address, script, size);
    command.arg(format!("--threads={THREADS}")).arg("--percentile=99");
    command.arg(format!("--time={}", duration.as_secs())).args(more);
    let done = command.arg("run").output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    // As `    queries:                             1234 (411.33 per sec.)`.
    let line = |name: &str| {
        let rest = said.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
        let (count, rate) = rest.split_once('(')?;
        Some((count.trim().parse::<f64>().ok()?, rate.split(' ').next()?.parse::<f64>().ok()?))
    };
    match (line("queries:"), line("transactions:"), done.status.success()) {
        (Some((statements, per_second)), Some((_, transactions_per_second)), true) => Ok(Run {
            unit: unit::STATEMENTS,
            requests: statements,
            per_second,
            transactions_per_second,
        }),
        _ => {
            let fatal = said.lines().find(|line| line.contains("FATAL")).unwrap_or("no figures");
            Err(format!("{}: sysbench {script}: {fatal}", way.name).into())
        }
    }
}
