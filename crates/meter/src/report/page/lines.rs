//! The numbers that lines are drawn from. Times are milliseconds.

use serde_json::{Value, json};

use super::super::Run;
use crate::course::{Point, SHARES};
use crate::recorder::{Measure, Times};

/// Points of a distribution between two powers of ten of the share above it.
const POINTS_A_DECADE: u32 = 20;

/// The lines of all pictures, as the page's script reads them.
pub fn of(runs: &[Run<'_>]) -> Value {
    runs.iter().map(of_run).collect()
}

fn of_run(run: &Run<'_>) -> Value {
    let column = |of: &dyn Fn(&Point) -> Option<f64>| -> Value {
        run.points.iter().map(|point| of(point).map(short)).collect()
    };
    let a_second = |count: fn(&Point) -> u64| {
        column(&|point| Some(count(point) as f64 / point.seconds.max(1) as f64))
    };
    let latency =
        |at: usize| column(&|point| Some(point.latency?[at].measured.as_nanos() as f64 / 1e6));
    let tolerance = run.tolerance();
    // Of each line the places at which the injector made its latency.
    let own = |at: usize| -> Value {
        let is_own =
            |point: &Point| point.latency.is_some_and(|all| all[at].is_injectors(&tolerance));
        let places = run.points.iter().enumerate().filter(|(_, point)| is_own(point));
        places.map(|(place, _)| place).collect()
    };
    let mut times: Vec<Value> = (0..=SHARES.len()).map(latency).collect();
    let max = times.pop();
    let errors = |owner: usize| {
        let is_any = run.points.iter().any(|point| point.errors[owner] > 0);
        let each = |point: &Point| Some(point.errors[owner] as f64 / point.seconds.max(1) as f64);
        is_any.then(|| column(&each))
    };
    let share = |part: f64, whole: f64| Some(part * 100.0 / whole.max(1.0));
    let is_closed = run.judged["loop"] == "closed";
    let offered = (!is_closed).then(|| a_second(|point| point.offered));
    json!({
        "name": run.name,
        "word": (!run.is_valid()).then(|| run.verdict()),
        "closed": is_closed,
        "began": run.judged["began"],
        "merged": run.points.first().map_or(1, |point| point.seconds),
        "second": run.points.iter().map(|point| point.second).collect::<Vec<_>>(),
        "offered": offered,
        "sent": a_second(|point| point.sent),
        "answered": a_second(|point| point.ended.saturating_sub(point.failed)),
        "p50": times[0], "p99": times[1], "p999": times[2], "max": max,
        "own": { "p50": own(0), "p99": own(1), "p999": own(2), "max": own(3) },
        "errors": {
            "injector": errors(0), "network": errors(1), "server": errors(2), "check": errors(3),
        },
        "busy": column(&|point| share(point.busy, point.seconds as f64)),
        "paused": column(&|point| share(point.paused, point.seconds as f64)),
        "late": column(&|point| share(point.late as f64, point.sent as f64)),
        "latency": distribution(&run.results.times(Measure::Latency, None)),
        "service": distribution(&run.results.times(Measure::Service, None)),
    })
}

/// Times by the power of ten of the share above them, up to where one request is left.
fn distribution(times: &Times) -> Value {
    if times.count() == 0 {
        return Value::Null;
    }
    let end = (times.count() as f64).log10() * f64::from(POINTS_A_DECADE);
    let shares: Vec<f64> = (0..=end as u32).map(|at| short(f64::from(at) / 20.0)).collect();
    let millis = |power: &f64| {
        let span = times.quantile(1.0 - 10_f64.powf(-power));
        short(span.as_nanos() as f64 / 1e6)
    };
    json!({ "power": shares, "ms": shares.iter().map(millis).collect::<Vec<_>>() })
}

/// A number with as many digits as a screen can show.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        return value.round();
    }
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}
