//! Point selects spread over two replicas, over the same with one: what spreading itself costs,
//! since on the same few cores a second replica brings nothing.

use rig::postgres::Cluster;
use rig::wait;

use super::pgbench::{self, Mode};
use super::{Seen, Way, server, weir};
use crate::report::{Row, at_least};
use crate::{Outcome, Scale};

const CLIENTS: usize = 64;

/// The row.
///
/// # Errors
/// When anything can't be started, or a statement fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let primary = server().start();
    pgbench::fill(&primary, if scale.one_in == 1 { 10 } else { 1 });
    primary.sql("VACUUM ANALYZE");
    let replicas = [primary.replica(), primary.replica()];
    replicas.iter().for_each(|replica| replica.catch_up(&primary));
    let mut one = weir(&[&primary, &replicas[0]], "");
    let mut two = weir(&[&primary, &replicas[0], &replicas[1]], "");
    let ways = [("one replica", &mut one), ("two replicas", &mut two)].map(|(name, weir)| Way {
        name,
        address: weir.postgres,
        pid: Some(weir.running().id()),
    });
    let mut seen: [Seen; 2] = Default::default();
    for _ in 0..scale.rounds {
        for (way, seen) in ways.iter().zip(&mut seen) {
            let (run, usage) = pgbench::select(*way, Mode::Simple, CLIENTS, scale.duration)?;
            seen.note(run.count, run.per_second, usage);
        }
    }
    let shares = replicas.each_ref().map(selected);
    let ratio = seen[1].rate() / seen[0].rate();
    let mut notes: Vec<_> =
        ways.iter().zip(&seen).map(|(way, seen)| seen.line(way.name, "statements")).collect();
    notes.push(format!("rows read by key on each replica, by its own word: {shares:?}"));
    Ok(vec![Row {
        figure: format!("pgbench -S, {CLIENTS} clients, over two replicas / over one"),
        measured: format!("{ratio:.2}"),
        to_reach: "0.95, beyond 1.1".to_owned(),
        verdict: at_least(ratio, 0.95),
        notes,
        repeat: format!("pgbench -S -n -M simple -c {CLIENTS} -j 2"),
    }])
}

/// Index scans of the accounts that a server has seen, once it has counted them.
fn selected(cluster: &Cluster) -> String {
    let ask = "SELECT coalesce(idx_scan, 0) FROM pg_stat_user_tables \
               WHERE relname = 'pgbench_accounts'";
    let mut last = String::new();
    wait::until("the server has counted", wait::LONG, || {
        let now = cluster.value(ask);
        let same = now == last;
        last = now;
        same
    });
    last
}
