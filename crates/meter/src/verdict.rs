//! Whether the numbers of a run can be believed: a pure function of its counters. A server that is
//! slow, saturated or failing is a finding and makes no run invalid; an injector that is does.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::recorder::{Distribution, Figure, Tolerance};

/// Beyond what a run is invalid. The only place of these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// The share of sends that are late by over 1 ms.
    pub late_share: f64,
    /// So many late sends are never a reason.
    pub late_min: u64,
    /// The share of a figure that the injector's lateness and pauses may add to it.
    pub lateness_share: f64,
    /// What they add below that is never a reason.
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

/// Those in force; docs/load/figures.md has the reason of each.
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

impl Thresholds {
    /// By how much the injector may move a figure.
    pub fn tolerance(&self) -> Tolerance {
        Tolerance { share: self.lateness_share, least: self.lateness_min }
    }
}

/// What a run is judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Requests came as fast as answers did.
    pub closed: bool,
    /// Requests that were sent.
    pub sends: u64,
    /// Those late by over 1 ms.
    pub late: u64,
    /// Figures on which all else rests, by name: those that are the injector's are a reason.
    pub figures: Vec<(String, Figure)>,
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
    /// The commonest of them, in its own words.
    pub error: String,
    /// Threads of the injector, of all loads.
    pub threads: usize,
    /// CPUs that this machine lets the injector use.
    pub cpus: usize,
    /// Connections that there were.
    pub connections: u64,
    /// Those that Little's law finds in a closed loop.
    pub found: f64,
}

impl Evidence {
    /// That of a run of which nothing is known that speaks against it.
    pub fn quiet(closed: bool) -> Self {
        Self {
            closed,
            sends: 0,
            late: 0,
            figures: Vec::new(),
            latency_mean: Duration::ZERO,
            turnaround_mean: Duration::ZERO,
            busy: 0.0,
            waited: 0.0,
            stolen: 0.0,
            stood: 0.0,
            errors: 0,
            error: String::new(),
            threads: 1,
            cpus: 1,
            connections: 1,
            found: 1.0,
        }
    }
}

/// The percentiles without which a run says nothing. Those between them may lie where a server's
/// times part, and then little moves them by much: they are marked, as the longest are.
const BASIC: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];

/// The highest of the percentiles that the injector made of latency and of service, where it made
/// any: one names the line. Of a closed loop, in which nothing is due, both are the same.
pub fn basic_figures(
    latency: Option<&Distribution>,
    service: &Distribution,
    tolerance: &Tolerance,
) -> Vec<(String, Figure)> {
    let latency = latency.map(|times| ("latency", times));
    let of_line = |(line, times): (&str, &Distribution)| {
        let named =
            BASIC.map(|(name, share)| (format!("the {name} of {line}"), times.quantile(share)));
        named.into_iter().rfind(|(_, figure)| figure.is_injectors(tolerance))
    };
    latency.into_iter().chain([("service", service)]).filter_map(of_line).collect()
}

/// Why a run can't be believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// What is wrong, with its number.
    pub cause: String,
    /// What to do about it.
    pub remedy: String,
}

const OWN_MACHINE: &str = "run the injector where no other program needs its CPUs";
const UNDISTURBED: &str = "run it again where nothing stops the injector or its machine";

/// Why a demand can't be judged: what it is of is the injector's.
pub fn doubt_of_demand(demand: &str, found: &str) -> Doubt {
    let cause = format!("{demand} can't be judged: it was {found}");
    Doubt { cause, remedy: OWN_MACHINE.to_owned() }
}

/// What held the injector's threads up, by which the remedy is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bottleneck {
    /// Somebody stopped the process, or the machine.
    Stopped,
    /// Other programs, or other guests of the host, had its CPUs.
    OtherPrograms,
    /// Each thread has all the work that it can do, and CPUs are left.
    TooFewThreads,
    /// There is no CPU left for another thread.
    TooFewCpus,
    /// The threads had their CPUs and time to spare, and were woken late.
    Wakeups,
}

impl Bottleneck {
    fn of(of: &Evidence, limits: &Thresholds) -> Self {
        let busy_max = if of.closed { limits.busy_closed } else { limits.busy_open };
        let waited = of.waited + of.stolen;
        // A thread that waits for a CPU for long stands still, too; one that is stopped waits for
        // none.
        if waited > limits.waiting && waited >= of.stood {
            Self::OtherPrograms
        } else if of.stood > limits.standing {
            Self::Stopped
        } else if of.busy <= busy_max {
            Self::Wakeups
        } else if of.threads < of.cpus {
            Self::TooFewThreads
        } else {
            Self::TooFewCpus
        }
    }

    fn remedy(self, of: &Evidence) -> String {
        let Evidence { threads, cpus, .. } = of;
        match self {
            Self::Stopped => UNDISTURBED.to_owned(),
            Self::OtherPrograms => OWN_MACHINE.to_owned(),
            Self::TooFewThreads => format!(
                "this machine has {cpus} CPUs, and the injector {threads} of them: give it {} \
                 (--threads)",
                (2 * threads).min(*cpus)
            ),
            Self::TooFewCpus if of.closed => format!(
                "all {cpus} CPUs have a thread of the injector: run it on a machine with more, \
                 or with fewer --connections"
            ),
            Self::TooFewCpus => format!(
                "all {cpus} CPUs have a thread of the injector: lower the rate, or run it on a \
                 machine with more"
            ),
            Self::Wakeups => "the injector had time to spare and was woken late: run it on a \
                              machine of its own that does not sleep or throttle its CPUs"
                .to_owned(),
        }
    }
}

/// What an error of the injector's asks for, by its words.
fn remedy_of_error(words: &str) -> String {
    let has = |part: &str| words.contains(part);
    let remedy = if has("open files") {
        "raise its limit of open files (ulimit -n), or use fewer --connections"
    } else if has("assign requested address") || has("Address already in use") {
        "its ports are used up: let connections live longer, use fewer, or widen \
         net.ipv4.ip_local_port_range"
    } else if has("memory") || has("buffer space") {
        "give its machine more memory, or use fewer --connections"
    } else if has("ledger") {
        "make room for the ledger, or name another directory with --out"
    } else if has("stood still") || has("kept waiting") {
        UNDISTURBED
    } else {
        "see the errors below: the injector's machine lacks something"
    };
    remedy.to_owned()
}

/// That the injector made a figure.
fn made(name: &str, figure: &Figure) -> String {
    let Figure { measured, corrected } = *figure;
    format!(
        "{name} is {}, and {} without the injector's own delays",
        millis(measured),
        millis(corrected)
    )
}

/// Why the run can't be believed; nothing where it can.
pub fn doubts(of: &Evidence, limits: &Thresholds) -> Vec<Doubt> {
    let mut found = Vec::new();
    let held_up = Bottleneck::of(of, limits).remedy(of);
    let mut doubt = |is: bool, cause: String, remedy: &str| {
        if is {
            found.push(Doubt { cause, remedy: remedy.to_owned() });
        }
    };
    doubt(
        of.errors > 0,
        match &*of.error {
            "" => format!("the injector itself had {} errors", of.errors),
            words => format!("the injector itself had {} errors, most of them: {words}", of.errors),
        },
        &remedy_of_error(&of.error),
    );
    for (name, figure) in &of.figures {
        doubt(figure.is_injectors(&limits.tolerance()), made(name, figure), &held_up);
    }
    if of.closed {
        closed(of, limits, &held_up, &mut doubt);
    } else {
        open(of, limits, &held_up, &mut doubt);
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
        UNDISTURBED,
    );
    found
}

fn open(
    of: &Evidence,
    limits: &Thresholds,
    remedy: &str,
    doubt: &mut impl FnMut(bool, String, &str),
) {
    let share = of.late as f64 / of.sends.max(1) as f64;
    doubt(
        of.late >= limits.late_min && share > limits.late_share,
        format!("{} of {} sends were late by over 1 ms", of.late, of.sends),
        remedy,
    );
    doubt(
        of.busy > limits.busy_open,
        format!("a thread of the injector was busy for {} of the time", percent(of.busy)),
        remedy,
    );
}

fn closed(
    of: &Evidence,
    limits: &Thresholds,
    remedy: &str,
    doubt: &mut impl FnMut(bool, String, &str),
) {
    doubt(
        of.busy > limits.busy_closed,
        format!(
            "a thread was busy for {} of the time: the limit found is the injector's",
            percent(of.busy)
        ),
        remedy,
    );
    let most = of.latency_mean.mul_f64(limits.turnaround_share);
    doubt(
        of.turnaround_mean > limits.turnaround_min && of.turnaround_mean > most,
        format!(
            "from an answer to the next send it took {} on average, and latency is {}",
            millis(of.turnaround_mean),
            millis(of.latency_mean)
        ),
        &turnaround_remedy(of, limits, remedy),
    );
    let off = (of.found / of.connections.max(1) as f64 - 1.0).abs();
    doubt(
        off > limits.little,
        format!("Little's law finds {:.1} connections of {}", of.found, of.connections),
        "something held requests where no figure shows it: look at the errors, run it again",
    );
}

/// A thread that is not busy all the time takes so long because many answers come at once.
fn turnaround_remedy(of: &Evidence, limits: &Thresholds, remedy: &str) -> String {
    match Bottleneck::of(of, limits) {
        Bottleneck::Wakeups if of.threads < of.cpus => format!(
            "requests take long to build, or many answers come at once: use smaller requests, \
             fewer --connections, or more --threads than {}",
            of.threads
        ),
        Bottleneck::Wakeups => "requests take long to build, or many answers come at once: use \
                                smaller requests, or fewer --connections"
            .to_owned(),
        _ => remedy.to_owned(),
    }
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
    use crate::recorder::Figure;

    const MS: Duration = Duration::from_millis(1);

    fn quiet(closed: bool) -> Evidence {
        Evidence {
            sends: 10_000,
            figures: vec![("the p99 of latency".to_owned(), Figure::delayed(MS, MS / 20))],
            latency_mean: MS / 2,
            turnaround_mean: MS / 100,
            busy: 0.1,
            cpus: 4,
            connections: 64,
            found: 64.0,
            ..Evidence::quiet(closed)
        }
    }

    fn with_p99(measured: Duration, by: Duration, of: &Evidence) -> Evidence {
        let figures = vec![("the p99 of latency".to_owned(), Figure::delayed(measured, by))];
        Evidence { figures, ..of.clone() }
    }

    fn causes(of: Evidence) -> Vec<String> {
        doubts(&of, &THRESHOLDS).into_iter().map(|doubt| doubt.cause).collect()
    }

    #[test]
    fn a_quiet_run_is_valid_and_so_is_a_slow_server() {
        assert!(causes(quiet(false)).is_empty() && causes(quiet(true)).is_empty());
        let slow = with_p99(9000 * MS, Duration::ZERO, &quiet(false));
        let slow = Evidence { latency_mean: 5000 * MS, ..slow };
        assert!(causes(slow).is_empty());
    }

    #[test]
    fn each_fault_of_the_injector_is_named_alone() {
        let (open, closed) = (quiet(false), quiet(true));
        for (evidence, word) in [
            (Evidence { late: 11, ..open.clone() }, "late by over 1 ms"),
            (with_p99(MS, MS / 4, &open), "the p99 of latency is 1.00 ms, and 0.75 ms without"),
            (with_p99(9 * MS, MS, &closed), "the p99 of latency is 9.00 ms, and 8.00 ms without"),
            (Evidence { busy: 0.86, ..open.clone() }, "busy for 86 %"),
            (Evidence { busy: 0.96, ..closed.clone() }, "the limit found is the injector's"),
            (Evidence { turnaround_mean: MS / 9, ..closed.clone() }, "to the next send"),
            (Evidence { waited: 0.03, stolen: 0.03, ..open.clone() }, "waited for a CPU for 6 %"),
            (Evidence { errors: 1, ..open.clone() }, "1 errors"),
            (Evidence { stood: 0.02, ..open.clone() }, "stood still for 2.0 %"),
            (Evidence { stood: 0.02, ..closed.clone() }, "stood still for 2.0 %"),
            (Evidence { found: 62.0, ..closed.clone() }, "62.0 connections of 64"),
        ] {
            let causes = causes(evidence);
            assert!(causes.len() == 1 && causes[0].contains(word), "{word}: {causes:?}");
        }
    }

    #[test]
    fn each_cause_has_a_remedy_of_its_own() {
        let (open, closed) = (quiet(false), quiet(true));
        let late = Evidence { late: 999, ..open.clone() };
        let busy = Evidence { busy: 0.99, ..late.clone() };
        let error = |error: &str| Evidence { errors: 9, error: error.to_owned(), ..open.clone() };
        for (evidence, word) in [
            (late.clone(), "had time to spare and was woken late"),
            (busy.clone(), "4 CPUs, and the injector 1 of them: give it 2 (--threads)"),
            (Evidence { threads: 3, ..busy.clone() }, "give it 4 (--threads)"),
            (
                Evidence { threads: 4, ..busy.clone() },
                "all 4 CPUs have a thread of the injector: lower",
            ),
            (Evidence { busy: 0.99, threads: 4, ..closed.clone() }, "or with fewer --connections"),
            (Evidence { waited: 0.3, ..busy.clone() }, "where no other program needs its CPUs"),
            (
                Evidence { waited: 0.3, stood: 0.1, ..late.clone() },
                "where no other program needs its CPUs",
            ),
            (Evidence { stood: 0.3, ..busy }, "where nothing stops the injector"),
            (Evidence { turnaround_mean: MS, ..closed }, "or more --threads than 1"),
            (error("opening: Too many open files (os error 24)"), "ulimit -n"),
            (error("Cannot assign requested address (os error 99)"), "ip_local_port_range"),
            (error("the ledger could not be kept"), "make room for the ledger"),
        ] {
            let doubts = doubts(&evidence, &THRESHOLDS);
            assert!(doubts[0].remedy.contains(word), "{word}: {doubts:?}");
        }
    }

    #[test]
    fn what_is_below_its_floor_or_of_the_other_loop_is_no_reason() {
        let (open, closed) = (quiet(false), quiet(true));
        for evidence in [
            Evidence { late: 9, sends: 100, ..open.clone() },
            Evidence { late: 10, sends: 10_000, ..open.clone() },
            with_p99(MS / 4, MS / 5, &open),
            with_p99(1000 * MS, 90 * MS, &open),
            Evidence { busy: 0.9, late: 5000, ..closed.clone() },
            Evidence { stood: 0.01, ..open.clone() },
            Evidence { turnaround_mean: MS / 11, latency_mean: MS / 5, ..closed.clone() },
            Evidence { turnaround_mean: 9 * MS, found: 1.0, ..open.clone() },
        ] {
            let causes = causes(evidence);
            assert!(causes.is_empty(), "{causes:?}");
        }
    }
}
