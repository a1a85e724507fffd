//! What was done last, for whoever reads of a failure.

use std::collections::VecDeque;

/// So many lines are kept.
const LINES_MAX: usize = 400;
/// So many are shown: of all clients, and of the one that is wrong.
const SHOWN: usize = 25;
/// So much of each.
const CHARS_MAX: usize = 300;

/// Lines, each of a client.
#[derive(Debug, Default)]
pub struct Trail(VecDeque<(usize, String)>);

impl Trail {
    pub fn note(&mut self, client: usize, what: &str) {
        if self.0.len() == LINES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((client, what.chars().take(CHARS_MAX).collect()));
    }

    /// The last lines of all, and of one client.
    pub fn shown(&self, client: usize) -> String {
        let (all, own) = (self.last(|_| true), self.last(|of| of == client));
        format!("the last steps of all:\n{all}its own:\n{own}")
    }

    fn last(&self, is: impl Fn(usize) -> bool) -> String {
        let fit: Vec<_> = self.0.iter().filter(|(of, _)| is(*of)).collect();
        let line = |(of, what): &&(usize, String)| format!("  [{of}] {what}\n");
        fit[fit.len().saturating_sub(SHOWN)..].iter().map(line).collect()
    }
}
