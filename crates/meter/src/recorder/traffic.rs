//! What the requests of one operation had on their connections: bytes, and the status codes of
//! answers that were failures.

use std::fmt;
use std::str::FromStr;

use super::Kind;

/// Status codes that are told apart; failures with further ones count without theirs.
const CODES_MAX: usize = 100;

/// Bytes and failures of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationTraffic {
    /// Bytes that requests had.
    pub sent: u64,
    /// Bytes that answers had.
    pub received: u64,
    failures: Vec<(Kind, u16, u64)>,
}

impl OperationTraffic {
    /// Counts an answer that was a failure, with its status; 0 is none.
    pub fn note_failure(&mut self, kind: Kind, code: u16) {
        self.note_failures(kind, code, 1);
    }

    fn note_failures(&mut self, kind: Kind, code: u16, count: u64) {
        if code == 0 {
            return;
        }
        let is_full = self.failures.len() >= CODES_MAX;
        match self.failures.iter_mut().find(|of| (of.0, of.1) == (kind, code)) {
            Some((.., known)) => *known = known.saturating_add(count),
            None if is_full => {}
            None => self.failures.push((kind, code, count)),
        }
    }

    /// Failures of each kind and status code, in the order in which these came first.
    pub fn failures(&self) -> &[(Kind, u16, u64)] {
        &self.failures
    }

    /// Adds all of another one.
    pub fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
        other.failures.iter().for_each(|(kind, code, count)| {
            self.note_failures(*kind, *code, *count);
        });
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// As `123 456 server.503.12 check.200.1`: bytes sent, bytes received, failures.
impl fmt::Display for OperationTraffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.sent, self.received)?;
        self.failures
            .iter()
            .try_for_each(|(kind, code, count)| write!(f, " {}.{code}.{count}", kind.name()))
    }
}

impl FromStr for OperationTraffic {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const DAMAGED: &str = "what it has of bytes and failures can't be read";
        let mut words = text.split(' ');
        let mut bytes = || words.next()?.parse().ok();
        let (sent, received) = bytes().zip(bytes()).ok_or(DAMAGED)?;
        let mut read = Self { sent, received, failures: Vec::new() };
        for word in words {
            let mut parts = word.split('.');
            let name = parts.next().ok_or(DAMAGED)?;
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or(DAMAGED)?;
            let code = parts.next().and_then(|code| code.parse().ok()).ok_or(DAMAGED)?;
            let count = parts.next().and_then(|count| count.parse().ok()).ok_or(DAMAGED)?;
            read.note_failures(kind, code, count);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::{CODES_MAX, OperationTraffic};
    use crate::recorder::Kind;

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_is_not() {
        let mut traffic = OperationTraffic { sent: 5, received: 7, ..Default::default() };
        assert_eq!(traffic.to_string(), "5 7");
        for (kind, code) in [(Kind::Server, 503), (Kind::Check, 200), (Kind::Server, 503)] {
            traffic.note_failure(kind, code);
        }
        traffic.note_failure(Kind::Server, 0);
        assert_eq!(traffic.to_string(), "5 7 server.503.2 check.200.1");
        assert_eq!(traffic.to_string().parse(), Ok(traffic.clone()));
        for damaged in ["", "5", "5 x", "5 7 ", "5 7 server", "5 7 server.503", "5 7 x.503.1"] {
            assert!(damaged.parse::<OperationTraffic>().is_err(), "{damaged}");
        }
        traffic.add(&traffic.clone());
        assert_eq!(traffic.to_string(), "10 14 server.503.4 check.200.2");
    }

    #[test]
    fn codes_without_end_take_no_memory_without_end() {
        let mut traffic = OperationTraffic::default();
        (1..=1000).for_each(|code| traffic.note_failure(Kind::Server, code));
        assert_eq!(traffic.failures().len(), CODES_MAX);
    }
}
