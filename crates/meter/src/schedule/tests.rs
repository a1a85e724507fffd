use std::time::Duration;

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::{Arrivals, Schedule, ScheduleError, Segment};

const SECOND: Duration = Duration::from_secs(1);

fn seconds(schedule: &Schedule) -> Vec<f64> {
    schedule.due(0, 1).map(|(_, at)| at.as_secs_f64()).collect()
}

fn even(segments: &[Segment]) -> Schedule {
    Schedule::new(segments.to_vec(), Arrivals::Even).unwrap()
}

#[test]
fn a_constant_rate_is_evenly_spaced_and_ends() {
    let times = seconds(&even(&[Segment::constant(4.0, SECOND)]));
    assert_eq!(times, [0.0, 0.25, 0.5, 0.75]);
}

#[test]
fn a_ramp_has_the_area_below_it() {
    // From 0 to 10 a second within 2 s: t seconds have 2.5 t^2.
    let times = seconds(&even(&[Segment { from: 0.0, to: 10.0, duration: 2 * SECOND }]));
    assert_eq!(times.len(), 10);
    for (number, at) in times.iter().enumerate() {
        assert!((2.5 * at * at - number as f64).abs() < 1e-6, "{number} at {at}");
    }
}

#[test]
fn steps_follow_one_another_and_a_pause_is_one() {
    let steps = [2.0, 0.0, 4.0].map(|rate| Segment::constant(rate, SECOND));
    assert_eq!(seconds(&even(&steps)), [0.0, 0.5, 2.0, 2.25, 2.5, 2.75]);
}

#[test]
fn a_warm_up_has_the_rate_that_follows() {
    let warm = even(&[Segment::constant(4.0, SECOND)]).warmed_up(SECOND);
    assert_eq!(seconds(&warm), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75]);
}

#[test]
fn what_can_not_be_kept_is_refused() {
    let one =
        |rate, duration| Schedule::new(vec![Segment::constant(rate, duration)], Arrivals::Even);
    for rate in [-1.0, 0.0, f64::NAN, f64::INFINITY, 1e9] {
        assert_eq!(one(rate, SECOND), Err(ScheduleError::Rate), "{rate}");
    }
    assert_eq!(one(1.0, Duration::ZERO), Err(ScheduleError::Duration));
    assert_eq!(one(1.0, Duration::MAX), Err(ScheduleError::Duration));
    assert_eq!(Schedule::new(Vec::new(), Arrivals::Even), Err(ScheduleError::Segments));
}

/// The largest distance between a sample's distribution and an exponential one of mean 1.
fn kolmogorov_smirnov(mut sample: Vec<f64>) -> f64 {
    sample.sort_by(f64::total_cmp);
    let count = sample.len() as f64;
    let distances = sample.iter().enumerate().map(|(below, value)| {
        let expected = 1.0 - (-value).exp();
        (expected - below as f64 / count).abs().max((expected - (below + 1) as f64 / count).abs())
    });
    distances.fold(0.0, f64::max)
}

#[test]
fn gaps_of_poisson_arrivals_are_exponential() {
    for (seed, rate) in [(1, 50.0), (2, 1_000.0), (3, 20_000.0)] {
        let segments = vec![Segment::constant(rate, Duration::from_secs_f64(20_000.0 / rate))];
        let times = seconds(&Schedule::new(segments, Arrivals::Poisson(seed)).unwrap());
        let gaps: Vec<f64> = times.windows(2).map(|two| (two[1] - two[0]) * rate).collect();
        // At a level of 0.1 %; an evenly spaced schedule is at 0.63.
        let limit = 1.95 / (gaps.len() as f64).sqrt();
        let distance = kolmogorov_smirnov(gaps);
        assert!(distance < limit, "seed {seed}: {distance} > {limit}");
        assert!((times.len() as f64 - 20_000.0).abs() < 500.0, "{}", times.len());
    }
}

proptest! {
    #[test]
    fn threads_share_what_one_would_send(
        rates in proptest::collection::vec((0.0..200.0_f64, 1.0..200.0_f64), 1..5),
        threads in 1..5_u64,
        seed in proptest::option::of(0..9_u64),
    ) {
        let segment = |(from, to): &(f64, f64)| Segment { from: *from, to: *to, duration: SECOND };
        let segments = rates.iter().map(segment);
        let arrivals = seed.map_or(Arrivals::Even, Arrivals::Poisson);
        let schedule = Schedule::new(segments.collect(), arrivals).unwrap();
        let whole: Vec<_> = schedule.due(0, 1).collect();
        let mut shared: Vec<_> =
            (0..threads).flat_map(|thread| schedule.due(thread, threads)).collect();
        shared.sort_unstable();
        prop_assert_eq!(&shared, &whole);
        prop_assert!(whole.is_sorted_by_key(|(_, at)| *at));
        prop_assert!(whole.iter().all(|(_, at)| *at <= schedule.duration()));
    }
}
