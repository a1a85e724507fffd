//! The task between a lane and its connection.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::handle::SharedLane;
use super::patience::{Outcome, Patience, Reply};
use super::{Event, Handle, Limits, Orphan, Protocol, ProtocolError};
use crate::outlet::Together;
use crate::scratch::Scratch;

/// Reads in a row before the worker's other tasks have their turn.
const TURN: usize = 4;
const TOO_LARGE: ProtocolError = ProtocolError("it sent a message larger than may be held");

/// Where a lane's replies go. Called while the lane is at work: what it does with the lane's own
/// [`Handle`] is limited to looking, [`quarantine`](Handle::quarantine) and
/// [`close`](Handle::close).
pub trait Owner<T> {
    /// Bytes have come, at this moment; what they are is handed over next.
    #[inline]
    fn heard(&mut self, now: Instant) {
        let _ = now;
    }

    /// A piece of a reply; see [`Event::Reply`].
    fn reply(&mut self, ticket: &mut T, bytes: &[u8], last: Option<Duration>);

    /// The whole reply to a request, for one that had joined it; see [`Event::Shared`].
    fn shared(&mut self, ticket: &mut T, bytes: &[u8], ran: Duration) {
        self.reply(ticket, bytes, Some(ran));
    }

    /// A request that had joined another is to be asked by itself; see [`Event::Apart`]. Only of
    /// lanes onto which requests are put that may join.
    fn apart(&mut self, ticket: T) {
        drop(ticket);
    }

    /// Something that belongs to no request.
    fn aside(&mut self, bytes: &[u8]);

    /// What one read has brought is handed over: other tasks have their turn before there is more.
    fn handed_over(&mut self) {}

    /// The lane took no request, and now it would. Called once a turn of the lane's task, when
    /// that is done with it: pushing is allowed here.
    fn room(&mut self) {}

    /// Ready unless whoever hears the reply to the request at the `head` takes what came for it
    /// more slowly than that comes. While it is not, the lane takes no more requests and reads
    /// nothing, within [`Limits::patience`].
    fn poll_taken(&mut self, head: Option<&T>, cx: &mut Context<'_>) -> Poll<()> {
        let _ = (head, cx);
        Poll::Ready(())
    }

    /// Whether the reply that this request has so far is larger than can be kept for a client that
    /// takes it slowly.
    fn is_too_large(&self, ticket: &T) -> bool {
        let _ = ticket;
        false
    }

    /// The patience with whoever takes a reply slowly is at its end: others wait behind it. It is
    /// read on, and is to be kept.
    fn kept(&mut self) {}

    /// The patience with whoever takes a reply slowly that is too large to be kept is at its end:
    /// others wait behind it. What comes of the reply from now on is to reach nobody.
    fn out_of_patience(&mut self) {}

    /// Whether both requests are of one client: that one waits for nobody but itself, for which
    /// there is no limit.
    fn are_of_one(&self, one: &T, other: &T) -> bool {
        let _ = (one, other);
        false
    }

    /// Whether what comes of the reply at the head reaches anybody. A large one that does not, and
    /// behind which others wait, has [`Limits::patience`] to come to its end.
    fn is_heard(&self) -> bool {
        true
    }
}

/// Why a lane ended.
#[derive(Debug)]
pub enum Why {
    /// In quarantine, and all requests were answered: the connection is as good as before.
    Drained,
    /// Its owner called [`Handle::close`].
    Closed,
    /// The server closed the connection.
    Eof,
    /// Reading from the connection or writing to it failed.
    Failed(io::Error),
    /// Others waited for too long behind a large reply that reached nobody.
    OutOfPatience,
    /// The server sent what it must not have sent.
    Broken(ProtocolError),
}

/// What is left of a lane.
#[derive(Debug)]
pub struct LaneEnd<T, S> {
    /// What ended the lane, whose requests may be left without replies.
    pub why: Why,
    /// Its connection, of use when it was [`Drained`](Why::Drained).
    pub io: S,
    /// The requests without a whole reply, in their order.
    pub orphans: Vec<Orphan<T>>,
}

/// Makes a lane of a connection that is ready for requests. The driver is a future to be spawned
/// on the worker; `scratch` is the worker's.
pub fn start<P, T, S, O>(
    io: S,
    protocol: P,
    limits: Limits,
    scratch: Scratch,
    owner: O,
) -> (Handle<P, T>, Driver<P, T, S, O>)
where
    P: Protocol,
    S: AsyncRead + AsyncWrite + Unpin,
    O: Owner<T>,
{
    let shared = SharedLane::new(protocol, limits);
    let handle = Handle::new(&shared);
    let unread = limits.unread;
    let patience = Patience::new(limits.patience, limits.patience_with_large);
    let rest = Vec::new();
    let work =
        Work { shared, owner, scratch, rest, unread, patience, alarm: None, unflushed: false };
    (handle, Driver { work, io: Some(io) })
}

/// What a lane can be driven over.
trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Io for S {}

/// A lane's task. It writes whenever there is something to write and goes on reading whatever
/// becomes of the writing, so that a server that is blocked on its own output is never waited for.
#[must_use = "futures do nothing unless polled"]
pub struct Driver<P, T, S, O> {
    work: Work<P, T, O>,
    /// Taken at the end.
    io: Option<S>,
}

/// All of a driver but the connection.
struct Work<P, T, O> {
    shared: Rc<SharedLane<P, T>>,
    owner: O,
    scratch: Scratch,
    /// What the protocol wants to see again with more behind it.
    rest: Vec<u8>,
    unread: usize,
    patience: Patience,
    /// When others have waited long enough.
    alarm: Option<Pin<Box<tokio::time::Sleep>>>,
    unflushed: bool,
}

// Nothing is pinned in place: the connection is `Unpin` itself.
impl<P, T, S, O> Unpin for Driver<P, T, S, O> {}

impl<P, T, S, O> Future for Driver<P, T, S, O>
where
    P: Protocol,
    S: AsyncRead + AsyncWrite + Unpin,
    O: Owner<T>,
{
    type Output = LaneEnd<T, S>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.work.shared.park(cx.waker());
        let why = this.io.as_mut().and_then(|io| this.work.turn(io, cx));
        // Not moved in any other case: a connection with TLS is large.
        match why.and_then(|why| Some((why, this.io.take()?))) {
            Some((why, io)) => Poll::Ready(this.work.end(why, io)),
            None => Poll::Pending,
        }
    }
}

impl<P: Protocol, T, O: Owner<T>> Work<P, T, O> {
    /// Writes and reads what can be; why the lane is at its end, if it is.
    fn turn<S: Io>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Option<Why> {
        // From here on a push wakes the task again: this turn may have written already.
        self.shared.awake.set(false);
        if self.shared.closed.get() {
            return Some(Why::Closed);
        }
        // A server may say why it hangs up, so a write that failed is no reason not to read.
        let written = self.write(io, cx);
        let read = self.read_some(io, cx);
        if read.is_some() {
            return read;
        }
        match written {
            Poll::Ready(Err(error)) => return Some(Why::Failed(error)),
            Poll::Ready(Ok(())) => {}
            // The socket wakes the task when it takes bytes again; a push could do nothing.
            Poll::Pending => self.shared.awake.set(true),
        }
        if self.shared.closed.get() {
            return Some(Why::Closed);
        }
        self.offer_room();
        self.is_drained().then_some(Why::Drained)
    }

    /// Tells those who wait that there is room, where there is.
    fn offer_room(&mut self) {
        if !self.shared.wanted.get() {
            return;
        }
        let lane = self.shared.lane.borrow();
        if lane.may_grow() || (lane.has_room() && self.shared.is_open()) {
            drop(lane);
            self.shared.wanted.set(false);
            self.owner.room();
        }
    }

    /// Whether something is to be read now: perhaps somebody does not take what was read.
    fn look_at_reply(&mut self, cx: &mut Context<'_>) -> Outcome {
        if self.patience.is_none() {
            return Outcome::Read;
        }
        let lane = self.shared.lane.borrow();
        let is_taken = self.owner.poll_taken(lane.head(), cx).is_ready();
        let is_too_large = lane.head().is_some_and(|ticket| self.owner.is_too_large(ticket));
        let is_large = is_too_large || lane.is_amid_large_reply();
        let reply = Reply {
            head: lane.head_start(),
            is_taken,
            is_too_large,
            is_lost: is_large && !self.owner.is_heard(),
            is_waited_for: (is_large || !is_taken)
                && lane.is_waited_for(|head, other| self.owner.are_of_one(head, other)),
        };
        drop(lane);
        let outcome = self.patience.look(reply, Instant::now);
        // Who is behind a large reply waits for as long as its client takes it: nobody else is to.
        self.shared.stalled.set(outcome == Outcome::Wait || is_large);
        // It was not the server that was silent, up to now.
        if self.shared.untaken.replace(outcome == Outcome::Wait) {
            self.shared.heard.set(Instant::now());
        }
        match outcome {
            Outcome::Kept => self.owner.kept(),
            Outcome::Over => self.owner.out_of_patience(),
            Outcome::Read | Outcome::Wait | Outcome::End => {}
        }
        self.wake_at(self.patience.until(), cx);
        outcome
    }

    /// Has the task look again at that moment.
    #[inline]
    fn wake_at(&mut self, at: Option<Instant>, cx: &mut Context<'_>) {
        let Some(at) = at.map(tokio::time::Instant::from_std) else {
            self.alarm = None;
            return;
        };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if alarm.deadline() != at {
            alarm.as_mut().reset(at);
        }
        if alarm.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    fn is_drained(&self) -> bool {
        if !self.shared.quarantined.get() {
            return false;
        }
        let lane = self.shared.lane.borrow();
        lane.depth() == 0 && lane.unsent() == 0 && !self.unflushed && self.rest.is_empty()
    }

    fn write<S: Io>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut lane = self.shared.lane.borrow_mut();
        while !lane.outgoing().is_empty() {
            let n = ready!(Pin::new(&mut *io).poll_write(cx, lane.outgoing()))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            lane.sent(n, Instant::now());
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(io).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn read_some<S: Io>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Option<Why> {
        for _ in 0..TURN {
            match self.look_at_reply(cx) {
                Outcome::Read | Outcome::Kept | Outcome::Over => {}
                Outcome::Wait => return None,
                Outcome::End => return Some(Why::OutOfPatience),
            }
            match self.read(io, cx) {
                Poll::Pending => return None,
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Some(Why::Eof),
                Poll::Ready(Err(why)) => return Some(why),
            }
            self.shared.depth.set(self.shared.lane.borrow().depth());
        }
        cx.waker().wake_by_ref();
        None
    }

    /// One read and what comes of it; false at the connection's end.
    fn read<S: Io>(&mut self, io: &mut S, cx: &mut Context<'_>) -> Poll<Result<bool, Why>> {
        let scratch = self.scratch.clone();
        scratch.lend(|buffer| {
            // A short rest is put before what comes; a long one would be copied for each piece of
            // a large message, so what comes is put behind it instead.
            let before = self.rest.len();
            let before = if before <= buffer.len() / 4 { before } else { 0 };
            let mut read = ReadBuf::new(buffer);
            read.put_slice(self.rest.get(..before).unwrap_or_default());
            let polled = Pin::new(io).poll_read(cx, &mut read);
            ready!(polled).map_err(Why::Failed)?;
            if read.filled().len() == before {
                return Poll::Ready(Ok(false));
            }
            if before == self.rest.len() {
                let used = self.split(read.filled())?;
                self.rest.clear();
                self.rest.extend_from_slice(read.filled().get(used..).unwrap_or_default());
            } else {
                self.rest.extend_from_slice(read.filled());
                let rest = std::mem::take(&mut self.rest);
                let used = self.split(&rest)?;
                self.rest = rest;
                self.rest.drain(..used);
            }
            if self.rest.is_empty() {
                self.rest = Vec::new();
            }
            let fits = self.rest.len() <= self.unread;
            Poll::Ready(if fits { Ok(true) } else { Err(Why::Broken(TOO_LARGE)) })
        })
    }

    fn split(&mut self, bytes: &[u8]) -> Result<usize, Why> {
        let owner = &mut self.owner;
        let mut lane = self.shared.lane.borrow_mut();
        let now = Instant::now();
        self.shared.heard.set(now);
        owner.heard(now);
        let together = Together::begin();
        let received = lane.received(bytes, now, |event| match event {
            Event::Reply { ticket, bytes, last } => owner.reply(ticket, bytes, last),
            Event::Shared { ticket, bytes, ran } => owner.shared(ticket, bytes, ran),
            Event::Apart(ticket) => owner.apart(ticket),
            Event::Aside(bytes) => owner.aside(bytes),
        });
        owner.handed_over();
        drop(together);
        received.map_err(Why::Broken)
    }

    fn end<S>(&mut self, why: Why, io: S) -> LaneEnd<T, S> {
        self.shared.closed.set(true);
        let orphans = self.shared.lane.borrow_mut().orphans().collect();
        self.shared.depth.set(0);
        LaneEnd { why, io, orphans }
    }
}

impl<P, T, S, O> Drop for Driver<P, T, S, O> {
    /// Nobody would send what is pushed from now on.
    fn drop(&mut self) {
        self.work.shared.closed.set(true);
    }
}

impl<P, T, S, O> fmt::Debug for Driver<P, T, S, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("depth", &self.work.shared.depth.get())
            .finish_non_exhaustive()
    }
}
