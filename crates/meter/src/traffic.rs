//! What went over connections: bytes, as the protocol has them (under TLS before it encrypts them),
//! and the status codes of answers, where the protocol has such.

use serde::{Deserialize, Serialize};

/// Bytes and status codes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Bytes that requests had.
    pub sent: u64,
    /// Bytes that answers had.
    pub received: u64,
    codes: Vec<(u16, u64)>,
}

impl Traffic {
    /// Counts an answer's status; 0 is none.
    pub fn note_code(&mut self, code: u16) {
        self.note_codes(code, 1);
    }

    fn note_codes(&mut self, code: u16, count: u64) {
        match self.codes.iter_mut().find(|(known, _)| *known == code) {
            _ if code == 0 => {}
            Some((_, known)) => *known += count,
            None => self.codes.push((code, count)),
        }
    }

    /// Adds what another thread saw.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        other.codes.iter().for_each(|(code, count)| self.note_codes(*code, *count));
    }

    /// Status codes with how often each came, the least first.
    pub fn codes(&self) -> Vec<(u16, u64)> {
        let mut codes = self.codes.clone();
        codes.sort_unstable();
        codes
    }
}

#[cfg(test)]
mod tests {
    use super::Traffic;

    #[test]
    fn codes_are_counted_and_in_their_order() {
        let mut traffic = Traffic { sent: 5, received: 7, ..Traffic::default() };
        [503, 200, 0, 200].into_iter().for_each(|code| traffic.note_code(code));
        traffic.add(&traffic.clone());
        assert_eq!((traffic.sent, traffic.received), (10, 14));
        assert_eq!(traffic.codes(), [(200, 4), (503, 2)]);
    }
}
