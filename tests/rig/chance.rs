//! Runs made by chance: what they begin with, and how long they are.

use std::process::Command;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::places;

/// A number from the environment, for another run or a longer one.
pub fn number<T: FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// What chance begins with: `WEIR_TEST_SEED`, or a number made of the commit that is tested, so
/// that each commit tries something else and a second run of it tries the same. It is printed, and
/// shown where a test fails.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    let seed = *SEED.get_or_init(|| number("WEIR_TEST_SEED").or_else(of_the_commit).unwrap_or(1));
    println!("WEIR_TEST_SEED={seed}");
    seed
}

/// Draws for a test that has one source of chance, begun with the [`seed`].
pub fn draws() -> StdRng {
    StdRng::seed_from_u64(seed())
}

/// The first digits of the commit's id; nothing in a tree without one.
fn of_the_commit() -> Option<u64> {
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "--short=7", "HEAD"]).current_dir(places::root()).output();
    let id = String::from_utf8(output.ok()?.stdout).ok()?;
    u64::from_str_radix(id.trim(), 16).ok()
}

/// How long a run is: a number of steps, or a time where somebody has it for a soak.
#[derive(Debug, Clone, Copy)]
pub struct Length {
    steps: u64,
    until: Option<Instant>,
}

impl Length {
    /// `WEIR_TEST_SECONDS`, `WEIR_TEST_STEPS`, or so many steps.
    pub fn of(steps: u64) -> Self {
        let seconds = number("WEIR_TEST_SECONDS").map(Duration::from_secs);
        let steps = number("WEIR_TEST_STEPS").unwrap_or(steps);
        Self { steps, until: seconds.map(|seconds| Instant::now() + seconds) }
    }

    /// So many steps, whatever the environment says.
    pub fn exactly(steps: u64) -> Self {
        Self { steps, until: None }
    }

    /// Whether it is a time, as in a soak.
    pub fn is_timed(&self) -> bool {
        self.until.is_some()
    }

    /// Whether a run that has made so many steps is to go on.
    pub fn goes_on(&self, done: u64) -> bool {
        self.until.map_or(done < self.steps, |until| Instant::now() < until)
    }

    /// A time in which it ends, also on a busy machine, if each step takes at most `step`.
    pub fn limit(&self, step: Duration) -> Duration {
        let steps = u32::try_from(self.steps).unwrap_or(u32::MAX);
        self.until.map_or(step.saturating_mul(steps), |until| until - Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::{Length, of_the_commit};

    #[test]
    fn a_run_ends_after_its_steps() {
        let length = Length::exactly(3);
        assert!(length.goes_on(2) && !length.goes_on(3));
    }

    #[test]
    fn a_commit_always_gives_the_same_number() {
        assert_eq!(of_the_commit(), of_the_commit());
    }
}
