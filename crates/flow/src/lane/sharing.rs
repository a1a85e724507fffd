//! Equal requests that wait together: which of them may be joined still, and by whom one was.

/// Requests that hear one reply beside the first of them. One more is asked by itself, for others
/// to join: so a reply is never copied to more clients than that in one go.
const JOINERS_MAX: usize = 256;

/// A longer reply is kept for nobody: those who joined are asked by themselves.
pub(super) const KEPT_MAX: usize = 64 * 1024;

/// The requests that may be joined, by their numbers: nothing of them was handed to the connection.
#[derive(Debug, Clone, Default)]
pub(super) struct JoinableRequests {
    /// Of each one's bytes, in their order. By themselves, since all are looked through.
    hashes: Vec<u32>,
    numbers: Vec<u64>,
}

impl JoinableRequests {
    /// A request was put behind all others.
    #[inline]
    pub(super) fn add(&mut self, hash: u32, number: u64) {
        self.hashes.push(hash);
        self.numbers.push(number);
    }

    /// The requests with this hash, the newest first.
    #[inline]
    pub(super) fn with_hash(&self, hash: u32) -> impl Iterator<Item = u64> {
        let all = self.hashes.iter().zip(&self.numbers).rev();
        all.filter(move |(of, _)| **of == hash).map(|(_, number)| *number)
    }

    /// Only requests from this number on may be joined still.
    #[inline]
    pub(super) fn forget_before(&mut self, number: u64) {
        let gone = self.numbers.partition_point(|of| *of < number);
        self.hashes.drain(..gone);
        self.numbers.drain(..gone);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

/// Those who joined a request, and what has come of its reply.
#[derive(Debug, Clone)]
pub(super) struct Joiners<T> {
    tickets: Vec<T>,
    kept: Vec<u8>,
}

/// What a piece of a reply means to those who joined.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JoinersReply<'b> {
    /// More of it is to come, and is kept until then.
    Partial,
    /// This is all of it.
    Whole(&'b [u8]),
    /// It is too long to be kept: they never hear it.
    TooLong,
}

impl<T> Joiners<T> {
    pub(super) fn new() -> Self {
        Self { tickets: Vec::new(), kept: Vec::new() }
    }

    /// Takes one more; its ticket comes back where there are as many as may be.
    pub(super) fn add(&mut self, ticket: T) -> Option<T> {
        if self.tickets.len() >= JOINERS_MAX {
            return Some(ticket);
        }
        self.tickets.push(ticket);
        None
    }

    pub(super) fn tickets(&self) -> &[T] {
        &self.tickets
    }

    pub(super) fn into_tickets(self) -> Vec<T> {
        self.tickets
    }

    /// A piece of the reply has come. Of one that came in one piece nothing is copied.
    pub(super) fn hear<'b>(
        &'b mut self,
        bytes: &'b [u8],
        is_last: bool,
    ) -> (&'b mut [T], JoinersReply<'b>) {
        let Self { tickets, kept } = self;
        let reply = if kept.len() + bytes.len() > KEPT_MAX {
            JoinersReply::TooLong
        } else if is_last && kept.is_empty() {
            JoinersReply::Whole(bytes)
        } else {
            kept.extend_from_slice(bytes);
            if is_last { JoinersReply::Whole(kept) } else { JoinersReply::Partial }
        };
        (tickets, reply)
    }
}

/// A hash of a request's bytes. Which requests are equal is decided by the bytes themselves.
#[inline]
pub(super) fn hash(bytes: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    (words.chain(rest).fold(bytes.len() as u64, mix) >> 32) as u32
}
