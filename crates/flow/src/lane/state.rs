//! A lane without its sockets.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Broken, Event, Fate, Full, Limits, Orphan, Protocol, What};
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
    broken: Option<Broken>,
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
        self.requests.push_back(Request { ticket, end, replies, begun: false });
        Ok(())
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
    }

    /// Splits what came from the server, which is at least one byte, and hands it over in order.
    /// Gives how many bytes were used: the rest comes again with more behind it.
    ///
    /// # Errors
    /// The lane is broken, for good. What came before the fault has been handed over.
    pub fn received<'b>(
        &mut self,
        bytes: &'b [u8],
        now: Instant,
        mut on: impl FnMut(Event<'b, '_, T>),
    ) -> Result<usize, Broken> {
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
    fn hand_over<'b>(
        &mut self,
        bytes: &'b [u8],
        from: usize,
        to: usize,
        last: Option<Duration>,
        on: &mut impl FnMut(Event<'b, '_, T>),
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
    }

    #[inline]
    fn next_head(&mut self, now: Instant) {
        if let Some(done) = self.requests.pop_front() {
            self.head_start = done.end;
        }
        self.head_since = Some(now);
        self.head_bytes = 0;
    }

    fn break_with(&mut self, why: &'static str) -> Broken {
        self.quarantined = true;
        *self.broken.insert(Broken(why))
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
        requests.any(|other| !are_of_one(head, other))
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
    /// it got. The lane takes none any more.
    pub fn orphans(&mut self) -> impl Iterator<Item = Orphan<T>> {
        self.quarantined = true;
        std::iter::from_fn(|| {
            let request = self.requests.pop_front()?;
            let left = self.head_start < self.sent;
            self.head_start = request.end;
            let fate = match (request.begun, left) {
                (true, _) => Fate::Answered,
                (false, true) => Fate::Sent,
                (false, false) => Fate::Unsent,
            };
            Some(Orphan { ticket: request.ticket, fate })
        })
    }
}
