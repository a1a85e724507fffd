//! How fast a load is.

use clap::Args;
use meter::engine::{Pace, Think};
use meter::schedule::{Arrivals, Schedule, Segment};
use serde::{Deserialize, Deserializer};
use units::Duration;

use super::values;
use crate::exit::Failure;

/// The part of the rate that a load has which is alone.
const WHOLE: f64 = 1.0;

/// When requests are sent.
#[derive(Debug, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Speed {
    /// How many requests a second
    #[arg(long, value_name = "N", default_value_t = 100.0)]
    #[arg(conflicts_with_all = ["closed", "steps"])]
    pub rate: f64,
    /// Goes evenly from --rate to so many a second
    #[arg(long, value_name = "N", conflicts_with_all = ["closed", "steps"])]
    pub ramp_to: Option<f64>,
    /// One rate after the other, each for so long, as 500:10s,1000:10s
    #[arg(long, value_name = "N:TIME,...", value_delimiter = ',', value_parser = step,
          conflicts_with_all = ["closed", "duration"])]
    #[serde(deserialize_with = "segments")]
    pub steps: Vec<Segment>,
    /// Requests come by chance, as from independent users (Poisson), at the same rate
    #[arg(long, conflicts_with = "closed")]
    pub poisson: bool,
    /// What chance begins with: the same number makes the same schedule
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// As fast as answers come: each connection sends as soon as it has its answer
    #[arg(long)]
    pub closed: bool,
    /// How long each connection of a closed loop waits between an answer and its next request, as
    /// 100ms, or by chance from 50ms-150ms
    #[arg(long, value_name = "TIME", requires = "closed", value_parser = think)]
    #[serde(default, deserialize_with = "think_time")]
    pub think: Option<Think>,
    /// How long requests are sent, of those that count
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(10))]
    #[serde(deserialize_with = "values::text")]
    pub duration: Duration,
    /// How long requests are sent before those that count
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(1))]
    #[serde(deserialize_with = "values::text")]
    pub warmup: Duration,
    /// The part of the rate that a load of several has.
    #[arg(skip = WHOLE)]
    #[serde(skip, default = "whole")]
    pub part: f64,
    /// Which of several loads it is: each has arrivals of its own.
    #[arg(skip)]
    #[serde(skip)]
    pub number: u64,
}

fn whole() -> f64 {
    WHOLE
}

fn segments<'de, D: Deserializer<'de>>(field: D) -> Result<Vec<Segment>, D::Error> {
    values::each(field, step)
}

fn think_time<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Think>, D::Error> {
    values::one(field, think).map(Some)
}

fn think(text: &str) -> Result<Think, String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let span = |text: &str| text.trim().parse::<Duration>().ok().map(Duration::get);
    let both = span(least).zip(span(most)).and_then(|(least, most)| Think::new(least, most));
    both.ok_or_else(|| format!("{text:?} is not a think time: write it as 100ms, or 50ms-150ms"))
}

fn step(text: &str) -> Result<Segment, String> {
    let words = || format!("{text:?} is not a step: write it as 500:10s");
    let (rate, span) = text.split_once(':').ok_or_else(words)?;
    let rate = rate.trim().parse().map_err(|_| words())?;
    let span: Duration = span.parse().map_err(|_| words())?;
    Ok(Segment::constant(rate, span.get()))
}

impl Speed {
    /// When requests are due.
    pub fn pace(&self) -> Result<Pace, Failure> {
        let duration = self.duration.get();
        if self.closed {
            return Ok(Pace::Closed(duration));
        }
        let segments = if self.steps.is_empty() {
            let to = self.ramp_to.unwrap_or(self.rate);
            vec![Segment { from: self.rate, to, duration }]
        } else {
            self.steps.clone()
        };
        let part = |of: Segment| Segment { from: of.from * self.part, to: of.to * self.part, ..of };
        let segments = segments.into_iter().map(part).collect();
        Ok(Pace::Open(Schedule::new(segments, self.arrivals()).map_err(Failure::other)?))
    }

    /// How they follow one another.
    pub fn arrivals(&self) -> Arrivals {
        if self.poisson {
            Arrivals::Poisson(self.seed.wrapping_add(self.number))
        } else {
            Arrivals::Even
        }
    }
}
