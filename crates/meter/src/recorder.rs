//! What came of requests: a histogram of nanoseconds for each operation and kind of result, made
//! when it is needed, so that a percentile is of everything and not of successes alone.

mod correction;
mod traffic;

use std::time::Duration;

use hdrhistogram::Histogram;

pub use correction::{Correction, Distribution, Figure, NEGLIGIBLE, Tolerance};
pub use traffic::OperationTraffic;

/// The longest time that is told apart.
pub const LONGEST: u64 = 3_600_000_000_000;
/// Digits of a time that are true.
pub const DIGITS: u8 = 3;
/// A histogram's counts are even in each half of so many (two digits more than its own), each half
/// with twice the width of the one before.
const HALF: usize = 1024;
/// Operations that are told apart; all further ones are the last, `other`.
pub const OPERATIONS_MAX: usize = 100;

/// A span as the recorder counts it.
pub fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A histogram of times in nanoseconds: three digits, up to an hour.
#[derive(Debug, Clone)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

impl Times {
    pub fn new() -> Self {
        let made = Histogram::new_with_bounds(1, LONGEST, DIGITS);
        #[allow(clippy::expect_used, reason = "the bounds are constants that a test tries")]
        Self(made.expect("the bounds are constants that fit"))
    }

    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Counts a time; what is over an hour counts as one.
    pub fn note(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds.min(LONGEST));
    }

    /// Counts a time so often.
    fn note_all(&mut self, nanoseconds: u64, count: u64) {
        if count > 0 {
            self.0.saturating_record_n(nanoseconds, count);
        }
    }

    /// Each time that there is, as the histogram tells it, and how often.
    fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// Adds all of another one.
    pub fn add(&mut self, other: &Self) {
        // It fails for values beyond the bounds only, and both have the same.
        let _ = self.0.add(&other.0);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The counts in the order of a histogram's array, up to the last that is not empty.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        let mut left = self.count();
        self.0.iter_all().map_while(move |step| {
            let count = step.count_at_value();
            (left > 0).then(|| {
                left -= count.min(left);
                count
            })
        })
    }

    /// Counts so many at a place of a histogram's array; false where there is no such place, or it
    /// is full.
    pub fn note_at(&mut self, index: usize, count: u64) -> bool {
        let (shift, below) = ((index / HALF).saturating_sub(1), index % HALF);
        let within = if index < HALF { below } else { HALF + below };
        let room = self.count().checked_add(count).is_some();
        let shift = u32::try_from(shift).unwrap_or(u32::MAX);
        let Some(value) = (within as u64).checked_shl(shift) else { return false };
        let fits = room && value >> shift == within as u64;
        fits && self.0.record_n(value, count).is_ok()
    }

    /// The time below which that share of all is, from 0 to 1.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(share))
    }

    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// The least, as the histogram tells it.
    pub fn min(&self) -> Duration {
        Duration::from_nanos(self.0.min())
    }

    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.0.mean() as u64)
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Succeeded,
    /// The server answered, and the answer is a failure.
    Server,
    /// The server answered, and a check of its answer failed.
    Check,
    /// There was no whole answer within the timeout; counted at its age then.
    Timeout,
    /// The connection broke before the answer was whole.
    Network,
    /// The injector could not send it.
    Injector,
    /// It was due and not sent, because no connection was free until the end; counted at its age.
    Unsent,
}

impl Kind {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Server => "server",
            Self::Check => "check",
            Self::Timeout => "timeout",
            Self::Network => "network",
            Self::Injector => "injector",
            Self::Unsent => "unsent",
        }
    }

    pub const ALL: [Self; 7] = [
        Self::Succeeded,
        Self::Server,
        Self::Check,
        Self::Timeout,
        Self::Network,
        Self::Injector,
        Self::Unsent,
    ];
}

/// Times, and what the injector added to them.
#[derive(Debug, Clone, Default)]
struct Delayed {
    times: Times,
    correction: Correction,
}

impl Delayed {
    fn note(&mut self, figure: Figure) {
        self.times.note(nanoseconds(figure.measured));
        if figure.added() > NEGLIGIBLE {
            self.correction.note(figure);
        }
    }

    fn add(&mut self, other: &Self) {
        self.times.add(&other.times);
        self.correction.add(&other.correction);
    }
}

/// The times of one operation and kind.
#[derive(Debug, Clone, Default)]
struct Both {
    latency: Delayed,
    service: Delayed,
}

impl Both {
    fn of(&self, measure: Measure) -> &Delayed {
        match measure {
            Measure::Latency => &self.latency,
            Measure::Service => &self.service,
        }
    }

    fn of_mut(&mut self, measure: Measure) -> &mut Delayed {
        match measure {
            Measure::Latency => &mut self.latency,
            Measure::Service => &mut self.service,
        }
    }
}

/// Which time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// From when it was due; in a closed loop from its send.
    Latency,
    /// From its send. What was not sent has none.
    Service,
}

/// Results by operation and kind: of a window, or of a run.
#[derive(Debug, Clone, Default)]
pub struct Results {
    operations: Vec<[Option<Box<Both>>; Kind::ALL.len()]>,
    traffic: Vec<OperationTraffic>,
    /// How long the thread that stood longest did meanwhile, by the injector's doing.
    pub paused: Duration,
}

impl Results {
    /// Counts a result to which the injector added nothing.
    pub fn note(&mut self, operation: usize, kind: Kind, latency: Duration, service: Duration) {
        let [latency, service] = [latency, service].map(|of| Figure::delayed(of, Duration::ZERO));
        let service = (kind != Kind::Unsent).then_some(service);
        self.note_delayed(operation, kind, latency, service);
    }

    /// Counts a result; what was not sent has no service time.
    pub fn note_delayed(
        &mut self,
        operation: usize,
        kind: Kind,
        latency: Figure,
        service: Option<Figure>,
    ) {
        let both = self.both(operation, kind);
        both.latency.note(latency);
        if let Some(service) = service {
            both.service.note(service);
        }
    }

    fn both(&mut self, operation: usize, kind: Kind) -> &mut Both {
        let operation = operation.min(OPERATIONS_MAX);
        if self.operations.len() <= operation {
            self.operations.resize_with(operation + 1, Default::default);
        }
        self.operations[operation][kind as usize].get_or_insert_default()
    }

    /// What the requests of an operation had on their connections, to be added to.
    pub fn traffic_mut(&mut self, operation: usize) -> &mut OperationTraffic {
        let operation = operation.min(OPERATIONS_MAX);
        if self.traffic.len() <= operation {
            self.traffic.resize_with(operation + 1, Default::default);
        }
        &mut self.traffic[operation]
    }

    /// What the requests of each operation had on their connections, where there is any.
    pub fn traffic(&self) -> impl Iterator<Item = (usize, &OperationTraffic)> {
        self.traffic.iter().enumerate().filter(|(_, traffic)| !traffic.is_empty())
    }

    /// Adds all of another one.
    pub fn add(&mut self, other: &Self) {
        other.traffic().for_each(|(operation, of)| self.traffic_mut(operation).add(of));
        self.paused += other.paused;
        if self.operations.len() < other.operations.len() {
            self.operations.resize_with(other.operations.len(), Default::default);
        }
        for (mine, theirs) in self.operations.iter_mut().zip(&other.operations) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                if let Some(theirs) = theirs {
                    let mine = mine.get_or_insert_default();
                    mine.latency.add(&theirs.latency);
                    mine.service.add(&theirs.service);
                }
            }
        }
    }

    /// Those of these operations alone.
    #[must_use]
    pub fn only(&self, operations: &[usize]) -> Self {
        let kinds = self.operations.iter().enumerate().map(|(number, kinds)| {
            if operations.contains(&number) { kinds.clone() } else { Default::default() }
        });
        let traffic = self.traffic.iter().enumerate().map(|(number, traffic)| {
            if operations.contains(&number) { traffic.clone() } else { Default::default() }
        });
        Self { operations: kinds.collect(), traffic: traffic.collect(), paused: self.paused }
    }

    /// Adds times that were read from elsewhere.
    pub fn add_times(&mut self, operation: usize, kind: Kind, measure: Measure, times: &Times) {
        self.both(operation, kind).of_mut(measure).times.add(times);
    }

    /// Adds a correction that was read from elsewhere.
    pub fn correct(&mut self, operation: usize, kind: Kind, measure: Measure, by: &Correction) {
        self.both(operation, kind).of_mut(measure).correction.add(by);
    }

    /// The latency and service times of each operation and kind that there is.
    pub fn each(&self) -> impl Iterator<Item = (usize, Kind, &Times, &Times)> {
        self.cells().map(|(operation, kind, both)| {
            (operation, kind, &both.latency.times, &both.service.times)
        })
    }

    /// What the injector added, of each operation, kind and measure to which it did.
    pub fn corrections(&self) -> impl Iterator<Item = (usize, Kind, Measure, &Correction)> {
        let all = self.cells().flat_map(|(operation, kind, both)| {
            [Measure::Latency, Measure::Service]
                .map(|measure| (operation, kind, measure, &both.of(measure).correction))
        });
        all.filter(|(.., correction)| !correction.is_empty())
    }

    fn cells(&self) -> impl Iterator<Item = (usize, Kind, &Both)> {
        let kinds = self.operations.iter().enumerate().flat_map(|(operation, kinds)| {
            Kind::ALL.iter().map(move |kind| (operation, *kind, &kinds[*kind as usize]))
        });
        kinds.filter_map(|(operation, kind, both)| Some((operation, kind, &**both.as_ref()?)))
    }

    /// How many results are of a kind.
    pub fn count(&self, kind: Kind) -> u64 {
        let of = self.operations.iter().filter_map(|kinds| kinds[kind as usize].as_ref());
        of.map(|both| both.latency.times.count()).sum()
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        Kind::ALL.iter().map(|kind| self.count(*kind)).sum()
    }

    /// How many are no successes.
    pub fn failed(&self) -> u64 {
        self.total() - self.count(Kind::Succeeded)
    }

    /// Whether most of what was sent failed, or nothing succeeded: its times are then those of
    /// failures. What was due and never sent is no failure.
    pub fn mostly_failed(&self) -> bool {
        let (succeeded, unsent) = (self.count(Kind::Succeeded), self.count(Kind::Unsent));
        let total = self.total();
        let sent = total - unsent;
        total > 0 && (succeeded == 0 || 2 * succeeded < sent)
    }

    /// The times of an operation, however its requests ended.
    pub fn of(&self, measure: Measure, operation: usize) -> Distribution {
        self.gathered(measure, |of, _| of == operation)
    }

    /// The times of all results, or of those of one kind, with what the injector added.
    pub fn distribution(&self, measure: Measure, kind: Option<Kind>) -> Distribution {
        self.gathered(measure, |_, of| kind.is_none_or(|kind| kind == of))
    }

    fn gathered(&self, measure: Measure, is: impl Fn(usize, Kind) -> bool) -> Distribution {
        let mut all = Delayed::default();
        let wanted = self.cells().filter(|(operation, kind, _)| is(*operation, *kind));
        wanted.for_each(|(.., both)| all.add(both.of(measure)));
        Distribution::new(all.times, &all.correction)
    }

    /// The times of all results, or of those of one kind, as they were measured.
    pub fn times(&self, measure: Measure, kind: Option<Kind>) -> Times {
        let mut all = Times::new();
        for (_, of, both) in self.cells() {
            if kind.is_none_or(|kind| kind == of) {
                all.add(&both.of(measure).times);
            }
        }
        all
    }

    /// What the injector added to the latencies of all results.
    pub fn correction(&self) -> Correction {
        let mut all = Correction::default();
        self.cells().for_each(|(.., both)| all.add(&both.latency.correction));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{Kind, Measure, OPERATIONS_MAX, Results, Times};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_percentile_is_of_all_results_and_of_each_kind() {
        let mut results = Results::default();
        for number in 1..=99 {
            results.note(0, Kind::Succeeded, number * MS, MS);
        }
        results.note(0, Kind::Timeout, 10_000 * MS, 10_000 * MS);
        let all = results.times(Measure::Latency, None);
        let succeeded = results.times(Measure::Latency, Some(Kind::Succeeded));
        results.note(3, Kind::Succeeded, MS, MS);
        let count = |operation| results.of(Measure::Service, operation).count();
        assert_eq!([count(0), count(1), count(3), count(9)], [100, 0, 1, 0]);
        assert!(all.max() >= 10_000 * MS && succeeded.max() < 100 * MS);
        assert_eq!((results.total(), results.failed()), (101, 1));
    }

    #[test]
    fn what_was_not_sent_has_a_latency_and_no_service_time() {
        let mut results = Results::default();
        results.note(0, Kind::Unsent, 5 * MS, Duration::ZERO);
        assert_eq!(results.times(Measure::Latency, None).count(), 1);
        assert_eq!(results.times(Measure::Service, None).count(), 0);
    }

    #[test]
    fn over_a_hundred_operations_the_rest_is_one() {
        let mut results = Results::default();
        for operation in 0..1000 {
            results.note(operation, Kind::Succeeded, MS, MS);
        }
        assert_eq!((results.operations.len(), results.total()), (OPERATIONS_MAX + 1, 1000));
    }

    #[test]
    fn what_is_over_an_hour_counts_as_one() {
        let mut times = Times::new();
        times.note(u64::MAX);
        times.note(0);
        assert_eq!(times.count(), 2);
        assert!(times.max() >= Duration::from_secs(3599));
    }

    proptest! {
        #[test]
        fn three_digits_hold_and_adding_is_recording(
            values in proptest::collection::vec(1..3_600_000_000_000_u64, 1..200),
            cut in 0..200_usize,
        ) {
            let (mut whole, mut first, mut second) = (Times::new(), Times::new(), Times::new());
            for (at, value) in values.iter().enumerate() {
                whole.note(*value);
                if at < cut { first.note(*value) } else { second.note(*value) }
            }
            first.add(&second);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for share in [0.5, 0.9, 0.99, 1.0] {
                let rank = ((share * sorted.len() as f64).ceil() as usize).max(1);
                let exact = sorted[rank - 1] as f64;
                let told = whole.quantile(share).as_nanos() as f64;
                prop_assert!((told - exact).abs() <= exact / 1000.0 + 1.0, "{told} for {exact}");
                prop_assert_eq!(first.quantile(share), whole.quantile(share));
            }
        }
    }
}
