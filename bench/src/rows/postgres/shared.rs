//! Equal reads that wait together, asked once and asked each by itself: by keys of which some are
//! asked for most, and by uniform ones, for which it is to cost nothing. Then what a server is
//! asked of one statement that many ask at once.

use std::path::Path;

use rig::postgres::{Cluster, MessageClient, SUPERUSER};
use rig::weir::Weir;
use wire::postgres::frontend::put_query;

use super::{of, pgbench, server, settle};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::measure;
use crate::report::{Row, median, unit};
use crate::rows::turns::{ClientRoute, RouteSamples, series, take_turns};

const CLIENTS: usize = 256;
const AT_ONCE: usize = 200;
/// Statements of each of those that ask at once.
const TURNS: usize = 10;
/// The places of the ways.
const ON: usize = 0;
const OFF: usize = 1;

/// An order of keys, and what the ratios on / off have to be.
struct Case {
    name: &'static str,
    /// How pgbench picks one of `:rows` keys.
    key: &'static str,
    rate: FigureTarget,
    /// CPU time of the server for each answer.
    servers_cpu: FigureTarget,
    /// CPU time of Weir for each answer.
    own_cpu: FigureTarget,
}

const CASES: [Case; 2] = [
    Case {
        name: "zipf:1.2",
        key: "random_zipfian(1, :rows, 1.2)",
        rate: FigureTarget::at_least(1.1, 1.2),
        servers_cpu: FigureTarget::at_most(0.75, 0.6),
        own_cpu: FigureTarget::at_most(1.0, 0.9),
    },
    Case {
        name: "uniform",
        key: "random(1, :rows)",
        rate: FigureTarget::at_least(0.98, 1.0),
        servers_cpu: FigureTarget::at_most(1.02, 1.0),
        own_cpu: FigureTarget::at_most(1.02, 1.0),
    },
];

/// A statement of so long, and how Weir is set up for it.
struct AtOnce {
    what: &'static str,
    /// Rows of the table that is joined with itself.
    rows: usize,
    lines: &'static str,
}

const AT_ONCES: [AtOnce; 2] = [
    AtOnce {
        what: "of 4 ms, one lane of depth 1",
        rows: 280,
        lines: "[postgres.lanes]\ncount = 1\ndepth = 1\nslow = \"60s\"\n",
    },
    AtOnce { what: "of 20 ms, a pool of 2", rows: 620, lines: "[postgres.pool]\nsize = 2\n" },
];

/// The rows.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let cluster = server().start();
    pgbench::fill(&cluster, pgbench::scale(scale));
    for AtOnce { rows, .. } in &AT_ONCES {
        let from = format!("SELECT v FROM generate_series(1, {rows}) v");
        cluster.sql(&format!("CREATE TABLE of_{rows} AS {from}"));
    }
    settle(&cluster);
    let dir = tempfile::tempdir()?;
    let mut weirs = [weir(&cluster, true, ""), weir(&cluster, false, "")];
    let mut table = Vec::new();
    for case in &CASES {
        table.extend(case.rows(&mut weirs, &cluster, dir.path(), scale)?);
    }
    drop(weirs);
    for at_once in &AT_ONCES {
        table.push(at_once.row(&cluster)?);
    }
    Ok(table)
}

fn weir(cluster: &Cluster, shares: bool, lines: &str) -> Weir {
    super::setup_with(&[cluster], 1, &format!("share-reads = {shares}\n{lines}")).start()
}

/// CPU time of a server and its processes so far, in microseconds.
fn cpu_us(cluster: &Cluster) -> f64 {
    cluster.id().map_or(0.0, |id| measure::family_cpu(id).as_secs_f64() * 1e6)
}

impl Case {
    fn rows(
        &self,
        [on, off]: &mut [Weir; 2],
        cluster: &Cluster,
        dir: &Path,
        scale: &Scale,
    ) -> Outcome<Vec<Row>> {
        let ways = [of(on, "shared"), of(off, "each by itself")];
        let script = format!(
            "\\set rows {rows}\n\\set aid {key}\n\
             SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n",
            rows = 100_000 * pgbench::scale(scale),
            key = self.key,
        );
        std::fs::write(dir.join("select.sql"), &script)?;
        let arguments = ["--file", "select.sql"];
        let seconds = pgbench::with_connecting(scale.duration, CLIENTS);
        let mut servers_cpu_us = [Vec::new(), Vec::new()];
        let run = |way: ClientRoute| {
            let before = cpu_us(cluster);
            let run = pgbench::run(way, &arguments, CLIENTS, seconds, Some(dir))?;
            let at = usize::from(way.name != ways[ON].name);
            servers_cpu_us[at].push((cpu_us(cluster) - before) / run.requests);
            Ok(run)
        };
        let seen = take_turns(&ways, scale, run)?;
        let row = |what: &str, ratio, wanted| {
            let figure =
                format!("{what}: pgbench, {CLIENTS} clients, keys {}, on / off", self.name);
            Row::judged(figure, ratio, unit::RATIO, wanted)
        };
        let own = |way: usize| median(&seen[way].cpu_us);
        let theirs = |way: usize| median(&servers_cpu_us[way]);
        let servers_series =
            [ON, OFF].map(|way| Series::new(ways[way].name, unit::CPU_US, &servers_cpu_us[way]));
        let repeat = format!("pgbench -n -c {CLIENTS} -j 2 -f select.sql, which is: {script:?}");
        Ok(vec![
            row("rate", seen[ON].rate() / seen[OFF].rate(), self.rate)
                .of(series(&seen))
                .noted(seen.iter().map(RouteSamples::line).collect())
                .repeat(repeat),
            row("CPU time of PostgreSQL an answer", theirs(ON) / theirs(OFF), self.servers_cpu)
                .of(servers_series.into()),
            row("CPU time of Weir an answer", own(ON) / own(OFF), self.own_cpu).of(series(&seen)),
        ])
    }
}

impl AtOnce {
    fn row(&self, cluster: &Cluster) -> Outcome<Row> {
        let weir = weir(cluster, true, self.lines);
        let table = format!("of_{}", self.rows);
        let sql = format!("SELECT count(*) FROM {table} a, {table} b WHERE a.v <> b.v");
        let mut question = Vec::new();
        put_query(&mut question, sql.as_bytes());
        let parameters = [("user", SUPERUSER), ("database", SUPERUSER)];
        let connect = || MessageClient::connect(weir.postgres, &parameters);
        let mut clients = (0..AT_ONCE).map(|_| connect()).collect::<Result<Vec<_>, _>>()?;
        let proven = || weir.metrics().sum("weir_postgres_unproven_total", &[("reason", "proven")]);
        rig::wait::until("it is known for a read", rig::wait::LONG, || {
            asked_by(&mut clients[..1], &question).is_ok() && proven() > 0.0
        });
        // From then on it is known how long it runs.
        for _ in 0..3 {
            asked_by(&mut clients[..1], &question)?;
        }
        let ran_before = scans(cluster, &table);
        for _ in 0..TURNS {
            asked_by(&mut clients, &question)?;
        }
        // The server counts a table's scans once its processes idle; closed, they have.
        drop((clients, weir));
        let settled = || scans(cluster, &table) > ran_before;
        rig::wait::until("the server has counted", rig::wait::LONG, settled);
        let ran = (scans(cluster, &table) - ran_before) / 2.0;
        let asked = (AT_ONCE * TURNS) as f64;
        let figure = format!("statements run / asked: {AT_ONCE} clients, one {}", self.what);
        let wanted = FigureTarget::at_most(0.05, 0.05);
        Ok(Row::judged(figure, ran / asked, unit::RATIO, wanted)
            .noted(vec![format!("`{sql}`: {ran:.0} of {asked:.0}, in {TURNS} turns")])
            .repeat("make bench ARGS=\"--only postgres-shared\""))
    }
}

/// Has all of them ask at once, and waits for what each of them hears.
fn asked_by(clients: &mut [MessageClient], question: &[u8]) -> Outcome<()> {
    for client in &mut *clients {
        client.send(question)?;
    }
    for client in clients {
        if let Some(code) = client.reply()?.error {
            return Err(format!("it failed: {code}").into());
        }
    }
    Ok(())
}

/// How often a table was read from its beginning. Each statement does so twice.
fn scans(cluster: &Cluster, table: &str) -> f64 {
    let sql = format!("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = '{table}'");
    cluster.value(&sql).parse().unwrap_or(0.0)
}
