//! Two servers, or two versions of one, held against each other by several runs of each. The run is
//! the unit: the requests of one run share its minute, its connections and its machine's mood, so
//! a million of them say no more than one run does.

mod ranks;

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::Duration;

use watch::words;

use crate::report::{self, ReportError};
use crate::summary::shown;
pub use ranks::{Difference, median};

/// With fewer runs on a side chance alone can't be ruled out.
pub const RUNS_MIN: usize = 5;

/// What a run says in a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// The median latency, in seconds.
    pub p50: f64,
    /// The 99th percentile of latency, in seconds.
    pub p99: f64,
    /// Requests that succeeded a second.
    pub rate: f64,
}

/// The runs of one side.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// What it is called.
    pub name: String,
    /// What those runs say that count.
    pub runs: Vec<Figures>,
    /// Those that do not, with the reason.
    pub left_out: Vec<(String, String)>,
}

impl Side {
    /// A side without runs.
    pub fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// Takes in the run of that directory: into what counts, where its numbers can be believed and
    /// are those of the whole run.
    ///
    /// # Errors
    /// It has no results.
    pub fn add(&mut self, directory: &Path) -> Result<(), ReportError> {
        let judged = report::judged(directory)?;
        let seconds = |name: &str| judged["latency"][name].as_f64().map(|nanos| nanos / 1e9);
        let figures = || {
            let rate = judged["answered_per_second"].as_f64()?;
            Some(Figures { p50: seconds("p50_ns")?, p99: seconds("p99_ns")?, rate })
        };
        let verdict = judged["verdict"].as_str().unwrap_or("UNFINISHED");
        let is_failing = judged["failing"] == true;
        let is_early = judged["stopped"] == true || judged["aborted"].is_object();
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match figures() {
            Some(figures) if verdict == "VALID" && !is_early && !is_failing => {
                self.runs.push(figures)
            }
            _ if verdict != "VALID" => self.left_out.push((name, format!("is {verdict}"))),
            Some(_) if is_failing => {
                self.left_out.push((name, "failed for the most part".to_owned()))
            }
            Some(_) => self.left_out.push((name, "ended early".to_owned())),
            None => self.left_out.push((name, "has no requests".to_owned())),
        }
        Ok(())
    }

    fn difference(&self, other: &Self, of: fn(&Figures) -> f64) -> Option<Difference> {
        let values = |side: &Self| side.runs.iter().map(of).collect::<Vec<_>>();
        Difference::of(&values(self), &values(other))
    }

    fn describe(&self, f: &mut Formatter<'_>, letter: char) -> fmt::Result {
        let all = self.runs.len() + self.left_out.len();
        write!(f, "{letter}  {}: {} of {all} runs count", self.name, self.runs.len())?;
        for (name, why) in &self.left_out {
            write!(f, "; {name} {why}")?;
        }
        writeln!(f)
    }
}

/// Two sets of runs, of which the second is held against the first.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The one that the other is held against.
    pub first: Side,
    pub second: Side,
}

/// A figure by which sides are compared.
struct Compared {
    name: &'static str,
    of: fn(&Figures) -> f64,
    show: fn(f64) -> String,
    /// What it is called when it is larger, and when it is smaller.
    words: [&'static str; 2],
}

const COMPARED: [Compared; 3] = [
    Compared { name: "p50", of: |run| run.p50, show: time, words: ["longer", "shorter"] },
    Compared { name: "p99", of: |run| run.p99, show: time, words: ["longer", "shorter"] },
    Compared { name: "rate", of: |run| run.rate, show: rate, words: ["higher", "lower"] },
];

impl Comparison {
    /// Whether there are too few runs that count.
    pub fn is_too_few(&self) -> bool {
        self.first.runs.len().min(self.second.runs.len()) < RUNS_MIN
    }

    /// All of it in one sentence.
    pub fn sentence(&self) -> String {
        if self.is_too_few() {
            let (first, second) = (self.first.runs.len(), self.second.runs.len());
            return format!(
                "too few to tell: {first} runs of A and {second} of B count, and it takes \
                 {RUNS_MIN} of each"
            );
        }
        let (mut seen, mut unseen) = (Vec::new(), Vec::new());
        for of in &COMPARED {
            match self.first.difference(&self.second, of.of) {
                Some(found) if found.is_seen() => seen.push(of.told(&found)),
                _ => unseen.push(of.name),
            }
        }
        let none = format!("no difference is seen in {}", unseen.join(", "));
        match (&seen[..], &unseen[..]) {
            ([], _) => format!("Between A and B {none}."),
            (_, []) => format!("B has {}.", seen.join(", and ")),
            _ => format!("B has {}; {none}.", seen.join(", and ")),
        }
    }
}

impl Compared {
    fn told(&self, found: &Difference) -> String {
        let [larger, smaller] = self.words;
        let word = if found.shift > 0.0 { larger } else { smaller };
        let show = |value: f64| (self.show)(value.abs());
        let share = 100.0 * found.shift.abs() / found.first.abs();
        // Of nothing there is no share.
        let share = if share.is_finite() { format!(" ({share:.1} %)") } else { String::new() };
        let (low, high) = match found.shift > 0.0 {
            true => (found.low, found.high),
            false => (found.high, found.low),
        };
        format!(
            "a {} that is {}{share} {word}, between {} and {}",
            self.name,
            show(found.shift),
            show(low),
            show(high)
        )
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.first.describe(f, 'A')?;
        self.second.describe(f, 'B')?;
        if !self.is_too_few() {
            writeln!(
                f,
                "      {:>10} {:>10} {:>11}   95 % of B - A {:>17}",
                "A", "B", "B - A", "p"
            )?;
            for of in &COMPARED {
                let Some(found) = self.first.difference(&self.second, of.of) else { continue };
                let [a, b] = [found.first, found.second].map(of.show);
                let [shift, low, high] =
                    [found.shift, found.low, found.high].map(|v| signed(v, of));
                let (name, p) = (of.name, found.p);
                writeln!(
                    f,
                    "{name:<5} {a:>10} {b:>10} {shift:>11}   {low} to {high:<13} {p:>8.4}"
                )?;
            }
        }
        writeln!(f, "{}", self.sentence())
    }
}

fn time(seconds: f64) -> String {
    let span = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    // A difference between runs may be far below what a run is told in.
    match span.as_secs_f64() * 1000.0 {
        millis if millis < 0.995 => format!("{millis:.4} ms"),
        _ => shown(span),
    }
}

fn rate(a_second: f64) -> String {
    match a_second {
        few if few < 999.95 => format!("{few:.1}/s"),
        many => format!("{}/s", words::count(many.round() as u64)),
    }
}

fn signed(value: f64, of: &Compared) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    format!("{sign}{}", (of.show)(value.abs()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{Comparison, Figures, Side};
    use crate::report::ReportError;

    fn side(name: &str, p99: &[f64]) -> Side {
        let runs = p99.iter().map(|p99| Figures { p50: 0.001, p99: *p99, rate: 1000.0 });
        Side { name: name.to_owned(), runs: runs.collect(), left_out: Vec::new() }
    }

    #[test]
    fn a_difference_that_is_seen_is_told_in_one_sentence_with_its_interval() {
        let first = side("before", &[0.0051, 0.0052, 0.0053, 0.0054, 0.0055]);
        let second = side("after", &[0.0041, 0.0042, 0.0043, 0.0044, 0.0045]);
        let both = Comparison { first, second };
        assert_eq!(
            both.sentence(),
            "B has a p99 that is 1.00 ms (18.9 %) shorter, between 0.7000 ms and 1.30 ms; no \
             difference is seen in p50, rate."
        );
        let text = both.to_string();
        assert!(text.starts_with("A  before: 5 of 5 runs count\nB  after: 5 of 5"), "{text}");
        assert!(
            text.contains("0.0079") && text.contains("-1.00 ms   -1.30 ms to -0.7000"),
            "{text}"
        );
        let same = Comparison { second: both.first.clone(), first: both.first };
        assert_eq!(same.sentence(), "Between A and B no difference is seen in p50, p99, rate.");
    }

    #[test]
    fn no_difference_is_claimed_whose_interval_holds_zero() {
        // By the exact test chance explains it less often than once in twenty; the interval, which
        // knows no ties, begins with 0.
        let first = side("before", &[0.0100, 0.0100, 0.0100, 0.0102, 0.0102]);
        let second = side("after", &[0.0102, 0.0102, 0.0103, 0.0103, 0.0104]);
        let both = Comparison { first, second };
        let found = both.first.difference(&both.second, |run| run.p99).unwrap();
        assert!(found.p < 0.05 && found.low <= 0.0 && found.high > 0.0, "{found:?}");
        assert_eq!(both.sentence(), "Between A and B no difference is seen in p50, p99, rate.");
        assert!(both.to_string().contains("+0.0000 ms to +0.4000 ms"), "{both}");
    }

    proptest! {
        #[test]
        fn a_sentence_claims_only_what_its_whole_interval_says(
            first in proptest::collection::vec(0..9_u32, 5..9),
            second in proptest::collection::vec(0..9_u32, 5..9),
        ) {
            let times = |of: &[u32]| of.iter().map(|of| f64::from(*of) / 1e5).collect::<Vec<_>>();
            let both = Comparison {
                first: side("before", &times(&first)),
                second: side("after", &times(&second)),
            };
            let found = both.first.difference(&both.second, |run| run.p99).unwrap();
            let (is_unlikely, sentence) = (found.p < 0.05, both.sentence());
            let claims = |word: &str| sentence.contains(&format!(" {word}, between"));
            prop_assert_eq!(claims("longer"), is_unlikely && found.low > 0.0);
            prop_assert_eq!(claims("shorter"), is_unlikely && found.high < 0.0);
            prop_assert!(!sentence.contains("inf") && !sentence.contains("NaN"), "{sentence}");
        }
    }

    #[test]
    fn runs_that_can_not_be_believed_are_named_and_left_out() {
        let place = tempfile::tempdir().unwrap();
        let mut kept = side("a", &[0.1; 4]);
        let reports = [
            r#"{ "verdict": "VALID", "answered_per_second": 9.5,
                 "latency": { "p50_ns": 1000000, "p99_ns": 2000000 } }"#,
            r#"{ "verdict": "INVALID", "answered_per_second": 9.5,
                 "latency": { "p50_ns": 1000000, "p99_ns": 2000000 } }"#,
            r#"{ "verdict": "UNFINISHED" }"#,
            r#"{ "verdict": "VALID", "failing": true, "answered_per_second": 0,
                 "latency": { "p50_ns": 1, "p99_ns": 2 } }"#,
            r#"{ "verdict": "VALID", "stopped": true, "answered_per_second": 1,
                 "latency": { "p50_ns": 1, "p99_ns": 2 } }"#,
        ];
        for (number, report) in reports.into_iter().enumerate() {
            let run = place.path().join(format!("run-{number}"));
            std::fs::create_dir(&run).unwrap();
            std::fs::write(run.join("run.json"), "{}").unwrap();
            std::fs::write(run.join("report.json"), report).unwrap();
            kept.add(&run).unwrap();
        }
        assert_eq!(kept.runs[4], Figures { p50: 0.001, p99: 0.002, rate: 9.5 });
        let both = Comparison { first: kept, second: side("b", &[0.1; 4]) };
        assert!(both.is_too_few());
        assert_eq!(
            both.to_string(),
            "A  a: 5 of 9 runs count; run-1 is INVALID; run-2 is UNFINISHED; run-3 failed for the \
             most part; run-4 ended early\n\
             B  b: 4 of 4 runs count\n\
             too few to tell: 5 runs of A and 4 of B count, and it takes 5 of each\n"
        );
        let nothing = Side::default().add(place.path());
        assert!(matches!(nothing, Err(ReportError::NoRun(_))));
    }
}
