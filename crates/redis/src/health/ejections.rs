//! Which servers are ejected: twemproxy's rule, without clock and without I/O.

use std::time::{Duration, Instant};

/// When a server is ejected, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// So many failures in a row, of those that one worker has seen, eject it.
    pub failures: u32,
    /// After so long its keys are its own again.
    pub retry: Duration,
}

/// The servers of a pool, each with its failures.
#[derive(Debug)]
pub struct Ejections {
    /// Without one, nothing is ejected.
    rule: Option<Rule>,
    servers: Vec<One>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct One {
    /// By worker: since it last reached the server, or that was ejected. Each counts for itself,
    /// so that connections of all workers that break at once are one failure.
    failures: Vec<u32>,
    /// When it comes back.
    until: Option<Instant>,
    /// It has no keys, and others' are never its own.
    is_aside: bool,
}

impl One {
    fn begin_anew(&mut self) {
        *self = Self { is_aside: self.is_aside, ..Self::default() };
    }
}

impl Ejections {
    /// All of `count` servers are in.
    pub fn new(count: usize, rule: Option<Rule>) -> Self {
        Self { rule, servers: vec![One::default(); count] }
    }

    /// Another server has this number, and is in.
    pub fn is_new(&mut self, server: usize, may_have_keys: bool) {
        self.servers.resize(self.servers.len().max(server + 1), One::default());
        self.servers[server] = One { is_aside: !may_have_keys, ..One::default() };
    }

    /// Puts another rule in force; whether that changes who has keys.
    pub fn set_rule(&mut self, rule: Option<Rule>) -> bool {
        self.rule = rule;
        let had_ejected = self.servers.iter().any(|of| of.until.is_some());
        if rule.is_none() {
            self.servers.iter_mut().for_each(One::begin_anew);
        }
        rule.is_none() && had_ejected
    }

    /// A server has failed a worker; whether it is ejected by that. The last one that has keys
    /// keeps them: there is nobody to have them in its place.
    pub fn failed(&mut self, server: usize, worker: usize, now: Instant) -> bool {
        let has_keys = |other: usize| self.is_in(other) && !self.servers[other].is_aside;
        let others = (0..self.servers.len()).any(|other| other != server && has_keys(other));
        let (Some(rule), Some(one)) = (self.rule, self.servers.get_mut(server)) else {
            return false;
        };
        if one.until.is_some() || one.is_aside {
            return false;
        }
        if one.failures.len() <= worker {
            one.failures.resize(worker + 1, 0);
        }
        let failures = one.failures[worker].saturating_add(1);
        one.failures[worker] = failures;
        if failures < rule.failures || !others {
            return false;
        }
        *one = One { until: now.checked_add(rule.retry), ..One::default() };
        one.until.is_some()
    }

    /// A worker has reached a server: what failed before is forgotten. It stays ejected until its
    /// time is over, so that keys do not move back and forth.
    pub fn reached(&mut self, server: usize, worker: usize) {
        let one = self.servers.get_mut(server);
        if let Some(failures) = one.and_then(|one| one.failures.get_mut(worker)) {
            *failures = 0;
        }
    }

    /// Lets those back in whose time is over; whether there were any.
    pub fn look(&mut self, now: Instant) -> bool {
        let mut some = false;
        for one in self.servers.iter_mut().filter(|of| of.until.is_some_and(|at| at <= now)) {
            one.begin_anew();
            some = true;
        }
        some
    }

    /// Whether a server has keys.
    pub fn is_in(&self, server: usize) -> bool {
        self.until(server).is_none()
    }

    /// Until when a server is ejected.
    pub fn until(&self, server: usize) -> Option<Instant> {
        self.servers.get(server)?.until
    }

    /// When the next one comes back.
    pub fn next(&self) -> Option<Instant> {
        self.servers.iter().filter_map(|of| of.until).min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RETRY: Duration = Duration::from_secs(30);

    fn ejections(count: usize, failures: u32) -> Ejections {
        Ejections::new(count, Some(Rule { failures, retry: RETRY }))
    }

    #[test]
    fn so_many_failures_in_a_row_eject_and_time_brings_back() {
        let (mut all, now) = (ejections(2, 2), Instant::now());
        assert!(!all.failed(0, 0, now));
        all.reached(0, 0);
        // Other workers' connections that break with it are no more than one failure.
        assert!((0..9).all(|worker| !all.failed(0, worker, now)));
        all.reached(0, 1);
        assert!(!all.failed(0, 1, now));
        assert!(all.failed(0, 0, now));
        assert_eq!((all.is_in(0), all.is_in(1), all.next()), (false, true, Some(now + RETRY)));
        // What comes late of before changes nothing.
        assert!(!all.failed(0, 0, now));
        all.reached(0, 0);
        assert!(!all.look(now + RETRY - Duration::from_millis(1)) && !all.is_in(0));
        assert!(all.look(now + RETRY) && all.is_in(0));
        // It has to fail as often again.
        assert!(!all.failed(0, 0, now + RETRY));
        assert!(all.failed(0, 0, now + RETRY));
    }

    #[test]
    fn without_a_rule_nothing_is_ejected_and_a_rule_that_goes_lets_all_back_in() {
        let (mut all, now) = (Ejections::new(2, None), Instant::now());
        assert!((0..9).all(|_| !all.failed(0, 0, now)));
        let mut all_but_one = ejections(2, 1);
        assert!(all_but_one.failed(1, 0, now));
        assert!(all_but_one.set_rule(None));
        assert!(all_but_one.is_in(1));
        assert!(!all.set_rule(Some(Rule { failures: 1, retry: RETRY })));
        assert!(all.failed(0, 0, now));
    }

    #[test]
    fn a_server_that_has_left_takes_nobodys_keys_and_does_not_come_back() {
        let (mut all, now) = (ejections(2, 1), Instant::now());
        assert!(all.failed(1, 0, now));
        all.is_new(1, false);
        assert!(all.is_in(1) && all.next().is_none());
        assert!(!all.failed(0, 0, now), "nobody else has keys");
    }

    #[test]
    fn a_replica_is_not_ejected_and_takes_nobodys_keys() {
        let (mut all, now) = (ejections(1, 1), Instant::now());
        all.is_new(1, false);
        assert!(!all.failed(1, 0, now) && !all.failed(0, 0, now));
        all.is_new(2, true);
        assert!(all.failed(0, 0, now) && !all.failed(2, 0, now));
    }

    proptest! {
        #[test]
        fn somebody_always_has_the_keys(
            limit in 0_u32..4,
            steps in prop::collection::vec((0_usize..4, 0_u8..3, 0_u64..40), 0..60),
        ) {
            let mut all = ejections(3, limit);
            let mut now = Instant::now();
            for (server, what, seconds) in steps {
                now += Duration::from_secs(seconds);
                match what {
                    0 => all.reached(server, 0),
                    1 => { all.look(now); }
                    _ => { all.failed(server, 0, now); }
                }
                prop_assert!((0..3).any(|server| all.is_in(server)));
                prop_assert_eq!(all.next().is_none(), (0..3).all(|server| all.is_in(server)));
            }
        }
    }
}
