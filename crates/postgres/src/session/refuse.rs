//! A round that is answered with an error before any server has it. What is still to come of it is
//! left out, as a server does after an error: of the extended protocol up to the Sync, of a long
//! message its own bytes (PostgreSQL documentation, "Message Flow").

use wire::postgres::backend::put_ready_for_query;
use wire::postgres::frame::{Header, header};
use wire::postgres::frontend::tag;
use wire::postgres::{Refusal, Severity};

use super::{End, Session};
use crate::pipeline::round::Round;

/// What is still to come of a round that was refused, in front of its ReadyForQuery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Bytes to come of the message under way.
    through: usize,
    /// Its Sync is to come.
    awaits_sync: bool,
}

/// What is left of a refused round once the bytes at hand are dealt with.
#[derive(Debug, PartialEq, Eq)]
enum Skipped {
    /// The rest of the round is still to come.
    More,
    /// The end of the round was among them.
    Whole,
    /// The client says goodbye in it.
    Terminate,
    /// No message of the protocol, or a length that none has.
    Garbage,
}

impl LeftOut {
    /// Of a round that begins with this message, and of which nothing was left out yet. What is
    /// neither a statement nor a message of the extended protocol has no end that can be told.
    fn of_round(first: Header) -> Option<Self> {
        match first.tag {
            tag::QUERY | tag::FUNCTION_CALL => {
                Some(Self { through: first.len, awaits_sync: false })
            }
            tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE => {
                Some(Self { through: 0, awaits_sync: true })
            }
            _ => None,
        }
    }

    /// Goes through these bytes, and says how many of them are dealt with.
    fn skip(&mut self, bytes: &[u8], message_max: usize) -> (usize, Skipped) {
        let mut at = 0;
        loop {
            let through = self.through.min(bytes.len() - at);
            (at, self.through) = (at + through, self.through - through);
            if self.through > 0 {
                return (at, Skipped::More);
            }
            if !self.awaits_sync {
                return (at, Skipped::Whole);
            }
            let Header { tag, len } = match header(&bytes[at..], message_max) {
                Ok(Some(header)) => header,
                Ok(None) => return (at, Skipped::More),
                Err(_) => return (at, Skipped::Garbage),
            };
            match tag {
                tag::TERMINATE => return (at, Skipped::Terminate),
                tag if !tag::is_known(tag) => return (at, Skipped::Garbage),
                _ => {}
            }
            (self.through, self.awaits_sync) = (len, tag != tag::SYNC);
        }
    }
}

impl Session {
    /// Answers a round with an error; what is begun here has failed by that.
    pub(super) fn refuse(&self, refusal: &Refusal) {
        self.client.set_failed(self.begun.is_some());
        self.client.refuse(refusal, self.status());
    }

    /// A round is answered with an error, and what was begun here has failed. Of one that goes out
    /// as it comes, which stands at the start of the inbox, the rest is left out.
    pub(super) fn refuse_round(&mut self, round: &Round, refusal: Refusal) -> Result<(), End> {
        if round.is_whole() {
            self.refuse(&refusal);
            return Ok(());
        }
        let first = header(&self.inbox, usize::MAX).ok().flatten();
        let Some(left_out) = first.and_then(LeftOut::of_round) else {
            let refusal = Refusal { severity: Severity::Fatal, ..refusal };
            return Err(End::Refused(refusal));
        };
        // Its client may wait for an answer before it sends the rest, as behind a Flush.
        self.client.set_failed(self.begun.is_some());
        let mut out = Vec::new();
        refusal.encode(&mut out);
        self.client.outlet.send(&out);
        self.left_out = Some(left_out);
        Ok(())
    }

    /// Leaves out what came of a round that was refused; false when more bytes are wanted.
    pub(super) fn skip(&mut self, mut left_out: LeftOut) -> Result<bool, End> {
        let message_max = self.front.settings().max_message.len();
        let (len, skipped) = left_out.skip(&self.inbox, message_max);
        self.inbox.drain(..len);
        self.release_held();
        self.left_out = Some(left_out).filter(|_| skipped != Skipped::Whole);
        match skipped {
            Skipped::More => Ok(false),
            Skipped::Whole => {
                self.say_ready();
                Ok(true)
            }
            Skipped::Terminate => Err(End::Terminated),
            Skipped::Garbage => Err(self.garbage()),
        }
    }

    fn say_ready(&self) {
        let mut out = Vec::with_capacity(6);
        put_ready_for_query(&mut out, self.status());
        self.client.outlet.send(&out);
    }

    /// Answers a Sync with nothing in front of it.
    pub(super) fn answer_sync(&mut self, len: usize) {
        self.say_ready();
        self.inbox.drain(..len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::postgres::frontend::{put_flush, put_parse, put_query, put_sync};

    fn skipped(bytes: &[u8], piece: usize) -> (usize, Skipped) {
        let first = header(bytes, usize::MAX).unwrap().unwrap();
        let mut left_out = LeftOut::of_round(first).unwrap();
        let (mut inbox, mut dealt) = (Vec::new(), 0);
        for piece in bytes.chunks(piece) {
            inbox.extend_from_slice(piece);
            let (len, skipped) = left_out.skip(&inbox, 1 << 20);
            inbox.drain(..len);
            dealt += len;
            if skipped != Skipped::More {
                return (dealt, skipped);
            }
        }
        (dealt, Skipped::More)
    }

    #[test]
    fn a_round_is_left_out_up_to_its_sync_in_whatever_pieces_it_comes() {
        let mut round = Vec::new();
        put_parse(&mut round, b"a", b"SELECT 1", &[]);
        put_flush(&mut round);
        // A server does not heed a Query here, either.
        put_query(&mut round, b"SELECT 2");
        put_sync(&mut round);
        let len = round.len();
        put_query(&mut round, b"SELECT 3");
        for piece in 1..round.len() {
            assert_eq!(skipped(&round, piece), (len, Skipped::Whole), "{piece}");
        }
        assert_eq!(skipped(&round[..len - 5], 7), (len - 5, Skipped::More));
        let goodbye = [&round[..len - 5], &[b'X', 0, 0, 0, 4]].concat();
        assert_eq!(skipped(&goodbye, 3), (len - 5, Skipped::Terminate));
        let garbage = [&round[..len - 5], b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(skipped(&garbage, 30).1, Skipped::Garbage);
    }

    #[test]
    fn a_long_query_ends_with_its_own_bytes() {
        let mut query = Vec::new();
        put_query(&mut query, &[b' '; 100_000]);
        let len = query.len();
        put_query(&mut query, b"SELECT 1");
        assert_eq!(skipped(&query, 4096), (len, Skipped::Whole));
        assert_eq!(LeftOut::of_round(Header { tag: tag::COPY_DATA, len: 9 }), None);
    }
}
