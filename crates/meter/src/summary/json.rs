//! What came of a run, for programs. Times are nanoseconds, shares are from 0 to 1.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::Summary;
use crate::engine::{Outcome, Row};
use crate::recorder::{Correction, Distribution, Kind, Measure, Times, Tolerance, nanoseconds};
use crate::verdict::{Doubt, Thresholds};

/// What the document is; another one has another number.
const SCHEMA: u32 = 1;
/// Different errors that are named.
const ERRORS_MAX: usize = 1000;
const SHARES: [(&str, f64); 6] =
    [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

impl Summary<'_> {
    /// All of it for programs.
    pub fn json(&self) -> Value {
        let of = self.outcome;
        let missed = self.missed.iter().map(|(gate, found)| demand(gate, found));
        let aborted = of.aborted.as_ref().map(|(gate, found)| demand(gate, found));
        let doubts: Vec<Value> = self.doubts.iter().map(doubt).collect();
        let tolerance = of.thresholds.tolerance();
        let latency = of.results.distribution(Measure::Latency, None);
        let service = of.results.distribution(Measure::Service, None);
        json!({
            "schema": SCHEMA,
            "verdict": self.verdict(),
            "words": super::headline(of, self.is_invalid()),
            "because": doubts,
            "failing": self.is_failing(),
            "missed": missed.collect::<Vec<_>>(),
            "warnings": super::warnings(of),
            "aborted": aborted,
            "stopped": of.stopped,
            "used_up": of.used_up,
            "loop": if of.closed { "closed" } else { "open" },
            "began": since_epoch(of.wall),
            "measured_ns": nanoseconds(of.measured),
            "connections": of.connections,
            "requests": of.results.total(),
            "failed": of.results.failed(),
            "answered_per_second": answered(of),
            "latency": figures(&latency, &tolerance),
            "service": figures(&service, &tolerance),
            "kinds": kinds(of),
            "operations": operations(of),
            "errors": errors(of),
            "injector": injector(of),
            "connect": times(&of.network.connects()),
            "network": ways(of),
            "servers": of.calls.servers,
            "left_out": of.calls.left_out,
            "bytes": { "sent": of.traffic.sent, "received": of.traffic.received },
            "codes": codes(of),
            "last_ns": nanoseconds(of.last),
            "reconnects": of.reconnects,
            "sharing": of.sharing,
            "warm_up": {
                "duration_ns": nanoseconds(of.warm_up.duration),
                "requests": of.warm_up.requests,
                "failed": of.warm_up.failed,
            },
            "thresholds": thresholds(&of.thresholds),
            "windows": of.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

fn demand(gate: &crate::gate::Gate, found: &str) -> Value {
    json!({ "demand": gate.to_string(), "found": found })
}

fn doubt(doubt: &Doubt) -> Value {
    json!({ "cause": doubt.cause, "remedy": doubt.remedy })
}

fn since_epoch(wall: SystemTime) -> f64 {
    wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn answered(of: &Outcome) -> f64 {
    let succeeded = of.results.count(Kind::Succeeded) as f64;
    succeeded / of.measured.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// Of no times nothing is said but that there are none.
fn times(times: &Times) -> Value {
    let mut all = Map::new();
    all.insert("count".to_owned(), times.count().into());
    if times.count() > 0 {
        let mut put = |name: &str, span: Duration| {
            all.insert(format!("{name}_ns"), nanoseconds(span).into());
        };
        put("min", times.quantile(0.0));
        put("mean", times.mean());
        SHARES.iter().for_each(|(name, share)| put(name, times.quantile(*share)));
        put("max", times.max());
    }
    Value::Object(all)
}

/// Times, and what the injector added to them: which figures are its own, and what all would be
/// without its part. Where it added nothing, nothing is said of it.
fn figures(of: &Distribution, tolerance: &Tolerance) -> Value {
    let mut all = times(of.measured());
    let named = SHARES.iter().map(|(name, share)| (*name, of.quantile(*share)));
    let named: Vec<_> = named.chain([("mean", of.mean()), ("max", of.max())]).collect();
    if named.iter().any(|(_, figure)| !figure.added().is_zero()) {
        let own = named.iter().filter(|(_, figure)| figure.is_injectors(tolerance));
        all["injectors"] = own.map(|(name, _)| *name).collect();
        let corrected = named.iter();
        let corrected = corrected
            .map(|(name, figure)| (format!("{name}_ns"), nanoseconds(figure.corrected).into()));
        all["corrected"] = Value::Object(corrected.collect());
    }
    all
}

fn kinds(of: &Outcome) -> Value {
    let tolerance = of.thresholds.tolerance();
    let named = Kind::ALL.into_iter().filter(|kind| of.results.count(*kind) > 0).map(|kind| {
        let latency = figures(&of.results.distribution(Measure::Latency, Some(kind)), &tolerance);
        (kind.name().to_owned(), latency)
    });
    Value::Object(named.collect())
}

fn operations(of: &Outcome) -> Value {
    let (tolerance, mut corrections) = (of.thresholds.tolerance(), HashMap::new());
    for (operation, kind, measure, correction) in of.results.corrections() {
        corrections.insert((operation, kind as usize, measure as usize), correction);
    }
    let none = Correction::default();
    let each = of.results.each().map(|(operation, kind, latency, service)| {
        let told = |measure: Measure, times: &Times| {
            let correction = corrections.get(&(operation, kind as usize, measure as usize));
            let of = Distribution::new(times.clone(), correction.copied().unwrap_or(&none));
            figures(&of, &tolerance)
        };
        json!({
            "operation": operation,
            "name": of.operations.get(operation).map_or("other", |name| name),
            "kind": kind.name(),
            "latency": told(Measure::Latency, latency),
            "service": told(Measure::Service, service),
        })
    });
    Value::Array(each.collect())
}

fn errors(of: &Outcome) -> Value {
    let each = of.errors.commonest(ERRORS_MAX).into_iter();
    let each = each.map(|(owner, words, count)| {
        json!({ "owner": owner.to_string(), "words": words, "count": count })
    });
    Value::Array(each.collect())
}

fn injector(of: &Outcome) -> Value {
    json!({
        "busy": of.health.busy,
        "waited_for_cpu": of.health.waited,
        "stolen": of.health.stolen,
        "stood_still": of.stood_share(),
        "paused_ns": nanoseconds(of.results.paused),
        "sends": of.lateness.sends,
        "late": of.lateness.late,
        "lateness": times(&of.lateness.times),
        "blocked": of.lateness.blocked,
        "waits": times(&of.lateness.waits),
        "turnaround": times(&of.turnaround),
        "little_connections": of.closed.then(|| of.occupancy.connections(of.measured)),
    })
}

/// The ways to the servers' addresses.
fn ways(of: &Outcome) -> Value {
    let too_long = of.network.too_long();
    let each = of.network.ways().into_iter().map(|way| {
        json!({
            "address": way.address,
            "min_round_trip_ns": way.round_trip.map(nanoseconds),
            "is_too_long": too_long.iter().any(|(address, _)| *address == way.address),
            "connect": times(&way.connects),
        })
    });
    Value::Array(each.collect())
}

fn codes(of: &Outcome) -> Value {
    let each = of.traffic.codes().into_iter();
    Value::Object(each.map(|(code, count)| (code.to_string(), count.into())).collect())
}

fn thresholds(of: &Thresholds) -> Value {
    json!({
        "late_share": of.late_share,
        "late_min": of.late_min,
        "lateness_share": of.lateness_share,
        "lateness_min_ns": nanoseconds(of.lateness_min),
        "busy_open": of.busy_open,
        "busy_closed": of.busy_closed,
        "turnaround_share": of.turnaround_share,
        "turnaround_min_ns": nanoseconds(of.turnaround_min),
        "waiting": of.waiting,
        "standing": of.standing,
        "little": of.little,
    })
}

fn row(row: &Row) -> Value {
    json!({
        "second": row.number,
        "offered": row.offered,
        "sent": row.sent,
        "ended": row.ended,
        "failed": row.failed,
        "late": row.late,
        "busy_ns": nanoseconds(row.busy),
        "p50_ns": nanoseconds(row.p50),
        "p99_ns": nanoseconds(row.p99),
        "max_ns": nanoseconds(row.max),
        "paused_ns": nanoseconds(row.paused),
        "injectors": row.injectors().collect::<Vec<_>>(),
    })
}
