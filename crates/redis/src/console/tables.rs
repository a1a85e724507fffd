//! The tables of `WEIR SHOW`.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use watch::latencies::Latency;
use watch::table::{Kind, Table, Value};

use super::rows::{ClientRow, WorkerRows};
use crate::desk::{Slow, WINDOW, shown};
use crate::metrics::times::Times;
use crate::replica::state::MasterStatus;
use crate::status::Backend;

/// Rows of keys, and of clients, that are shown.
const KEYS_MAX: usize = 100;
/// Bytes of a key that are shown.
const KEY_BYTES_MAX: usize = 128;

fn micros(of: Duration) -> Value {
    Value::Count(u64::try_from(of.as_micros()).unwrap_or(u64::MAX))
}

fn seconds_as_micros(of: f64) -> Value {
    micros(Duration::try_from_secs_f64(of).unwrap_or_default())
}

/// `BACKENDS`.
pub fn backends(all: &[Backend], parts: &[WorkerRows]) -> Table {
    let mut table = Table::new(&[
        ("name", Kind::Text),
        ("address", Kind::Text),
        ("replica-of", Kind::Text),
        ("weight", Kind::Int),
        ("state", Kind::Text),
        ("wrong", Kind::Text),
        ("lanes", Kind::Int),
        ("in-flight", Kind::Int),
        ("connections", Kind::Int),
        ("idle", Kind::Int),
        ("waiting", Kind::Int),
        ("answers", Kind::Int),
        ("lane-server-p50-us", Kind::Int),
        ("lane-server-p99-us", Kind::Int),
        ("lane-total-p50-us", Kind::Int),
        ("lane-total-p99-us", Kind::Int),
        ("lease-total-p99-us", Kind::Int),
    ]);
    for of in all {
        let lanes = parts.iter().flat_map(|part| &part.lanes).filter(|lane| lane.server == of.name);
        let connections = parts.iter().flat_map(|part| &part.connections);
        let connections = connections.filter(|row| row.server == of.name);
        let sum = |figure: fn(&super::rows::ConnectionsRow) -> usize| {
            Value::from(connections.clone().map(figure).sum::<usize>())
        };
        let took = |way: &str, figure: fn(&Latency) -> f64| {
            let found = of.latencies.iter().find(|took| took.way == way);
            found.map_or(Value::Null, |took| seconds_as_micros(figure(took)))
        };
        let state = match (of.ejected_seconds, &of.wrong) {
            (Some(_), _) => "ejected",
            (None, Some(_)) => "failing",
            (None, None) => "ok",
        };
        table.push(vec![
            of.name.clone().into(),
            of.url.clone().into(),
            of.replica_of.clone().into(),
            u64::from(of.weight).into(),
            state.into(),
            of.wrong.clone().into(),
            lanes.clone().count().into(),
            lanes.map(|lane| lane.in_flight).sum::<usize>().into(),
            sum(|row| row.active),
            sum(|row| row.idle),
            sum(|row| row.waiting),
            of.answers.into(),
            took("lane", |took| took.server[0]),
            took("lane", |took| took.server[1]),
            took("lane", |took| took.total[0]),
            took("lane", |took| took.total[1]),
            took("lease", |took| took.total[1]),
        ]);
    }
    table
}

/// `LANES`.
pub fn lanes(parts: &[WorkerRows]) -> Table {
    let mut table = Table::new(&[
        ("worker", Kind::Int),
        ("server", Kind::Text),
        ("user", Kind::Text),
        ("database", Kind::Int),
        ("resp", Kind::Int),
        ("in-flight", Kind::Int),
        ("unsent-bytes", Kind::Int),
        ("head-us", Kind::Int),
        ("age", Kind::Int),
    ]);
    for lane in parts.iter().flat_map(|part| &part.lanes) {
        table.push(vec![
            lane.worker.into(),
            lane.server.clone().into(),
            lane.user.clone().into(),
            u64::from(lane.database).into(),
            lane.resp.into(),
            lane.in_flight.into(),
            lane.unsent.into(),
            micros(lane.head),
            lane.age.as_secs().into(),
        ]);
    }
    table
}

/// `CLIENTS`.
pub fn clients(all: &[ClientRow]) -> Table {
    let mut table = Table::new(&[
        ("id", Kind::Int),
        ("address", Kind::Text),
        ("name", Kind::Text),
        ("user", Kind::Text),
        ("flags", Kind::Text),
        ("database", Kind::Int),
        ("resp", Kind::Int),
        ("age", Kind::Int),
        ("idle", Kind::Int),
        ("commands", Kind::Int),
        ("last", Kind::Text),
        ("unanswered", Kind::Int),
        ("waiting-bytes", Kind::Int),
        ("unread-bytes", Kind::Int),
        ("lease", Kind::Int),
        ("subscriptions", Kind::Int),
    ]);
    for of in all {
        table.push(vec![
            of.id.into(),
            of.address.clone().into(),
            of.name.clone().into(),
            of.user.clone().into(),
            of.flags().into(),
            u64::from(of.database).into(),
            of.resp.into(),
            of.age.as_secs().into(),
            of.idle.as_secs().into(),
            of.commands.into(),
            of.last.into(),
            of.figures.unanswered.into(),
            of.figures.waiting.into(),
            of.figures.unread.into(),
            of.figures.is_holding.into(),
            of.subscriptions.iter().sum::<usize>().into(),
        ]);
    }
    table
}

/// `STATS`: what took servers the most time first.
pub fn stats(times: &Times) -> Table {
    let mut table = Table::new(&[
        ("server", Kind::Text),
        ("command", Kind::Text),
        ("answers", Kind::Int),
        ("shared", Kind::Int),
        ("errors", Kind::Int),
        ("queue-us", Kind::Int),
        ("server-us", Kind::Int),
        ("queue-us-each", Kind::Int),
        ("server-us-each", Kind::Int),
    ]);
    let mut all: Vec<_> =
        times.sums().into_iter().filter(|(_, sum)| sum.answers + sum.shared > 0).collect();
    all.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.server));
    for ((server, command), sum) in all {
        let each = |of: Duration| {
            let nanos = of.as_nanos() / u128::from(sum.answers.max(1));
            micros(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
        };
        table.push(vec![
            (*server).into(),
            command.into(),
            sum.answers.into(),
            sum.shared.into(),
            sum.errors.into(),
            micros(sum.queue),
            micros(sum.server),
            each(sum.queue),
            each(sum.server),
        ]);
    }
    table
}

/// `SLOW`: the newest first.
pub fn slow(all: &[Slow]) -> Table {
    let mut table = Table::new(&[
        ("id", Kind::Int),
        ("unix-time", Kind::Int),
        ("server", Kind::Text),
        ("server-us", Kind::Int),
        ("command", Kind::Text),
        ("address", Kind::Text),
        ("name", Kind::Text),
    ]);
    for of in all {
        table.push(vec![
            of.id.into(),
            of.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().into(),
            of.server.clone().into(),
            micros(of.ran),
            of.words.join(" ").into(),
            of.address.clone().into(),
            of.name.clone().into(),
        ]);
    }
    table
}

/// `HOT`: those that are asked for most first.
pub fn hot(parts: &[WorkerRows]) -> Table {
    let mut table = Table::new(&[
        ("key", Kind::Text),
        ("server", Kind::Text),
        ("commands-a-second", Kind::Int),
        ("sampled-for", Kind::Int),
    ]);
    let mut all: HashMap<&[u8], (f64, &str)> = HashMap::new();
    for (of, server) in parts.iter().flat_map(|part| &part.hot) {
        all.entry(&of.key).or_insert((0.0, server)).0 += of.rate;
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by(|(a, (one, _)), (b, (other, _))| other.total_cmp(one).then(a.cmp(b)));
    for (key, (rate, server)) in all.into_iter().take(KEYS_MAX) {
        let rate = rate.round() as u64;
        let row = vec![shown(key, KEY_BYTES_MAX).into(), server.into(), rate.into()];
        table.push([row, vec![WINDOW.as_secs().into()]].concat());
    }
    table
}

/// `BIG`: the biggest first.
pub fn big(parts: &[WorkerRows]) -> Table {
    let mut table = Table::new(&[
        ("key", Kind::Text),
        ("server", Kind::Text),
        ("bytes", Kind::Int),
        ("command", Kind::Text),
        ("seconds-ago", Kind::Int),
    ]);
    let mut all: Vec<_> = parts.iter().flat_map(|part| &part.big).collect();
    all.sort_by(|one, other| other.bytes.cmp(&one.bytes).then(one.key.cmp(&other.key)));
    // Several workers may have seen the same.
    let mut seen = std::collections::HashSet::new();
    for of in all.into_iter().filter(|of| seen.insert(&of.key)).take(KEYS_MAX) {
        table.push(vec![
            shown(&of.key, KEY_BYTES_MAX).into(),
            of.server.clone().into(),
            of.bytes.into(),
            of.command.into(),
            of.ago.as_secs().into(),
        ]);
    }
    table
}

/// `AOF`.
pub fn aof(all: &[MasterStatus]) -> Table {
    let mut table = Table::new(&[
        ("master", Kind::Text),
        ("link", Kind::Text),
        ("trouble", Kind::Text),
        ("not-durable-bytes", Kind::Int),
        ("generations", Kind::Int),
        ("base-bytes", Kind::Int),
        ("increment-bytes", Kind::Int),
    ]);
    for of in all {
        table.push(vec![
            of.name.clone().into(),
            of.link.clone().into(),
            of.trouble.clone().into(),
            of.not_durable_bytes.into(),
            of.generations.into(),
            of.base_bytes.into(),
            of.increment_bytes.into(),
        ]);
    }
    table
}
