//! Queries over two sets beside one InfluxDB that has everything: numbers of a hundred hosts, whose
//! windows are joined, merged, or worked out on the points.

use std::sync::Arc;

use rig::influxd::Influxd;
use rig::weir::{Setup, Weir};

use super::{start_applied, tables};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, unit};
use crate::rows::store::bodies::{Bodies, START_NS};
use crate::rows::store::disk::{EVERY_SECONDS, HOSTS, host_rows};
use crate::rows::store::queries::compare;
use crate::rows::store::{Client, influxdb, load, settled};

const REPEAT: &str = "make bench ARGS=\"--only cluster-queries\"";
const COUNT: &str = "SELECT count(f0) FROM node";
const HOURS: u64 = 6;

/// Two sets of one server behind Weir.
pub struct TwoSets {
    pub servers: [Influxd; 2],
    pub weir: Weir,
}

impl TwoSets {
    /// Two empty ones that points are shared out over by the lines of a period.
    pub fn start(period: &str) -> Self {
        let servers = [influxdb(&[]), influxdb(&[])];
        let [a, b] = &servers;
        let setup = Setup::new().top("").default_segments();
        let setup = setup.backend("a", &a.url()).backend("b", &b.url());
        let sets = [vec!["a".to_owned()], vec!["b".to_owned()]];
        let weir = start_applied(setup.table(&tables(&sets, period)));
        weir.wait_catalogue();
        Self { servers, weir }
    }

    /// Writes all bodies.
    ///
    /// # Errors
    /// When rows are missing.
    pub fn load(&mut self, bodies: &Arc<Bodies>, count: &str, rows: u64) -> Outcome<()> {
        let pid = self.weir.running().id();
        load((self.weir.http, pid), bodies, count, rows).map(drop)
    }

    /// The processes of the servers and of Weir.
    pub fn pids(&mut self) -> Vec<u32> {
        let servers = self.servers.iter().filter_map(Influxd::id);
        servers.chain([self.weir.running().id()]).collect()
    }
}

/// A figure, the query, and by what the points are shared out.
struct QueryFigure {
    name: &'static str,
    select: &'static str,
    group_by: &'static str,
    is_by_host: bool,
    wanted: (f64, f64),
}

const FIGURES: [QueryFigure; 3] = [
    QueryFigure {
        name: "mean over 6 h by time(1m), host, two sets, joined, time / one InfluxDB's",
        select: "mean(f0)",
        group_by: "time(1m), host",
        is_by_host: true,
        wanted: (1.3, 1.0),
    },
    QueryFigure {
        name: "the same merged of partial results, points of a host in both sets, likewise",
        select: "mean(f0)",
        group_by: "time(1m), host",
        is_by_host: false,
        wanted: (1.3, 1.0),
    },
    QueryFigure {
        name: "percentile(f0, 99) over 6 h by time(1h), two sets, fetched, likewise",
        select: "percentile(f0, 99)",
        group_by: "time(1h)",
        is_by_host: true,
        wanted: (2.0, 1.2),
    },
];

/// The rows.
///
/// # Errors
/// When anything can't be started, or rows are missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let (bodies, rows) = host_rows(scale);
    let server = influxdb(&[]);
    load((server.address, server.id().unwrap_or(0)), &bodies, COUNT, rows)?;
    let mut by_host = TwoSets::start("split-by = [\"host\"]");
    by_host.load(&bodies, COUNT, rows)?;
    let mut by_point = TwoSets::start("split-by = \"point\"");
    by_point.load(&bodies, COUNT, rows)?;
    drop(bodies);
    let mut pids: Vec<u32> = server.id().into_iter().collect();
    pids.extend(by_host.pids());
    pids.extend(by_point.pids());
    settled(&pids);
    let seconds = rows / HOSTS * EVERY_SECONDS;
    let from = START_NS + seconds / 3 * 1_000_000_000;
    let to = from + (HOURS * 3_600).min(seconds / 2) * 1_000_000_000;
    let mut theirs = Client::open(server.address)?;
    let mut table = Vec::new();
    for figure in FIGURES {
        let of = if figure.is_by_host { &by_host } else { &by_point };
        let mut ours = Client::open(of.weir.http)?;
        let QueryFigure { name, select, group_by, wanted, .. } = figure;
        let q = format!(
            "SELECT {select} FROM node WHERE time >= {from} AND time < {to} GROUP BY {group_by}"
        );
        let row = match compare(&mut theirs, &mut ours, &q) {
            Ok(compared) => {
                let ratio = compared.ours_ms / compared.theirs_ms;
                let wanted = FigureTarget::at_most(wanted.0, wanted.1);
                let row = Row::judged(name, ratio, unit::RATIO, wanted);
                row.of(compared.series.into()).noted(vec![compared.note])
            }
            Err(error) => Row::failed(name, &error.to_string()),
        };
        table.push(row.repeat(REPEAT));
    }
    Ok(table)
}
