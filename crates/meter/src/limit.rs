//! Finds the highest rate at which what is demanded still holds: doubles from 100 a second to the
//! first miss, halves the gap until it is 5 %, and asks three times whether the rate found holds.
//! Each step is a run of its own, which begins when all of the last one is answered.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::gate::{Gate, Judgement};
use crate::recorder::{Results, Tolerance};
use crate::schedule::RATE_MAX;
use crate::verdict::Doubt;

/// The rate that is tried first.
pub const FIRST: f64 = 100.0;
/// How long a step is.
pub const STEP: Duration = Duration::from_secs(5);
/// Below that nothing is looked for.
const LOWEST: f64 = 1.0;
/// How near the highest rate that held is to the lowest that did not.
const NEAR: f64 = 1.05;
/// How often the rate found has to hold once more.
const CONFIRMATIONS: u32 = 3;
/// Rates that may fail to hold once more before the search is given up.
const UNSTEADY_MAX: u32 = 10;
/// A step with a larger share of failures is a miss, whatever is demanded.
pub const FAILED_MAX: f64 = 0.01;
/// A step whose numbers can't be believed is run again so often.
const INVALID_MAX: u32 = 2;

/// What a step showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepResult {
    /// What is demanded holds.
    Held,
    /// It does not, as these words say.
    Missed(String),
    /// The injector made the numbers, as these words say.
    Invalid(String),
}

impl StepResult {
    /// Judges a step by all of it, and by what was seen while it ran: a demand on a stretch, or one
    /// that ended it, which was missed, or else can't be judged.
    pub fn of(
        (results, measured): (&Results, Duration),
        doubts: &[Doubt],
        (gate, tolerance): (&Gate, &Tolerance),
        seen: Option<(Gate, Judgement)>,
    ) -> Self {
        if let Some(doubt) = doubts.first() {
            return Self::Invalid(doubt.cause.clone());
        }
        let share = results.failed() as f64 / results.total().max(1) as f64;
        if share > FAILED_MAX {
            return Self::Missed(format!("{:.1} % failed or were not sent", share * 100.0));
        }
        let of_all = || (gate.clone(), gate.judge(results, measured, tolerance));
        match seen.unwrap_or_else(of_all) {
            (gate, Judgement::Missed(found)) => Self::Missed(format!("{gate}: it was {found}")),
            (gate, Judgement::Unjudged(found)) => {
                Self::Invalid(format!("{gate} can't be judged: it was {found}"))
            }
            (_, Judgement::Met) => Self::Held,
        }
    }
}

impl Display for StepResult {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held => f.write_str("held"),
            Self::Missed(words) => write!(f, "missed, {words}"),
            Self::Invalid(words) => write!(f, "INVALID, {words}"),
        }
    }
}

/// What the search has found.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchResult {
    /// The rate held three times more; one that is 5 % higher did not hold.
    Limit(f64),
    /// The injector can't send faster, and at this rate all held. The server's limit is higher.
    Injector {
        /// The highest rate that held, if any did.
        held: Option<f64>,
        /// Where the injector gave up.
        at: f64,
        /// Why the injector gave up.
        cause: String,
    },
    /// It does not even hold at 1 a second.
    Never,
    /// Rates that had held did not hold once more, again and again, down to this one.
    Unsteady(f64),
    /// It holds at the highest rate that there is.
    Beyond(f64),
}

impl Display for SearchResult {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(rate) => write!(f, "LIMIT  {rate:.0} a second, held {CONFIRMATIONS} times"),
            Self::Injector { held: Some(held), at, cause } => write!(
                f,
                "LIMIT OF THE INJECTOR  the server held {held:.0} a second; at {at:.0} {cause}"
            ),
            Self::Injector { held: None, at, cause } => {
                write!(f, "LIMIT OF THE INJECTOR  nothing is known; at {at:.0} a second {cause}")
            }
            Self::Never => write!(f, "NO LIMIT  it does not even hold at {LOWEST} a second"),
            Self::Unsteady(rate) => {
                write!(
                    f,
                    "NO LIMIT  down to {rate:.0} a second it held at times, and at others not"
                )
            }
            Self::Beyond(rate) => write!(f, "NO LIMIT  it holds at {rate:.0} a second"),
        }
    }
}

/// Where the search is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Nothing has been missed; this is next.
    Up { next: f64 },
    /// Nothing has held; this is next.
    Down { next: f64, missed: f64 },
    /// Between a rate that held and one that did not.
    Between { held: f64, missed: f64 },
    /// The rate has held so often more.
    Confirming { rate: f64, times: u32 },
}

/// The search, without the runs.
#[derive(Debug, Clone)]
pub struct Search {
    phase: Phase,
    held: Option<f64>,
    unsteady: u32,
    invalid: u32,
}

impl Default for Search {
    fn default() -> Self {
        let phase = Phase::Up { next: FIRST };
        Self { phase, held: None, unsteady: 0, invalid: 0 }
    }
}

impl Search {
    /// The rate of the next step.
    pub fn rate(&self) -> f64 {
        match self.phase {
            Phase::Up { next } | Phase::Down { next, .. } => next,
            Phase::Between { held, missed } => f64::midpoint(held, missed),
            Phase::Confirming { rate, .. } => rate,
        }
    }

    /// Takes what the step showed; gives what is found, once it is.
    pub fn step(&mut self, shown: &StepResult) -> Option<SearchResult> {
        let rate = self.rate();
        match shown {
            StepResult::Invalid(_) if self.invalid < INVALID_MAX => {
                self.invalid += 1;
                None
            }
            StepResult::Invalid(cause) => {
                Some(SearchResult::Injector { held: self.held, at: rate, cause: cause.clone() })
            }
            StepResult::Held => {
                self.invalid = 0;
                self.held(rate)
            }
            StepResult::Missed(_) => {
                self.invalid = 0;
                self.missed(rate)
            }
        }
    }

    fn held(&mut self, rate: f64) -> Option<SearchResult> {
        self.held = Some(rate);
        self.phase = match self.phase {
            Phase::Up { .. } if rate >= RATE_MAX => return Some(SearchResult::Beyond(rate)),
            Phase::Up { .. } => Phase::Up { next: (rate * 2.0).min(RATE_MAX) },
            Phase::Down { missed, .. } | Phase::Between { missed, .. } => narrowed(rate, missed),
            Phase::Confirming { times, .. } if times + 1 == CONFIRMATIONS => {
                return Some(SearchResult::Limit(rate));
            }
            Phase::Confirming { times, .. } => Phase::Confirming { rate, times: times + 1 },
        };
        None
    }

    fn missed(&mut self, rate: f64) -> Option<SearchResult> {
        self.phase = match (self.phase, self.held) {
            (Phase::Up { .. }, Some(held)) => narrowed(held, rate),
            (Phase::Between { held, .. }, _) => narrowed(held, rate),
            (Phase::Up { .. } | Phase::Down { .. }, _) if rate <= LOWEST => {
                return Some(SearchResult::Never);
            }
            (Phase::Up { .. } | Phase::Down { .. }, _) => {
                Phase::Down { next: (rate / 2.0).max(LOWEST), missed: rate }
            }
            (Phase::Confirming { .. }, _) => {
                self.unsteady += 1;
                if self.unsteady > UNSTEADY_MAX || rate / NEAR < LOWEST {
                    return Some(SearchResult::Unsteady(rate));
                }
                Phase::Confirming { rate: rate / NEAR, times: 0 }
            }
        };
        None
    }
}

fn narrowed(held: f64, missed: f64) -> Phase {
    if missed / held <= NEAR {
        Phase::Confirming { rate: held, times: 0 }
    } else {
        Phase::Between { held, missed }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{prop_assert, proptest};

    use super::{STEP, Search, SearchResult, StepResult};
    use crate::gate::{Gate, Judgement};
    use crate::recorder::{Figure, Kind, Results};
    use crate::verdict::{Doubt, THRESHOLDS};

    fn shown(
        results: &Results,
        doubts: &[Doubt],
        gate: &Gate,
        seen: Option<(Gate, Judgement)>,
    ) -> StepResult {
        StepResult::of((results, STEP), doubts, (gate, &THRESHOLDS.tolerance()), seen)
    }

    /// A server that takes the same time for each request, one after the other.
    fn served(rate: f64, capacity: f64) -> Results {
        let (mut results, mut free) = (Results::default(), 0.0_f64);
        for number in 0..(rate * STEP.as_secs_f64()) as u32 {
            let due = f64::from(number) / rate;
            free = free.max(due) + 1.0 / capacity;
            let latency = Duration::from_secs_f64(free - due);
            results.note(0, Kind::Succeeded, latency, latency);
        }
        results
    }

    fn found(mut shown: impl FnMut(f64) -> StepResult) -> (SearchResult, Vec<f64>) {
        let (mut search, mut rates) = (Search::default(), Vec::new());
        loop {
            assert!(rates.len() < 200, "{rates:?}");
            rates.push(search.rate());
            if let Some(found) = search.step(&shown(search.rate())) {
                return (found, rates);
            }
        }
    }

    fn of_server(capacity: f64) -> SearchResult {
        let gate = "p99<20ms".parse().unwrap();
        found(|rate| shown(&served(rate, capacity), &[], &gate, None)).0
    }

    #[test]
    fn a_server_of_3000_a_second_is_found_within_a_tenth() {
        let SearchResult::Limit(rate) = of_server(3000.0) else { panic!("no limit") };
        assert!((rate / 3000.0 - 1.0).abs() < 0.1, "{rate}");
        // One that is slower than the first step, too.
        let SearchResult::Limit(rate) = of_server(60.0) else { panic!("no limit") };
        assert!((rate / 60.0 - 1.0).abs() < 0.1, "{rate}");
        assert_eq!(of_server(0.5), SearchResult::Never);
    }

    #[test]
    fn over_one_in_a_hundred_that_fail_is_a_miss() {
        let gate = "p99<20ms".parse().unwrap();
        let mut results = served(100.0, 3000.0);
        for (failures, holds) in [(5, true), (10, false)] {
            for _ in 0..failures {
                results.note(0, Kind::Server, Duration::ZERO, Duration::ZERO);
            }
            let shown = shown(&results, &[], &gate, None);
            assert_eq!(shown == StepResult::Held, holds, "{shown}");
        }
    }

    #[test]
    fn a_stretch_is_judged_by_what_was_seen_of_it_and_not_by_the_whole_step() {
        let (fast, gate) = (served(100.0, 3000.0), "p99>1h in any 1s".parse::<Gate>().unwrap());
        assert_eq!(shown(&fast, &[], &gate, None), StepResult::Held);
        let found = Judgement::Missed("2.00s in the 1 s up to second 3".to_owned());
        let seen = Some((gate.clone(), found));
        let words = "missed, p99>1h in any 1s: it was 2.00s in the 1 s up to second 3";
        assert_eq!(shown(&fast, &[], &gate, seen).to_string(), words);
        let seen = Some((gate.clone(), Judgement::Unjudged("2.00s".to_owned())));
        assert!(matches!(shown(&fast, &[], &gate, seen), StepResult::Invalid(_)));
    }

    #[test]
    fn the_injector_is_not_taken_for_the_server() {
        let doubt = Doubt { cause: "a thread was busy".to_owned(), remedy: String::new() };
        let gate = "p99<20ms".parse().unwrap();
        let shown = shown(&served(9.0, 3.0), &[doubt], &gate, None);
        assert_eq!(shown, StepResult::Invalid("a thread was busy".to_owned()));
        let (of, rates) = found(|rate| if rate > 500.0 { shown.clone() } else { StepResult::Held });
        // It is run again twice, as something may have stood in the way for a moment.
        assert_eq!(rates, [100.0, 200.0, 400.0, 800.0, 800.0, 800.0]);
        let words = "LIMIT OF THE INJECTOR  the server held 400 a second; at 800 a thread was busy";
        assert_eq!(of.to_string(), words);
    }

    #[test]
    fn a_step_whose_demand_rests_on_the_injectors_pause_is_no_miss() {
        let (mut results, gate) = (served(100.0, 3000.0), "max<20ms".parse().unwrap());
        let ms = Duration::from_millis(1);
        let long = Figure::delayed(85 * ms, 80 * ms);
        results.note_delayed(0, Kind::Succeeded, long, Some(long));
        let StepResult::Invalid(words) = shown(&results, &[], &gate, None) else {
            panic!("judged")
        };
        assert!(words.starts_with("max<20ms can't be judged: it was 85."), "{words}");
        assert_eq!(shown(&results, &[], &"max<90ms".parse().unwrap(), None), StepResult::Held);
    }

    #[test]
    fn a_rate_that_does_not_hold_again_is_not_the_limit() {
        let mut seen = 0;
        let (of, rates) = found(|rate| {
            seen += usize::from(rate == 150.0);
            let holds = rate < 150.0 || (rate == 150.0 && seen < 3);
            if holds { StepResult::Held } else { StepResult::Missed(String::new()) }
        });
        let SearchResult::Limit(rate) = of else { panic!("{of}") };
        assert!((140.0..150.0).contains(&rate), "{rates:?}");
        let mut calls = 0;
        let (of, _) = found(|rate| {
            calls += 1;
            if rate < 110.0 && calls < 6 {
                StepResult::Held
            } else {
                StepResult::Missed(String::new())
            }
        });
        assert!(matches!(of, SearchResult::Unsteady(_)), "{of}");
    }

    proptest! {
        #[test]
        fn any_limit_is_found_within_a_tenth(limit in 2.0..5_000_000.0_f64) {
            let (of, rates) = found(|rate| {
                if rate <= limit { StepResult::Held } else { StepResult::Missed(String::new()) }
            });
            let SearchResult::Limit(rate) = of else { panic!("{of}") };
            prop_assert!(rate <= limit && rate > limit * 0.9, "{rate} of {limit}");
            prop_assert!(rates.len() < 40, "{}", rates.len());
        }
    }
}
