//! The field report's cluster, two sets of one that groups of nine hours go round, beside one
//! InfluxDB: its rows, and its queries.

use std::sync::Arc;

use rig::influxd::Influxd;
use rig::weir::{Setup, Weir};

use super::{start_applied, tables};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, Verdict, median, unit};
use crate::rows::store::bodies::{self, Bodies, REPORT_STEP_NS, START_NS};
use crate::rows::store::queries::{COUNT, compare};
use crate::rows::store::{Client, influxdb, load, settled};

const REPEAT: &str = "make bench ARGS=\"--only cluster-report\"";
/// What the network and Weir's own turn may add to a query, in milliseconds.
const ADDED_MS: f64 = 0.5;

/// Two servers behind Weir, as the report's cluster shares points out.
struct ReportCluster {
    servers: [Influxd; 2],
    weir: Weir,
}

impl ReportCluster {
    fn start() -> Self {
        let servers = [influxdb(&[]), influxdb(&[])];
        let [a, b] = &servers;
        let setup = Setup::new().top("").default_segments();
        let setup = setup.backend("a", &a.url()).backend("b", &b.url());
        let sets = [vec!["a".to_owned()], vec!["b".to_owned()]];
        let weir = start_applied(setup.table(&tables(&sets, "split = 1\nspan = \"9h\"")));
        weir.wait_catalogue();
        Self { servers, weir }
    }
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or rows are missing.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let rows = bodies::REPORT_ROWS / scale.one_in;
    let bodies = bodies::report(rows, 30);
    let (load, server, mut cluster) = loads(&bodies, rows, scale)?;
    let mut pids: Vec<u32> = cluster.servers.iter().filter_map(Influxd::id).collect();
    pids.extend([server.id().unwrap_or(0), cluster.weir.running().id()]);
    settled(&pids);
    let mut theirs = Client::open(server.address)?;
    let mut ours = Client::open(cluster.weir.http)?;
    let mut table = vec![load];
    table.extend(queries().iter().map(|query| query.row(&mut theirs, &mut ours)));
    Ok(table)
}

fn loads(bodies: &Arc<Bodies>, rows: u64, scale: &Scale) -> Outcome<(Row, Influxd, ReportCluster)> {
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    let mut last = None;
    // A load takes long enough to be its own average.
    for _ in 0..scale.rounds.min(1) {
        let server = influxdb(&[]);
        let pid = server.id().unwrap_or(0);
        theirs.push(load((server.address, pid), bodies, COUNT, rows)?.per_second(rows));
        let mut cluster = ReportCluster::start();
        let pid = cluster.weir.running().id();
        ours.push(load((cluster.weir.http, pid), bodies, COUNT, rows)?.per_second(rows));
        last = Some((server, cluster));
    }
    let (server, cluster) = last.ok_or("no round was asked for")?;
    let ratio = median(&ours) / median(&theirs);
    let figure = "report's cluster: rows/s in batches of 30, 30 writers / InfluxDB";
    let row = Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_least(1.6, 2.5))
        .of(vec![
            Series::new("InfluxDB", unit::ROWS, &theirs),
            Series::new("two sets behind Weir", unit::ROWS, &ours),
        ])
        .noted(vec![format!("{rows} rows, until count(int) has them all")])
        .repeat(REPEAT);
    Ok((row, server, cluster))
}

/// A figure: its queries, of which the worst counts, and what it has to be.
struct QueryFigure {
    name: &'static str,
    queries: Vec<String>,
    wanted: FigureTarget,
    /// How much longer than InfluxDB's they may take in any case, in milliseconds.
    added_ms: f64,
}

fn queries() -> Vec<QueryFigure> {
    // Within one group of nine hours.
    let group_ns = 9 * 3_600 * 1_000_000_000;
    let from = START_NS.next_multiple_of(group_ns);
    let range = |rows: u64| format!("time >= {from} AND time < {}", from + rows * REPORT_STEP_NS);
    let ranged = [236_400, 7_202].into_iter().flat_map(|rows| {
        ["max", "count"].map(|call| format!("SELECT {call}(int) FROM stress WHERE {}", range(rows)))
    });
    vec![
        QueryFigure {
            name: "select * limit 1000 of one group, report's cluster, time / InfluxDB's",
            queries: vec![format!("SELECT * FROM stress WHERE {} LIMIT 1000", range(236_400))],
            wanted: FigureTarget::at_most(1.5, 1.1),
            added_ms: 0.0,
        },
        QueryFigure {
            name: "max and count of 236,400 and of 7,202 rows of one group, likewise, or + 0.5 ms",
            queries: ranged.collect(),
            wanted: FigureTarget::at_most(1.1, 1.0),
            added_ms: ADDED_MS,
        },
        QueryFigure {
            name: "max(int) over all rows, likewise",
            queries: vec!["SELECT max(int) FROM stress".to_owned()],
            wanted: FigureTarget::at_most(1.1, 0.8),
            added_ms: 0.0,
        },
    ]
}

impl QueryFigure {
    fn row(&self, theirs: &mut Client, ours: &mut Client) -> Row {
        let (mut worst, mut failed) = (0.0_f64, None);
        let (mut notes, mut series) = (Vec::new(), Vec::new());
        for q in &self.queries {
            match compare(theirs, ours, q) {
                Ok(compared) => {
                    let is_within = compared.ours_ms - compared.theirs_ms <= self.added_ms;
                    let ratio = compared.ours_ms / compared.theirs_ms;
                    worst = worst.max(if is_within { ratio.min(1.0) } else { ratio });
                    notes.push(compared.note);
                    series.extend(compared.series);
                }
                Err(error) => failed = Some(Verdict::Failed(error.to_string())),
            }
        }
        let row = Row::judged(self.name, worst, unit::RATIO, self.wanted);
        row.of(series).noted(notes).repeat(REPEAT).unless(failed)
    }
}
