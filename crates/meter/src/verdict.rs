//! Whether the numbers of a run can be believed: a pure function of its counters. A server that is
//! slow, saturated or failing is a finding and makes no run invalid; an injector that is does.

use std::time::Duration;

/// Beyond what a run is invalid. The only place of these numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// The share of sends that are late by over 1 ms.
    pub late_share: f64,
    /// So many late sends are never a reason.
    pub late_min: u64,
    /// The share of the p99 of latency that the p99 of lateness may be.
    pub lateness_share: f64,
    /// A p99 of lateness below that is never a reason.
    pub lateness_min: Duration,
    /// The share of the time that a thread may be outside its poll, in an open loop.
    pub busy_open: f64,
    /// The same in a closed loop.
    pub busy_closed: f64,
    /// The share of mean latency that the mean turnaround of a closed loop may be.
    pub turnaround_share: f64,
    /// A mean turnaround below that is never a reason.
    pub turnaround_min: Duration,
    /// The share of the time that a thread may wait for a CPU, or the machine for its own.
    pub waiting: f64,
    /// The share of the time that a thread may stand still.
    pub standing: f64,
    /// By how much Little's law may be off.
    pub little: f64,
}

/// Those in force; docs/load.md has the reason of each.
pub const THRESHOLDS: Thresholds = Thresholds {
    late_share: 0.001,
    late_min: 10,
    lateness_share: 0.1,
    lateness_min: Duration::from_micros(200),
    busy_open: 0.85,
    busy_closed: 0.95,
    turnaround_share: 0.05,
    turnaround_min: Duration::from_micros(100),
    waiting: 0.05,
    standing: 0.01,
    little: 0.02,
};

impl Default for Thresholds {
    fn default() -> Self {
        THRESHOLDS
    }
}

/// What a run is judged by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Requests came as fast as answers did.
    pub closed: bool,
    /// Requests sent.
    pub sends: u64,
    /// Those late by over 1 ms.
    pub late: u64,
    /// The p99 of lateness.
    pub lateness_p99: Duration,
    /// The p99 of latency.
    pub latency_p99: Duration,
    /// The mean latency.
    pub latency_mean: Duration,
    /// The mean turnaround of a closed loop.
    pub turnaround_mean: Duration,
    /// The share of the time that the busiest thread was outside its poll.
    pub busy: f64,
    /// The largest share of the time that a thread waited for a CPU.
    pub waited: f64,
    /// The share of the machine's time that its host gave to others.
    pub stolen: f64,
    /// The largest share of the time that a thread stood still.
    pub stood: f64,
    /// Errors of the injector's.
    pub errors: u64,
    /// Connections that there were.
    pub connections: u64,
    /// Those that Little's law finds in a closed loop.
    pub found: f64,
}

/// Why a run can't be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// What is wrong, with its number.
    pub cause: String,
    /// What to do about it.
    pub remedy: &'static str,
}

const MORE_THREADS: &str = "give the injector more threads (--threads 2), or a machine of its own";
const OWN_MACHINE: &str = "run the injector where no other program needs its CPUs";

/// Why the run can't be believed; nothing where it can.
pub fn doubts(of: &Evidence, limits: &Thresholds) -> Vec<Doubt> {
    let mut found = Vec::new();
    let mut doubt = |is: bool, cause: String, remedy| {
        if is {
            found.push(Doubt { cause, remedy });
        }
    };
    doubt(
        of.errors > 0,
        format!("the injector itself had {} errors", of.errors),
        "see the errors: raise its limit of open files (ulimit -n), or use fewer connections",
    );
    if of.closed {
        closed(of, limits, &mut doubt);
    } else {
        open(of, limits, &mut doubt);
    }
    let waited = of.waited + of.stolen;
    let cause = format!(
        "a thread waited for a CPU for {} of the time ({} of it the machine itself)",
        percent(waited),
        percent(of.stolen)
    );
    doubt(waited > limits.waiting, cause, OWN_MACHINE);
    doubt(
        of.stood > limits.standing,
        format!("a thread stood still for {:.1} % of the time", of.stood * 100.0),
        "run it again where nothing stops the injector or its machine",
    );
    found
}

fn open(of: &Evidence, limits: &Thresholds, doubt: &mut impl FnMut(bool, String, &'static str)) {
    let share = of.late as f64 / of.sends.max(1) as f64;
    doubt(
        of.late >= limits.late_min && share > limits.late_share,
        format!("{} of {} sends were late by over 1 ms", of.late, of.sends),
        MORE_THREADS,
    );
    let most = of.latency_p99.mul_f64(limits.lateness_share);
    doubt(
        of.lateness_p99 > limits.lateness_min && of.lateness_p99 > most,
        format!(
            "sends were late by {} at p99, and latency is {}",
            millis(of.lateness_p99),
            millis(of.latency_p99)
        ),
        MORE_THREADS,
    );
    doubt(
        of.busy > limits.busy_open,
        format!("a thread of the injector was busy for {} of the time", percent(of.busy)),
        MORE_THREADS,
    );
}

fn closed(of: &Evidence, limits: &Thresholds, doubt: &mut impl FnMut(bool, String, &'static str)) {
    doubt(
        of.busy > limits.busy_closed,
        format!(
            "a thread was busy for {} of the time: the limit found is the injector's",
            percent(of.busy)
        ),
        MORE_THREADS,
    );
    let most = of.latency_mean.mul_f64(limits.turnaround_share);
    doubt(
        of.turnaround_mean > limits.turnaround_min && of.turnaround_mean > most,
        format!(
            "from an answer to the next send it took {} on average, and latency is {}",
            millis(of.turnaround_mean),
            millis(of.latency_mean)
        ),
        "make requests faster to build, or give the injector more threads (--threads 2)",
    );
    let off = (of.found / of.connections.max(1) as f64 - 1.0).abs();
    doubt(
        off > limits.little,
        format!("Little's law finds {:.1} connections of {}", of.found, of.connections),
        "something held requests where no figure shows it: look at the errors, run it again",
    );
}

fn millis(span: Duration) -> String {
    format!("{:.2} ms", span.as_secs_f64() * 1000.0)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Evidence, THRESHOLDS, doubts};

    const MS: Duration = Duration::from_millis(1);

    fn quiet(closed: bool) -> Evidence {
        Evidence {
            closed,
            sends: 10_000,
            late: 0,
            lateness_p99: MS / 20,
            latency_p99: MS,
            latency_mean: MS / 2,
            turnaround_mean: MS / 100,
            busy: 0.1,
            waited: 0.0,
            stolen: 0.0,
            stood: 0.0,
            errors: 0,
            connections: 64,
            found: 64.0,
        }
    }

    fn causes(of: Evidence) -> Vec<String> {
        doubts(&of, &THRESHOLDS).into_iter().map(|doubt| doubt.cause).collect()
    }

    #[test]
    fn a_quiet_run_is_valid_and_so_is_a_slow_server() {
        assert!(causes(quiet(false)).is_empty() && causes(quiet(true)).is_empty());
        let slow = Evidence { latency_p99: 9000 * MS, latency_mean: 5000 * MS, ..quiet(false) };
        assert!(causes(slow).is_empty());
    }

    #[test]
    fn each_fault_of_the_injector_is_named_alone() {
        let (open, closed) = (quiet(false), quiet(true));
        for (evidence, word) in [
            (Evidence { late: 11, ..open }, "late by over 1 ms"),
            (Evidence { lateness_p99: MS / 4, ..open }, "late by 0.25 ms at p99"),
            (Evidence { busy: 0.86, ..open }, "busy for 86 %"),
            (Evidence { busy: 0.96, ..closed }, "the limit found is the injector's"),
            (Evidence { turnaround_mean: MS / 9, ..closed }, "to the next send"),
            (Evidence { waited: 0.03, stolen: 0.03, ..open }, "waited for a CPU for 6 %"),
            (Evidence { errors: 1, ..open }, "1 errors"),
            (Evidence { stood: 0.02, ..open }, "stood still for 2.0 %"),
            (Evidence { stood: 0.02, ..closed }, "stood still for 2.0 %"),
            (Evidence { found: 62.0, ..closed }, "62.0 connections of 64"),
        ] {
            let causes = causes(evidence);
            assert!(causes.len() == 1 && causes[0].contains(word), "{word}: {causes:?}");
        }
    }

    #[test]
    fn what_is_below_its_floor_or_of_the_other_loop_is_no_reason() {
        let (open, closed) = (quiet(false), quiet(true));
        for evidence in [
            Evidence { late: 9, sends: 100, ..open },
            Evidence { late: 10, sends: 10_000, ..open },
            Evidence { lateness_p99: MS / 5, latency_p99: MS / 4, ..open },
            Evidence { lateness_p99: 90 * MS, latency_p99: 1000 * MS, ..open },
            Evidence { busy: 0.9, late: 5000, ..closed },
            Evidence { stood: 0.01, ..open },
            Evidence { turnaround_mean: MS / 11, latency_mean: MS / 5, ..closed },
            Evidence { turnaround_mean: 9 * MS, found: 1.0, ..open },
        ] {
            assert!(causes(evidence).is_empty(), "{evidence:?}");
        }
    }
}
