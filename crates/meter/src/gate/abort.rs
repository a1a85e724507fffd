//! Demands whose first miss ends a run.

use std::time::Duration;

use super::{Gate, Judgement, Sliding};
use crate::recorder::{Results, Tolerance};
use crate::window::WINDOW;

/// The demands by which a run is ended, on all of it and on stretches of it.
#[derive(Debug)]
pub struct AbortGates {
    gates: Vec<Gate>,
    sliding: Sliding,
    tolerance: Tolerance,
}

impl AbortGates {
    /// Judges by these demands, and none by what the injector moves by more than `tolerance`.
    pub fn new(gates: Vec<Gate>, tolerance: Tolerance) -> Self {
        Self { sliding: Sliding::new(&gates, tolerance), gates, tolerance }
    }

    /// Takes the results of the window with that number; `so_far` has them, too. Gives the first
    /// demand that is missed, with what was found.
    pub fn window(
        &mut self,
        number: u64,
        results: &Results,
        so_far: &Results,
    ) -> Option<(Gate, String)> {
        let on_stretch = self.sliding.window(results);
        let measured = WINDOW * u32::try_from(number + 1).unwrap_or(u32::MAX);
        let of_all = self.gates.iter().find_map(|gate| {
            match gate.judge(so_far, measured, &self.tolerance) {
                Judgement::Missed(found) => Some((gate.clone(), found)),
                Judgement::Met | Judgement::Unjudged(_) => None,
            }
        });
        of_all.or(on_stretch)
    }

    /// Takes what ended behind the last window.
    pub fn end(&mut self, rest: &Results) {
        self.sliding.end(rest);
    }

    /// The demands that can't be judged of a run that none has ended, with what was found.
    pub fn unjudged(&self, results: &Results, measured: Duration) -> Vec<(Gate, String)> {
        let of_all = self.gates.iter().filter_map(|gate| {
            let found = gate.judge(results, measured, &self.tolerance).unjudged()?;
            Some((gate.clone(), found))
        });
        of_all.chain(self.sliding.unjudged()).collect()
    }
}
