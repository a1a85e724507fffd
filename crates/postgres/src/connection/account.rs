//! The account of a server connection's ReadyForQuery.
//!
//! One answers each Sync, Query and FunctionCall, but for Syncs amid the data of a COPY, which the
//! server ignores, and what it leaves out between an error and its Sync. Messages are counted as
//! their bytes go out, whoever wrote them. A connection whose account is open may still be sent an
//! answer: whoever had it next would take that for the answer to its own question.

use wire::postgres::frame::HEADER_BYTES;
use wire::postgres::frontend::tag;

/// What a server was asked since its login, and what became of that.
#[derive(Debug, Default)]
pub(super) struct Account {
    sent: Messages,
    asked: u64,
    settled: u64,
}

impl Account {
    /// These bytes were sent.
    pub fn sent(&mut self, bytes: &[u8]) {
        let asked = &mut self.asked;
        self.sent.each(bytes, |of| {
            if matches!(of, tag::SYNC | tag::QUERY | tag::FUNCTION_CALL) {
                *asked += 1;
            }
        });
    }

    /// So many were answered, ignored or left out.
    pub fn settle(&mut self, count: u64) {
        self.settled = self.settled.saturating_add(count);
    }

    /// Whether all that was asked has been settled, and nothing was sent in part.
    pub fn is_even(&self) -> bool {
        self.asked == self.settled && self.sent.is_whole()
    }

    /// What was asked and what of it is settled.
    pub fn totals(&self) -> (u64, u64) {
        (self.asked, self.settled)
    }
}

/// Messages in a stream of bytes that comes cut anywhere.
#[derive(Debug, Default)]
struct Messages {
    /// A header that is cut.
    header: [u8; HEADER_BYTES],
    /// How much of it is there.
    there: usize,
    /// Bytes to come of the message under way.
    left: usize,
}

impl Messages {
    /// Goes through what follows the bytes before it; `on` has each message's tag.
    fn each(&mut self, mut bytes: &[u8], mut on: impl FnMut(u8)) {
        loop {
            let passed = self.left.min(bytes.len());
            self.left -= passed;
            bytes = &bytes[passed..];
            if bytes.is_empty() {
                return;
            }
            let taken = (HEADER_BYTES - self.there).min(bytes.len());
            self.header[self.there..self.there + taken].copy_from_slice(&bytes[..taken]);
            self.there += taken;
            bytes = &bytes[taken..];
            if self.there == HEADER_BYTES {
                let [tag, a, b, c, d] = self.header;
                // The length counts itself and not the tag.
                self.left = (u32::from_be_bytes([a, b, c, d]) as usize).saturating_sub(4);
                self.there = 0;
                on(tag);
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.there == 0 && self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::postgres::message;

    use super::*;

    proptest! {
        #[test]
        fn each_message_is_counted_once_however_it_is_cut(
            messages in proptest::collection::vec((0..6_usize, 0..40_usize), 0..30),
            cuts in proptest::collection::vec(1..50_usize, 1..30),
        ) {
            let mut out = Vec::new();
            let mut asked = 0;
            for (kind, len) in messages {
                asked += u64::from(kind < 3);
                // What is in a message is none.
                message(&mut out, b"SQFdHP"[kind], |out| out.resize(out.len() + len, b'S'));
            }
            let (mut account, mut rest) = (Account::default(), &out[..]);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                account.sent(now);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(account.totals(), (asked, 0));
            account.settle(asked);
            prop_assert!(account.is_even());
        }
    }

    #[test]
    fn an_account_is_open_until_the_last_answer_and_after_one_too_many() {
        let mut account = Account::default();
        account.sent(b"S\0\0\0\x04Q\0\0\0\x05");
        account.settle(2);
        assert!(!account.is_even(), "the Query is cut");
        account.sent(b"\0");
        assert!(account.is_even());
        account.sent(b"S\0\0\0\x04");
        assert!(!account.is_even());
        account.settle(2);
        assert!(!account.is_even());
    }
}
