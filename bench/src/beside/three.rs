//! Three Weirs at once, and the load that moves between them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rig::places;
use rig::weir::{Setup, Weir};
use tempfile::TempDir;

use super::Plan;
use super::rounds::{Round, Sides};
use crate::Outcome;
use crate::measure::Usage;

/// The order of the three, round by round: each has each place equally often, goes behind each
/// other equally often, and never twice in a row.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [2, 1, 0], [1, 0, 2], [1, 2, 0], [2, 0, 1]];

/// What the three run: each a file of its own, so that none shares its pages with another, and
/// what is built meanwhile changes nothing.
pub struct Binaries {
    files: [PathBuf; 3],
    _dir: TempDir,
}

impl Binaries {
    /// The new one, the old one, and the old one once more.
    ///
    /// # Errors
    /// When one can't be copied.
    pub fn copy(new: &Path, old: &Path) -> Outcome<Self> {
        let dir = places::directory();
        let files = ["new", "old", "copy"].map(|name| dir.path().join(name));
        for (from, to) in [new, old, old].into_iter().zip(&files) {
            std::fs::copy(from, to)
                .map_err(|error| format!("{} can't be copied: {error}", from.display()))?;
        }
        Ok(Self { files, _dir: dir })
    }

    /// The three, in that order.
    pub fn files(&self) -> [PathBuf; 3] {
        self.files.clone()
    }

    /// Starts all three with the same settings.
    pub fn start(&self, setup: &Setup) -> [Weir; 3] {
        self.files.each_ref().map(|file| setup.clone().program(file.clone()).start())
    }
}

/// What one slice of the load came to.
pub struct Slice {
    pub requests: f64,
    /// The same a second.
    pub per_second: f64,
}

/// Moves the load between three that serve it. What counts is their own CPU time.
///
/// # Errors
/// When a slice fails, or a round can't be noted.
pub fn measure(
    plan: &mut Plan,
    row: &str,
    weirs: &mut [Weir; 3],
    mut slice: impl FnMut(&mut Weir, u32) -> Outcome<Slice>,
) -> Outcome<()> {
    take_turns(plan, row, weirs, |weir, number| {
        let usage = Usage::begin(weir.running().id());
        let came = slice(weir, number)?;
        Ok((came, usage.cpu()))
    })
}

/// Gives each of the three its turn a round, and notes each round; a turn gives its CPU time, too.
///
/// # Errors
/// When a turn fails, or a round can't be noted.
pub fn take_turns<S>(
    plan: &mut Plan,
    row: &str,
    sides: &mut [S; 3],
    mut slice: impl FnMut(&mut S, u32) -> Outcome<(Slice, Duration)>,
) -> Outcome<()> {
    let mut number = 0;
    let mut turn = |side: &mut S| -> Outcome<(f64, f64)> {
        number += 1;
        let (came, cpu) = slice(side, number)?;
        Ok((came.per_second, cpu.as_secs_f64() * 1e6 / came.requests.max(1.0)))
    };
    // Pages, caches and plans are paid for before anything counts.
    for side in sides.iter_mut() {
        turn(side)?;
    }
    for round in 0..plan.rounds {
        let order = ORDERS[round % ORDERS.len()];
        let (mut per_second, mut cpu_us) = ([0.0; 3], [0.0; 3]);
        for place in order {
            (per_second[place], cpu_us[place]) = turn(&mut sides[place])?;
        }
        let (per_second, cpu_us) = (Sides::of(per_second), Sides::of(cpu_us));
        plan.kept.note(Round { row: row.to_owned(), round, order, per_second, cpu_us })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::ORDERS;

    #[test]
    fn the_load_meets_all_three_alike() {
        for side in 0..3 {
            for place in 0..3 {
                let times = ORDERS.iter().filter(|order| order[place] == side).count();
                assert_eq!(times, 2, "side {side} at place {place}");
            }
        }
        let turns: Vec<usize> = ORDERS.iter().chain(&ORDERS[..1]).flatten().copied().collect();
        assert!(turns.windows(2).all(|two| two[0] != two[1]), "{turns:?}");
        for (first, second) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
            let times = turns[..19].windows(2).filter(|two| *two == [first, second]).count();
            assert_eq!(times, 3, "{second} behind {first}");
        }
    }
}
