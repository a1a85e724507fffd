//! What is demanded of a run: `p99<20ms`, `errors<0.1%`, `rate>1900`.

mod abort;
mod sliding;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::recorder::{Measure, Results, Tolerance};
pub use abort::AbortGates;
pub use sliding::{STRETCH_MAX, Sliding};

/// What a gate looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    /// A share of all results is answered within that.
    Quantile(f64),
    Max,
    Mean,
    /// Results that are no successes, as a share of all.
    ErrorShare,
    /// Results that are no successes.
    Errors,
    /// Requests that succeeded a second.
    Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

/// A demand on a figure, which a run meets or misses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Gate {
    text: String,
    measure: Measure,
    figure: Figure,
    relation: Relation,
    /// In seconds for times, a share for shares.
    limit: f64,
    /// It is demanded of any so many windows in a row, and not of the run.
    stretch: Option<u32>,
    /// Of which operations it is demanded.
    of: Of,
}

#[derive(Debug, Clone, PartialEq)]
enum Of {
    All,
    /// Those of that name, which nobody has looked up yet.
    Named(String),
    /// Those with these numbers.
    Numbers(Vec<usize>),
}

/// What is known of a demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It is met, whatever the injector added.
    Met,
    /// It is not, as was found.
    Missed(String),
    /// What was found is the injector's.
    Unjudged(String),
}

impl Judgement {
    /// What was found, where that can't be judged.
    pub fn unjudged(self) -> Option<String> {
        match self {
            Self::Unjudged(found) => Some(found),
            Self::Met | Self::Missed(_) => None,
        }
    }
}

/// How much of a pause may go unseen: a thread of the injector sleeps no longer between two looks.
const PAUSE_UNSEEN_MAX: Duration = Duration::from_millis(5);

/// What was found, and what would have been without the injector: seconds, a share or a number.
#[derive(Debug, Clone, Copy)]
struct MeasuredValue {
    measured: f64,
    corrected: f64,
    /// What the server may have done at best: a pause may have begun before it was seen.
    at_best: f64,
    /// Whether the injector made it.
    is_injectors: bool,
}

impl MeasuredValue {
    /// A count, to which the injector adds nothing: what it fails to do is an error of its own.
    fn counted(value: f64) -> Self {
        Self { measured: value, corrected: value, at_best: value, is_injectors: false }
    }

    fn time(figure: crate::recorder::Figure, tolerance: &Tolerance) -> Self {
        let (measured, corrected) = (figure.measured.as_secs_f64(), figure.corrected.as_secs_f64());
        let at_best = figure.corrected.saturating_sub(PAUSE_UNSEEN_MAX).as_secs_f64();
        Self { measured, corrected, at_best, is_injectors: figure.is_injectors(tolerance) }
    }

    /// So many a second of a time in which the injector paused.
    fn rate(count: u64, measured: Duration, paused: Duration, tolerance: &Tolerance) -> Self {
        let rate = |span: Duration| count as f64 / span.as_secs_f64().max(f64::MIN_POSITIVE);
        let (whole, corrected) = (rate(measured), rate(measured.saturating_sub(paused)));
        let is_injectors = corrected > whole * (1.0 + tolerance.share);
        let at_best = corrected * (1.0 + tolerance.share);
        Self { measured: whole, corrected, at_best, is_injectors }
    }
}

/// A demand can't be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a demand: {what}; write it as 'p99<20ms', 'service p50<1ms', 'max<1s', \
         'mean<5ms', 'errors<0.1%', 'errors<10' or 'rate>1900', and behind it, where it is of one \
         operation, 'of get', and where it is of any part of the run, 'in any 10s' (1 to \
         {STRETCH_MAX})"
)]
pub struct GateError {
    text: String,
    what: &'static str,
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Gate {
    /// Whether what it looks at grows with the number of injectors: a rate, a number of errors.
    pub fn is_of_the_sum(&self) -> bool {
        matches!(self.figure, Figure::Rate | Figure::Errors)
    }
}

impl TryFrom<String> for Gate {
    type Error = GateError;

    fn try_from(text: String) -> Result<Self, GateError> {
        text.parse()
    }
}

impl From<Gate> for String {
    fn from(gate: Gate) -> Self {
        gate.to_string()
    }
}

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let wrong = |what| GateError { text: text.to_owned(), what };
        let (demand, stretch) = match text.rsplit_once(" in any ") {
            None => (text, None),
            Some((demand, stretch)) => {
                let windows = windows(stretch.trim());
                (demand, Some(windows.ok_or_else(|| wrong("its stretch is not a whole seconds"))?))
            }
        };
        let (demand, of) = match demand.split_once(" of ") {
            None => (demand, Of::All),
            Some((demand, name)) => (demand, Of::Named(name.trim().to_owned())),
        };
        let at = demand.find(['<', '>']).ok_or_else(|| wrong("it has no < or >"))?;
        let (name, rest) = demand.split_at(at);
        let (relation, limit) = match (rest.starts_with('<'), rest[1..].strip_prefix('=')) {
            (true, Some(limit)) => (Relation::LessOrEqual, limit),
            (true, None) => (Relation::Less, &rest[1..]),
            (false, Some(limit)) => (Relation::MoreOrEqual, limit),
            (false, None) => (Relation::More, &rest[1..]),
        };
        let (name, limit) = (name.trim(), limit.trim());
        let (measure, name) = match name.strip_prefix("service ") {
            Some(name) => (Measure::Service, name.trim()),
            None => (Measure::Latency, name),
        };
        let figure = match name {
            "max" => Figure::Max,
            "mean" => Figure::Mean,
            "errors" if limit.ends_with('%') => Figure::ErrorShare,
            "errors" => Figure::Errors,
            "rate" => Figure::Rate,
            _ => {
                let percent = name.strip_prefix('p').and_then(number);
                let percent = percent.filter(|percent| *percent <= 100.0);
                Figure::Quantile(percent.ok_or_else(|| wrong("its figure is not known"))? / 100.0)
            }
        };
        let limit = match figure {
            Figure::Quantile(_) | Figure::Max | Figure::Mean => {
                let span = seconds(limit).ok_or_else(|| wrong("its limit is not a duration"))?;
                span.as_secs_f64()
            }
            Figure::ErrorShare => {
                let share = number(limit.trim_end_matches('%').trim());
                share.ok_or_else(|| wrong("its limit is not a share"))? / 100.0
            }
            Figure::Errors | Figure::Rate => {
                number(limit).ok_or_else(|| wrong("its limit is not a number"))?
            }
        };
        let text = text.trim().to_owned();
        Ok(Self { text, measure, figure, relation, limit, stretch, of })
    }
}

/// A demand is on what there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{gate}: there is no operation {name:?}; there are {known}")]
pub struct NoSuchOperation {
    gate: String,
    name: String,
    known: String,
}

impl Gate {
    /// The same on the operations that it names, of a run that has these. A name is an operation's
    /// own, or that of a load of several operations.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn on(mut self, operations: &[String]) -> Result<Self, NoSuchOperation> {
        let Of::Named(name) = &self.of else { return Ok(self) };
        let is_of = |own: &str| {
            own == name || own.strip_prefix(&**name).is_some_and(|rest| rest.starts_with(' '))
        };
        let numbers = operations.iter().enumerate().filter(|(_, own)| is_of(own));
        let numbers: Vec<_> = numbers.map(|(number, _)| number).collect();
        if numbers.is_empty() {
            let (gate, name) = (self.text.clone(), name.clone());
            return Err(NoSuchOperation { gate, name, known: operations.join(", ") });
        }
        self.of = Of::Numbers(numbers);
        Ok(self)
    }

    /// Judges results of a run; a demand on stretches is met here: [`Sliding`] looks at it.
    pub fn judge(&self, results: &Results, measured: Duration, tolerance: &Tolerance) -> Judgement {
        match self.stretch {
            Some(_) => Judgement::Met,
            None => self.judge_part(results, measured, tolerance),
        }
    }

    /// Judges results of whatever part of a run.
    fn judge_part(
        &self,
        results: &Results,
        measured: Duration,
        tolerance: &Tolerance,
    ) -> Judgement {
        let of_these;
        let results = match &self.of {
            Of::All => results,
            Of::Numbers(numbers) => {
                of_these = results.only(numbers);
                &of_these
            }
            // Nobody has looked it up: it is met by nothing.
            Of::Named(name) => return Judgement::Missed(format!("not looked for, of {name}")),
        };
        let found = self.found(results, measured, tolerance);
        if self.is_of_speed() && results.mostly_failed() {
            let share = 100.0 * results.failed() as f64 / results.total().max(1) as f64;
            let words = self.words(found.measured);
            return Judgement::Missed(format!("{words}, and {share:.1} % of these failed"));
        }
        // A demand that both figures meet is met. One that both miss is missed only if the server
        // missed it at best.
        let is_met = self.holds(found.measured);
        match (is_met, found.is_injectors) {
            (true, false) => Judgement::Met,
            (true, true) if self.holds(found.corrected) => Judgement::Met,
            (false, false) => Judgement::Missed(self.words(found.measured)),
            (false, true) if !self.holds(found.corrected) && !self.holds(found.at_best) => {
                Judgement::Missed(self.words(found.corrected))
            }
            (_, true) => Judgement::Unjudged(format!(
                "{}, and {} without the injector's own delays",
                self.words(found.measured),
                self.words(found.corrected)
            )),
        }
    }

    fn found(&self, results: &Results, measured: Duration, tolerance: &Tolerance) -> MeasuredValue {
        let times = || results.distribution(self.measure, None);
        let failed = || results.failed() as f64;
        match self.figure {
            Figure::Quantile(share) => MeasuredValue::time(times().quantile(share), tolerance),
            Figure::Max => MeasuredValue::time(times().max(), tolerance),
            Figure::Mean => MeasuredValue::time(times().mean(), tolerance),
            Figure::ErrorShare => MeasuredValue::counted(failed() / results.total().max(1) as f64),
            Figure::Errors => MeasuredValue::counted(failed()),
            Figure::Rate => {
                let succeeded = results.total() - results.failed();
                MeasuredValue::rate(succeeded, measured, results.paused, tolerance)
            }
        }
    }

    /// Whether it wants answers to be quick. Failures often are, which says nothing of the answers.
    fn is_of_speed(&self) -> bool {
        let is_time = matches!(self.figure, Figure::Quantile(_) | Figure::Max | Figure::Mean);
        is_time && matches!(self.relation, Relation::Less | Relation::LessOrEqual)
    }

    /// Whether it says how many requests may fail, of all operations.
    pub fn allows_failures(&self) -> bool {
        let is_of_errors = matches!(self.figure, Figure::ErrorShare | Figure::Errors);
        is_of_errors && self.stretch.is_none() && self.of == Of::All
    }

    /// Whether it is of operations of which nothing came: no time of theirs is known.
    pub fn lacks_results(&self, results: &Results) -> bool {
        let Of::Numbers(numbers) = &self.of else { return false };
        self.is_of_speed() && results.only(numbers).total() == 0
    }

    fn holds(&self, found: f64) -> bool {
        match self.relation {
            Relation::Less => found < self.limit,
            Relation::LessOrEqual => found <= self.limit,
            Relation::More => found > self.limit,
            Relation::MoreOrEqual => found >= self.limit,
        }
    }

    fn words(&self, found: f64) -> String {
        match self.figure {
            Figure::Quantile(_) | Figure::Max | Figure::Mean => {
                format!("{:.2?}", Duration::try_from_secs_f64(found).unwrap_or(Duration::MAX))
            }
            Figure::ErrorShare => format!("{:.3} %", found * 100.0),
            Figure::Errors | Figure::Rate => format!("{found:.1}"),
        }
    }
}

fn windows(text: &str) -> Option<u32> {
    let span = text.parse::<units::Duration>().ok()?.get();
    let whole = u32::try_from(span.as_secs()).ok()?;
    (span.subsec_nanos() == 0 && (1..=STRETCH_MAX).contains(&whole)).then_some(whole)
}

fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain)
}

fn seconds(text: &str) -> Option<Duration> {
    text.parse::<units::Duration>().ok().map(units::Duration::get)
}
