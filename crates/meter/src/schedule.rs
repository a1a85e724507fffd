//! When requests are due: a pure function from a request's number to its time.
//!
//! A rate is a line of [`Segment`]s. How many requests are due until a moment is the area below
//! that line; the time of a request is where the area reaches its number. Poisson's arrivals are
//! the same with an exponential step, in place of one, from each number to the next: that makes a
//! Poisson process of any rate that changes over time (Cinlar, Introduction to Stochastic
//! Processes, 4.7). Which thread sends a request changes nothing of when it is due.

#[cfg(test)]
mod tests;

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The most requests a second.
pub const RATE_MAX: f64 = 10_000_000.0;
pub const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The most pieces of a schedule.
pub const SEGMENTS_MAX: usize = 1000;

/// A time in which the rate goes evenly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Requests a second at its begin.
    pub from: f64,
    /// Requests a second at its end.
    pub to: f64,
    /// How long it is.
    pub duration: Duration,
}

impl Segment {
    /// One rate all the time.
    pub const fn constant(rate: f64, duration: Duration) -> Self {
        Self { from: rate, to: rate, duration }
    }

    /// How many requests are due in it.
    fn area(&self) -> f64 {
        (self.from + self.to) / 2.0 * self.duration.as_secs_f64()
    }

    /// How many seconds from its begin the area reaches `area`.
    fn reaches(&self, area: f64) -> f64 {
        let slope = (self.to - self.from) / self.duration.as_secs_f64();
        // The root in this form is exact for a slope of nothing, too.
        let root = (self.from * self.from + 2.0 * slope * area).max(0.0).sqrt();
        if area == 0.0 { 0.0 } else { 2.0 * area / (self.from + root) }
    }
}

/// How requests follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// As evenly as the rate says.
    Even,
    /// As independent users do; the seed makes it the same series each time.
    Poisson(u64),
}

/// A schedule can't be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// A rate is not a number of requests that could be sent.
    #[error("a rate is from 0 to 10,000,000 requests a second, and not 0 all the time")]
    Rate,
    /// A duration is nothing, or too long.
    #[error("a load lasts longer than 0 s, and 7 days at most")]
    Duration,
    /// There are too many pieces, or none.
    #[error("a schedule has 1 to 1,000 steps")]
    Segments,
}

/// When each request is due.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    segments: Vec<Segment>,
    arrivals: Arrivals,
}

impl Schedule {
    /// One piece after the other.
    ///
    /// # Errors
    /// It can't be kept.
    pub fn new(segments: Vec<Segment>, arrivals: Arrivals) -> Result<Self, ScheduleError> {
        if segments.is_empty() || segments.len() > SEGMENTS_MAX {
            return Err(ScheduleError::Segments);
        }
        let is_rate = |rate: f64| (0.0..=RATE_MAX).contains(&rate);
        if !segments.iter().all(|one| is_rate(one.from) && is_rate(one.to))
            || segments.iter().all(|one| one.area() == 0.0 && !one.duration.is_zero())
        {
            return Err(ScheduleError::Rate);
        }
        let spans = || segments.iter().map(|one| one.duration);
        let fits = |span: Duration| !span.is_zero() && span <= DURATION_MAX;
        // None of them is so long that the sum does not fit.
        if !spans().all(fits) || !fits(spans().sum()) {
            return Err(ScheduleError::Duration);
        }
        Ok(Self { segments, arrivals })
    }

    /// The same with a time before it at the rate that it begins with.
    #[must_use]
    pub fn warmed_up(mut self, duration: Duration) -> Self {
        if !duration.is_zero() {
            self.segments.insert(0, Segment::constant(self.segments[0].from, duration));
        }
        self
    }

    /// The most requests a second.
    pub fn rate_max(&self) -> f64 {
        self.segments.iter().map(|of| of.from.max(of.to)).fold(0.0, f64::max)
    }

    /// How long it is.
    pub fn duration(&self) -> Duration {
        self.segments.iter().map(|one| one.duration).sum()
    }

    /// The numbers and times of the requests that thread `thread` of `threads` sends, in order.
    pub fn due(&self, thread: u64, threads: u64) -> Due {
        let chance = match self.arrivals {
            Arrivals::Even => None,
            Arrivals::Poisson(seed) => Some(StdRng::seed_from_u64(seed)),
        };
        let schedule = self.clone();
        Due { schedule, chance, area: 0.0, number: 0, at: 0, passed: (0.0, 0.0), thread, threads }
    }
}

/// The requests of one thread; each is its number and when it is due, from the begin on.
#[derive(Debug, Clone)]
pub struct Due {
    schedule: Schedule,
    chance: Option<StdRng>,
    /// Where the next request is, in the area below the rates.
    area: f64,
    number: u64,
    /// The segment that it is in, and area and seconds of those before it.
    at: usize,
    passed: (f64, f64),
    thread: u64,
    threads: u64,
}

impl Due {
    fn time(&mut self) -> Option<Duration> {
        loop {
            let segment = self.schedule.segments.get(self.at)?;
            let within = self.area - self.passed.0;
            if within < segment.area() {
                let seconds = self.passed.1 + segment.reaches(within);
                return Some(Duration::from_secs_f64(seconds));
            }
            self.passed.0 += segment.area();
            self.passed.1 += segment.duration.as_secs_f64();
            self.at += 1;
        }
    }
}

impl Iterator for Due {
    type Item = (u64, Duration);

    fn next(&mut self) -> Option<(u64, Duration)> {
        loop {
            // The first of independent users does not come at the begin either.
            if let Some(chance) = &mut self.chance {
                self.area -= (1.0 - chance.random::<f64>()).ln();
            }
            let time = self.time()?;
            let number = self.number;
            self.number += 1;
            if self.chance.is_none() {
                self.area = self.number as f64;
            }
            if number % self.threads == self.thread {
                return Some((number, time));
            }
        }
    }
}
