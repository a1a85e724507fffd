//! Demands on any stretch of a run, as `p99<20ms in any 10s`: looked at each time a window ends,
//! over the windows before it.

use std::collections::VecDeque;

use super::{Figure, Gate, Judgement};
use crate::recorder::{Results, Tolerance};
use crate::window::WINDOW;

/// The longest stretch, in windows: so many are kept.
pub const STRETCH_MAX: u32 = 60;

/// A demand on stretches, and what is known of it.
#[derive(Debug)]
struct Watched {
    gate: Gate,
    stretch: u32,
    /// What was found in the first stretch that missed it.
    missed: Option<String>,
    /// What was found in the first that can't be judged.
    unjudged: Option<String>,
}

impl Watched {
    /// Judges a stretch, which the words name; gives what was found, if it is the first to miss.
    fn judge(&mut self, sum: &Results, windows: u32, tolerance: &Tolerance, name: &str) -> bool {
        let named = |found: String| format!("{found} in the {windows} s up to {name}");
        match self.gate.judge_part(sum, WINDOW * windows, tolerance) {
            Judgement::Met => false,
            Judgement::Missed(found) => {
                self.missed = Some(named(found));
                true
            }
            Judgement::Unjudged(found) => {
                self.unjudged.get_or_insert_with(|| named(found));
                false
            }
        }
    }
}

/// The demands on stretches, and the windows that they are looked at over.
#[derive(Debug)]
pub struct Sliding {
    watched: Vec<Watched>,
    tolerance: Tolerance,
    recent: VecDeque<Results>,
    windows: u64,
}

impl Sliding {
    /// Takes those of `gates` that are on stretches. None is judged by what the injector moves by
    /// more than `tolerance`.
    pub fn new(gates: &[Gate], tolerance: Tolerance) -> Self {
        let on_stretches = gates.iter().filter_map(|gate| {
            let stretch = gate.stretch?;
            Some(Watched { gate: gate.clone(), stretch, missed: None, unjudged: None })
        });
        Self { watched: on_stretches.collect(), tolerance, recent: VecDeque::new(), windows: 0 }
    }

    /// Takes a window that has ended; gives the first demand that it is the first to miss.
    pub fn window(&mut self, results: &Results) -> Option<(Gate, String)> {
        let longest = self.watched.iter().map(|watched| watched.stretch).max()? as usize;
        if self.recent.len() == longest {
            self.recent.pop_front();
        }
        self.recent.push_back(results.clone());
        self.windows += 1;
        let (recent, mut first) = (&self.recent, None);
        let name = format!("second {}", self.windows);
        for watched in &mut self.watched {
            let stretch = watched.stretch;
            if watched.missed.is_some() || recent.len() < stretch as usize {
                continue;
            }
            let is_missed = watched.judge(&last(recent, stretch), stretch, &self.tolerance, &name);
            if is_missed && first.is_none() {
                first = Some((watched.gate.clone(), watched.missed.clone().unwrap_or_default()));
            }
        }
        first
    }

    /// Takes what ended behind the last window that was taken: it belongs to the stretch that ends
    /// the run. It has no length of its own, so no rate is asked of it.
    pub fn end(&mut self, rest: &Results) {
        let of_whole_run = self.recent.len();
        for watched in &mut self.watched {
            let stretch = watched.stretch;
            if watched.missed.is_some() {
                continue;
            }
            // A run that is shorter than a stretch is one itself.
            let whole = u32::try_from(of_whole_run).unwrap_or(u32::MAX);
            if whole > 0 && whole < stretch {
                let name = format!("second {}", self.windows);
                let sum = last(&self.recent, whole);
                watched.judge(&sum, whole, &self.tolerance, &name);
            }
            if rest.total() > 0 && watched.missed.is_none() && watched.gate.figure != Figure::Rate {
                let mut sum = last(&self.recent, stretch);
                sum.add(rest);
                watched.judge(&sum, stretch, &self.tolerance, "the end");
            }
        }
    }

    /// All that were missed, once the run has ended.
    pub fn missed(&self) -> Vec<(Gate, String)> {
        let of = self.watched.iter();
        of.filter_map(|of| Some((of.gate.clone(), of.missed.clone()?))).collect()
    }

    /// All that can't be judged in one stretch, and were missed in no other.
    pub fn unjudged(&self) -> Vec<(Gate, String)> {
        let of = self.watched.iter().filter(|of| of.missed.is_none());
        of.filter_map(|of| Some((of.gate.clone(), of.unjudged.clone()?))).collect()
    }
}

/// What ended in the last windows.
fn last(recent: &VecDeque<Results>, windows: u32) -> Results {
    let mut sum = Results::default();
    recent.iter().rev().take(windows as usize).for_each(|results| sum.add(results));
    sum
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Sliding;
    use crate::gate::Gate;
    use crate::recorder::{Figure, Kind, Results};
    use crate::verdict::THRESHOLDS;

    const MS: Duration = Duration::from_millis(1);

    fn window(slow: bool) -> Results {
        let mut results = Results::default();
        for _ in 0..100 {
            let took = if slow { 50 * MS } else { MS };
            results.note(0, Kind::Succeeded, took, took);
        }
        results
    }

    fn gates(texts: &[&str]) -> Vec<Gate> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_bad_second_is_missed_in_its_stretch_and_drowns_in_the_run() {
        let gates =
            gates(&["p99<20ms", "p50<20ms in any 1s", "p50<20ms in any 2s", "p50<20ms in any 3s"]);
        let mut sliding = Sliding::new(&gates, THRESHOLDS.tolerance());
        let seen: Vec<_> = [false, false, true, false, true, true, false]
            .into_iter()
            .map(|slow| sliding.window(&window(slow)).map(|(gate, _)| gate.to_string()))
            .collect();
        let one = Some("p50<20ms in any 1s".to_owned());
        // A stretch of two is half slow at the third window, of which the p50 is fast.
        let (two, three) =
            (Some("p50<20ms in any 2s".to_owned()), Some("p50<20ms in any 3s".to_owned()));
        assert_eq!(seen, [None, None, one, None, three, two, None]);
        let words: Vec<_> = sliding.missed().into_iter().map(|(_, words)| words).collect();
        assert!(words[0].ends_with("in the 1 s up to second 3"), "{words:?}");
        assert!(words[1].ends_with("in the 2 s up to second 6"), "{words:?}");
        // What is demanded of the whole run is not looked at here.
        assert_eq!(words.len(), 3);
    }

    #[test]
    fn a_stretch_that_the_injector_made_is_missed_by_no_demand() {
        let gates = gates(&["max<20ms in any 1s", "rate>90 in any 1s"]);
        let mut paused = window(false);
        let long = Figure::delayed(400 * MS, 395 * MS);
        paused.note_delayed(0, Kind::Succeeded, long, Some(long));
        let mut half = Results::default();
        (0..50).for_each(|_| half.note(0, Kind::Succeeded, MS, MS));
        half.paused = 500 * MS;
        for ends_slow in [false, true] {
            let mut sliding = Sliding::new(&gates, THRESHOLDS.tolerance());
            assert_eq!([sliding.window(&paused), sliding.window(&half)], [None, None]);
            let unjudged = sliding.unjudged();
            let words: Vec<_> = unjudged.iter().map(|(_, words)| &**words).collect();
            assert!(
                words[0].contains("without the injector's own delays in the 1 s up to second 1")
            );
            assert!(words[1].starts_with("50.0, and 100.0 without"), "{words:?}");
            // What another stretch misses is missed.
            let missed = sliding.window(&window(ends_slow)).map(|(gate, _)| gate.to_string());
            assert_eq!(missed.as_deref(), ends_slow.then_some("max<20ms in any 1s"));
            assert_eq!(sliding.unjudged().len(), 2 - usize::from(ends_slow));
        }
    }

    #[test]
    fn a_run_that_is_shorter_than_a_stretch_is_one() {
        let gates = gates(&["p50<20ms in any 10s", "rate>99 in any 10s"]);
        let mut sliding = Sliding::new(&gates, THRESHOLDS.tolerance());
        assert!(sliding.missed().is_empty());
        assert_eq!(sliding.window(&window(true)), None);
        sliding.end(&Results::default());
        let missed = sliding.missed();
        assert_eq!((missed.len(), missed[0].0.to_string()), (1, "p50<20ms in any 10s".to_owned()));
    }

    #[test]
    fn what_ends_behind_the_last_window_is_of_the_stretch_that_ends_the_run() {
        let texts = ["p99<20ms in any 1s", "p99<20ms in any 5s", "rate>99 in any 1s"];
        let texts = [&texts[..], &["p50<20ms in any 3s"]].concat();
        for windows in [0, 3] {
            let mut sliding = Sliding::new(&gates(&texts), THRESHOLDS.tolerance());
            for _ in 0..windows {
                assert_eq!(sliding.window(&window(false)), None);
            }
            sliding.end(&Results::default());
            assert!(sliding.missed().is_empty());
            sliding.end(&window(true));
            let missed = sliding.missed().into_iter().map(|(gate, words)| {
                assert!(words.ends_with(" s up to the end"), "{words}");
                gate.to_string()
            });
            // A quarter of the last three seconds is slow, and all of a run without a window.
            let median = (windows == 0).then_some(texts[3]);
            let expected: Vec<_> = texts[..2].iter().copied().chain(median).collect();
            assert_eq!(missed.collect::<Vec<_>>(), expected);
        }
    }
}
