//! What is demanded of a run: `p99<20ms`, `errors<0.1%`, `rate>1900`.

mod sliding;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::recorder::{Measure, Results};
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
    /// Successes a second.
    Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

/// A demand.
#[derive(Debug, Clone, PartialEq)]
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

/// A demand can't be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no demand: {what}; write it as 'p99<20ms', 'service p50<1ms', 'max<1s', \
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

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Self, GateError> {
        let wrong = |what| GateError { text: text.to_owned(), what };
        let (demand, stretch) = match text.rsplit_once(" in any ") {
            None => (text, None),
            Some((demand, stretch)) => {
                let windows = windows(stretch.trim());
                (demand, Some(windows.ok_or_else(|| wrong("its stretch is no whole seconds"))?))
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
                let span = seconds(limit).ok_or_else(|| wrong("its limit is no duration"))?;
                span.as_secs_f64()
            }
            Figure::ErrorShare => {
                let share = number(limit.trim_end_matches('%').trim());
                share.ok_or_else(|| wrong("its limit is no share"))? / 100.0
            }
            Figure::Errors | Figure::Rate => {
                number(limit).ok_or_else(|| wrong("its limit is no number"))?
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

    /// What was found instead; nothing where the demand is met, or is one of stretches, which
    /// [`Sliding`] looks at.
    pub fn missed(&self, results: &Results, measured: Duration) -> Option<String> {
        if self.stretch.is_some() { None } else { self.found(results, measured) }
    }

    /// What was found instead in results of whatever part of a run.
    pub fn found(&self, results: &Results, measured: Duration) -> Option<String> {
        match &self.of {
            Of::All => self.found_in(results, measured),
            Of::Numbers(numbers) => self.found_in(&results.only(numbers), measured),
            // Nobody has looked it up: it is met by nothing.
            Of::Named(name) => Some(format!("not looked for, of {name}")),
        }
    }

    fn found_in(&self, results: &Results, measured: Duration) -> Option<String> {
        let times = || results.times(self.measure, None);
        let (found, is_time) = match self.figure {
            Figure::Quantile(share) => (times().quantile(share).as_secs_f64(), true),
            Figure::Max => (times().max().as_secs_f64(), true),
            Figure::Mean => (times().mean().as_secs_f64(), true),
            Figure::ErrorShare => (results.failed() as f64 / results.total().max(1) as f64, false),
            Figure::Errors => (results.failed() as f64, false),
            Figure::Rate => {
                let succeeded = results.total() - results.failed();
                (succeeded as f64 / measured.as_secs_f64().max(f64::MIN_POSITIVE), false)
            }
        };
        let met = match self.relation {
            Relation::Less => found < self.limit,
            Relation::LessOrEqual => found <= self.limit,
            Relation::More => found > self.limit,
            Relation::MoreOrEqual => found >= self.limit,
        };
        if met {
            None
        } else if is_time {
            Some(format!("{:.2?}", Duration::from_secs_f64(found)))
        } else if self.figure == Figure::ErrorShare {
            Some(format!("{:.3} %", found * 100.0))
        } else {
            Some(format!("{found:.1}"))
        }
    }
}

fn windows(text: &str) -> Option<u32> {
    let span = text.parse::<watch::units::Duration>().ok()?.get();
    let whole = u32::try_from(span.as_secs()).ok()?;
    (span.subsec_nanos() == 0 && (1..=STRETCH_MAX).contains(&whole)).then_some(whole)
}

fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| plain)
}

fn seconds(text: &str) -> Option<Duration> {
    text.parse::<watch::units::Duration>().ok().map(watch::units::Duration::get)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::proptest;

    use super::Gate;
    use crate::recorder::{Kind, Results};

    const MS: Duration = Duration::from_millis(1);

    fn missed(gate: &str) -> Option<String> {
        let mut results = Results::default();
        for number in 1..=99 {
            results.note(0, Kind::Succeeded, 2 * number * MS, number * MS);
        }
        results.note(0, Kind::Timeout, 1000 * MS, 1000 * MS);
        gate.parse::<Gate>().unwrap().missed(&results, Duration::from_secs(2))
    }

    #[test]
    fn a_demand_is_met_or_says_what_was_found() {
        for met in [
            "p50<110ms",
            "p99<=200ms",
            "service p50<51ms",
            "max<2s",
            "mean<1s",
            "errors<2%",
            "errors<=1",
            "rate>49",
            " p99.9 > 900ms ",
        ] {
            assert_eq!(missed(met), None, "{met}");
        }
        for (gate, found) in [
            ("p50<100ms", "ms"),
            ("max<1s", "1.00s"),
            ("errors<1%", "1.000 %"),
            ("errors<1", "1.0"),
            ("rate>=50", "49.5"),
        ] {
            let said = missed(gate);
            assert!(said.as_ref().is_some_and(|said| said.contains(found)), "{gate}: {said:?}");
        }
    }

    #[test]
    fn a_demand_on_an_operation_looks_at_no_other() {
        let mut results = Results::default();
        for _ in 0..100 {
            results.note(0, Kind::Succeeded, MS, MS);
            results.note(1, Kind::Server, 50 * MS, 50 * MS);
            results.note(2, Kind::Succeeded, 9 * MS, 9 * MS);
        }
        let names = ["cache get", "pipeline of 16", "cache set"].map(str::to_owned);
        let missed = |text: &str| {
            let gate = text.parse::<Gate>().unwrap().on(&names).unwrap();
            gate.missed(&results, Duration::from_secs(1)).is_some()
        };
        assert!(!missed("p99<5ms of cache get") && missed("p99<5ms of cache set"));
        assert!(!missed("errors<1% of cache") && missed("errors<1% of pipeline of 16"));
        assert!(!missed("max<10ms of cache") && !missed("rate>199 of cache"));
        assert!(!missed("p50<60ms of cache in any 3s"));
        let unknown = "p99<5ms of cach".parse::<Gate>().unwrap();
        // Nobody takes a demand on nothing for one that is met.
        assert!(unknown.missed(&results, MS).is_some());
        let said = unknown.on(&names).unwrap_err().to_string();
        assert!(said.contains("\"cach\"") && said.contains("pipeline of 16"), "{said}");
    }

    #[test]
    fn a_demand_that_is_none_says_how_one_is_written() {
        for text in [
            "",
            "p99",
            "p101<1s",
            "p99<20",
            "fast<1s",
            "errors<x%",
            "rate>-1",
            "pinf<1s",
            "p9<1s in any 61s",
            "p9<1s in any 0s",
            "p9<1s in any 1500ms",
            "p9<1s in any",
        ] {
            let error = text.parse::<Gate>().unwrap_err().to_string();
            assert!(error.contains("p99<20ms"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(p9|errors|rate)?.{0,6}[<>]?=?.{0,8}") {
            let _ = text.parse::<Gate>();
        }
    }
}
