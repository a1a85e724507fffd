//! Demands on any stretch of a run, as `p99<20ms in any 10s`: looked at each time a window ends,
//! over the windows before it.

use std::collections::VecDeque;

use super::{Figure, Gate};
use crate::recorder::Results;
use crate::window::WINDOW;

/// The longest stretch, in windows: so many are kept.
pub const STRETCH_MAX: u32 = 60;

/// The demands on stretches, and the windows that they are looked at over.
#[derive(Debug)]
pub struct Sliding {
    gates: Vec<(Gate, u32, Option<String>)>,
    recent: VecDeque<Results>,
    windows: u64,
}

impl Sliding {
    /// Takes those of `gates` that are on stretches.
    pub fn new(gates: &[Gate]) -> Self {
        let on_stretches =
            gates.iter().filter_map(|gate| Some((gate.clone(), gate.stretch?, None)));
        Self { gates: on_stretches.collect(), recent: VecDeque::new(), windows: 0 }
    }

    /// Takes a window that has ended; gives the first demand that it is the first to miss.
    pub fn window(&mut self, results: &Results) -> Option<(Gate, String)> {
        let longest = self.gates.iter().map(|(_, stretch, _)| *stretch).max()? as usize;
        if self.recent.len() == longest {
            self.recent.pop_front();
        }
        self.recent.push_back(results.clone());
        self.windows += 1;
        let mut first = None;
        for at in 0..self.gates.len() {
            let (gate, stretch, missed) = &self.gates[at];
            if missed.is_some() || self.recent.len() < *stretch as usize {
                continue;
            }
            let Some(found) = self.found(gate, *stretch) else { continue };
            let words = format!("{found} in the {stretch} s up to second {}", self.windows);
            first = first.or_else(|| Some((gate.clone(), words.clone())));
            self.gates[at].2 = Some(words);
        }
        first
    }

    /// Takes what ended behind the last window that was taken: it belongs to the stretch that ends
    /// the run. It has no length of its own, so no rate is asked of it.
    pub fn end(&mut self, rest: &Results) {
        if rest.total() == 0 {
            return;
        }
        for at in 0..self.gates.len() {
            let (gate, stretch, missed) = &self.gates[at];
            if missed.is_some() || gate.figure == Figure::Rate {
                continue;
            }
            let mut sum = self.last(*stretch);
            sum.add(rest);
            if let Some(found) = gate.found(&sum, WINDOW * *stretch) {
                self.gates[at].2 = Some(format!("{found} in the {stretch} s up to the end"));
            }
        }
    }

    /// All that were missed. A run that is shorter than a stretch is one itself.
    pub fn missed(&self) -> Vec<(Gate, String)> {
        let of = self.gates.iter().filter_map(|(gate, stretch, missed)| {
            let whole = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
            let found = match missed {
                Some(words) => Some(words.clone()),
                None if whole > 0 && whole < *stretch => self.found(gate, whole),
                None => None,
            };
            Some((gate.clone(), found?))
        });
        of.collect()
    }

    /// What was found in the last windows instead of what is demanded.
    fn found(&self, gate: &Gate, windows: u32) -> Option<String> {
        gate.found(&self.last(windows), WINDOW * windows)
    }

    /// What ended in the last windows.
    fn last(&self, windows: u32) -> Results {
        let mut sum = Results::default();
        self.recent.iter().rev().take(windows as usize).for_each(|results| sum.add(results));
        sum
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Sliding;
    use crate::gate::Gate;
    use crate::recorder::{Kind, Results};

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
        let mut sliding = Sliding::new(&gates);
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
    fn a_run_that_is_shorter_than_a_stretch_is_one() {
        let gates = gates(&["p50<20ms in any 10s", "rate>99 in any 10s"]);
        let mut sliding = Sliding::new(&gates);
        assert!(sliding.missed().is_empty());
        assert_eq!(sliding.window(&window(true)), None);
        let missed = sliding.missed();
        assert_eq!((missed.len(), missed[0].0.to_string()), (1, "p50<20ms in any 10s".to_owned()));
    }

    #[test]
    fn what_ends_behind_the_last_window_is_of_the_stretch_that_ends_the_run() {
        let texts = ["p99<20ms in any 1s", "p99<20ms in any 5s", "rate>99 in any 1s"];
        let texts = [&texts[..], &["p50<20ms in any 3s"]].concat();
        for windows in [0, 3] {
            let mut sliding = Sliding::new(&gates(&texts));
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
