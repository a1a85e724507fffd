//! What came of a run, in words for a terminal. No figure of a run that can't be believed stands
//! without that word.

mod json;
#[cfg(test)]
pub(crate) mod tests;
mod vegeta;

use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter};
use std::time::{Duration, SystemTime};

use watch::words;

use crate::engine::Outcome;
use crate::gate::{Gate, Judgement, Sliding};
use crate::limit::FAILED_MAX;
use crate::machine;
use crate::recorder::{Correction, Distribution, Figure, Kind, Measure, Tolerance};
use crate::verdict::{Doubt, doubt_of_demand};

/// Errors that are shown.
const ERRORS_MAX: usize = 10;
/// Servers that are shown.
const SERVERS_MAX: usize = 20;
/// The shares that are shown, with the longest beside.
const SHARES: [f64; 3] = [0.5, 0.99, 0.999];

/// What came of a run, with what was demanded of it.
#[derive(Debug)]
pub struct Summary<'a> {
    outcome: &'a Outcome,
    /// What was missed, and what was found instead.
    missed: Vec<(Gate, String)>,
    /// Why its numbers can't be believed.
    doubts: Vec<Doubt>,
    /// A demand says how many requests may fail, and that is met.
    may_fail: bool,
}

impl<'a> Summary<'a> {
    /// Judges a run by the demands that it has to meet.
    pub fn new(outcome: &'a Outcome, gates: &[Gate]) -> Self {
        let doubts = outcome.doubts();
        let mut of = Self { outcome, missed: Vec::new(), doubts, may_fail: false };
        let tolerance = outcome.thresholds.tolerance();
        for gate in gates {
            match gate.judge(&outcome.results, outcome.measured, &tolerance) {
                Judgement::Met if gate.lacks_results(&outcome.results) => {
                    of.missed.push((gate.clone(), "nothing: no request of it ended".to_owned()));
                }
                Judgement::Met => of.may_fail |= gate.allows_failures(),
                Judgement::Missed(found) => of.missed.push((gate.clone(), found)),
                Judgement::Unjudged(found) => of.doubt(gate, &found),
            }
        }
        of
    }

    /// Adds what was seen of demands on stretches of the run, once it has ended.
    #[must_use]
    pub fn with_stretches(mut self, sliding: &Sliding) -> Self {
        self.missed.extend(sliding.missed());
        sliding.unjudged().iter().for_each(|(gate, found)| self.doubt(gate, found));
        self
    }

    fn doubt(&mut self, gate: &Gate, found: &str) {
        self.doubts.push(doubt_of_demand(&gate.to_string(), found));
    }

    /// All of it for people: these words, and the figures in vegeta's shape.
    pub fn text(&self) -> String {
        let (began, host) = (date_time(self.outcome.wall), machine::host());
        format!("{self}began    {began} on {host}\n\n{}", vegeta::Table(self.outcome))
    }

    /// The verdict in a word.
    pub fn verdict(&self) -> &'static str {
        if self.is_invalid() { "INVALID" } else { "VALID" }
    }

    /// Whether its numbers can't be believed.
    pub fn is_invalid(&self) -> bool {
        !self.doubts.is_empty() || self.outcome.measured.is_zero()
    }

    /// Whether most requests failed, and no demand allows that.
    pub fn is_failing(&self) -> bool {
        self.outcome.results.mostly_failed() && !self.may_fail
    }

    /// What the server's limit could be looked for by, after an open loop in which it kept up: the
    /// p99 within five times what it was, rounded up.
    pub fn next_demand(&self) -> Option<String> {
        let of = self.outcome;
        let kept_up = of.results.count(Kind::Unsent) == 0 && failed_share(of) <= FAILED_MAX;
        if of.closed || self.is_invalid() || !kept_up {
            return None;
        }
        let wanted = of.results.times(Measure::Latency, None).quantile(0.99) * 5;
        let round = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
        let millis = round.into_iter().find(|millis| wanted <= Duration::from_millis(*millis))?;
        Some(format!("p99<{millis}ms"))
    }

    /// Whether something that was demanded is not so.
    pub fn has_missed(&self) -> bool {
        !self.missed.is_empty() || self.outcome.aborted.is_some()
    }
}

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let of = self.outcome;
        writeln!(f, "{}  {}", self.verdict(), headline(of, self.is_invalid()))?;
        for doubt in &self.doubts {
            writeln!(f, "  because {}; {}", doubt.cause, doubt.remedy)?;
        }
        if of.measured.is_zero() {
            writeln!(f, "  because it was ended before anything counted")?;
        }
        if let Some((gate, found)) = &of.aborted {
            writeln!(f, "ABORTED  {gate}: it was {found}")?;
        }
        for (gate, found) in &self.missed {
            writeln!(f, "MISSED  {gate}: it was {found}")?;
        }
        if self.is_failing() && !self.is_invalid() {
            writeln!(f, "FAILED  {}", advice(of))?;
        }
        for words in warnings(of) {
            writeln!(f, "WARNING  {words}")?;
        }
        if of.stopped {
            writeln!(f, "STOPPED  before its end, after {}", seconds(of.measured))?;
        }
        if of.used_up {
            let span = seconds(of.measured);
            writeln!(f, "ENDED  after {span}: each row of the data had its request")?;
        }
        times(f, of)?;
        within(f, of)?;
        injector(f, of)?;
        ways(f, of)?;
        servers(f, of)?;
        if let Some(sharing) = &of.sharing {
            writeln!(f, "shared   {sharing}")?;
        }
        if of.warm_up.requests > 0 {
            let (count, failed) = (words::count(of.warm_up.requests), of.warm_up.failed);
            let span = seconds(of.warm_up.duration);
            writeln!(f, "warm-up  {span}, in no figure: {count} requests, {failed} failed")?;
        }
        let rest = of.measured.subsec_millis();
        if rest > 0 {
            writeln!(
                f,
                "partial  the last {rest} ms are not a whole second, so not in a row of rates"
            )?;
        }
        for (owner, words, count) in of.errors.commonest(ERRORS_MAX) {
            writeln!(f, "error    {} x {owner}: {words}", words::count(count))?;
        }
        Ok(())
    }
}

/// What to do about a run whose requests failed for the most part.
fn advice(of: &Outcome) -> String {
    let first = of.errors.commonest(1).first().map(|(owner, words, _)| format!("{owner}: {words}"));
    let first = first.unwrap_or_else(|| "no answer came in time".to_owned());
    format!(
        "these are times of failures, most of them {first}; mend that, or allow it with --require \
         'errors<=100%'"
    )
}

/// What is true of the numbers and may not be what was thought.
fn warnings(of: &Outcome) -> Vec<String> {
    let expected = shown(of.network.expected.unwrap_or_default());
    let too_long = of.network.too_long().into_iter();
    let words = too_long.map(|(address, took)| {
        format!("the way to {address} takes {}, and {expected} was expected", shown(took))
    });
    words.collect()
}

/// The share of requests that are no successes.
fn failed_share(of: &Outcome) -> f64 {
    of.results.failed() as f64 / of.results.total().max(1) as f64
}

/// The run in a sentence.
fn headline(of: &Outcome, invalid: bool) -> String {
    let (total, failed) = (of.results.total(), of.results.failed());
    let unsent = of.results.count(Kind::Unsent);
    // Of a run that can't be believed nothing is said about the server.
    let share = failed_share(of);
    let what = if invalid {
        "These numbers can't be believed"
    } else if total > 0 && failed == total {
        "Every request failed"
    } else if of.results.mostly_failed() {
        "Most requests failed"
    } else if unsent > 0 {
        "The server did not keep up"
    } else if share > FAILED_MAX {
        &format!("{:.1} % of requests failed", share * 100.0)
    } else if of.closed {
        "As fast as answers came"
    } else if of.lateness.blocked > 0 {
        "The server kept up with delays"
    } else {
        "The server kept up"
    };
    let errors = match failed - unsent {
        0 => "no errors".to_owned(),
        1 => "1 error".to_owned(),
        more => format!("{} errors", words::count(more)),
    };
    let span = seconds(of.measured);
    let mut text = format!("{what}: {} requests in {span}, {errors}", words::count(total));
    if unsent > 0 {
        text += &format!(", {} not sent", words::count(unsent));
    }
    if of.closed {
        let rate = (total - failed) as f64 / of.measured.as_secs_f64().max(f64::MIN_POSITIVE);
        text += &format!(", {} answered a second", words::count(rate.round() as u64));
    }
    text + "."
}

/// What requests are made of, where that is more than one command each.
fn within(f: &mut Formatter<'_>, of: &Outcome) -> fmt::Result {
    if of.commands > of.results.total() - of.results.count(Kind::Unsent) {
        let rate = of.commands as f64 / of.measured.as_secs_f64().max(f64::MIN_POSITIVE);
        let (all, rate) = (words::count(of.commands), words::count(rate.round() as u64));
        writeln!(f, "within   {all} commands or points in these requests, {rate} a second")?;
    }
    Ok(())
}

fn times(f: &mut Formatter<'_>, of: &Outcome) -> fmt::Result {
    let tolerance = of.thresholds.tolerance();
    writeln!(f, "         {:>9}{:>10}{:>10}{:>10}", "p50", "p99", "p99.9", "max")?;
    let mut lines = Vec::new();
    let service = of.results.distribution(Measure::Service, None);
    if !of.closed {
        let latency = of.results.distribution(Measure::Latency, None);
        lines.push(("latency", latency, "from when each was due".to_owned()));
    }
    lines.push(("service", service, "from its send".to_owned()));
    // Where all succeeded, or none did, the line of all is theirs.
    let succeeded = of.results.count(Kind::Succeeded);
    if succeeded > 0 && of.results.failed() > 0 {
        for kind in Kind::ALL {
            let latency = of.results.distribution(Measure::Latency, Some(kind));
            let count = words::count(latency.count());
            lines.push(("", latency, format!("latency of {count} that {}", ended(kind))));
        }
    }
    lines.extend(operations(of));
    lines.retain(|(name, times, _)| *name == "service" || times.count() > 0);
    for (name, times, what) in &lines {
        line(f, name, times, what, &tolerance)?;
    }
    if of.closed {
        // That is the injector's own, all of it.
        let turned = Distribution::new(of.turnaround.clone(), &Correction::default());
        line(f, "turned", &turned, "from an answer to the next send", &tolerance)?;
    }
    marks(f, &lines, &tolerance)
}

/// A line for each operation, where there are several.
fn operations(of: &Outcome) -> Vec<(&str, Distribution, String)> {
    if of.operations.len() < 2 {
        return Vec::new();
    }
    let (measure, what) = match of.closed {
        true => (Measure::Service, "service"),
        false => (Measure::Latency, "latency"),
    };
    let each = of.operations.iter().enumerate().map(|(operation, name)| {
        let times = of.results.of(measure, operation);
        let words = format!("{what} of {} requests", words::count(times.count()));
        (&**name, times, words)
    });
    each.collect()
}

/// What the figures that are marked would be without the injector's part: of the first line that
/// has any, and that there may be others.
fn marks(
    f: &mut Formatter<'_>,
    lines: &[(&str, Distribution, String)],
    tolerance: &Tolerance,
) -> fmt::Result {
    let of_line = |(name, times, _): &(&str, Distribution, String)| {
        let marked = shown_figures(times).into_iter();
        let marked = marked.filter(|(_, figure)| figure.is_injectors(tolerance));
        let words = marked.map(|(of, figure)| format!("{of} {}", shown(figure.corrected)));
        let words: Vec<_> = words.collect();
        (!words.is_empty()).then(|| (name.to_string(), words.join(", ")))
    };
    let Some((name, words)) = lines.iter().find_map(of_line) else { return Ok(()) };
    let of = if name.is_empty() { String::new() } else { format!(", {name} has") };
    writeln!(
        f,
        "*        the injector's, by which no demand is judged: without its delays{of} {words}"
    )
}

/// The figures of a line, by name.
fn shown_figures(times: &Distribution) -> [(&'static str, Figure); 4] {
    let [p50, p99, p999] = SHARES.map(|share| times.quantile(share));
    [("p50", p50), ("p99", p99), ("p99.9", p999), ("max", times.max())]
}

/// What requests of a kind did.
pub fn ended(kind: Kind) -> &'static str {
    match kind {
        Kind::Succeeded => "succeeded",
        Kind::Server => "the server failed",
        Kind::Check => "failed a check",
        Kind::Timeout => "timed out, at their age (>=)",
        Kind::Network => "the network failed",
        Kind::Injector => "the injector failed",
        Kind::Unsent => "were not sent, at their age (>=)",
    }
}

fn line(
    f: &mut Formatter<'_>,
    name: &str,
    times: &Distribution,
    what: &str,
    tolerance: &Tolerance,
) -> fmt::Result {
    write!(f, "{name:<8}")?;
    let figures = shown_figures(times).map(|(_, figure)| marked(figure, tolerance));
    // A mark stands in the gap behind its figure, so that figures stand in columns.
    let width = |at: usize| if at == 0 || !figures[at - 1].ends_with('*') { 10 } else { 9 };
    for (at, figure) in figures.iter().enumerate() {
        let width = width(at) + usize::from(figure.ends_with('*'));
        write!(f, "{figure:>width$}")?;
    }
    let gap = if figures[3].ends_with('*') { " " } else { "  " };
    writeln!(f, "{gap}{what}")
}

/// A figure as a table has it, with a mark where the injector made it.
pub fn marked(figure: Figure, tolerance: &Tolerance) -> String {
    let mark = if figure.is_injectors(tolerance) { "*" } else { "" };
    format!("{}{mark}", shown(figure.measured))
}

fn injector(f: &mut Formatter<'_>, of: &Outcome) -> fmt::Result {
    let busy = of.health.busy * 100.0;
    write!(f, "injector {busy:.0} % busy, ")?;
    if of.closed {
        let found = of.occupancy.connections(of.measured);
        write!(f, "Little's law finds {found:.1} of {} connections; ", of.connections)?;
    } else {
        write!(f, "{} late; ", words::count(of.lateness.late))?;
    }
    write!(f, "network {}", shown(of.network.shortest()))?;
    if !of.closed {
        write!(f, "; {} waited for a connection", words::count(of.lateness.blocked))?;
        if of.lateness.blocked > 0 {
            let (p50, max) = (of.lateness.waits.quantile(0.5), of.lateness.waits.max());
            write!(f, " (p50 {}, max {})", shown(p50), shown(max))?;
        }
    }
    if of.reconnects > 0 {
        write!(f, "; {} connections opened anew", words::count(of.reconnects))?;
    }
    writeln!(f)
}

/// A line for each address, where there are several.
fn ways(f: &mut Formatter<'_>, of: &Outcome) -> fmt::Result {
    let ways = of.network.ways();
    for way in ways.iter().filter(|_| ways.len() > 1) {
        let told = way.round_trip.map_or_else(|| "not told".to_owned(), shown);
        let (p50, count) = (shown(way.connects.quantile(0.5)), words::count(way.connects.count()));
        let address = &way.address;
        writeln!(f, "network  {address}: {told}; {count} connections opened in {p50} (p50)")?;
    }
    Ok(())
}

/// A line for each of several servers that a registry has; those with most requests first.
fn servers(f: &mut Formatter<'_>, of: &Outcome) -> fmt::Result {
    let mut servers: Vec<_> = of.calls.servers.iter().collect();
    servers.sort_by_key(|(_, calls)| Reverse(calls.requests));
    for (server, calls) in servers.iter().take(SERVERS_MAX) {
        let [requests, failed] = [calls.requests, calls.failed].map(words::count);
        writeln!(f, "server   {server}: {requests} requests, {failed} failed")?;
    }
    for (server, why) in of.calls.left_out.iter().take(SERVERS_MAX) {
        writeln!(f, "left out {server}: {why}")?;
    }
    let unnamed =
        [servers.len(), of.calls.left_out.len()].map(|len| len.saturating_sub(SERVERS_MAX));
    match unnamed {
        [0, 0] => Ok(()),
        [used, left_out] => {
            writeln!(f, "server   {used} others, and {left_out} left out: report.json has all")
        }
    }
}

/// A time as a table has it.
pub fn shown(span: Duration) -> String {
    let millis = span.as_secs_f64() * 1000.0;
    match millis {
        _ if millis < 99.995 => format!("{millis:.2} ms"),
        _ if millis < 9_999.5 => format!("{millis:.0} ms"),
        _ => format!("{:.1} s", millis / 1000.0),
    }
}

/// A moment by the wall clock, to the second: `2026-11-23T18:50:50Z`.
pub fn date_time(wall: SystemTime) -> String {
    let seconds = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let nanos = i64::try_from(seconds).unwrap_or_default().saturating_mul(1_000_000_000);
    wire::influxql::rfc3339_short(nanos)
}

/// A span as somebody would write it.
fn seconds(span: Duration) -> String {
    let text = format!("{:.3}", span.as_secs_f64());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}
