//! A lane without its sockets.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::sharing::{JoinableRequests, Joiners, JoinersReply, hash};
use super::{Event, Fate, Full, Limits, Orphan, Placement, Protocol, ProtocolError, What};
use crate::buffer::Buffer;

/// Memory of the outgoing buffer that an idle lane keeps.
const KEEP: usize = 32 * 1024;

/// A reply of more bytes is large.
const LARGE: usize = 64 * 1024;

const UNASKED: &str = "it answered what nobody had asked";
const EARLY: &str = "it answered a request before all of it was sent";
const BEYOND: &str = "the protocol went beyond the bytes it was given";

/// Requests in flight on one connection: bytes go in, bytes and events come out.
///
/// Positions count the bytes pushed since the beginning, so that how far a request has been sent
/// is one comparison.
#[derive(Debug, Clone)]
pub struct Lane<P, T> {
    protocol: P,
    limits: Limits,
    requests: VecDeque<Request<T>>,
    outgoing: Buffer,
    sent: u64,
    /// Where the head's bytes begin.
    head_start: u64,
    /// When the head came to be the head, or was sent, whichever was later.
    head_since: Option<Instant>,
    /// Bytes of the head's reply that were handed over.
    head_bytes: usize,
    /// More of the last request is to come.
    growing: bool,
    quarantined: bool,
    broken: Option<ProtocolError>,
    /// How many requests were answered: the number of the head.
    answered: u64,
    joinable: JoinableRequests,
}

#[derive(Debug, Clone)]
struct Request<T> {
    ticket: T,
    /// Where its bytes end.
    end: u64,
    /// Replies that are still to end.
    replies: u32,
    /// Whether a piece of its reply was handed over.
    begun: bool,
    /// Those who hear the reply, too, once it is whole.
    joiners: Option<Box<Joiners<T>>>,
}

impl<P: Protocol, T> Lane<P, T> {
    /// A lane over a connection that is ready for requests.
    pub fn new(protocol: P, limits: Limits) -> Self {
        Self {
            protocol,
            limits,
            requests: VecDeque::new(),
            outgoing: Buffer::default(),
            sent: 0,
            head_start: 0,
            head_since: None,
            head_bytes: 0,
            growing: false,
            quarantined: false,
            broken: None,
            answered: 0,
            joinable: JoinableRequests::default(),
        }
    }

    /// Takes a request: `write` appends its bytes, and `replies` (at least 1) is how many
    /// [`What::End`] answer it.
    ///
    /// # Errors
    /// The lane takes no request now; `write` was not called.
    #[inline]
    pub fn push(
        &mut self,
        ticket: T,
        replies: u32,
        now: Instant,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Full<T>> {
        if !self.has_room() {
            return Err(Full(ticket));
        }
        write(self.outgoing.end());
        let end = self.sent + self.outgoing.len() as u64;
        if self.requests.is_empty() {
            self.head_since = Some(now);
        }
        let replies = replies.max(1);
        self.requests.push_back(Request { ticket, end, replies, begun: false, joiners: None });
        Ok(())
    }

    /// Takes a request of these bytes that is answered once and may be joined by equal ones; where
    /// it `may_join` itself, it joins one that waits, if there is such, also at a limit of the
    /// lane.
    ///
    /// # Errors
    /// The lane takes no request now.
    #[inline]
    pub fn push_or_join(
        &mut self,
        ticket: T,
        may_join: bool,
        now: Instant,
        bytes: &[u8],
    ) -> Result<Placement, Full<T>> {
        let hash = hash(bytes);
        let may_join = may_join && !self.quarantined;
        let equal = if may_join { self.joinable_with(hash, bytes) } else { None };
        let ticket = match equal.and_then(|at| self.requests.get_mut(at)) {
            None => ticket,
            Some(request) => {
                let joiners = request.joiners.get_or_insert_with(|| Box::new(Joiners::new()));
                match joiners.add(ticket) {
                    None => return Ok(Placement::Joined),
                    Some(ticket) => ticket,
                }
            }
        };
        let number = self.answered + self.requests.len() as u64;
        self.push(ticket, 1, now, |out| out.extend_from_slice(bytes))?;
        self.joinable.add(hash, number);
        Ok(Placement::Pushed)
    }

    /// Where the newest request is that has these bytes and may be joined.
    fn joinable_with(&self, hash: u32, bytes: &[u8]) -> Option<usize> {
        let waiting = self.outgoing.waiting();
        self.joinable.with_hash(hash).find_map(|number| {
            let at = usize::try_from(number.checked_sub(self.answered)?).ok()?;
            let end = self.requests.get(at)?.end;
            let from = usize::try_from(self.start_of(at).checked_sub(self.sent)?).ok()?;
            let to = usize::try_from(end.checked_sub(self.sent)?).ok()?;
            (waiting.get(from..to)? == bytes).then_some(at)
        })
    }

    /// Where the bytes of a request begin.
    fn start_of(&self, at: usize) -> u64 {
        let before = at.checked_sub(1).and_then(|before| self.requests.get(before));
        before.map_or(self.head_start, |before| before.end)
    }

    /// Whether a request would be taken.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.requests.len() < self.limits.depth
            && self.outgoing.len() < self.limits.unsent
            && !self.growing
            && !self.quarantined
    }

    /// Whether more of a request that comes in pieces would be taken now.
    pub fn may_grow(&self) -> bool {
        self.growing && self.outgoing.len() < self.limits.unsent
    }

    /// Takes more of the last request, whose bytes come in pieces: no other is taken until one of
    /// them `is_last`. Nothing is done where there is no request.
    pub fn grow(&mut self, is_last: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(last) = self.requests.back_mut() else { return };
        write(self.outgoing.end());
        last.end = self.sent + self.outgoing.len() as u64;
        self.growing = !is_last;
    }

    /// What is to be written to the server.
    #[inline]
    pub fn outgoing(&self) -> &[u8] {
        self.outgoing.waiting()
    }

    /// `n` bytes of [`outgoing`](Self::outgoing) were written.
    pub fn sent(&mut self, n: usize, now: Instant) {
        let head = self.requests.front().map_or(0, |head| head.end);
        let was_sent = head <= self.sent;
        self.sent += n.min(self.outgoing.len()) as u64;
        self.outgoing.take(n, KEEP);
        if !was_sent && head <= self.sent {
            self.head_since = Some(now);
        }
        self.close_to_joiners();
    }

    /// Nobody joins a request any more of which a byte was handed over.
    #[inline]
    fn close_to_joiners(&mut self) {
        if self.joinable.is_empty() {
            return;
        }
        let whole = self.requests.partition_point(|request| request.end <= self.sent);
        let has_begun = self.start_of(whole) < self.sent;
        self.joinable.forget_before(self.answered + whole as u64 + u64::from(has_begun));
    }

    /// Splits what came from the server, which is at least one byte, and hands it over in order.
    /// Gives how many bytes were used: the rest comes again with more behind it.
    ///
    /// # Errors
    /// The lane is broken, for good. What came before the fault has been handed over.
    pub fn received(
        &mut self,
        bytes: &[u8],
        now: Instant,
        mut on: impl FnMut(Event<'_, '_, T>),
    ) -> Result<usize, ProtocolError> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        // What lies between the two belongs to the head and has not been handed over yet.
        let (mut from, mut to) = (0, 0);
        let outcome = loop {
            let rest = bytes.get(to..).unwrap_or_default();
            if rest.is_empty() {
                break Ok(to);
            }
            let step = self.protocol.scan(rest);
            let end = to + step.len;
            let fault = match step.what {
                What::Broken(why) => Some(why),
                _ if step.len == 0 => break Ok(to),
                _ if step.len > rest.len() => Some(BEYOND),
                What::Aside => None,
                What::Part | What::End => self.fault(step.what),
            };
            if let Some(why) = fault {
                break Err(self.break_with(why));
            }
            match step.what {
                What::Aside => {
                    self.hand_over(bytes, from, to, None, &mut on);
                    on(Event::Aside(bytes.get(to..end).unwrap_or_default()));
                    from = end;
                }
                What::End if self.reply_ends() => {
                    let ran = self.head_since.map(|since| now.saturating_duration_since(since));
                    self.hand_over(bytes, from, end, ran.or(Some(Duration::ZERO)), &mut on);
                    self.next_head(now);
                    from = end;
                }
                _ => {}
            }
            to = end;
        };
        self.hand_over(bytes, from, to, None, &mut on);
        outcome
    }

    /// Why a piece of a reply can not be one.
    #[inline]
    fn fault(&self, what: What) -> Option<&'static str> {
        let Some(head) = self.requests.front() else { return Some(UNASKED) };
        let whole = head.end <= self.sent && !(self.growing && self.requests.len() == 1);
        if whole {
            return None;
        }
        if self.sent <= self.head_start {
            return Some(UNASKED);
        }
        // An error may be answered while the rest of the request is still on its way.
        (what == What::End && head.replies == 1).then_some(EARLY)
    }

    /// Counts the end of a reply, and says whether it was the head's last.
    #[inline]
    fn reply_ends(&mut self) -> bool {
        let Some(head) = self.requests.front_mut() else { return false };
        head.replies = head.replies.saturating_sub(1);
        head.replies == 0
    }

    #[inline]
    fn hand_over(
        &mut self,
        bytes: &[u8],
        from: usize,
        to: usize,
        last: Option<Duration>,
        on: &mut impl FnMut(Event<'_, '_, T>),
    ) {
        let (Some(head), Some(bytes)) = (self.requests.front_mut(), bytes.get(from..to)) else {
            return;
        };
        if bytes.is_empty() {
            return;
        }
        head.begun = true;
        self.head_bytes += bytes.len();
        on(Event::Reply { ticket: &mut head.ticket, bytes, last });
        if head.joiners.is_some() {
            head.tell_joiners(bytes, last, on);
        }
    }

    #[inline]
    fn next_head(&mut self, now: Instant) {
        if let Some(done) = self.requests.pop_front() {
            self.head_start = done.end;
            self.answered += 1;
        }
        self.head_since = Some(now);
        self.head_bytes = 0;
    }

    fn break_with(&mut self, why: &'static str) -> ProtocolError {
        self.quarantined = true;
        *self.broken.insert(ProtocolError(why))
    }

    /// Whether so much of the head's reply has come that nobody should wait behind the rest.
    #[inline]
    pub fn is_amid_large_reply(&self) -> bool {
        self.head_bytes > LARGE
    }

    /// Whether somebody waits behind the head who is not whoever asked that.
    pub fn is_waited_for(&self, are_of_one: impl Fn(&T, &T) -> bool) -> bool {
        let mut requests = self.requests.iter().map(|request| &request.ticket);
        let Some(head) = requests.next() else { return false };
        let joiners = self.requests.front().and_then(|request| request.joiners.as_deref());
        let mut joiners = joiners.into_iter().flat_map(Joiners::tickets);
        joiners.any(|other| !are_of_one(head, other))
            || requests.any(|other| !are_of_one(head, other))
    }

    /// Where the bytes of the request at the head begin: for each request another place.
    #[inline]
    pub fn head_start(&self) -> u64 {
        self.head_start
    }

    /// Requests that are not answered yet.
    #[inline]
    pub fn depth(&self) -> usize {
        self.requests.len()
    }

    /// Bytes that are not sent yet.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.outgoing.len()
    }

    /// The ticket of the request that the server has to itself, if all of that was sent.
    pub fn head(&self) -> Option<&T> {
        self.head_since?;
        self.requests.front().map(|request| &request.ticket)
    }

    /// The tickets of all that the server has that request of: the [`head`](Self::head)'s own, and
    /// those of whoever joined it.
    pub fn head_tickets(&self) -> impl Iterator<Item = &T> {
        let head = self.head_since.and_then(|_| self.requests.front());
        head.into_iter().flat_map(|request| {
            let joiners = request.joiners.as_deref().map(Joiners::tickets);
            std::iter::once(&request.ticket).chain(joiners.unwrap_or_default())
        })
    }

    /// How long the server has had the request at the head to itself; while that is not sent
    /// whole, for how long it has been the head. `None` without a request.
    #[inline]
    pub fn head_age(&self, now: Instant) -> Option<Duration> {
        let since = self.head_since?;
        (!self.requests.is_empty()).then(|| now.saturating_duration_since(since))
    }

    /// Takes no more requests. Those that are on the lane are answered.
    pub fn quarantine(&mut self) {
        self.quarantined = true;
    }

    /// Whether requests are taken no more.
    #[inline]
    pub fn is_quarantined(&self) -> bool {
        self.quarantined
    }

    /// The limits, to look at.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Changes the limits; what is on the lane stays on it.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// What the protocol keeps in mind.
    pub fn protocol(&mut self) -> &mut P {
        &mut self.protocol
    }

    /// The connection is gone: takes the requests off the lane, in their order, each with how far
    /// it got and with those who joined it. The lane takes none any more.
    pub fn orphans(&mut self) -> impl Iterator<Item = Orphan<T>> {
        self.quarantined = true;
        let left = std::iter::from_fn(|| {
            let request = self.requests.pop_front()?;
            let left = self.head_start < self.sent;
            self.head_start = request.end;
            let fate = match (request.begun, left) {
                (true, _) => Fate::Answered,
                (false, true) => Fate::Sent,
                (false, false) => Fate::Unsent,
            };
            Some((request, fate))
        });
        left.flat_map(|(request, fate)| {
            let joiners = request.joiners.map(|joiners| joiners.into_tickets());
            // They have heard nothing of what has come.
            let of_joiners = if fate == Fate::Answered { Fate::Sent } else { fate };
            let joiners = joiners.into_iter().flatten();
            let joiners = joiners.map(move |ticket| Orphan { ticket, fate: of_joiners });
            std::iter::once(Orphan { ticket: request.ticket, fate }).chain(joiners)
        })
    }
}

impl<T> Request<T> {
    /// A piece of the reply has come.
    #[cold]
    fn tell_joiners(
        &mut self,
        bytes: &[u8],
        last: Option<Duration>,
        on: &mut impl FnMut(Event<'_, '_, T>),
    ) {
        let Some(mut joiners) = self.joiners.take() else { return };
        match joiners.hear(bytes, last.is_some()) {
            (_, JoinersReply::Partial) => self.joiners = Some(joiners),
            (tickets, JoinersReply::Whole(bytes)) => {
                let ran = last.unwrap_or_default();
                tickets.iter_mut().for_each(|ticket| on(Event::Shared { ticket, bytes, ran }));
            }
            (_, JoinersReply::TooLong) => {
                joiners.into_tickets().into_iter().for_each(|ticket| on(Event::Apart(ticket)));
            }
        }
    }
}
