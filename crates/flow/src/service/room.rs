//! Connections that make room for others: where there is a budget, those of lanes that nobody uses.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::fabric::Lanes;
use super::{Fabric, Service};
use crate::pool::Budget;

/// A lane that was not used for so long makes room for whoever waits for a connection.
const UNUSED: Duration = Duration::from_secs(1);

impl<S: Service> Fabric<S> {
    /// Where a budget is used up and somebody waits, as many lanes end as are waited for, of those
    /// that count towards it and that nobody uses: first those that no client may ask.
    pub(super) fn make_room(&self, now: Instant) {
        let mut short: Vec<(Budget, usize)> = Vec::new();
        for group in self.pool.groups() {
            let figures = group.figures();
            let budget = figures.is_short().then(|| self.service().budget(*group.key()));
            let is_used_up = |of: &Budget| of.limit().used() >= of.limit().max();
            let Some(budget) = budget.flatten().filter(is_used_up) else { continue };
            match short.iter_mut().find(|(of, _)| *of == budget) {
                Some((_, wanted)) => *wanted += figures.waiting,
                None => short.push((budget, figures.waiting)),
            }
        }
        for (budget, wanted) in short {
            let mut spare = self.spare(&budget, now);
            spare.sort_by_key(|(is_wanted, group)| (*is_wanted, group.used()));
            spare.iter().take(wanted).for_each(|(_, group)| group.retire());
        }
    }

    /// The lanes of each server that nobody uses, and whether a client may ask it.
    fn spare(&self, budget: &Budget, now: Instant) -> Vec<(bool, Rc<Lanes<S>>)> {
        let groups = self.groups.borrow();
        let spare = groups.iter().filter_map(|(server, group)| {
            let (lanes, in_flight) = group.figures();
            let is_free = lanes > 0 && in_flight == 0 && !group.is_waited_for();
            let is_wanted = self.service().is_wanted(*server);
            let unused = now.saturating_duration_since(group.used());
            let is_spare = is_free && (!is_wanted || unused > UNUSED);
            let counts = is_spare && self.service().budget(*server).as_ref() == Some(budget);
            counts.then(|| (is_wanted, Rc::clone(group)))
        });
        spare.collect()
    }

    /// Forgets a server that nobody asks any more: its lanes end, and its connections are closed.
    /// Whether nothing of it is left; else it is to be called again.
    pub fn forget(&self, server: usize) -> bool {
        let group = self.groups.borrow().get(&server).cloned();
        if let Some(group) = group {
            group.retire();
            if group.count() > 0 || group.is_opening() {
                return false;
            }
        }
        if !self.pool.forget(&server) {
            return false;
        }
        self.groups.borrow_mut().remove(&server);
        self.breaks.borrow_mut().remove(&server);
        self.permits.borrow_mut().remove(&server);
        true
    }
}
