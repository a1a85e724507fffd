//! Why requests failed, and whose fault each was.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::recorder::{Kind, Results};

/// Different words that are told apart; what comes later is counted by its owner alone.
const WORDS_MAX: usize = 1000;
/// The longest words of an error.
const WORDS_LEN_MAX: usize = 200;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// This machine had no port, descriptor or memory.
    Injector,
    /// The connection was refused, broke, or nothing came in time.
    Network,
    /// The server answered with a failure, or what can't be understood.
    Server,
    /// The server answered with a success, and not with what a check wants.
    Check,
}

impl Owner {
    pub const ALL: [Self; 4] = [Self::Injector, Self::Network, Self::Server, Self::Check];

    /// Whose fault a result is; a success is none, and what was not sent is nobody's error.
    pub fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Succeeded | Kind::Unsent => None,
            Kind::Server => Some(Self::Server),
            Kind::Check => Some(Self::Check),
            Kind::Timeout | Kind::Network => Some(Self::Network),
            Kind::Injector => Some(Self::Injector),
        }
    }

    /// How many results are each one's fault.
    pub fn counts(results: &Results) -> [u64; Self::ALL.len()] {
        Self::ALL.map(|owner| {
            let kinds = Kind::ALL.into_iter().filter(|kind| Self::of(*kind) == Some(owner));
            kinds.map(|kind| results.count(kind)).sum()
        })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Injector => "injector",
            Self::Network => "network",
            Self::Server => "server",
            Self::Check => "check",
        })
    }
}

/// Errors by owner, in their own words.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(Owner, String, u64)>", into = "Vec<(Owner, String, u64)>")]
pub struct Errors {
    counts: BTreeMap<(Owner, String), u64>,
}

impl From<Vec<(Owner, String, u64)>> for Errors {
    fn from(list: Vec<(Owner, String, u64)>) -> Self {
        let mut errors = Self::default();
        list.iter().for_each(|(owner, words, count)| errors.note_all(*owner, words, *count));
        errors
    }
}

impl From<Errors> for Vec<(Owner, String, u64)> {
    fn from(errors: Errors) -> Self {
        let each = errors.counts.into_iter();
        each.map(|((owner, words), count)| (owner, words, count)).collect()
    }
}

impl Errors {
    /// Counts an error by its owner and its words.
    pub fn note(&mut self, owner: Owner, words: &str) {
        self.note_all(owner, words, 1);
    }

    fn note_all(&mut self, owner: Owner, words: &str, count: u64) {
        let words: String = words.chars().take(WORDS_LEN_MAX).collect();
        let mut key = (owner, words);
        if self.counts.len() >= WORDS_MAX && !self.counts.contains_key(&key) {
            key.1 = "other errors".to_owned();
        }
        *self.counts.entry(key).or_default() += count;
    }

    /// Adds what another thread saw.
    pub fn add(&mut self, other: &Self) {
        for ((owner, words), count) in &other.counts {
            self.note_all(*owner, words, *count);
        }
    }

    /// How many are an owner's.
    pub fn of(&self, owner: Owner) -> u64 {
        let of = self.counts.iter().filter(|((whose, _), _)| *whose == owner);
        of.map(|(_, count)| count).sum()
    }

    /// The words of an owner's commonest error.
    pub fn commonest_of(&self, owner: Owner) -> Option<&str> {
        let of = self.counts.iter().filter(|((whose, _), _)| *whose == owner);
        of.max_by_key(|(_, count)| **count).map(|((_, words), _)| &**words)
    }

    /// The commonest, most of all first.
    pub fn commonest(&self, count: usize) -> Vec<(Owner, &str, u64)> {
        let all = self.counts.iter().map(|((owner, words), count)| (*owner, &**words, *count));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{Errors, Owner, WORDS_MAX};

    #[test]
    fn errors_are_counted_by_owner_and_the_commonest_come_first() {
        let mut errors = Errors::default();
        errors.note(Owner::Network, "refused");
        let mut other = Errors::default();
        other.note(Owner::Server, "HTTP 503");
        other.note(Owner::Server, "HTTP 503");
        errors.add(&other);
        assert_eq!((errors.of(Owner::Server), errors.of(Owner::Injector)), (2, 0));
        assert_eq!(errors.commonest(1), [(Owner::Server, "HTTP 503", 2)]);
    }

    #[test]
    fn a_server_that_words_each_error_anew_fills_no_memory() {
        let mut errors = Errors::default();
        for number in 0..5 * WORDS_MAX {
            errors.note(Owner::Server, &format!("error {number}"));
        }
        assert!(errors.counts.len() <= WORDS_MAX + 1);
        assert_eq!(errors.of(Owner::Server), 5 * WORDS_MAX as u64);
    }
}
