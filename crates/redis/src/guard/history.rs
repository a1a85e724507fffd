//! What a server said before, as far as a finding is about a change.

use std::time::Duration;

use super::seen::ServerReport;

/// For how long it is said that writes waited for a sync, or that a server came back empty.
const SAID_FOR: Duration = Duration::from_secs(600);
/// One that has fewer of 100 of its keys after a restart has lost them.
const KEPT_PERCENT: u64 = 90;

/// What was seen of one server before. Times are since the guard was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    run_id: String,
    keys: Option<u64>,
    delayed: u64,
    late: Option<(Duration, u64)>,
    emptied: Option<(Duration, u64)>,
}

impl History {
    /// A server was asked once more.
    pub fn note(&mut self, seen: &ServerReport, now: Duration) {
        let was_restarted = !self.run_id.is_empty() && self.run_id != seen.run_id;
        let delayed = seen.aof.map_or(0, |aof| aof.delayed);
        // What was counted before the guard came is not of now.
        let before = if self.run_id.is_empty() { delayed } else { self.delayed };
        let before = if was_restarted { 0 } else { before };
        self.late = self.late.filter(|(since, _)| now.saturating_sub(*since) < SAID_FOR);
        if delayed > before {
            let sum = self.late.map_or(0, |(_, times)| times);
            self.late = Some((now, sum + (delayed - before)));
        }
        if let (true, Some(keys), Some(had)) =
            (was_restarted && !seen.is_loading, seen.keys, self.keys)
            && has_lost(keys, had)
        {
            self.emptied = Some((now, had));
        }
        self.emptied = self.emptied.filter(|(since, had)| {
            let is_lost = seen.keys.is_some_and(|keys| has_lost(keys, *had));
            is_lost && now.saturating_sub(*since) < SAID_FOR
        });
        self.delayed = delayed;
        // While it loads, it has not lost what it had.
        if !seen.is_loading {
            self.run_id.clone_from(&seen.run_id);
            self.keys = seen.keys;
        }
    }

    /// How often writes have waited for a sync lately.
    pub fn late(&self) -> Option<u64> {
        self.late.map(|(_, times)| times)
    }

    /// How many keys it had before a restart that lost them.
    pub fn emptied(&self) -> Option<u64> {
        self.emptied.map(|(_, had)| had)
    }
}

fn has_lost(now: u64, had: u64) -> bool {
    u128::from(now) * 100 < u128::from(had) * u128::from(KEPT_PERCENT)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::seen::{Aof, ServerReport};
    use super::History;

    fn seen(run_id: &str, delayed: u64, keys: u64) -> ServerReport {
        let aof = Some(Aof { delayed, ..Aof::default() });
        ServerReport { run_id: run_id.into(), aof, keys: Some(keys), ..ServerReport::default() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn late_syncs_are_those_since_the_guard_came_and_are_said_for_a_while() {
        let mut history = History::default();
        history.note(&seen("a", 7, 1), at(0));
        assert_eq!(history.late(), None, "nobody knows when those were");
        history.note(&seen("a", 9, 1), at(10));
        history.note(&seen("a", 10, 1), at(20));
        assert_eq!(history.late(), Some(3));
        history.note(&seen("b", 2, 1), at(30));
        assert_eq!(history.late(), Some(5), "it counts from 0 after a restart");
        history.note(&seen("b", 2, 1), at(700));
        assert_eq!(history.late(), None);
    }

    #[test]
    fn a_server_that_comes_back_with_fewer_keys_is_told_until_they_are_back() {
        let mut history = History::default();
        history.note(&seen("a", 0, 100), at(0));
        history.note(&seen("a", 0, 10), at(10));
        assert_eq!(history.emptied(), None, "a client has removed them");
        history.note(&seen("a", 0, 100), at(20));
        history.note(&ServerReport { is_loading: true, ..seen("b", 0, 5) }, at(30));
        assert_eq!(history.emptied(), None, "it still loads");
        history.note(&seen("b", 0, 5), at(40));
        assert_eq!(history.emptied(), Some(100));
        history.note(&seen("b", 0, 50), at(50));
        assert_eq!(history.emptied(), Some(100));
        history.note(&seen("b", 0, 90), at(60));
        assert_eq!(history.emptied(), None);
    }

    proptest! {
        #[test]
        fn a_server_that_only_serves_never_has_findings_of_change(
            looks in proptest::collection::vec((0..1000_u64, 0..1000_u64), 1..20),
        ) {
            let mut history = History::default();
            for (number, (keys, _)) in looks.iter().enumerate() {
                history.note(&seen("a", 3, *keys), at(number as u64));
                prop_assert_eq!((history.late(), history.emptied()), (None, None));
            }
        }
    }
}
