//! A barrier without its sockets.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Admission, CoveredAnswer, Keeping, Limits, UnaskedConfirmation, Unproven};

/// The answers of one server that wait for marks on one connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Barrier<T> {
    limits: Limits,
    connection: MarkConnection,
    /// Moves when the mark's connection is logged in, and when it ends.
    era: u64,
    answers: VecDeque<HeldAnswer<T>>,
    /// How many answers have left the line: the number of the one at its head.
    left: u64,
    /// Bytes that are kept, of answers and of requests under way.
    bytes: usize,
    /// Requests under way that may commit.
    commits: usize,
    /// Reads that are under way.
    reads: usize,
    /// Answers in the line that stand for a commit.
    uncovered: usize,
}

/// The connection on which marks are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum MarkConnection {
    /// There is none that is logged in.
    Absent,
    /// It is logged in, and no mark is under way.
    Idle,
    /// A mark is under way.
    Marking {
        /// Answers before this number were held when the mark was handed to the socket.
        covers: u64,
        since: Instant,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct HeldAnswer<T> {
    /// Who hears it. `None`: whoever asked was told already that the outcome is unknown, but the
    /// commit may have been seen by others.
    ticket: Option<T>,
    bytes: Vec<u8>,
    purpose: Purpose,
}

/// A request that was let through and whose answer may have to wait for a mark. It is given back
/// to the barrier by [`Barrier::hold`], [`Barrier::settle`] or [`Barrier::lose`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[must_use = "the barrier counts it until it is given back"]
pub struct Request {
    era: u64,
    purpose: Purpose,
    kept: Vec<u8>,
    /// There was no room for all of the answer: only its end is held.
    is_long: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Purpose {
    Commit,
    Read,
}

impl<T> Barrier<T> {
    /// A barrier without a connection for its marks.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            connection: MarkConnection::Absent,
            era: 0,
            answers: VecDeque::new(),
            left: 0,
            bytes: 0,
            commits: 0,
            reads: 0,
            uncovered: 0,
        }
    }

    /// The mark's connection is logged in.
    pub fn logged_in(&mut self) {
        if self.connection == MarkConnection::Absent {
            self.connection = MarkConnection::Idle;
            self.era += 1;
        }
    }

    /// Asks how a request is to commit, before the first of its bytes is sent. `has_room`: a
    /// server connection that waits for its own commit keeps nobody waiting.
    pub fn commit(&mut self, has_room: bool, now: Instant) -> Admission {
        if self.mark_age(now).is_some_and(|age| age > self.limits.age) {
            return Admission::Wait;
        }
        let has_no_room = self.is_full() || self.bytes >= self.limits.bytes;
        if self.connection == MarkConnection::Absent || has_no_room {
            return Admission::Own;
        }
        // A mark for one commit alone would only be a second request.
        if has_room && self.is_clear() {
            return Admission::Own;
        }
        self.commits += 1;
        Admission::Shared(self.request(Purpose::Commit))
    }

    /// Lets a read through, before the first of its bytes is sent; `None` where too much waits for
    /// marks.
    pub fn read(&mut self) -> Option<Request> {
        if self.is_full() {
            return None;
        }
        self.reads += 1;
        Some(self.request(Purpose::Read))
    }

    fn request(&self, purpose: Purpose) -> Request {
        Request { era: self.era, purpose, kept: Vec::new(), is_long: false }
    }

    fn is_full(&self) -> bool {
        self.answers.len() + self.commits + self.reads >= self.limits.answers
    }

    /// Whether nothing commits that no mark has covered.
    pub fn is_clear(&self) -> bool {
        self.commits == 0 && self.uncovered == 0
    }

    /// Whether what the answer of this read tells, which has come just now, is durable as far as
    /// this barrier goes: the answer can go out at once ([`settle`](Self::settle)).
    pub fn tells(&self, read: &Request) -> bool {
        read.era == self.era && self.is_clear()
    }

    /// Keeps a piece of an answer that is to be held, unless there is no room. Once a piece was
    /// passed on, so are all behind it up to the answer's end.
    pub fn keep(&mut self, request: &mut Request, piece: &[u8]) -> Keeping {
        if request.is_long || self.bytes.saturating_add(piece.len()) > self.limits.bytes {
            request.is_long = true;
            return Keeping::PassedOn(self.take_kept(request));
        }
        self.bytes += piece.len();
        request.kept.extend_from_slice(piece);
        Keeping::Retained
    }

    /// Holds an answer that has come whole, until a mark that is handed over later is confirmed.
    /// `end` is what proves that the commit is done, and is held whatever its length.
    ///
    /// # Errors
    /// The mark's connection has ended since the request was sent, or was not there.
    pub fn hold(&mut self, mut request: Request, ticket: T, end: &[u8]) -> Result<(), Unproven<T>> {
        let is_provable = request.era == self.era && self.connection != MarkConnection::Absent;
        if !is_provable {
            self.lose(request);
            return Err(Unproven(ticket));
        }
        self.bytes += end.len();
        request.kept.extend_from_slice(end);
        self.ends(request.purpose);
        self.push(Some(ticket), request.kept, request.purpose);
        Ok(())
    }

    /// The request has committed nothing, or what it read is durable: gives what was kept of its
    /// answer, which goes out now.
    pub fn settle(&mut self, mut request: Request) -> Vec<u8> {
        self.ends(request.purpose);
        self.take_kept(&mut request)
    }

    /// The request's outcome will never be heard, or can't be proven. A commit counts as uncovered
    /// all the same until the next mark is confirmed, since others may have seen what it did. What
    /// the server may still run counts as under way: it is given back once that has ended there.
    pub fn lose(&mut self, mut request: Request) {
        self.take_kept(&mut request);
        self.ends(request.purpose);
        if request.purpose == Purpose::Commit {
            self.push(None, Vec::new(), Purpose::Commit);
        }
    }

    fn take_kept(&mut self, request: &mut Request) -> Vec<u8> {
        self.bytes = self.bytes.saturating_sub(request.kept.len());
        std::mem::take(&mut request.kept)
    }

    fn ends(&mut self, purpose: Purpose) {
        let under_way = match purpose {
            Purpose::Commit => &mut self.commits,
            Purpose::Read => &mut self.reads,
        };
        *under_way = under_way.saturating_sub(1);
    }

    fn push(&mut self, ticket: Option<T>, bytes: Vec<u8>, purpose: Purpose) {
        self.uncovered += usize::from(purpose == Purpose::Commit);
        self.answers.push_back(HeldAnswer { ticket, bytes, purpose });
    }

    /// Whether a mark is to be sent, which is to be handed to the socket now: nothing that is held
    /// from here on is covered by it.
    #[must_use = "the mark counts as sent"]
    pub fn mark(&mut self, now: Instant) -> bool {
        let is_due = self.connection == MarkConnection::Idle && !self.answers.is_empty();
        if is_due {
            let covers = self.left + self.answers.len() as u64;
            self.connection = MarkConnection::Marking { covers, since: now };
        }
        is_due
    }

    /// The mark under way is confirmed: hands over what it covers, in the order in which it was
    /// held.
    ///
    /// # Errors
    /// None is under way. Nothing was released.
    pub fn confirmed(
        &mut self,
        mut on: impl FnMut(CoveredAnswer<T>),
    ) -> Result<(), UnaskedConfirmation> {
        let MarkConnection::Marking { covers, .. } = self.connection else {
            return Err(UnaskedConfirmation);
        };
        self.connection = MarkConnection::Idle;
        while self.left < covers {
            let Some(answer) = self.pop() else { break };
            if let Some(ticket) = answer.ticket {
                on(CoveredAnswer { ticket, bytes: answer.bytes });
            }
        }
        Ok(())
    }

    /// The mark's connection has ended, or does not say what it should: hands over all that is
    /// held, in order. Nothing of it will ever be proven.
    pub fn broken(&mut self, mut on: impl FnMut(Unproven<T>)) {
        if self.connection == MarkConnection::Absent {
            return;
        }
        self.connection = MarkConnection::Absent;
        self.era += 1;
        let was_uncovered = self.uncovered > 0;
        while let Some(answer) = self.pop() {
            answer.ticket.into_iter().for_each(|ticket| on(Unproven(ticket)));
        }
        if was_uncovered {
            // The server may stand, and others may read what no mark has covered.
            self.push(None, Vec::new(), Purpose::Commit);
        }
    }

    fn pop(&mut self) -> Option<HeldAnswer<T>> {
        let answer = self.answers.pop_front()?;
        self.left += 1;
        self.bytes = self.bytes.saturating_sub(answer.bytes.len());
        let is_commit = answer.purpose == Purpose::Commit;
        self.uncovered = self.uncovered.saturating_sub(usize::from(is_commit));
        Some(answer)
    }

    /// How long the mark under way has been so; `None` without one.
    pub fn mark_age(&self, now: Instant) -> Option<Duration> {
        match self.connection {
            MarkConnection::Marking { since, .. } => Some(now.saturating_duration_since(since)),
            MarkConnection::Absent | MarkConnection::Idle => None,
        }
    }

    /// Whether nobody waits for an answer from here, now or later.
    pub fn is_empty(&self) -> bool {
        self.commits + self.reads == 0 && self.answers.iter().all(|answer| answer.ticket.is_none())
    }

    /// Answers in the line.
    pub fn held(&self) -> usize {
        self.answers.len()
    }

    /// Bytes that are kept, of answers and of requests under way.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the limits; what is held stays held.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }
}
